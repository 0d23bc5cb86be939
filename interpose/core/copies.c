/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "copies.h"

#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "api_ids.h"
#include "symbols.h"
#include "versions.h"

#define FOUND_MAX  8u
#define PATH_BYTES 1024u

/* Entries are taken in order and never given back. */
struct copy {
	_Atomic(struct link_map *) map;
	_Atomic(nspy_any_fn *) real[NSPY_FN_COUNT]; /* filled in on first use */
};

static struct copy copies[NSPY_LIB_COUNT][NSPY_COPIES_MAX];
static _Atomic uint32_t counts[NSPY_LIB_COUNT];
static _Atomic bool too_many[NSPY_LIB_COUNT];
struct nspy_extent nspy_nccl_extents[NSPY_COPIES_MAX];
_Atomic uint32_t nspy_nccl_extent_count;

/* Copies met on the way through the loaded objects, in load order. Paths are collected first and
 * used afterwards: calling dlopen from within dl_iterate_phdr would take the loader's locks in the
 * wrong order. */
struct scan {
	uint64_t adds;  /* objects ever loaded */
	uint64_t known; /* the same at the last scan: nothing to do if equal */
	uint32_t count;
	char paths[FOUND_MAX][PATH_BYTES]; /* "" is the program itself */
};

unsigned int nspy_copies(unsigned int library)
{
	return atomic_load_explicit(&counts[library], memory_order_acquire);
}

bool nspy_copies_too_many(unsigned int library)
{
	return atomic_load_explicit(&too_many[library], memory_order_relaxed);
}

const struct link_map *nspy_copy_map(unsigned int library, unsigned int copy)
{
	return atomic_load_explicit(&copies[library][copy].map, memory_order_acquire);
}

static bool is_copy(unsigned int library, const struct link_map *map)
{
	const char *const *name = nspy_library_table[library].known_by;

	if (nspy_elf_is_ours(map->l_ld))
		return false;
	for (; *name; name++)
		if (!nspy_elf_find(map, *name))
			return false;
	/* NCCL has no reason to export a dlsym; an interposer that wraps all of NCCL has. */
	return nspy_elf_find(map, "dlsym") == NULL;
}

/* It must not be unmapped under the pointers we take from it. */
static void pin(struct link_map *map)
{
	const int flags = RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE;
	Lmid_t space = LM_ID_BASE;
	void *handle;

	if (!map->l_name[0])
		return; /* the program itself */
	if (nspy_sys_dlinfo && nspy_sys_dlinfo(map, RTLD_DI_LMID, &space) == 0 &&
	    space != LM_ID_BASE && nspy_sys_dlmopen)
		handle = nspy_sys_dlmopen(space, map->l_name, flags);
	else
		handle = nspy_sys_dlopen(map->l_name, flags);
	if (handle)
		nspy_sys_dlclose(handle);
}

/* A place stays empty until it is filled in: no address is below zero bytes. */
static void keep_extent(const struct link_map *map)
{
	struct link_map *same = NULL;
	uintptr_t begin = 0, bytes = 0;
	uint32_t place;
	Dl_info info;

	if (!nspy_sys_dladdr1 ||
	    !nspy_sys_dladdr1(map->l_ld, &info, (void **)&same, RTLD_DL_LINKMAP) || same != map ||
	    !info.dli_fbase)
		return;
	nspy_elf_extent(info.dli_fbase, &begin, &bytes);
	place = atomic_fetch_add(&nspy_nccl_extent_count, 1);
	if (place >= NSPY_COPIES_MAX)
		return;
	atomic_store_explicit(&nspy_nccl_extents[place].begin, begin, memory_order_relaxed);
	atomic_store_explicit(&nspy_nccl_extents[place].bytes, bytes, memory_order_release);
}

unsigned int nspy_copy_of_map(unsigned int library, struct link_map *map)
{
	struct copy *all = copies[library];
	bool pinned = false;

	for (unsigned int i = 0; i < NSPY_COPIES_MAX; i++) {
		struct link_map *there = atomic_load_explicit(&all[i].map, memory_order_acquire);

		if (!there && !pinned) {
			if (!is_copy(library, map))
				return NSPY_NO_COPY;
			pin(map);
			pinned = true;
		}
		if (!there && atomic_compare_exchange_strong(&all[i].map, &there, map)) {
			if (atomic_fetch_add(&counts[library], 1) > 0)
				nspy_route_split(library);
			if (library == NSPY_LIB_NCCL) {
				keep_extent(map);
				nspy_versions_copy_found();
			}
			return i;
		}
		if (there == map)
			return i;
	}
	if (is_copy(library, map) && !atomic_exchange(&too_many[library], true) &&
	    library == NSPY_LIB_NCCL)
		nspy_versions_copy_found();
	return NSPY_NO_COPY;
}

