/* SPDX-License-Identifier: Apache-2.0 */
/* STATE and IDENT payloads, schema lines: round trips, limits, damage. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace_bytes.h"
#include "trace_encode.h"

static struct nspy_comm_rec comms[3];
static struct nspy_open_call opens[2];
static uint8_t payload[8192];

static struct nspy_state make_state(void)
{
	struct nspy_state state = {
		.when_ns = UINT64_MAX,
		.loss = {1, 2, 3, 4, 5, 6, 7},
		.calls = 1ull << 40,
		.threads_seen = 9,
		.comm_count = 3,
		.open_count = 2,
	};

	for (int i = 0; i < 3; i++)
		comms[i] = (struct nspy_comm_rec){
			.kind = NSPY_REC_COMM,
			.key = 0xfeed + (uint64_t)i,
			.comm = (uint32_t)i,
			.nranks = -1,
			.rank = i,
			.color = -7,
		};
	for (int i = 0; i < 2; i++)
		opens[i] = (struct nspy_open_call){
			.thread_serial = (uint32_t)i + 1,
			.tid = 1000,
			.rec = {.kind = NSPY_REC_CALL, .enter = 5, .flags = NSPY_CALL_OPEN},
		};
	return state;
}

static void a_state_survives(void **unused)
{
	struct nspy_state in = make_state(), out;
	struct nspy_comm_rec got_comms[3];
	struct nspy_open_call got_opens[2];
	long bytes = nspy_state_encode(&in, comms, opens, payload, sizeof(payload));

	(void)unused;
	assert_true(bytes > 0);
	assert_int_equal(
		nspy_state_decode(payload, (size_t)bytes, &out, got_comms, 3, got_opens, 2), 0);
	assert_true(in.when_ns == out.when_ns && in.calls == out.calls);
	assert_int_equal(in.threads_seen, out.threads_seen);
	assert_memory_equal(in.loss, out.loss, sizeof(in.loss));
	assert_int_equal(out.comm_count, 3);
	assert_int_equal(out.open_count, 2);
	assert_memory_equal(comms, got_comms, sizeof(comms));
	assert_memory_equal(opens, got_opens, sizeof(opens));
}

static void a_state_respects_the_callers_room(void **unused)
{
	struct nspy_state in = make_state(), out;
	struct nspy_comm_rec got_comms[3];
	struct nspy_open_call got_opens[2];
	long bytes = nspy_state_encode(&in, comms, opens, payload, sizeof(payload));

	(void)unused;
	assert_int_equal(
		nspy_state_decode(payload, (size_t)bytes, &out, got_comms, 2, got_opens, 2),
		-E2BIG);
	assert_int_equal(
		nspy_state_decode(payload, (size_t)bytes, &out, got_comms, 3, got_opens, 1),
		-E2BIG);
	assert_int_equal(nspy_state_encode(&in, comms, opens, payload, 20), -ENOBUFS);
	in.comm_count = NSPY_STATE_COMMS_MAX + 1;
	assert_int_equal(nspy_state_encode(&in, comms, opens, payload, sizeof(payload)), -EINVAL);
}

static void a_cut_state_is_refused(void **unused)
{
	struct nspy_state in = make_state(), out;
	struct nspy_comm_rec got_comms[3];
	struct nspy_open_call got_opens[2];
	long bytes = nspy_state_encode(&in, comms, opens, payload, sizeof(payload));

	(void)unused;
	for (long n = 0; n < bytes; n++) {
		uint8_t *cut = malloc((size_t)n + 1);

		memcpy(cut, payload, (size_t)n);
		assert_int_equal(
			nspy_state_decode(cut, (size_t)n, &out, got_comms, 3, got_opens, 2),
			-EBADMSG);
		free(cut);
	}
}

/* A later version may count more kinds of loss: those are ignored, the rest is read. */
static void unknown_loss_counters_are_ignored(void **unused)
{
	struct nspy_put w = {payload, payload + sizeof(payload), false};
	struct nspy_state out;

	(void)unused;
	nspy_put_varint(&w, 1);
	nspy_put_varint(&w, 2);
	nspy_put_varint(&w, 3);
	nspy_put_varint(&w, NSPY_LOSS_COUNT + 2);
	for (uint64_t i = 0; i < NSPY_LOSS_COUNT + 2; i++)
		nspy_put_varint(&w, 10 + i);
	nspy_put_varint(&w, 0);
	nspy_put_varint(&w, 0);
	assert_int_equal(
		nspy_state_decode(payload, (size_t)(w.at - payload), &out, NULL, 0, NULL, 0), 0);
	assert_int_equal(out.loss[NSPY_LOSS_COUNT - 1], 10 + NSPY_LOSS_COUNT - 1);
}

