/* SPDX-License-Identifier: Apache-2.0 */
#include "cells.h"

#include <stdlib.h>
#include <string.h>

#include "util.h"

static void reserve(struct nspy_cells *cells, size_t blocks)
{
	size_t more;

	if (blocks <= cells->block_count)
		return;
	more = cells->block_count * 2 > blocks ? cells->block_count * 2 : blocks;
	cells->blocks = nspy_xrealloc(cells->blocks, more, sizeof(struct nspy_cell *));
	memset(cells->blocks + cells->block_count, 0,
	       (more - cells->block_count) * sizeof(struct nspy_cell *));
	cells->block_count = more;
}

struct nspy_cell *nspy_cells_make(struct nspy_cells *cells, uint64_t seq, uint64_t *budget)
{
	size_t bytes = NSPY_CELLS_BLOCK * sizeof(struct nspy_cell);
	size_t block = (size_t)(seq / NSPY_CELLS_BLOCK);

	/* The directory counts too: a hostile trace could ask for a huge one per communicator. */
	if (block >= cells->block_count)
		bytes += (block + 1 - cells->block_count) * 2 * sizeof(struct nspy_cell *);
	if (seq > NSPY_CELLS_SEQ_MAX || *budget < bytes) {
		cells->refused++;
		return NULL;
	}
	*budget -= bytes;
	reserve(cells, block + 1);
	cells->blocks[block] = nspy_xcalloc(NSPY_CELLS_BLOCK, sizeof(struct nspy_cell));
	return &cells->blocks[block][seq % NSPY_CELLS_BLOCK];
}

const struct nspy_cell *nspy_cells_get(const struct nspy_cells *cells, uint64_t seq)
{
	uint64_t block = seq / NSPY_CELLS_BLOCK;
	const struct nspy_cell *cell;

	if (block >= cells->block_count || !cells->blocks[block])
		return NULL;
	cell = &cells->blocks[block][seq % NSPY_CELLS_BLOCK];
	return cell->arrived ? cell : NULL;
}

static void merge_cell(struct nspy_cell *into, const struct nspy_cell *from)
{
	const struct nspy_cell a = *into, b = *from;
	const struct nspy_cell *late = b.last_ns > a.last_ns ? &b : &a;
	const struct nspy_cell *early = late == &a ? &b : &a;
	uint32_t apart;

	if (b.arrived == 0)
		return;
	if (a.arrived == 0) {
		*into = b;
		return;
	}
	apart = nspy_saturate32(late->last_ns - early->last_ns);
	into->first_ns = a.first_ns < b.first_ns ? a.first_ns : b.first_ns;
	into->last_ns = late->last_ns;
	into->last_member = late->last_member;
	into->gap_ns = late->gap_ns < apart ? late->gap_ns : apart;
	into->arrived = (nspy_cell_count(&a) + nspy_cell_count(&b)) |
			((a.arrived | b.arrived) & NSPY_CELL_MIXED);
	if (a.signature != b.signature)
		into->arrived |= NSPY_CELL_MIXED;
}

void nspy_cells_merge(struct nspy_cells *into, struct nspy_cells *from)
{
	if (into->block_count == 0) {
		uint64_t refused = into->refused + from->refused;

		*into = *from;
		into->refused = refused;
		*from = (struct nspy_cells){0};
		return;
	}
	reserve(into, from->block_count);
	for (size_t b = 0; b < from->block_count; b++) {
		if (!from->blocks[b])
			continue;
		if (!into->blocks[b]) {
			into->blocks[b] = from->blocks[b];
			from->blocks[b] = NULL;
			continue;
		}
		for (size_t i = 0; i < NSPY_CELLS_BLOCK; i++)
			merge_cell(&into->blocks[b][i], &from->blocks[b][i]);
	}
	into->refused += from->refused;
	nspy_cells_done(from);
}

void nspy_cells_done(struct nspy_cells *cells)
{
	for (size_t b = 0; b < cells->block_count; b++)
		free(cells->blocks[b]);
	free(cells->blocks);
	*cells = (struct nspy_cells){0};
}