unsigned int nspy_copy_of_address(unsigned int library, const void *address)
{
	struct link_map *map = NULL;
	Dl_info info;

	if (!nspy_sys_dladdr1 ||
	    !nspy_sys_dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
		return NSPY_NO_COPY;
	return nspy_copy_of_map(library, map);
}

unsigned int nspy_copy_of_function(unsigned int fn, const void *found)
{
	const unsigned int library = nspy_fn_table[fn].library;

	/* Copies are never unmapped, so what is remembered is still theirs. */
	for (unsigned int i = 0; i < NSPY_COPIES_MAX; i++)
		if (found && (const void *)atomic_load_explicit(&copies[library][i].real[fn],
								memory_order_relaxed) == found)
			return i;
	return nspy_copy_of_address(library, found);
}

nspy_any_fn *nspy_copy_find(unsigned int copy, unsigned int fn)
{
	const struct nspy_fn_info *info = &nspy_fn_table[fn];
	struct copy *c = &copies[info->library][copy];
	nspy_any_fn *real = atomic_load_explicit(&c->real[fn], memory_order_relaxed);
	const struct link_map *map;

	if (real)
		return real;
	map = atomic_load_explicit(&c->map, memory_order_acquire);
	if (!map)
		return NULL;
	real = (nspy_any_fn *)nspy_elf_find(map, info->name);
	if (!real && info->alias)
		real = (nspy_any_fn *)nspy_elf_find(map, info->alias);
	atomic_store_explicit(&c->real[fn], real, memory_order_relaxed);
	return real;
}

static unsigned int copy_behind(unsigned int library, void *handle, const char *name)
{
	const void *found = name ? nspy_sys_dlsym(handle, name) : NULL;

	return found && !nspy_elf_is_ours(found) ? nspy_copy_of_address(library, found)
						 : NSPY_NO_COPY;
}

unsigned int nspy_copy_of_handle(unsigned int library, void *handle)
{
	const char *const *name = nspy_library_table[library].known_by;
	unsigned int copy = NSPY_NO_COPY;

	/* More than one name, because another interposer may stand before one of them. */
	for (; *name && copy == NSPY_NO_COPY; name++) {
		int fn = nspy_fn_find(*name);

		copy = copy_behind(library, handle, *name);
		if (copy == NSPY_NO_COPY && fn >= 0)
			copy = copy_behind(library, handle, nspy_fn_table[fn].alias);
	}
	return copy;
}

static bool is_any_copy(const struct dl_phdr_info *info)
{
	struct link_map map = {.l_addr = info->dlpi_addr};

	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			map.l_ld = (void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	for (unsigned int library = 0; library < NSPY_LIB_COUNT && map.l_ld; library++)
		if (is_copy(library, &map))
			return true;
	return false;
}

static int collect(struct dl_phdr_info *info, size_t size, void *data)
{
	struct scan *scan = data;
	const char *path = info->dlpi_name ? info->dlpi_name : "";

	if (size >= offsetof(struct dl_phdr_info, dlpi_subs))
		scan->adds = info->dlpi_adds;
	if (scan->adds && scan->adds == scan->known)
		return 1;
	if (strlen(path) < PATH_BYTES && is_any_copy(info)) {
		memcpy(scan->paths[scan->count], path, strlen(path) + 1);
		scan->count++;
	}
	return scan->count == FOUND_MAX;
}

void nspy_copies_scan(void)
{
	static _Atomic uint64_t scanned;
	struct scan scan = {.known = atomic_load_explicit(&scanned, memory_order_relaxed)};

	dl_iterate_phdr(collect, &scan);
	for (uint32_t i = 0; i < scan.count; i++) {
		const char *path = scan.paths[i][0] ? scan.paths[i] : NULL;
		void *handle = nspy_sys_dlopen(path, RTLD_LAZY | RTLD_NOLOAD);

		if (!handle)
			continue; /* gone in the meantime */
		for (unsigned int library = 0; library < NSPY_LIB_COUNT; library++)
			(void)nspy_copy_of_map(library, handle);
		nspy_sys_dlclose(handle);
	}
	atomic_store_explicit(&scanned, scan.adds, memory_order_relaxed);
}