static void facts_survive_and_stay_in_order(void **unused)
{
	const char *key, *value;
	size_t key_bytes, value_bytes, used = 0, cursor = 0;

	(void)unused;
	assert_int_equal(nspy_ident_put(payload, sizeof(payload), &used, "a", ""), 0);
	assert_int_equal(nspy_ident_put(payload, sizeof(payload), &used, "node", "ip-10-0-3-7"), 0);
	assert_int_equal(
		nspy_ident_next(payload, used, &cursor, &key, &key_bytes, &value, &value_bytes), 0);
	assert_int_equal(key_bytes, 1);
	assert_int_equal(value_bytes, 0);
	assert_int_equal(
		nspy_ident_next(payload, used, &cursor, &key, &key_bytes, &value, &value_bytes), 0);
	assert_memory_equal(key, "node", 4);
	assert_memory_equal(value, "ip-10-0-3-7", 11);
	assert_int_equal(
		nspy_ident_next(payload, used, &cursor, &key, &key_bytes, &value, &value_bytes),
		-ENODATA);
}

static void facts_have_limits(void **unused)
{
	static char long_value[NSPY_TEXT_BYTES_MAX + 100];
	const char *key, *value;
	size_t key_bytes, value_bytes, used = 0, cursor = 0;

	(void)unused;
	memset(long_value, 'x', sizeof(long_value) - 1);
	assert_int_equal(nspy_ident_put(payload, sizeof(payload), &used, "", "v"), -EINVAL);
	assert_int_equal(nspy_ident_put(payload, sizeof(payload), &used, "long", long_value), 0);
	assert_int_equal(
		nspy_ident_next(payload, used, &cursor, &key, &key_bytes, &value, &value_bytes), 0);
	assert_int_equal(value_bytes, NSPY_TEXT_BYTES_MAX);
	/* No room: the payload stays as it was. */
	cursor = used;
	assert_int_equal(nspy_ident_put(payload, used + 4, &used, "key", "value"), -ENOBUFS);
	assert_int_equal(used, cursor);
	/* A length that points behind the end. */
	payload[0] = 200;
	cursor = 0;
	assert_int_equal(
		nspy_ident_next(payload, 10, &cursor, &key, &key_bytes, &value, &value_bytes),
		-EBADMSG);
}

static void schema_lines_are_walked(void **unused)
{
	static const char text[] = "fn\t0\tx\n\ndatatype\t7\tf32\t4";
	const char *line;
	size_t bytes, cursor = 0, lines = 0;

	(void)unused;
	while (nspy_schema_next((const uint8_t *)text, sizeof(text) - 1, &cursor, &line, &bytes) ==
	       0) {
		static const size_t expected[] = {6, 0, 16};

		assert_int_equal(bytes, expected[lines++]);
	}
	assert_int_equal(lines, 3);
}

static void varints_reject_overflow(void **unused)
{
	static const uint8_t max[10] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
	static const uint8_t over[10] = {0xff, 0xff, 0xff, 0xff, 0xff,
					 0xff, 0xff, 0xff, 0xff, 0x02};
	struct nspy_get g = {max, max + sizeof(max), false};

	(void)unused;
	assert_true(nspy_get_varint(&g) == UINT64_MAX);
	assert_false(g.bad);
	g = (struct nspy_get){over, over + sizeof(over), false};
	assert_true(nspy_get_varint(&g) == 0);
	assert_true(g.bad);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_state_survives),
		cmocka_unit_test(a_state_respects_the_callers_room),
		cmocka_unit_test(a_cut_state_is_refused),
		cmocka_unit_test(unknown_loss_counters_are_ignored),
		cmocka_unit_test(facts_survive_and_stay_in_order),
		cmocka_unit_test(facts_have_limits),
		cmocka_unit_test(schema_lines_are_walked),
		cmocka_unit_test(varints_reject_overflow),
	};

	return cmocka_run_group_tests_name("trace_state", tests, NULL, NULL);
}
