/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "resolve.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "api_ids.h"
#include "callers.h"
#include "comm.h"
#include "copies.h"
#include "say.h"
#include "symbols.h"
#include "versions.h"

#define NOBODY ((nspy_any_fn *)1) /* no interposer wraps it */

/* By function: what stands between us and the library; NULL = not looked for yet. */
static _Atomic(nspy_any_fn *) interposers[NSPY_FN_COUNT];

int nspy_fn_find(const char *name)
{
	unsigned int low = 0, high = nspy_fn_count;
	bool alias = name[0] == 'p'; /* no library's own prefix begins like that */

	while (low < high) {
		unsigned int middle = (low + high) / 2;
		const struct nspy_fn_info *fn = &nspy_fn_table[nspy_fn_by_name[middle]];
		int order = strcmp(name + alias, fn->name);

		if (order == 0)
			return !alias || (fn->alias && strcmp(name, fn->alias) == 0)
				       ? nspy_fn_by_name[middle]
				       : -1;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return -1;
}

nspy_any_fn *nspy_next_interposer(unsigned int fn)
{
	nspy_any_fn *next = atomic_load_explicit(&interposers[fn], memory_order_relaxed);
	void *found;

	if (!next) {
		found = nspy_sys_dlsym(RTLD_NEXT, nspy_fn_table[fn].name);
		next = NOBODY;
		if (found && !nspy_elf_is_ours(found) &&
		    nspy_copy_of_address(nspy_fn_table[fn].library, found) == NSPY_NO_COPY)
			next = (nspy_any_fn *)found;
		nspy_dlerror_clear(); /* our failed look-up is not the application's */
		/* Preloaded ones are there from the start: this answer stays right. */
		atomic_store_explicit(&interposers[fn], next, memory_order_relaxed);
	}
	return next == NOBODY ? NULL : next;
}

/* The copy that the object behind an address was linked to, as the loader searches. */
static unsigned int copy_linked_to(unsigned int library, struct link_map *map)
{
	unsigned int copy = map ? nspy_copy_of_map(library, map) : NSPY_NO_COPY;
	void *handle;

	if (copy == NSPY_NO_COPY)
		copy = nspy_copy_of_handle(library, RTLD_NEXT);
	if (copy == NSPY_NO_COPY && map && map->l_name[0]) {
		handle = nspy_sys_dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
		if (handle) {
			copy = nspy_copy_of_handle(library, handle);
			nspy_sys_dlclose(handle);
		}
	}
	/* Loaded in some other way, or code that no object holds. */
	if (copy == NSPY_NO_COPY && nspy_copies(library) == 0)
		nspy_copies_scan();
	if (copy == NSPY_NO_COPY && nspy_copies(library) > 0)
		copy = 0;
	return copy;
}

/* The object around an address; NULL if there is none, as for code made at run time. */
static struct link_map *locate(const void *address, struct nspy_caller *ret)
{
	struct link_map *map = NULL;
	Dl_info info;

	*ret = (struct nspy_caller){.copy = NSPY_NO_COPY};
	if (!nspy_sys_dladdr1 ||
	    !nspy_sys_dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || !info.dli_fbase)
		return NULL;
	nspy_elf_extent(info.dli_fbase, &ret->begin, &ret->bytes);
	return map;
}

static void find_caller(unsigned int library, const void *address, struct nspy_caller *ret)
{
	struct link_map *map;

	if (nspy_copies(library) > 1)
		nspy_callers_refresh();
	if (nspy_callers_find(library, address, ret))
		return;
	map = locate(address, ret);
	ret->copy = copy_linked_to(library, map);
	if (ret->copy != NSPY_NO_COPY && ret->bytes)
		nspy_callers_add(library, ret);
	nspy_dlerror_clear();
}

unsigned int nspy_route_copy(unsigned int library, const void *address)
{
	struct nspy_caller caller;

	find_caller(library, address, &caller);
	return caller.copy;
}

/* Takes the short way for calls from this object from now on, unless there is a second copy. */
static void make_direct(unsigned int library, const struct nspy_caller *caller)
{
	struct nspy_hot *hot = __atomic_load_n(&nspy_hot, __ATOMIC_ACQUIRE);
	struct nspy_direct *direct = &hot->direct[library];

	if (!caller->bytes || __atomic_load_n(&direct->bytes, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&direct->begin, caller->begin, __ATOMIC_RELAXED);
	__atomic_store_n(&direct->bytes, caller->bytes, __ATOMIC_SEQ_CST);
	/* Pairs with nspy_route_split: whichever comes last undoes it. */
	if (nspy_copies(library) > 1)
		nspy_route_split(library);
}

void nspy_route_split(unsigned int library)
{
	struct nspy_hot *hot = __atomic_load_n(&nspy_hot, __ATOMIC_ACQUIRE);

	__atomic_store_n(&hot->direct[library].bytes, 0, __ATOMIC_SEQ_CST);
}

/* A communicator belongs to the copy that made it, whoever uses it. */
static unsigned int copy_of_comm(const void *comm, unsigned int otherwise)
{
	unsigned int copy = comm ? nspy_comm_copy(comm) : NSPY_NO_COPY;
	int saved = errno;

	if (copy == NSPY_NO_COPY || copy == otherwise)
		return otherwise;
	if (otherwise != NSPY_NO_COPY)
		nspy_versions_mixed(copy, otherwise);
	errno = saved;
	return copy;
}

nspy_any_fn *nspy_route(unsigned int fn, const void *comm, const void *address)
{
	const unsigned int library = nspy_fn_table[fn].library;
	int saved = errno;
	nspy_any_fn *real = nspy_next_interposer(fn);
	struct nspy_caller caller;

	if (real && nspy_copies(library) == 0)
		(void)locate(address, &caller);
	else
		find_caller(library, address, &caller);
	if (nspy_copies(library) > 1) {
		caller.copy = copy_of_comm(comm, caller.copy);
		if (library == NSPY_LIB_NCCL)
			nspy_tls.copy = (uint8_t)caller.copy;
	}
	if (!real && caller.copy != NSPY_NO_COPY)
		real = nspy_copy_find(caller.copy, fn);
	if (real && nspy_copies(library) <= 1) {
		__atomic_store_n(&nspy_real_slots[fn], real, __ATOMIC_RELEASE);
		make_direct(library, &caller);
	}
	errno = saved;
	return real;
}

nspy_any_fn *nspy_real_anew(unsigned int fn, unsigned int library, const void *comm,
			    const void *caller)
{
	(void)library;
	nspy_callers_refresh();
	return nspy_route(fn, comm, caller);
}

nspy_any_fn *nspy_real_of(unsigned int copy, unsigned int fn, const void *comm)
{
	if (nspy_copies(nspy_fn_table[fn].library) > 1) {
		copy = copy_of_comm(comm, copy);
		if (nspy_fn_table[fn].library == NSPY_LIB_NCCL)
			nspy_tls.copy = (uint8_t)copy;
	}
	return nspy_copy_find(copy, fn);
}

nspy_any_fn *nspy_real_in(unsigned int copy, unsigned int fn)
{
	return copy < nspy_copies(nspy_fn_table[fn].library) ? nspy_copy_find(copy, fn)
							     : nspy_next_interposer(fn);
}

void nspy_route_forked(void)
{
	nspy_callers_forked();
}

void nspy_say_missing(unsigned int fn)
{
	static _Atomic uint32_t said;
	int saved = errno;

	if (atomic_exchange_explicit(&said, 1, memory_order_relaxed) == 0)
		nspy_say(NSPY_SAY_WARN,
			 "%s was called, but no loaded library defines it; the call fails as in a "
			 "library without it",
			 nspy_fn_table[fn].name);
	errno = saved;
}
