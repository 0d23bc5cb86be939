/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes tell each other: node files, the digest, times of another host. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "board.h"

#define RANKS 5u
#define S     1000000000ull

static struct nspy_status pages[RANKS], back[RANKS];
static struct nspy_status_comm comm = {.key = 7, .last_ns = 5 * S, .name = NSPY_STATUS_NONE};
static struct nspy_status_call call = {.enter_ns = 90 * S, .comm = 0, .name = NSPY_STATUS_NONE};
static uint8_t file[RANKS * 2048];
static uint64_t memory[4096];

static size_t encode(uint32_t first)
{
	long bytes;

	for (uint32_t i = 0; i < RANKS; i++)
		pages[i] = (struct nspy_status){
			.rank = (int32_t)i,
			.published_ns = 100 * S,
			.published_real_ns = 5000 * S,
			.comms = &comm,
			.comm_count = 1,
			.calls_open = &call,
			.call_count = 1,
		};
	bytes = nspy_board_encode(pages, RANKS, first, file, sizeof(file));
	assert_true(bytes > 0);
	return (size_t)bytes;
}

static uint32_t decode(size_t bytes, uint32_t capacity, bool *ret_small)
{
	struct nspy_status_arena arena = {(uint8_t *)memory, sizeof(memory), 0};

	*ret_small = false;
	return nspy_board_decode(file, bytes, &arena, back, capacity, ret_small);
}

static void test_the_speaker_comes_first(void **state)
{
	static const int32_t order[] = {3, 0, 1, 2, 4};
	bool small;

	(void)state;
	assert_int_equal(decode(encode(3), RANKS, &small), RANKS);
	assert_false(small);
	for (uint32_t i = 0; i < RANKS; i++)
		assert_int_equal(back[i].rank, order[i]);
	assert_int_equal(decode(encode(0), RANKS, &small), RANKS);
	assert_int_equal(back[4].rank, 4);
}

static void test_cut_and_damaged(void **state)
{
	size_t bytes = encode(0), page = bytes / RANKS;
	bool small;

	(void)state;
	assert_int_equal(decode(bytes - 1, RANKS, &small), RANKS - 1);
	file[2 * page + 60] ^= 1;
	assert_int_equal(decode(bytes, RANKS, &small), 2);
	memset(file, 0xa5, sizeof(file));
	assert_int_equal(decode(bytes, RANKS, &small), 0);
	assert_int_equal(decode(0, RANKS, &small), 0);
	assert_false(small);
}

static void test_no_room(void **state)
{
	bool small;

	(void)state;
	assert_int_equal(decode(encode(0), 2, &small), 2);
	assert_true(small);
	assert_int_equal(nspy_board_encode(pages, RANKS, 0, file, 700), -ENOBUFS);
}

static void shifted(uint64_t now_ns, uint64_t real_ns, uint64_t expected)
{
	bool small;

	assert_int_equal(decode(encode(0), 1, &small), 1);
	nspy_board_shift(&back[0], now_ns, real_ns, 60 * S);
	assert_int_equal(back[0].published_ns, expected);
	/* Distances within the page stay. */
	assert_int_equal(back[0].calls_open[0].enter_ns, expected - 10 * S);
	assert_int_equal(back[0].last_call_ns, 0);
}

static void test_clocks_of_another_host(void **state)
{
	(void)state;
	shifted(7000 * S, 5003 * S, 6997 * S);
	shifted(7000 * S, 4990 * S, 7000 * S); /* its clock is ahead */
	shifted(7000 * S, 9000 * S, 6940 * S); /* or far behind */
}

static void test_digest(void **state)
{
	struct nspy_digest digest = {.when_real_ns = 17, .key = UINT64_MAX, .node = "n-3"}, read;
	char text[NSPY_DIGEST_BYTES];
	size_t bytes;

	(void)state;
	memset(digest.text, 'x', sizeof(digest.text) - 1);
	digest.text[0] = '\x1b';
	bytes = nspy_digest_encode(&digest, text);
	assert_true(nspy_digest_decode(text, bytes, &read));
	assert_int_equal(read.when_real_ns, 17);
	assert_true(read.key == UINT64_MAX);
	assert_string_equal(read.node, "n-3");
	assert_int_equal(read.text[0], '?');
	for (size_t n = 0; n < bytes; n++)
		assert_false(nspy_digest_decode(text, n, &read));
	for (size_t i = 0; i < bytes; i++) {
		text[i] ^= 2;
		assert_false(nspy_digest_decode(text, bytes, &read));
		text[i] ^= 2;
	}
	digest.text[0] = '\0';
	digest.key = 0;
	assert_true(nspy_digest_decode(text, nspy_digest_encode(&digest, text), &read));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_speaker_comes_first),
		cmocka_unit_test(test_cut_and_damaged),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_clocks_of_another_host),
		cmocka_unit_test(test_digest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
