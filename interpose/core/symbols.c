/* SPDX-License-Identifier: Apache-2.0 */
/* No loop may become a call of strlen or memset. clang does not do that to freestanding code. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

#include "symbols.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>

#define HIDDEN_VERSION 0x8000u /* of a version symbol: not the default one */
#define PAGE_BYTES     4096u

/* NULL until found. The C library's own: */
static nspy_dlsym_fn *real_dlsym;
static nspy_dlvsym_fn *real_dlvsym;
/* What callers of our dlsym would get without us; used by the stubs (interpose/wrap/dlsym_*.S). */
nspy_dlsym_fn *nspy_next_dlsym;
nspy_dlvsym_fn *nspy_next_dlvsym;
static const struct link_map *libc_map;

/* The dynamic section's tables of one object. */
struct tables {
	const ElfW(Sym) * symbols;
	const char *strings;
	const uint32_t *gnu_hash;
	const ElfW(Word) * sysv_hash;
	const ElfW(Half) * versions;
};

/* The loader relocates these pointers in place, except where the section is read-only. */
static const void *pointer(const struct link_map *map, ElfW(Addr) at)
{
	return (const void *)(at < map->l_addr ? at + map->l_addr : at);
}

static struct tables tables_of(const struct link_map *map)
{
	struct tables t = {NULL, NULL, NULL, NULL, NULL};

	for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++) {
		const void *at = pointer(map, d->d_un.d_ptr);

		if (d->d_tag == DT_SYMTAB)
			t.symbols = at;
		else if (d->d_tag == DT_STRTAB)
			t.strings = at;
		else if (d->d_tag == DT_GNU_HASH)
			t.gnu_hash = at;
		else if (d->d_tag == DT_HASH)
			t.sysv_hash = at;
		else if (d->d_tag == DT_VERSYM)
			t.versions = at;
	}
	return t;
}

/* Whether symbol i defines the function; *ret_default: in the version that links get. */
static bool defines(const struct tables *t, uint32_t i, const char *name, bool *ret_default)
{
	const ElfW(Sym) *symbol = &t->symbols[i];

	if (symbol->st_shndx == SHN_UNDEF || (symbol->st_info & 0xf) != STT_FUNC ||
	    !nspy_elf_same(t->strings + symbol->st_name, name))
		return false;
	*ret_default = !t->versions || !(t->versions[i] & HIDDEN_VERSION);
	return true;
}

static uint32_t find_gnu(const struct tables *t, const char *name)
{
	const uint32_t *h = t->gnu_hash;
	const uint32_t buckets = h[0], first = h[1], words = h[2], shift = h[3];
	const ElfW(Addr) *bloom = (const void *)(h + 4);
	const uint32_t *bucket = (const void *)(bloom + words);
	const uint32_t *chain = bucket + buckets;
	const uint32_t bits = 8 * sizeof(ElfW(Addr));
	uint32_t hash = 5381, any = 0;
	ElfW(Addr) word;
	bool is_default;

	for (const char *c = name; *c; c++)
		hash = hash * 33 + (unsigned char)*c;
	word = bloom[(hash / bits) & (words - 1)];
	if (!((word >> (hash % bits)) & (word >> ((hash >> shift) % bits)) & 1))
		return 0;
	for (uint32_t i = bucket[hash % buckets]; i >= first && i; i++) {
		if ((chain[i - first] | 1) == (hash | 1) && defines(t, i, name, &is_default)) {
			if (is_default)
				return i;
			any = i;
		}
		if (chain[i - first] & 1)
			break;
	}
	return any;
}

static uint32_t find_sysv(const struct tables *t, const char *name)
{
	const ElfW(Word) *h = t->sysv_hash;
	uint32_t hash = 0, any = 0;
	bool is_default;

	for (const char *c = name; *c; c++) {
		hash = (hash << 4) + (unsigned char)*c;
		hash = (hash ^ ((hash & 0xf0000000u) >> 24)) & 0x0fffffffu;
	}
	for (uint32_t i = h[2 + hash % h[0]]; i; i = h[2 + h[0] + i]) {
		if (!defines(t, i, name, &is_default))
			continue;
		if (is_default)
			return i;
		any = i;
	}
	return any;
}

void *nspy_elf_find(const struct link_map *map, const char *name)
{
	const struct tables t = tables_of(map);
	uint32_t i = 0;

	if (!t.symbols || !t.strings)
		return NULL;
	if (t.gnu_hash && t.gnu_hash[0])
		i = find_gnu(&t, name);
	else if (t.sysv_hash && t.sysv_hash[0])
		i = find_sysv(&t, name);
	return i ? (void *)(map->l_addr + t.symbols[i].st_value) : NULL;
}

