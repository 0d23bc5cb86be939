/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "resolve.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "say.h"

#define OBJECTS_MAX 1024u
#define NAMES_BYTES (256u << 10)

/* Paths of the loaded objects, in load order. Collected first and used afterwards: calling dlopen
 * from within dl_iterate_phdr would take the loader's locks in the wrong order. */
struct object_list {
	uint32_t count;
	uint32_t bytes;
	uint32_t at[OBJECTS_MAX];
	char names[NAMES_BYTES];
};

static bool is_ours(const void *address)
{
	static const char anchor = 0;
	Dl_info mine, other;

	return nspy_sys_dladdr(&anchor, &mine) && nspy_sys_dladdr(address, &other) &&
	       mine.dli_fbase == other.dli_fbase;
}

static int collect(struct dl_phdr_info *info, size_t size, void *data)
{
	struct object_list *list = data;
	size_t bytes = info->dlpi_name ? strlen(info->dlpi_name) + 1 : 0;

	(void)size;
	/* No path: the program itself or the vDSO. */
	if (bytes <= 1 || list->count == OBJECTS_MAX || list->bytes + bytes > NAMES_BYTES)
		return 0;
	memcpy(list->names + list->bytes, info->dlpi_name, bytes);
	list->at[list->count++] = list->bytes;
	list->bytes += (uint32_t)bytes;
	return 0;
}

static nspy_any_fn *from_handle(void *handle, const char *name)
{
	void *found = name ? nspy_sys_dlsym(handle, name) : NULL;

	return found && !is_ours(found) ? (nspy_any_fn *)found : NULL;
}

static nspy_any_fn *from_objects(const struct object_list *list, const struct nspy_fn_info *fn)
{
	nspy_any_fn *found = NULL;

	for (uint32_t i = 0; i < list->count && !found; i++) {
		/* NODELETE: what we found must not be unmapped under our pointer. */
		void *handle = nspy_sys_dlopen(list->names + list->at[i], RTLD_LAZY | RTLD_NOLOAD);

		if (!handle)
			continue;
		found = from_handle(handle, fn->alias);
		if (!found)
			found = from_handle(handle, fn->name);
		if (found)
			(void)nspy_sys_dlopen(list->names + list->at[i],
					      RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
		nspy_sys_dlclose(handle);
	}
	return found;
}

static nspy_any_fn *scan(const struct nspy_fn_info *fn)
{
	struct object_list *list = mmap(NULL, sizeof(*list), PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	nspy_any_fn *found;

	if (list == MAP_FAILED)
		return NULL;
	dl_iterate_phdr(collect, list);
	found = from_objects(list, fn);
	munmap(list, sizeof(*list));
	return found;
}

nspy_any_fn *nspy_resolve(unsigned int id)
{
	const struct nspy_fn_info *fn = &nspy_fn_table[id];
	nspy_any_fn *real;
	int saved = errno;

	real = from_handle(RTLD_NEXT, fn->name);
	if (!real)
		real = scan(fn);
	if (real)
		__atomic_store_n(&nspy_real_slots[id], real, __ATOMIC_RELEASE);
	(void)nspy_sys_dlerror(); /* our failed look-ups are not the application's */
	errno = saved;
	return real;
}

void nspy_say_missing(unsigned int id)
{
	static _Atomic uint32_t said;
	int saved = errno;

	if (atomic_exchange_explicit(&said, 1, memory_order_relaxed) == 0)
		nspy_say(NSPY_SAY_WARN,
			 "%s was called, but no loaded library defines it; the call fails as in a "
			 "library without it",
			 nspy_fn_table[id].name);
	errno = saved;
}
