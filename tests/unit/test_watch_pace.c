/* SPDX-License-Identifier: Apache-2.0 */
/* When nodes hurry because rounds have become longer, and that restless jobs do not make them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pace.h"

#define S  1000000000ull
#define MS 1000000ull

static struct nspy_pace pace;
static struct nspy_status ranks[2];
static uint64_t now;

static int set_up(void **state)
{
	(void)state;
	memset(&pace, 0, sizeof(pace));
	memset(ranks, 0, sizeof(ranks));
	now = 1000 * S;
	return 0;
}

/* Looks once a second; in how many of them it hurried. */
static uint32_t look(uint32_t seconds, uint64_t round_ns)
{
	uint32_t hurried = 0;

	ranks[0].round_ns[0] = ranks[1].round_ns[0] = round_ns;
	for (uint32_t i = 0; i < seconds; i++) {
		hurried += nspy_pace_hurry(&pace, ranks, 2, now);
		now += S;
	}
	return hurried;
}

static void test_not_known(void **state)
{
	(void)state;
	assert_int_equal(look(100, 0), 0);
}

/* A rank may be late from the beginning; then all is calm. */
static void test_known_for_the_first_time(void **state)
{
	(void)state;
	assert_in_range(look(100, 120 * MS), 14, 18);
	assert_int_equal(look(1000, 120 * MS), 0);
}

static void test_longer(void **state)
{
	(void)state;
	(void)look(100, 120 * MS);
	/* At once, long enough, and not for ever. */
	assert_int_equal(look(1, 130 * MS), 1);
	assert_int_equal(look(13, 130 * MS), 13);
	assert_in_range(look(1000, 130 * MS), 0, 4);
	/* Shorter is well. */
	assert_int_equal(look(100, 120 * MS), 0);
	/* Rounds of two seconds: until the earlier window is full of them, too. */
	(void)look(200, 2000 * MS);
	assert_int_equal(look(30, 2200 * MS), 30);
}

static void test_a_little_longer(void **state)
{
	(void)state;
	(void)look(100, 120 * MS);
	assert_int_equal(look(100, 123 * MS), 0);
	/* Nor a millisecond of short ones. */
	(void)set_up(NULL);
	(void)look(100, 2 * MS);
	assert_int_equal(look(100, 2 * MS + MS / 2), 0);
}

/* One of the node is held up for itself: the others do not wait for it. */
static void test_one_alone(void **state)
{
	uint32_t hurried = 0;

	(void)state;
	(void)look(100, 120 * MS);
	ranks[0].round_ns[0] = 500 * MS;
	for (int i = 0; i < 100; i++)
		hurried += nspy_pace_hurry(&pace, ranks, 2, now += S);
	assert_int_equal(hurried, 0);
}

/* Rounds that differ by a fifth all the time: seldom, and a slowness beyond that is seen. */
static void test_restless(void **state)
{
	static const uint64_t rounds[] = {120, 131, 118, 127, 142, 121, 125, 136, 119, 129};
	uint32_t hurried = 0;

	(void)state;
	for (uint32_t i = 0; i < 200; i++)
		(void)look(1, rounds[i * 7 % 10] * MS);
	for (uint32_t i = 0; i < 1000; i++)
		hurried += look(1, rounds[i * 7 % 10] * MS);
	assert_in_range(hurried, 0, 100);
	assert_int_equal(look(1, 200 * MS), 1);
}

/* However often rounds become longer. */
static void test_half_of_the_time(void **state)
{
	uint64_t round_ns = 100 * MS;
	uint32_t hurried = 0;

	(void)state;
	for (uint32_t i = 0; i < 50; i++) {
		hurried += look(20, round_ns);
		round_ns += round_ns / 3;
	}
	assert_in_range(hurried, 50, 550);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_not_known, set_up),
		cmocka_unit_test_setup(test_known_for_the_first_time, set_up),
		cmocka_unit_test_setup(test_longer, set_up),
		cmocka_unit_test_setup(test_a_little_longer, set_up),
		cmocka_unit_test_setup(test_one_alone, set_up),
		cmocka_unit_test_setup(test_restless, set_up),
		cmocka_unit_test_setup(test_half_of_the_time, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
