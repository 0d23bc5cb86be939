/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cells.h"
#include "map.h"
#include "util.h"

#define RANKS 7u
#define OPS   1500u /* more than two blocks */

struct arrival {
	uint64_t ns;
	uint32_t signature;
};

/* Arrival of a rank at an operation; some operations differ in signature. */
static struct arrival arrival(uint32_t rank, uint64_t seq)
{
	uint64_t random = nspy_mix(seq * 131 + rank);

	return (struct arrival){1000000 + seq * 1000 + random % 900,
				seq % 97 == 0 && rank == seq % RANKS ? 2u : 1u};
}

static void fill(struct nspy_cells *cells, uint32_t from_rank, uint32_t to_rank)
{
	uint64_t budget = NSPY_CELLS_BYTES_MAX;

	for (uint32_t rank = from_rank; rank < to_rank; rank++) {
		for (uint64_t seq = 1; seq <= OPS; seq++) {
			struct arrival a = arrival(rank, seq);
			struct nspy_cell *cell = nspy_cells_at(cells, seq, &budget);

			assert_non_null(cell);
			nspy_cell_arrive(cell, a.ns, a.signature, rank);
		}
	}
}

/* Expected cell, worked out the slow way. */
static void check_cell(const struct nspy_cells *cells, uint64_t seq)
{
	const struct nspy_cell *cell = nspy_cells_get(cells, seq);
	uint64_t first = UINT64_MAX, last = 0, second = 0;
	uint32_t last_rank = 0;
	bool mixed = false;

	for (uint32_t rank = 0; rank < RANKS; rank++) {
		struct arrival a = arrival(rank, seq);

		mixed |= a.signature != arrival(0, seq).signature;
		first = a.ns < first ? a.ns : first;
		if (a.ns > last) {
			second = last;
			last = a.ns;
			last_rank = rank;
		} else if (a.ns > second) {
			second = a.ns;
		}
	}
	assert_non_null(cell);
	assert_int_equal(nspy_cell_count(cell), RANKS);
	assert_int_equal((cell->arrived & NSPY_CELL_MIXED) != 0, mixed);
	assert_int_equal(cell->first_ns, first);
	assert_int_equal(cell->last_ns, last);
	assert_int_equal(cell->gap_ns, last - second);
	if (last != second)
		assert_int_equal(cell->last_member, last_rank);
}

static void check_all(const struct nspy_cells *cells)
{
	for (uint64_t seq = 1; seq <= OPS; seq++)
		check_cell(cells, seq);
	assert_null(nspy_cells_get(cells, 0));
	assert_null(nspy_cells_get(cells, OPS + 1));
}

static void test_one_table(void **state)
{
	struct nspy_cells cells = {0};

	(void)state;
	fill(&cells, 0, RANKS);
	check_all(&cells);
	nspy_cells_done(&cells);
}

/* However the ranks are spread over threads, the joined table is the same. */
static void test_merge(void **state)
{
	(void)state;
	for (uint32_t cut = 0; cut <= RANKS; cut++) {
		struct nspy_cells a = {0}, b = {0};

		fill(&a, 0, cut);
		fill(&b, cut, RANKS);
		nspy_cells_merge(&a, &b);
		check_all(&a);
		assert_int_equal(b.block_count, 0);
		nspy_cells_done(&a);
	}
}

/* Blocks exist only where operations were seen, and hostile numbers are refused. */
static void test_limits(void **state)
{
	struct nspy_cells cells = {0};
	uint64_t budget = 1u << 20;

	(void)state;
	assert_non_null(nspy_cells_at(&cells, 100000, &budget));
	assert_true(budget > (1u << 20) - 2 * NSPY_CELLS_BLOCK * sizeof(struct nspy_cell));
	assert_null(nspy_cells_at(&cells, NSPY_CELLS_SEQ_MAX + 1, &budget));
	assert_null(nspy_cells_at(&cells, UINT64_MAX, &budget));
	assert_null(nspy_cells_at(&cells, NSPY_CELLS_SEQ_MAX, &budget)); /* too large a table */
	assert_int_equal(cells.refused, 3);
	for (uint64_t seq = 0; seq < 1000000; seq += NSPY_CELLS_BLOCK)
		(void)nspy_cells_at(&cells, seq, &budget);
	assert_true(cells.refused > 3); /* the budget is used up, nothing crashed */
	nspy_cells_done(&cells);
}

static void test_map(void **state)
{
	struct nspy_map map = {0};
	static int values[1000];

	(void)state;
	assert_null(nspy_map_get(&map, 0));
	for (uint64_t i = 0; i < 1000; i++)
		nspy_map_put(&map, i << 32, &values[i]);
	nspy_map_put(&map, 5ULL << 32, &values[6]); /* replaces */
	assert_int_equal(map.count, 1000);
	for (uint64_t i = 0; i < 1000; i++)
		assert_ptr_equal(nspy_map_get(&map, i << 32), &values[i == 5 ? 6 : i]);
	assert_null(nspy_map_get(&map, 1));
	nspy_map_done(&map);
}

/* Taking keys out leaves all others where they can be found. */
static void test_map_take(void **state)
{
	struct nspy_map map = {0};
	static int values[5000];

	(void)state;
	assert_null(nspy_map_take(&map, 1));
	for (uint64_t i = 0; i < 5000; i++)
		nspy_map_put(&map, i * 4096, &values[i]);
	for (uint64_t i = 0; i < 5000; i += 3)
		assert_ptr_equal(nspy_map_take(&map, i * 4096), &values[i]);
	assert_null(nspy_map_take(&map, 0));
	for (uint64_t i = 0; i < 5000; i++)
		assert_ptr_equal(nspy_map_get(&map, i * 4096), i % 3 ? &values[i] : NULL);
	assert_int_equal(map.count, 5000 - 1667);
	nspy_map_done(&map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_table), cmocka_unit_test(test_merge),
		cmocka_unit_test(test_limits),    cmocka_unit_test(test_map),
		cmocka_unit_test(test_map_take),
	};

	return cmocka_run_group_tests_name("cells", tests, NULL, NULL);
}