bool nspy_elf_is_ours(const void *address)
{
	extern const char __ehdr_start[] __attribute__((visibility("hidden")));
	extern const char _end[] __attribute__((visibility("hidden")));

	return (const char *)address >= __ehdr_start && (const char *)address < _end;
}

void nspy_elf_extent(const void *base, uintptr_t *ret_begin, uintptr_t *ret_bytes)
{
	const ElfW(Ehdr) *head = base;
	const ElfW(Phdr) *ph = (const void *)((const char *)base + head->e_phoff);
	uintptr_t low = UINTPTR_MAX, high = 0;

	for (int i = 0; i < head->e_phnum; i++) {
		if (ph[i].p_type != PT_LOAD)
			continue;
		if (ph[i].p_vaddr < low)
			low = ph[i].p_vaddr;
		if (ph[i].p_vaddr + ph[i].p_memsz > high)
			high = ph[i].p_vaddr + ph[i].p_memsz;
	}
	low &= ~(uintptr_t)(PAGE_BYTES - 1);
	*ret_begin = (uintptr_t)base;
	*ret_bytes = high > low ? high - low : 0;
}

/* "libc.so.6" and "libdl.so.2", also under the names that old installations gave the files. */
static bool is_c_library(const char *path)
{
	static const char *const begins[] = {"libc.so", "libc-", "libdl.so", "libdl-"};
	const char *name = path;

	for (const char *c = path; *c; c++)
		if (*c == '/')
			name = c + 1;
	for (uint32_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
		const char *a = begins[i], *b = name;

		while (*a && *a == *b) {
			a++;
			b++;
		}
		if (!*a)
			return true;
	}
	return false;
}

static void find_in(const struct link_map *map, nspy_dlsym_fn **dlsym_at,
		    nspy_dlvsym_fn **dlvsym_at)
{
	if (!*dlsym_at)
		__atomic_store_n(dlsym_at, (nspy_dlsym_fn *)nspy_elf_find(map, "dlsym"),
				 __ATOMIC_RELAXED);
	if (!*dlvsym_at)
		__atomic_store_n(dlvsym_at, (nspy_dlvsym_fn *)nspy_elf_find(map, "dlvsym"),
				 __ATOMIC_RELAXED);
}

/*
 * The list begins with the objects of the start of the process in the order in which they are
 * searched, so another tool that exports a dlsym, too, and comes after us keeps its place. Can be
 * done again: before glibc 2.34 dlsym lives in libdl, which may be loaded later.
 */
void nspy_elf_boot(void)
{
	bool after_us = false;

	for (const struct link_map *map = _r_debug.r_map; map; map = map->l_next) {
		if (nspy_elf_is_ours(map->l_ld)) {
			after_us = true;
			continue;
		}
		if (after_us && (!nspy_next_dlsym || !nspy_next_dlvsym))
			find_in(map, &nspy_next_dlsym, &nspy_next_dlvsym);
		if (!map->l_name || !is_c_library(map->l_name))
			continue;
		if (!libc_map)
			__atomic_store_n(&libc_map, map, __ATOMIC_RELAXED);
		find_in(map, &real_dlsym, &real_dlvsym);
		if (nspy_next_dlsym && nspy_next_dlvsym && real_dlsym && real_dlvsym)
			return;
	}
	/* We were not preloaded, but opened. */
	if (!nspy_next_dlsym)
		__atomic_store_n(&nspy_next_dlsym, real_dlsym, __ATOMIC_RELAXED);
	if (!nspy_next_dlvsym)
		__atomic_store_n(&nspy_next_dlvsym, real_dlvsym, __ATOMIC_RELAXED);
}

void *nspy_elf_next(const char *name)
{
	bool after_us = false;
	void *found = NULL;

	/* Opened instead of preloaded: nothing after us has it, and nobody may have looked yet. */
	if (!libc_map)
		nspy_elf_boot();
	for (const struct link_map *map = _r_debug.r_map; map && !found; map = map->l_next) {
		if (nspy_elf_is_ours(map->l_ld))
			after_us = true;
		else if (after_us)
			found = nspy_elf_find(map, name);
	}
	return found || !libc_map ? found : nspy_elf_find(libc_map, name);
}

void *nspy_sys_dlsym(void *handle, const char *name)
{
	if (!real_dlsym)
		nspy_elf_boot();
	return real_dlsym ? real_dlsym(handle, name) : NULL;
}

void *nspy_sys_dlvsym(void *handle, const char *name, const char *version)
{
	if (!real_dlvsym)
		nspy_elf_boot();
	return real_dlvsym ? real_dlvsym(handle, name, version) : NULL;
}

const struct link_map *nspy_elf_libc(void)
{
	return libc_map;
}
