/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of each operation of a communicator: one 32-byte cell per sequence number, in
 * blocks that exist only where operations were seen. Cells of two tables can be merged in any
 * order with the same outcome, so threads collect without locks.
 */
#ifndef NSPY_CELLS_H
#define NSPY_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NSPY_CELLS_BLOCK 512u /* cells of a block: 16 KiB */
/* Highest sequence number that is matched, and the most memory one table of cells may take. */
#define NSPY_CELLS_SEQ_MAX   (1ULL << 28)
#define NSPY_CELLS_BYTES_MAX (1ULL << 30)

#define NSPY_CELL_MIXED   0x80000000u /* flag in arrived: signatures differ */
#define NSPY_CELL_FN_BITS 10u         /* low bits of a signature: the function */

struct nspy_cell {
	uint64_t first_ns; /* earliest and latest entry, aligned wall clock */
	uint64_t last_ns;
	uint32_t gap_ns; /* latest minus second latest entry, saturated */
	uint32_t signature;
	uint32_t arrived;     /* entries seen, NSPY_CELL_MIXED on top */
	uint32_t last_member; /* id of the member that entered latest */
};
_Static_assert(sizeof(struct nspy_cell) == 32, "two cells a cache line");

struct nspy_cells {
	struct nspy_cell **blocks;
	size_t block_count;
	uint64_t refused; /* operations beyond the limits above */
};

/* Makes the block of seq exist; NULL beyond the limits. *budget counts bytes down. */
struct nspy_cell *nspy_cells_make(struct nspy_cells *cells, uint64_t seq, uint64_t *budget);
/* NULL if nothing was seen at seq. */
const struct nspy_cell *nspy_cells_get(const struct nspy_cells *cells, uint64_t seq);
/* Adds what from knows to into and empties from. */
void nspy_cells_merge(struct nspy_cells *into, struct nspy_cells *from);
void nspy_cells_done(struct nspy_cells *cells);

static inline uint32_t nspy_cell_count(const struct nspy_cell *cell)
{
	return cell->arrived & ~NSPY_CELL_MIXED;
}

static inline uint32_t nspy_saturate32(uint64_t ns)
{
	return ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
}

/* One member enters the operation. */
static inline void nspy_cell_arrive(struct nspy_cell *cell, uint64_t ns, uint32_t signature,
				    uint32_t member)
{
	if (cell->arrived == 0) {
		*cell = (struct nspy_cell){ns, ns, UINT32_MAX, signature, 1, member};
		return;
	}
	if (cell->signature != signature)
		cell->arrived |= NSPY_CELL_MIXED;
	cell->arrived++;
	if (ns > cell->last_ns) {
		cell->gap_ns = nspy_saturate32(ns - cell->last_ns);
		cell->last_ns = ns;
		cell->last_member = member;
		return;
	}
	if (cell->last_ns - ns < cell->gap_ns)
		cell->gap_ns = (uint32_t)(cell->last_ns - ns);
	if (ns < cell->first_ns)
		cell->first_ns = ns;
}

/* The cell of seq for updating, through the fast path if its block exists. */
static inline struct nspy_cell *nspy_cells_at(struct nspy_cells *cells, uint64_t seq,
					      uint64_t *budget)
{
	uint64_t block = seq / NSPY_CELLS_BLOCK;

	if (block < cells->block_count && cells->blocks[block])
		return &cells->blocks[block][seq % NSPY_CELLS_BLOCK];
	return nspy_cells_make(cells, seq, budget);
}

#endif
