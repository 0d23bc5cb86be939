/* SPDX-License-Identifier: Apache-2.0 */
/* Who is late again and again, and when the storage is stuck. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rhythm.h"
#include "storage.h"
#include "straggler.h"

#define S    1000000000ull
#define MS   1000000ull
#define NOW  (1000 * S)
#define MANY 16u

static struct nspy_status many[MANY];
static struct nspy_verdict late;
static uint64_t scratch[1 << 12];

/* Ranks of four nodes that work 100 ms and wait up to a round of 115. */
static int set_up_many(void **state)
{
	(void)state;
	memset(many, 0, sizeof(many));
	for (uint32_t i = 0; i < MANY; i++) {
		many[i].run_id = i + 1;
		many[i].rank = (int32_t)i;
		many[i].world_size = MANY;
		many[i].state = NSPY_STATUS_RUNNING;
		many[i].best_round_ns = 115 * MS;
		(void)snprintf(many[i].node, sizeof(many[i].node), "n%u", i / 4);
		for (int w = 0; w < 2; w++) {
			/* What ranks differ anyway. */
			many[i].work_ns[w] = 100 * MS + i % 3 * MS / 4;
			many[i].round_ns[w] = 115 * MS;
		}
	}
	return 0;
}

static bool somebody(void)
{
	struct nspy_arena arena = {(uint8_t *)scratch, sizeof(scratch), 0};

	assert_int_equal(nspy_straggler_find(many, MANY, NOW, &arena, &late), 0);
	return late.id != NSPY_FOUND_NONE;
}

static void slow(uint32_t rank, int window, uint64_t by)
{
	many[rank].work_ns[window] = 100 * MS + by;
}

static void test_ten_percent(void **state)
{
	(void)state;
	slow(11, 0, 10 * MS);
	slow(11, 1, 10 * MS);
	assert_true(somebody());
	assert_int_equal(late.id, NSPY_FOUND_STRAGGLER_RANK);
	assert_false(late.note);
	assert_int_equal(late.culprit_count, 1);
	assert_int_equal(late.culprits[0], 11);
	assert_non_null(strstr(late.cause, "rank 11 (node n2"));
}

/* Sixteen short rounds prove nothing by themselves: something else may have had the CPUs. */
static void test_short_rounds_must_go_on(void **state)
{
	(void)state;
	slow(11, 0, 10 * MS);
	slow(11, 1, 10 * MS);
	assert_true(somebody());
	assert_int_equal(late.hold_ns, 5 * S - 16 * 115 * MS);
	for (uint32_t i = 0; i < MANY; i++)
		many[i].round_ns[0] = many[i].round_ns[1] = 400 * MS;
	slow(11, 0, 40 * MS);
	slow(11, 1, 40 * MS);
	assert_true(somebody());
	assert_int_equal(late.hold_ns, 0);
}

static void test_three_percent_is_a_note(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < MANY; i++)
		many[i].work_ns[0] = many[i].work_ns[1] = 100 * MS;
	slow(11, 0, 3 * MS);
	slow(11, 1, 3 * MS);
	assert_true(somebody());
	assert_true(late.note);
}

static void test_one_window_is_a_pause(void **state)
{
	(void)state;
	slow(0, 0, 50 * MS);
	assert_false(somebody());
	/* Another one each time. */
	slow(4, 1, 50 * MS);
	assert_false(somebody());
}

static void test_two_late_ranks_are_no_straggler(void **state)
{
	(void)state;
	for (int w = 0; w < 2; w++) {
		slow(3, w, 10 * MS);
		slow(9, w, 9 * MS);
	}
	assert_false(somebody());
}

static void test_node(void **state)
{
	(void)state;
	for (uint32_t i = 8; i < 12; i++)
		for (int w = 0; w < 2; w++)
			slow(i, w, 10 * MS + i % 2 * MS);
	assert_true(somebody());
	assert_int_equal(late.culprit_count, 4);
	assert_int_equal(late.culprits[0], 8);
	assert_non_null(strstr(late.cause, "node n2"));
	/* All but one. */
	slow(10, 0, 0);
	assert_false(somebody());
}

static void test_what_cannot_be_compared(void **state)
{
	(void)state;
	slow(11, 0, 10 * MS);
	slow(11, 1, 10 * MS);
	many[11].round_ns[0] = 230 * MS; /* a rhythm of its own */
	assert_false(somebody());
	many[11].round_ns[0] = 115 * MS;
	for (uint32_t i = 0; i < 5; i++)
		many[i].round_ns[0] = 0; /* too few are seen */
	assert_false(somebody());
}

static void test_slower_gpu_blames_nobody(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < MANY; i++)
		for (int w = 0; w < 2; w++)
			many[i].round_ns[w] = 160 * MS;
	assert_true(somebody());
	assert_true(late.note);
	assert_int_equal(late.culprit_count, 0);
	assert_non_null(strstr(late.cause, "times of kernels would show"));
	for (uint32_t i = 0; i < MANY; i++)
		many[i].best_round_ns = 140 * MS;
	assert_false(somebody());
}

