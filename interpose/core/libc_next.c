/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Found by walking the loaded objects rather than by dlsym: that may be missing, would forget the
 * application's pending dlerror text, and may be exported by somebody who preloads too.
 */
#include "compat.h"

#include "libc_next.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define VERSION_HIDDEN 0x8000u

struct search {
	const char *name;
	uint32_t hash;
	bool passed; /* our own object lies behind us */
	nspy_any_fn *found;
};

struct table {
	const ElfW(Sym) * symbols;
	const char *strings;
	const uint32_t *hash;
	const uint16_t *versions;
};

static uint32_t gnu_hash(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (uint8_t)*name;
	return h;
}

/* The loader has relocated these addresses, except in the vDSO. */
static const void *address(const struct dl_phdr_info *info, ElfW(Addr) value)
{
	return (const void *)(value < info->dlpi_addr ? value + info->dlpi_addr : value);
}

static bool read_table(const struct dl_phdr_info *info, struct table *ret)
{
	const ElfW(Dyn) *d = NULL;

	*ret = (struct table){0};
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			d = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	for (; d && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			ret->symbols = address(info, d->d_un.d_ptr);
		else if (d->d_tag == DT_STRTAB)
			ret->strings = address(info, d->d_un.d_ptr);
		else if (d->d_tag == DT_GNU_HASH)
			ret->hash = address(info, d->d_un.d_ptr);
		else if (d->d_tag == DT_VERSYM)
			ret->versions = address(info, d->d_un.d_ptr);
	}
	return ret->symbols && ret->strings && ret->hash;
}

static bool is_definition(const struct table *t, uint32_t i, const char *name)
{
	const ElfW(Sym) *symbol = &t->symbols[i];

	return symbol->st_shndx != SHN_UNDEF && (symbol->st_info & 0xf) == STT_FUNC &&
	       !(t->versions && t->versions[i] & VERSION_HIDDEN) &&
	       strcmp(t->strings + symbol->st_name, name) == 0;
}

/* A GNU hash table: four words, a bloom filter, buckets, chains whose last entry is odd. */
static const ElfW(Sym) * look_up(const struct table *t, const struct search *s)
{
	const uint32_t buckets = t->hash[0], first = t->hash[1];
	const uint32_t *bucket = t->hash + 4 + t->hash[2] * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *chain = bucket + buckets;
	uint32_t i = buckets ? bucket[s->hash % buckets] : 0;

	if (i < first)
		return NULL;
	for (;; i++) {
		if ((chain[i - first] | 1) == (s->hash | 1) && is_definition(t, i, s->name))
			return &t->symbols[i];
		if (chain[i - first] & 1)
			return NULL;
	}
}

static bool is_ours(const struct dl_phdr_info *info)
{
	static const char anchor = 0;
	uintptr_t at = (uintptr_t)&anchor;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type == PT_LOAD && at >= info->dlpi_addr + ph->p_vaddr &&
		    at < info->dlpi_addr + ph->p_vaddr + ph->p_memsz)
			return true;
	}
	return false;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *context)
{
	struct search *s = context;
	const ElfW(Sym) * symbol;
	struct table t;

	(void)size;
	if (!s->passed) {
		s->passed = is_ours(info);
		return 0;
	}
	if (!read_table(info, &t))
		return 0;
	symbol = look_up(&t, s);
	if (!symbol)
		return 0;
	s->found = (nspy_any_fn *)(info->dlpi_addr + symbol->st_value);
	return 1;
}

nspy_any_fn *nspy_libc_next(const char *name)
{
	struct search s = {.name = name, .hash = gnu_hash(name)};

	dl_iterate_phdr(look_at, &s);
	return s.found;
}
