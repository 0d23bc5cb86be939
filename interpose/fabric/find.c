/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "find.h"

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

#define OBJECTS_MAX 8u
#define PATH_BYTES  512u

/* Paths first, look-ups afterwards: dlopen within dl_iterate_phdr takes locks in a wrong order. */
struct objects {
	const char *library;
	uint32_t count;
	char path[OBJECTS_MAX][PATH_BYTES];
};

static void *look_up(void *handle, const struct nspy_net_symbol *symbol, bool any_version)
{
	void *found = any_version ? nspy_sys_dlsym(handle, symbol->name)
				  : nspy_sys_dlvsym(handle, symbol->name, symbol->version);

	return found && !nspy_elf_is_ours(found) ? found : NULL;
}

static int collect(struct dl_phdr_info *info, size_t size, void *data)
{
	struct objects *objects = data;
	const char *path = info->dlpi_name ? info->dlpi_name : "";
	const char *slash = strrchr(path, '/');

	(void)size;
	if (objects->count < OBJECTS_MAX && strlen(path) < PATH_BYTES &&
	    strncmp(slash ? slash + 1 : path, objects->library, strlen(objects->library)) == 0)
		strcpy(objects->path[objects->count++], path);
	return 0;
}

static void *look_in_objects(const struct nspy_net_symbol *symbol, bool any_version)
{
	struct objects objects = {.library = symbol->library};
	void *found = NULL;

	dl_iterate_phdr(collect, &objects);
	for (uint32_t i = 0; i < objects.count && !found; i++) {
		void *handle = nspy_sys_dlopen(objects.path[i], RTLD_LAZY | RTLD_NOLOAD);

		if (!handle)
			continue;
		found = look_up(handle, symbol, any_version);
		/* What we found must not be unmapped under our pointer. */
		if (found)
			(void)nspy_sys_dlopen(objects.path[i],
					      RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
		nspy_sys_dlclose(handle);
	}
	return found;
}

nspy_net_fn *nspy_net_find(struct nspy_net_symbol *symbol)
{
	int saved = errno;
	void *found = NULL;

	if (!nspy_sys_dlopen)
		return NULL;
	for (int any = 0; any <= symbol->newest; any++) {
		found = look_up(RTLD_NEXT, symbol, any);
		if (!found)
			found = look_in_objects(symbol, any);
		symbol->substitute = found && any;
		if (found)
			break;
	}
	if (found)
		__atomic_store_n(&symbol->real, (nspy_net_fn *)found, __ATOMIC_RELEASE);
	nspy_dlerror_clear(); /* our failed look-ups are not the application's */
	errno = saved;
	return (nspy_net_fn *)found;
}

static void *entry_in(struct nspy_net_symbol *symbols, size_t count, const char *name,
		      const char *version, void *found)
{
	/* Newest first: without a version the newest is meant, if it is the one that was found. */
	for (size_t i = 0; i < count; i++) {
		struct nspy_net_symbol *symbol = &symbols[i];

		if (strcmp(symbol->name, name) != 0 ||
		    (version && strcmp(symbol->version, version) != 0))
			continue;
		if (!symbol->real && version)
			__atomic_store_n(&symbol->real, (nspy_net_fn *)found, __ATOMIC_RELEASE);
		if (nspy_net_real(symbol) == (nspy_net_fn *)found)
			return (void *)symbol->entry;
	}
	return NULL;
}

void *nspy_net_entry(const char *name, const char *version, void *found)
{
	void *entry = entry_in(nspy_fabric_symbols, nspy_fabric_symbol_count, name, version, found);

	return entry ? entry
		     : entry_in(nspy_verbs_symbols, nspy_verbs_symbol_count, name, version, found);
}

static bool has_in(struct nspy_net_symbol *symbols, size_t count, const char *name,
		   const char *version)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(symbols[i].name, name) == 0 &&
		    (!version || strcmp(symbols[i].version, version) == 0) &&
		    nspy_net_real(&symbols[i]))
			return true;
	return false;
}

bool nspy_net_has(const char *name, const char *version)
{
	return has_in(nspy_fabric_symbols, nspy_fabric_symbol_count, name, version) ||
	       has_in(nspy_verbs_symbols, nspy_verbs_symbol_count, name, version);
}
