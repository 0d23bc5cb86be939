/* SPDX-License-Identifier: Apache-2.0 */
/* Live pages as a killed process leaves them, and as hostile files might look. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace_live.h"

#define SLOTS 2u
#define PAGES 3u

struct area {
	struct nspy_live_head head;
	uint8_t pad[NSPY_LIVE_HEAD_BYTES - sizeof(struct nspy_live_head)];
	uint8_t ident[NSPY_LIVE_IDENT_BYTES];
	uint8_t schema[NSPY_LIVE_SCHEMA_BYTES];
	struct nspy_slot slots[SLOTS];
	uint8_t pad2[(64 - SLOTS * sizeof(struct nspy_slot) % 64) % 64];
	struct nspy_page pages[PAGES];
};

static struct nspy_rec call(uint32_t callno, uint64_t enter, uint64_t leave)
{
	return (struct nspy_rec){
		.enter = enter, .leave = leave, .kind = NSPY_REC_CALL, .callno = callno, .fn = 3};
}

/* A thread with two finished calls, of which one is in segments, and one it never left. */
static int setup(void **state)
{
	struct area *a = calloc(1, sizeof(*a));

	a->head.magic = NSPY_LIVE_MAGIC;
	a->head.version = NSPY_LIVE_VERSION;
	a->head.head_bytes = NSPY_LIVE_HEAD_BYTES;
	a->head.file_bytes = sizeof(*a);
	a->head.run_id = 99;
	a->head.pid = 4711;
	a->head.ident_offset = offsetof(struct area, ident);
	a->head.schema_offset = offsetof(struct area, schema);
	a->head.slot_offset = offsetof(struct area, slots);
	a->head.slot_count = SLOTS;
	a->head.page_offset = offsetof(struct area, pages);
	a->head.page_count = PAGES;
	a->head.state = NSPY_LIVE_ENDED;
	a->head.clock_count = 1;
	a->head.clock[0] = (struct nspy_clock_piece){
		.base_ticks = 1000, .base_ns = 500000, .mult = 1ull << 31, .mono_to_real_ns = 42};
	a->head.heartbeat_ticks = 3000;
	a->slots[0].state = NSPY_SLOT_USED;
	a->slots[0].serial = 1;
	a->slots[0].tid = 4712;
	a->slots[0].calls = 3;
	a->slots[0].depth = 1;
	a->slots[0].open[0] = call(3, 2000, 0);
	a->pages[1].state = NSPY_PAGE_OWNED;
	a->pages[1].serial = 1;
	a->pages[1].first_index = 10;
	a->pages[1].committed = 2;
	a->pages[1].drained = 1;
	a->pages[1].rec[0].call = call(1, 1000, 1200);
	a->pages[1].rec[1].call = call(2, 1400, 1600);
	*state = a;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static void open_calls_and_records_are_found(void **state)
{
	struct area *a = *state;
	struct nspy_open_call opens[4];
	union nspy_any_rec records[NSPY_PAGE_RECORDS];
	struct nspy_live_info info;
	struct nspy_live *live;
	uint32_t serial;
	uint64_t first;
	size_t count;

	assert_int_equal(nspy_live_open_memory(a, sizeof(*a), &live), 0);
	nspy_live_info(live, &info);
	assert_int_equal(info.run_id, 99);
	assert_int_equal(info.calls, 3);
	assert_int_equal(info.heartbeat_ns, 501000); /* half a ns per tick */
	assert_int_equal(info.mono_to_real_ns, 42);
	assert_int_equal(nspy_live_open_calls(live, opens, 4, &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(opens[0].rec.callno, 3);
	assert_int_equal(opens[0].rec.enter, 500500);
	assert_true(opens[0].rec.flags & NSPY_CALL_OPEN);
	assert_int_equal(
		nspy_live_page(live, 1, &serial, &first, records, NSPY_PAGE_RECORDS, &count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(first, 10);
	assert_int_equal(records[1].call.enter, 500200);
	assert_int_equal(
		nspy_live_page(live, 0, &serial, &first, records, NSPY_PAGE_RECORDS, &count), 0);
	assert_int_equal(count, 0);
	nspy_live_free(live);
}

/* Killed between appending the record and closing the entry: the call counts once. */
static void a_call_that_was_just_appended_is_not_open(void **state)
{
	struct area *a = *state;
	struct nspy_open_call opens[4];
	struct nspy_live *live;
	size_t count;

	a->pages[1].rec[2].call = call(3, 2000, 2100);
	a->pages[1].committed = 3;
	assert_int_equal(nspy_live_open_memory(a, sizeof(*a), &live), 0);
	assert_int_equal(nspy_live_open_calls(live, opens, 4, &count), 0);
	assert_int_equal(count, 0);
	nspy_live_free(live);
}

static void times_before_the_first_piece_go_backwards(void **state)
{
	const struct nspy_clock_piece pieces[2] = {
		{.base_ticks = 1000, .base_ns = 5000, .mult = 2ull << 32},
		{.base_ticks = 2000, .base_ns = 7000, .mult = 1ull << 32},
	};

	(void)state;
	assert_int_equal(nspy_clock_to_ns(pieces, 2, 900), 4800);
	assert_int_equal(nspy_clock_to_ns(pieces, 2, 1500), 6000);
	assert_int_equal(nspy_clock_to_ns(pieces, 2, 2000), 7000);
	assert_int_equal(nspy_clock_to_ns(pieces, 2, 2500), 7500);
	assert_int_equal(nspy_clock_to_ns(NULL, 0, 77), 77);
}

static void expect_refused(struct area *a, size_t bytes, int rc)
{
	struct nspy_live *live;

	assert_int_equal(nspy_live_open_memory(a, bytes, &live), rc);
}

static void layouts_that_do_not_fit_are_refused(void **state)
{
	struct area *a = *state;

	expect_refused(a, 10, -EBADMSG);
	expect_refused(a, sizeof(*a) - 1, -EBADMSG);
	a->head.page_count = UINT32_MAX;
	expect_refused(a, sizeof(*a), -EBADMSG);
	a->head.page_count = PAGES;
	a->head.slot_offset += 8;
	expect_refused(a, sizeof(*a), -EBADMSG);
	a->head.slot_offset -= 8;
	a->head.ident_bytes = NSPY_LIVE_IDENT_BYTES + 1;
	expect_refused(a, sizeof(*a), -EBADMSG);
	a->head.ident_bytes = 0;
	a->head.version = NSPY_LIVE_VERSION + 1;
	expect_refused(a, sizeof(*a), -EPROTONOSUPPORT);
	a->head.version = NSPY_LIVE_VERSION;
	a->head.magic++;
	expect_refused(a, sizeof(*a), -EBADMSG);
}

/* Any bit of the head, a slot head or a page head flipped: an error or other numbers, no crash. */
static void flipped_bits_do_no_harm(void **state)
{
	struct area *a = *state;
	static const size_t from[] = {0, offsetof(struct area, slots),
				      offsetof(struct area, pages[1])};
	static const size_t bytes[] = {sizeof(struct nspy_live_head), 128, 192};

	for (int r = 0; r < 3; r++)
		for (size_t bit = 0; bit < bytes[r] * 8; bit++) {
			uint8_t *byte = (uint8_t *)a + from[r] + bit / 8;
			struct nspy_open_call opens[16];
			union nspy_any_rec records[NSPY_PAGE_RECORDS];
			struct nspy_live_info info;
			struct nspy_live *live;
			uint32_t serial;
			uint64_t first;
			size_t count;

			*byte ^= (uint8_t)(1u << bit % 8);
			if (nspy_live_open_memory(a, sizeof(*a), &live) == 0) {
				nspy_live_info(live, &info);
				(void)nspy_live_open_calls(live, opens, 16, &count);
				for (size_t i = 0; i < nspy_live_page_count(live); i++)
					(void)nspy_live_page(live, i, &serial, &first, records,
							     NSPY_PAGE_RECORDS, &count);
				nspy_live_free(live);
			}
			*byte ^= (uint8_t)(1u << bit % 8);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(open_calls_and_records_are_found, setup, teardown),
		cmocka_unit_test_setup_teardown(a_call_that_was_just_appended_is_not_open, setup,
						teardown),
		cmocka_unit_test(times_before_the_first_piece_go_backwards),
		cmocka_unit_test_setup_teardown(layouts_that_do_not_fit_are_refused, setup,
						teardown),
		cmocka_unit_test_setup_teardown(flipped_bits_do_no_harm, setup, teardown),
	};

	return cmocka_run_group_tests_name("trace_live", tests, NULL, NULL);
}
