/* SPDX-License-Identifier: Apache-2.0 */
/* NET payloads: round trips, limits, damage, and what a newer version may add. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "trace_net.h"

static uint8_t data[8192];
static struct nspy_net_buffer buffer;

static struct nspy_net_text text_of(const char *text)
{
	return (struct nspy_net_text){text, strlen(text)};
}

static void assert_text(struct nspy_net_text text, const char *expected)
{
	assert_int_equal(text.bytes, strlen(expected));
	assert_memory_equal(text.text, expected, text.bytes);
}

static int begin(void **unused)
{
	(void)unused;
	memset(data, 0, sizeof(data));
	buffer = (struct nspy_net_buffer){.data = data, .capacity = sizeof(data)};
	return 0;
}

static struct nspy_net_record next(size_t *cursor, uint32_t kind)
{
	struct nspy_net_record record;

	assert_int_equal(nspy_net_next(data, buffer.used, cursor, &record), 0);
	assert_int_equal(record.kind, kind);
	return record;
}

static void rails_peers_and_devices_survive(void **unused)
{
	struct nspy_net_record record;
	size_t cursor = 0;

	(void)unused;
	assert_int_equal(
		nspy_net_put_rail(&buffer,
				  &(struct nspy_net_rail){.id = 3,
							  .sight = NSPY_NET_CONSTANT,
							  .domains = 2,
							  .speed = 100000000000u,
							  .provider = text_of("verbs;ofi_rxm"),
							  .fabric = text_of("f"),
							  .domain = text_of("mlx5_0"),
							  .nic = text_of(""),
							  .address = text_of("10.0.0.1:7")}),
		0);
	assert_int_equal(
		nspy_net_put_peer(&buffer, &(struct nspy_net_peer){.id = UINT32_MAX,
								   .rail = 3,
								   .role = NSPY_NET_PEER_OTHER,
								   .address = text_of("x")}),
		0);
	assert_int_equal(nspy_net_put_device(
				 &buffer, &(struct nspy_net_device){.name = text_of("mlx5_0"),
								    .driver = text_of("mlx5_core"),
								    .state = text_of("ACTIVE")}),
			 0);
	record = next(&cursor, NSPY_NET_RAIL);
	assert_int_equal(record.rail.id, 3);
	assert_int_equal(record.rail.sight, NSPY_NET_CONSTANT);
	assert_int_equal(record.rail.domains, 2);
	assert_true(record.rail.speed == 100000000000u);
	assert_text(record.rail.provider, "verbs;ofi_rxm");
	assert_text(record.rail.nic, "");
	assert_text(record.rail.address, "10.0.0.1:7");
	record = next(&cursor, NSPY_NET_PEER);
	assert_true(record.peer.id == UINT32_MAX && record.peer.role == NSPY_NET_PEER_OTHER);
	record = next(&cursor, NSPY_NET_DEVICE);
	assert_text(record.device.driver, "mlx5_core");
	assert_text(record.device.state, "ACTIVE");
	assert_int_equal(nspy_net_next(data, buffer.used, &cursor, &record), -ENODATA);
}

static void events_and_memory_survive(void **unused)
{
	struct nspy_net_event event = {
		.when_ns = UINT64_MAX,
		.what = NSPY_NET_REG_FAILED,
		.rail = NSPY_NET_NONE,
		.peer = 7,
		.error = -5,
		.provider = INT32_MIN,
		.value_count = NSPY_NET_VALUES_MAX,
		.values = {1, NSPY_NET_UNLIMITED, 3, 4, 5, 6, 7, 8},
		.text = text_of("ibv_reg_mr"),
	};
	struct nspy_net_record record;
	size_t cursor = 0;

	(void)unused;
	assert_int_equal(nspy_net_put_event(&buffer, &event), 0);
	assert_int_equal(
		nspy_net_put_memory(&buffer, &(struct nspy_net_memory){.when_ns = 1,
								       .layer = NSPY_NET_VERBS,
								       .registrations = 2,
								       .bytes = 3,
								       .live = 4,
								       .live_bytes = 5,
								       .failures = 6,
								       .no_memory = 7,
								       .largest = 8,
								       .largest_since = 9}),
		0);
	record = next(&cursor, NSPY_NET_EVENT);
	assert_true(record.event.when_ns == UINT64_MAX && record.event.rail == NSPY_NET_NONE);
	assert_int_equal(record.event.error, -5);
	assert_int_equal(record.event.provider, INT32_MIN);
	assert_memory_equal(record.event.values, event.values, sizeof(event.values));
	assert_text(record.event.text, "ibv_reg_mr");
	record = next(&cursor, NSPY_NET_MEMORY);
	assert_int_equal(record.memory.layer, NSPY_NET_VERBS);
	assert_int_equal(record.memory.largest_since, 9);
}

static void rows_survive(void **unused)
{
	struct nspy_net_second second = {.when_ns = 5, .span_ns = 6};
	struct nspy_net_record record;
	struct nspy_net_row row = {0}, got;
	size_t cursor = 0;

	(void)unused;
	assert_int_equal(nspy_net_put_second(&buffer, &second), 0);
	for (uint32_t r = 0; r < 3; r++) {
		row.peer = r;
		for (int i = 0; i < NSPY_NET_COUNTER_COUNT; i++)
			row.counter[i] = UINT64_MAX - r - (uint64_t)i;
		assert_int_equal(nspy_net_put_row(&buffer, &row), 0);
	}
	record = next(&cursor, NSPY_NET_SECOND);
	assert_int_equal(record.second.span_ns, 6);
	for (uint32_t r = 0; r < 3; r++) {
		assert_int_equal(nspy_net_next_row(&record.second, &got), 0);
		assert_int_equal(got.peer, r);
		for (int i = 0; i < NSPY_NET_COUNTER_COUNT; i++)
			assert_true(got.counter[i] == UINT64_MAX - r - (uint64_t)i);
	}
	assert_int_equal(nspy_net_next_row(&record.second, &got), -ENODATA);
}

/* More counters in a row, more fields in a record, other kinds of records. */
static void what_is_newer_is_skipped(void **unused)
{
	static const uint8_t newer[] = {
		200,
		2,
		0,
		0,
		0,
		1,
		2, /* a kind we do not know */
		NSPY_NET_PEER,
		6,
		0,
		0,
		0,
		4,
		5,
		0,
		0,
		9,
		9, /* two fields more */
		NSPY_NET_SECOND,
		20,
		0,
		0,
		0,
		1,
		1,
		16, /* sixteen counters */
		7,
		1,
		2,
		3,
		4,
		5,
		6,
		7,
		8,
		9,
		10,
		11,
		12,
		13,
		14,
		15,
		16,
	};
	struct nspy_net_record record;
	struct nspy_net_row row;
	size_t cursor = 0;

	(void)unused;
	memcpy(data, newer, sizeof(newer));
	buffer.used = sizeof(newer);
	(void)next(&cursor, 200);
	record = next(&cursor, NSPY_NET_PEER);
	assert_int_equal(record.peer.rail, 5);
	record = next(&cursor, NSPY_NET_SECOND);
	assert_int_equal(nspy_net_next_row(&record.second, &row), 0);
	assert_int_equal(row.peer, 7);
	assert_int_equal(row.counter[NSPY_NET_COUNTER_COUNT - 1], NSPY_NET_COUNTER_COUNT);
	assert_int_equal(nspy_net_next_row(&record.second, &row), -ENODATA);
}