/* --- rounds of one rank --- */

static uint64_t clock_ns;

static void work_round(uint64_t work, uint64_t wait)
{
	clock_ns += work;
	nspy_rhythm_add(clock_ns, clock_ns + 1000, false);
	clock_ns += 1000;
	nspy_rhythm_add(clock_ns, clock_ns + wait, true);
	clock_ns += wait;
	nspy_rhythm_settle();
}

static void rounds(uint32_t count, uint64_t work, uint64_t wait)
{
	for (uint32_t i = 0; i < count; i++)
		work_round(work, wait);
}

static void test_rhythm(void **state)
{
	struct nspy_status page = {0};

	(void)state;
	nspy_rhythm_start();
	clock_ns = S;
	rounds(20, 900 * MS, 900 * MS); /* the beginning */
	rounds(16, 100 * MS, 20 * MS);
	nspy_rhythm_tell(&page);
	assert_int_equal(page.work_ns[0], 0); /* the first wait only begins a round */
	/* Every fourth has a checkpoint. */
	for (int i = 0; i < 8; i++) {
		rounds(3, 100 * MS, 20 * MS);
		rounds(1, 700 * MS, 0);
	}
	nspy_rhythm_tell(&page);
	for (int w = 0; w < 2; w++) {
		assert_int_equal(page.work_ns[w], 100 * MS);
		assert_int_equal(page.round_ns[w], 120 * MS + 1000);
	}
	assert_int_equal(page.best_round_ns, 120 * MS + 1000);
	/* Slower from now on: first in the latest window, then in both. */
	rounds(8, 110 * MS, 10 * MS);
	nspy_rhythm_tell(&page);
	assert_int_equal(page.work_ns[0], 110 * MS);
	assert_int_equal(page.work_ns[1], 100 * MS);
	rounds(8, 110 * MS, 10 * MS);
	nspy_rhythm_tell(&page);
	assert_int_equal(page.work_ns[1], 110 * MS);
}

/* Operations come from one thread, waits from another, whose calls are read later. */
static void test_rhythm_of_two_threads(void **state)
{
	struct nspy_status page = {0};

	(void)state;
	nspy_rhythm_start();
	for (uint64_t i = 0; i < 60; i++)
		nspy_rhythm_add(S + i * 100 * MS + 60 * MS, S + i * 100 * MS + 61 * MS, false);
	for (uint64_t i = 0; i < 60; i++)
		nspy_rhythm_add(S + i * 100 * MS + 70 * MS, S + i * 100 * MS + 100 * MS, true);
	nspy_rhythm_settle();
	nspy_rhythm_tell(&page);
	assert_int_equal(page.work_ns[0], 60 * MS);
	assert_int_equal(page.round_ns[1], 100 * MS);
}

/* --- storage --- */

static void test_storage(void **state)
{
	struct nspy_storage storage = {0};
	uint64_t for_ns = 0;

	(void)state;
	assert_int_equal(nspy_storage_judge(&storage, 0, NOW, &for_ns), NSPY_STORAGE_NOTHING);
	assert_int_equal(nspy_storage_judge(&storage, NOW - 4 * S, NOW, &for_ns),
			 NSPY_STORAGE_NOTHING);
	assert_int_equal(nspy_storage_judge(&storage, NOW - 5 * S, NOW, &for_ns),
			 NSPY_STORAGE_STUCK);
	assert_int_equal(for_ns, 5 * S);
	assert_int_equal(nspy_storage_judge(&storage, NOW - 5 * S, NOW + S, &for_ns),
			 NSPY_STORAGE_NOTHING);
	assert_int_equal(nspy_storage_judge(&storage, 0, NOW + 2 * S, &for_ns),
			 NSPY_STORAGE_RETURNED);
	assert_int_equal(for_ns, 7 * S);
	assert_int_equal(nspy_storage_judge(&storage, 0, NOW + 3 * S, &for_ns),
			 NSPY_STORAGE_NOTHING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_ten_percent, set_up_many),
		cmocka_unit_test_setup(test_three_percent_is_a_note, set_up_many),
		cmocka_unit_test_setup(test_short_rounds_must_go_on, set_up_many),
		cmocka_unit_test_setup(test_one_window_is_a_pause, set_up_many),
		cmocka_unit_test_setup(test_two_late_ranks_are_no_straggler, set_up_many),
		cmocka_unit_test_setup(test_node, set_up_many),
		cmocka_unit_test_setup(test_what_cannot_be_compared, set_up_many),
		cmocka_unit_test_setup(test_slower_gpu_blames_nobody, set_up_many),
		cmocka_unit_test(test_rhythm),
		cmocka_unit_test(test_rhythm_of_two_threads),
		cmocka_unit_test(test_storage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
