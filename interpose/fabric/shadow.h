/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of libfabric that we look into, and copies of their tables of functions. A copy begins
 * right behind a pointer to the original, so that a wrapper finds the real function in one step
 * from the table it was called through. The original is put back before an object is closed and
 * around calls that may look at the tables.
 *
 * Everything lies in slots of one reserved area; a slot given back is used again as late as
 * possible. Never fails loudly: without a slot an object is simply not looked into.
 *
 * context: any thread, lock-free; opening and closing are cold.
 */
#ifndef NSPY_SHADOW_H
#define NSPY_SHADOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric_abi.h"

#define NSPY_SLOT_BYTES  256u
#define NSPY_SLOTS       65536u
#define NSPY_SLOT_TRIES  4096u
#define NSPY_FAB_SHADOWS 5u

struct nspy_rail;
struct nspy_peer;
struct nspy_poll_cell;

enum nspy_fab_kind {
	NSPY_FAB_NONE = 0,
	NSPY_FAB_SHADOW,
	NSPY_FAB_DOMAIN,
	NSPY_FAB_EP,
	NSPY_FAB_CQ,
	NSPY_FAB_AV,
	NSPY_FAB_MR,
};

struct nspy_fab;

struct nspy_shadow {
	_Atomic uint32_t kind; /* first in every slot; enum nspy_fab_kind */
	uint32_t reserved;
	struct nspy_fab *owner;
	void **place;          /* the object's pointer to the table */
	_Atomic uint64_t *hot; /* what its wrappers need at once, or NULL */
	void *orig;
	uint64_t table[(NSPY_SLOT_BYTES - 40) / 8];
};
_Static_assert(sizeof(struct nspy_shadow) == NSPY_SLOT_BYTES, "one slot");

/* A domain, endpoint, queue, address vector or registration of the application's. */
struct nspy_fab {
	_Atomic uint32_t kind;
	uint32_t addr_format;
	_Atomic uint32_t refs; /* providers with a cache hand out one registration several times */
	uint32_t shadow_count;
	struct nspy_rail *rail;
	void *fid;
	struct nspy_shadow *shadow[NSPY_FAB_SHADOWS];
	union {
		uint64_t bytes; /* registration */
		struct {
			struct nspy_peer *peer; /* endpoint: whom it is connected to, or NULL */
		};
		struct {
			struct nspy_poll_cell *polls;
			uint32_t entry_bytes; /* 0 = not known */
		};
	};
};
_Static_assert(sizeof(struct nspy_fab) <= NSPY_SLOT_BYTES, "one slot");

/* How deep in wrapped calls of the network layers this thread is. */
extern __thread uint32_t nspy_fabric_depth;

/* A new object, not yet shadowed; NULL: none to be had. */
struct nspy_fab *nspy_fab_new(enum nspy_fab_kind kind, void *fid, struct nspy_rail *rail);
/* Puts all originals back and gives the slots back. */
void nspy_fab_free(struct nspy_fab *fab);
/* The object that a fid is known as, or NULL. Walks all slots: cold. */
struct nspy_fab *nspy_fab_find(enum nspy_fab_kind kind, const void *fid);

/*
 * Makes a copy of the table at *place, not yet in use; the caller changes entries of it, then
 * installs it. NULL: no table, too large, or no slot.
 */
void *nspy_shadow_make(struct nspy_fab *fab, void *place);
void nspy_shadow_install(void *table);
/* The owner's originals, and our tables again (made anew where the provider changed one). */
void nspy_fab_restore(struct nspy_fab *fab);
void nspy_fab_apply(struct nspy_fab *fab);

extern _Atomic(uint8_t *) nspy_slot_area;
struct nspy_shadow *nspy_shadow_search(const void *place);

/* The copy that a table is, or NULL if it is none of ours. */
static inline struct nspy_shadow *nspy_shadow_here(void *table)
{
	uint8_t *area = atomic_load_explicit(&nspy_slot_area, memory_order_relaxed);
	uint8_t *at = table;

	if (__builtin_expect((uintptr_t)(at - area) >= NSPY_SLOTS * NSPY_SLOT_BYTES, 0))
		return NULL;
	return (struct nspy_shadow *)(void *)(at - offsetof(struct nspy_shadow, table));
}

/*
 * The copy that a wrapper was called through. Should somebody have copied our copy, the object's
 * own is searched for.
 */
static inline struct nspy_shadow *nspy_shadow_of(void *place)
{
	struct nspy_shadow *shadow = nspy_shadow_here(*(void **)place);

	return __builtin_expect(shadow != NULL, 1) ? shadow : nspy_shadow_search(place);
}

#endif