static void a_full_buffer_stays_as_it_was(void **unused)
{
	struct nspy_net_peer peer = {.address = text_of("0123456789")};
	size_t before;

	(void)unused;
	for (buffer.capacity = 0; buffer.capacity < 19; buffer.capacity++) {
		before = buffer.used;
		assert_int_equal(nspy_net_put_peer(&buffer, &peer), -ENOBUFS);
		assert_int_equal(buffer.used, before);
	}
	assert_int_equal(nspy_net_put_peer(&buffer, &peer), 0);
	assert_int_equal(buffer.used, 19);
}

static void every_cut_is_noticed(void **unused)
{
	struct nspy_net_record record;

	(void)unused;
	assert_int_equal(
		nspy_net_put_peer(
			&buffer,
			&(struct nspy_net_peer){.id = 300, .rail = 1, .address = text_of("abc")}),
		0);
	for (size_t bytes = 1; bytes < buffer.used; bytes++) {
		size_t cursor = 0;

		assert_int_equal(nspy_net_next(data, bytes, &cursor, &record), -EBADMSG);
		assert_int_equal(cursor, 0);
	}
	/* A length that is shorter than the fields. */
	data[1]--;
	assert_int_equal(nspy_net_next(data, buffer.used - 1, &(size_t){0}, &record), -EBADMSG);
}

static void long_texts_are_cut(void **unused)
{
	char text[400];
	struct nspy_net_record record;
	size_t cursor = 0;

	(void)unused;
	memset(text, 'x', sizeof(text));
	assert_int_equal(nspy_net_put_peer(
				 &buffer, &(struct nspy_net_peer){.address = {text, sizeof(text)}}),
			 0);
	record = next(&cursor, NSPY_NET_PEER);
	assert_int_equal(record.peer.address.bytes, NSPY_NET_TEXT_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(rails_peers_and_devices_survive, begin),
		cmocka_unit_test_setup(events_and_memory_survive, begin),
		cmocka_unit_test_setup(rows_survive, begin),
		cmocka_unit_test_setup(what_is_newer_is_skipped, begin),
		cmocka_unit_test_setup(a_full_buffer_stays_as_it_was, begin),
		cmocka_unit_test_setup(every_cut_is_noticed, begin),
		cmocka_unit_test_setup(long_texts_are_cut, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
