/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of providers that are changed in place, because providers compare pointers to them:
 * the fabric's and the domain's. Only if their page can be written; a store into a constant table
 * would kill the process. Changed once, never changed back. context: any thread; cold.
 */
#ifndef NSPY_PATCH_H
#define NSPY_PATCH_H

#include <stddef.h>

#include "trace_net.h"

#define NSPY_PATCHES_MAX   32u
#define NSPY_PATCH_ENTRIES 16u

/* The original entries of a table we have changed. */
struct nspy_patch {
	void *table;
	size_t entries; /* the size field is entry 0 */
	void *entry[NSPY_PATCH_ENTRIES];
};

/*
 * Replaces entries of the table: change(copy of it) edits a copy, and what differs is stored into
 * the table. NSPY_NET_SEEN: done, now or before; else why not.
 */
enum nspy_net_sight nspy_patch_table(void *table, void (*change)(void *copy));

/*
 * The originals of a table. If it is not one of ours, somebody has copied it: then those of the
 * table that has the same entry at index `mark`, which we never change. NULL if there is none.
 */
const void *nspy_patch_find(const void *table, size_t mark);

#endif
