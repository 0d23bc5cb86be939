/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copies of a wrapped library in this process. A framework may bring one NCCL and a package
 * another, by path; or a library has one linked into it. Each copy has its own functions and its
 * own communicators, and a call must end in the copy it would have ended in without us. An object
 * is a copy if it defines the functions that its table says it is known by; other interposers do
 * not. A copy once seen is pinned: pointers into it outlive dlclose.
 *
 * context: any thread; no lock of ours, so that a fork at any time does no harm. Registering asks
 * the loader, which may hold its own lock: never called from within dl_iterate_phdr.
 */
#ifndef NSPY_COPIES_H
#define NSPY_COPIES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "resolve.h"

struct link_map;

#define NSPY_NO_COPY 0xffu

/* Copies of that library known so far. */
unsigned int nspy_copies(unsigned int library);

/* Whether there were more than we can keep apart; calls through pointers into those are not seen.
 */
bool nspy_copies_too_many(unsigned int library);

const struct link_map *nspy_copy_map(unsigned int library, unsigned int copy);

/* The copy that an object, or the object around an address, is; NSPY_NO_COPY if it is none. */
unsigned int nspy_copy_of_map(unsigned int library, struct link_map *map);
unsigned int nspy_copy_of_address(unsigned int library, const void *address);

/* The copy that a found function fn belongs to, or NSPY_NO_COPY. Cheaper than asking for the
 * address where the function was found before: the loader walks through all symbols of an object
 * for that. */
unsigned int nspy_copy_of_function(unsigned int fn, const void *found);

/* A copy's own function, NULL if that copy does not define it. */
nspy_any_fn *nspy_copy_find(unsigned int copy, unsigned int fn);

/* The copy that the object behind a dlopen handle, or one it depends on, is. */
unsigned int nspy_copy_of_handle(unsigned int library, void *handle);

/* Addresses of the copies of NCCL, in the order in which they were found. */
struct nspy_extent {
	_Atomic uintptr_t begin, bytes;
};
extern struct nspy_extent nspy_nccl_extents[NSPY_COPIES_MAX];
extern _Atomic uint32_t nspy_nccl_extent_count;

/* Whether code of a known copy of NCCL lies there. A load and a branch where there is none. */
static inline bool nspy_is_nccl(const void *address)
{
	uint32_t count = atomic_load_explicit(&nspy_nccl_extent_count, memory_order_acquire);

	for (uint32_t i = 0; i < count && i < NSPY_COPIES_MAX; i++) {
		const struct nspy_extent *one = &nspy_nccl_extents[i];

		if ((uintptr_t)address - atomic_load_explicit(&one->begin, memory_order_relaxed) <
		    atomic_load_explicit(&one->bytes, memory_order_relaxed))
			return true;
	}
	return false;
}

/* Registers all copies loaded, in load order. Cheap if nothing was loaded since the last time. */
void nspy_copies_scan(void);

#endif
