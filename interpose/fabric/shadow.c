/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "shadow.h"

#include <string.h>
#include <sys/mman.h>

__thread uint32_t nspy_fabric_depth;
_Atomic(uint8_t *) nspy_slot_area;
static _Atomic uint32_t cursor;
static _Atomic uint32_t high; /* slots ever used */

static uint8_t *area(void)
{
	uint8_t *have = atomic_load(&nspy_slot_area), *made;

	if (have)
		return have;
	made = mmap(NULL, (size_t)NSPY_SLOTS * NSPY_SLOT_BYTES, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (made == MAP_FAILED)
		return NULL;
	if (atomic_compare_exchange_strong(&nspy_slot_area, &have, made))
		return made;
	munmap(made, (size_t)NSPY_SLOTS * NSPY_SLOT_BYTES);
	return have;
}

static void raise_high(uint32_t used)
{
	uint32_t have = atomic_load(&high);

	while (have < used && !atomic_compare_exchange_weak(&high, &have, used))
		;
}

static void *take(enum nspy_fab_kind kind)
{
	uint8_t *base = area();

	for (uint32_t tries = 0; base && tries < NSPY_SLOT_TRIES; tries++) {
		uint32_t i = atomic_fetch_add(&cursor, 1) % NSPY_SLOTS;
		_Atomic uint32_t *slot = (void *)(base + (size_t)i * NSPY_SLOT_BYTES);
		uint32_t expected = NSPY_FAB_NONE;

		if (!atomic_compare_exchange_strong(slot, &expected, kind))
			continue;
		memset(slot + 1, 0, NSPY_SLOT_BYTES - sizeof(*slot));
		raise_high(i + 1);
		return slot;
	}
	return NULL;
}

struct nspy_fab *nspy_fab_new(enum nspy_fab_kind kind, void *fid, struct nspy_rail *rail)
{
	struct nspy_fab *fab = take(kind);

	if (fab) {
		fab->refs = 1;
		fab->rail = rail;
		__atomic_store_n(&fab->fid, fid, __ATOMIC_RELEASE);
	}
	return fab;
}

struct nspy_fab *nspy_fab_find(enum nspy_fab_kind kind, const void *fid)
{
	uint8_t *base = atomic_load(&nspy_slot_area);
	uint32_t used = base ? atomic_load(&high) : 0;

	for (uint32_t i = 0; i < used; i++) {
		struct nspy_fab *fab = (void *)(base + (size_t)i * NSPY_SLOT_BYTES);

		if (atomic_load(&fab->kind) == kind &&
		    __atomic_load_n(&fab->fid, __ATOMIC_ACQUIRE) == fid)
			return fab;
	}
	return NULL;
}

struct nspy_shadow *nspy_shadow_search(const void *place)
{
	uint8_t *base = atomic_load(&nspy_slot_area);
	uint32_t used = base ? atomic_load(&high) : 0;

	for (uint32_t i = 0; i < used; i++) {
		struct nspy_shadow *s = (void *)(base + (size_t)i * NSPY_SLOT_BYTES);

		if (atomic_load(&s->kind) == NSPY_FAB_SHADOW && (const void *)s->place == place)
			return s;
	}
	return NULL;
}

void *nspy_shadow_make(struct nspy_fab *fab, void *place)
{
	void **at = place;
	struct nspy_shadow *s;
	size_t bytes;

	if (!*at || fab->shadow_count == NSPY_FAB_SHADOWS)
		return NULL;
	bytes = *(const size_t *)*at;
	if (bytes < sizeof(size_t) || bytes > sizeof(s->table) || bytes % sizeof(void *))
		return NULL;
	s = take(NSPY_FAB_SHADOW);
	if (!s)
		return NULL;
	s->owner = fab;
	s->orig = *at;
	memcpy(s->table, s->orig, bytes);
	s->place = at;
	fab->shadow[fab->shadow_count++] = s;
	return s->table;
}

static struct nspy_shadow *shadow_of_table(void *table)
{
	return (void *)((uint8_t *)table - offsetof(struct nspy_shadow, table));
}

void nspy_shadow_install(void *table)
{
	struct nspy_shadow *s = shadow_of_table(table);

	__atomic_store_n(s->place, table, __ATOMIC_RELEASE);
}

void nspy_fab_restore(struct nspy_fab *fab)
{
	for (uint32_t i = 0; i < fab->shadow_count; i++) {
		struct nspy_shadow *s = fab->shadow[i];

		/* If the provider has put another table there, that one is right. */
		if (*s->place == (void *)s->table)
			__atomic_store_n(s->place, s->orig, __ATOMIC_RELEASE);
	}
}

/* The provider has chosen another table: ours takes its entries, but for those we wrap. */
static bool follow(struct nspy_shadow *s, void *now)
{
	const uint64_t *before = s->orig, *after = now;
	size_t bytes = *(const size_t *)now;

	if (bytes < *(const size_t *)s->orig || bytes > sizeof(s->table))
		return false;
	for (size_t i = 1; i < bytes / 8; i++) {
		/* Entries that differ from the old original are wrappers. */
		if (i >= *(const size_t *)s->orig / 8 || s->table[i] == before[i])
			s->table[i] = after[i];
	}
	s->table[0] = bytes;
	__atomic_store_n(&s->orig, now, __ATOMIC_RELEASE);
	return true;
}

void nspy_fab_apply(struct nspy_fab *fab)
{
	for (uint32_t i = 0; i < fab->shadow_count; i++) {
		struct nspy_shadow *s = fab->shadow[i];
		void *now = *s->place;

		if (now == (void *)s->table || !now || (now != s->orig && !follow(s, now)))
			continue;
		__atomic_store_n(s->place, s->table, __ATOMIC_RELEASE);
	}
}

void nspy_fab_free(struct nspy_fab *fab)
{
	for (uint32_t i = 0; i < fab->shadow_count; i++)
		atomic_store_explicit(&fab->shadow[i]->kind, NSPY_FAB_NONE, memory_order_release);
	atomic_store_explicit(&fab->kind, NSPY_FAB_NONE, memory_order_release);
}
