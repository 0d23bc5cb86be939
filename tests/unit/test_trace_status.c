/* SPDX-License-Identifier: Apache-2.0 */
/* Status pages: round trip, limits, torn and damaged copies. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "trace_status.h"

static struct nspy_status_comm comms[NSPY_STATUS_COMMS_MAX];
static struct nspy_status_call calls[NSPY_STATUS_CALLS_MAX];
static struct nspy_status_op ops[NSPY_STATUS_OPS_MAX];
static struct nspy_status_way ways[NSPY_STATUS_WAYS_MAX];
static char names[NSPY_STATUS_NAMES_MAX][NSPY_STATUS_NAME_BYTES];
static uint8_t page[NSPY_STATUS_BYTES_MAX];
static uint64_t memory[NSPY_STATUS_BYTES_MAX / 4];

static struct nspy_status make(uint32_t comm_count, uint32_t op_count)
{
	struct nspy_status s = {
		.sequence = 7,
		.run_id = UINT64_MAX,
		.pid = 4711,
		.state = NSPY_STATUS_RUNNING,
		.rank = -1,
		.world_size = 8,
		.node = "node-0",
		.job_dir = "/traces/job",
		.caller_state = 'S',
		.nccl = 23007,
		.settings = 0x1122334455667788,
		.gpu = "NVIDIA H100",
		.comm_count = comm_count,
		.call_count = 1,
		.op_count = op_count,
		.way_count = 1,
		.name_count = 2,
		.comms = comms,
		.calls_open = calls,
		.ops = ops,
		.ways = ways,
		.names = names,
	};

	(void)snprintf(names[0], sizeof(names[0]), "ncclAllReduce");
	(void)snprintf(names[1], sizeof(names[1]), "ncclSend");
	for (uint32_t i = 0; i < comm_count; i++)
		comms[i] = (struct nspy_status_comm){.key = i + 1,
						     .enqueued = 1ull << 40,
						     .nranks = -1,
						     .name = NSPY_STATUS_NONE,
						     .async_error = -1};
	for (uint32_t i = 0; i < op_count; i++)
		ops[i] = (struct nspy_status_op){.seq = i + 1, .peer = -1, .name = 1};
	calls[0] = (struct nspy_status_call){.seq = 9, .comm = NSPY_STATUS_NONE, .peer = -3};
	ways[0] = (struct nspy_status_way){.peer = 3, .sent = 5, .received = 6};
	return s;
}

static int decode(size_t bytes, struct nspy_status *ret)
{
	struct nspy_arena arena = {(uint8_t *)memory, sizeof(memory), 0};
	size_t used = 0;
	int rc = nspy_status_decode(page, bytes, &arena, ret, &used);

	if (rc < 0)
		assert_int_equal(arena.used, 0);
	return rc;
}

static void test_round_trip(void **state)
{
	struct nspy_status s = make(3, 5), back;
	long bytes = nspy_status_encode(&s, NSPY_STATUS_OPS_MAX, page, sizeof(page));

	(void)state;
	assert_true(bytes > 0);
	assert_int_equal(decode(sizeof(page), &back), 0);
	assert_int_equal(back.sequence, 7);
	assert_int_equal(back.rank, -1);
	assert_string_equal(back.node, "node-0");
	assert_string_equal(back.job_dir, "/traces/job");
	assert_memory_equal(back.comms, comms, 3 * sizeof(comms[0]));
	assert_memory_equal(back.ops, ops, 5 * sizeof(ops[0]));
	assert_int_equal(back.calls_open[0].peer, -3);
	assert_int_equal(back.ways[0].received, 6);
	assert_int_equal(back.nccl, 23007);
	assert_int_equal(back.settings, 0x1122334455667788);
	assert_string_equal(back.gpu, "NVIDIA H100");
	assert_string_equal(nspy_status_name(&back, 1), "ncclSend");
	assert_string_equal(nspy_status_name(&back, NSPY_STATUS_NONE), "?");
}

/* The newest operations are what remains of too many. */
static void test_fewer_operations(void **state)
{
	struct nspy_status s = make(1, 9), back;

	(void)state;
	assert_true(nspy_status_encode(&s, 4, page, sizeof(page)) > 0);
	assert_int_equal(decode(sizeof(page), &back), 0);
	assert_int_equal(back.op_count, 4);
	assert_int_equal(back.ops[0].seq, 6);
}

static void test_everything_fits(void **state)
{
	struct nspy_status s = make(NSPY_STATUS_COMMS_MAX, NSPY_STATUS_OPS_MAX), back;
	uint32_t most = NSPY_STATUS_OPS_MAX;

	(void)state;
	s.call_count = NSPY_STATUS_CALLS_MAX;
	s.way_count = NSPY_STATUS_WAYS_MAX;
	s.name_count = NSPY_STATUS_NAMES_MAX;
	assert_true(nspy_status_encode(&s, most, page, sizeof(page)) > 0);
	assert_int_equal(decode(sizeof(page), &back), 0);
	assert_int_equal(back.op_count, NSPY_STATUS_OPS_MAX);
	assert_int_equal(nspy_status_encode(&s, most, page, 4096), -ENOBUFS);
	assert_int_equal(ops[100].seq, 101);
	assert_int_equal(comms[60].key, 61);
	assert_int_equal(nspy_status_encode(&s, most, page, 8), -ENOBUFS);
}

/* Half of a page and half of the next, or any byte changed: no page. */
static void test_damage(void **state)
{
	struct nspy_status s = make(2, 3), back;
	long bytes = nspy_status_encode(&s, NSPY_STATUS_OPS_MAX, page, sizeof(page));

	(void)state;
	for (long n = 0; n < bytes; n++)
		assert_int_equal(decode((size_t)n, &back), -EBADMSG);
	for (long i = 0; i < bytes; i++) {
		page[i] ^= 0x10;
		assert_true(decode((size_t)bytes, &back) < 0);
		page[i] ^= 0x10;
	}
	assert_int_equal(decode((size_t)bytes, &back), 0);
	memset(page, 0, sizeof(page));
	assert_int_equal(decode(sizeof(page), &back), -EBADMSG);
}

static void test_bad_indices(void **state)
{
	struct nspy_status s = make(2, 3), back;

	(void)state;
	ops[1].comm = 2;
	assert_true(nspy_status_encode(&s, NSPY_STATUS_OPS_MAX, page, sizeof(page)) > 0);
	assert_int_equal(decode(sizeof(page), &back), -EBADMSG);
	ops[1].comm = NSPY_STATUS_NONE;
	assert_true(nspy_status_encode(&s, NSPY_STATUS_OPS_MAX, page, sizeof(page)) > 0);
	assert_int_equal(decode(sizeof(page), &back), -EBADMSG);
	ops[1].comm = 1;
	comms[0].nranks = NSPY_STATUS_RANKS_MAX + 1;
	assert_true(nspy_status_encode(&s, NSPY_STATUS_OPS_MAX, page, sizeof(page)) > 0);
	assert_int_equal(decode(sizeof(page), &back), -EBADMSG);
	comms[0].nranks = 4;
	ways[0].comm = NSPY_STATUS_NONE;
	assert_true(nspy_status_encode(&s, NSPY_STATUS_OPS_MAX, page, sizeof(page)) > 0);
	assert_int_equal(decode(sizeof(page), &back), -EBADMSG);
}

/* What another process wrote must not steer a terminal. */
static void test_texts_are_cleaned(void **state)
{
	struct nspy_status s = make(1, 0), back;

	(void)state;
	memset(s.node, 'x', sizeof(s.node));
	memcpy(s.node, "a\x1b[2J", 5);
	assert_true(nspy_status_encode(&s, NSPY_STATUS_OPS_MAX, page, sizeof(page)) > 0);
	assert_int_equal(decode(sizeof(page), &back), 0);
	assert_int_equal(strlen(back.node), sizeof(back.node) - 1);
	assert_memory_equal(back.node, "a?[2J", 5);
}

/* A signal is the last thing in a page; a page without one has no such bytes. */
static void test_signal(void **state)
{
	struct nspy_status s = make(2, 2), back;
	struct nspy_arena arena = {(uint8_t *)memory, sizeof(memory), 0};
	struct nspy_signal_note note = {.when_ns = 5, .number = 11, .code = 1, .tid = 7}, read;
	long without = nspy_status_encode(&s, NSPY_STATUS_OPS_MAX, page, sizeof(page)), with;
	size_t used;

	(void)state;
	s.signal = note;
	with = nspy_status_encode(&s, NSPY_STATUS_OPS_MAX, page, sizeof(page));
	assert_int_equal(with, without + NSPY_STATUS_SIGNAL_BYTES);
	assert_int_equal(nspy_status_decode(page, sizeof(page), &arena, &back, &used), 0);
	assert_int_equal(back.signal.number, 11);
	assert_int_equal(back.signal.code, 1);
	assert_int_equal(back.signal.tid, 7);
	assert_int_equal(back.signal.when_ns, 5);
	/* Noise, and half a note, are none. */
	assert_false(nspy_signal_note_read(&note, &read));
	nspy_signal_note_write(&note, &note);
	assert_true(nspy_signal_note_read(&note, &read));
	note.address++;
	assert_false(nspy_signal_note_read(&note, &read));
}

static void test_small_arena(void **state)
{
	struct nspy_status s = make(2, 200), back;
	struct nspy_arena arena = {(uint8_t *)memory, 1024, 8};
	size_t used;

	(void)state;
	assert_true(nspy_status_encode(&s, NSPY_STATUS_OPS_MAX, page, sizeof(page)) > 0);
	assert_int_equal(nspy_status_decode(page, sizeof(page), &arena, &back, &used), -ENOMEM);
	assert_int_equal(arena.used, 8);
}

/* Zeroes, noise and a cut file are no exit; a code is, and is still when nothing more comes. */
static void test_exit_note(void **state)
{
	static uint8_t file[NSPY_STATUS_FILE_BYTES];
	uint8_t *note = file + NSPY_STATUS_EXIT_OFFSET;
	const int32_t codes[] = {0, 1, 137, -1};
	int32_t back = 99;
	uint32_t seal = 1;

	(void)state;
	assert_false(nspy_status_exited(file, sizeof(file), &back));
	memcpy(note + 4, &seal, sizeof(seal));
	assert_false(nspy_status_exited(file, sizeof(file), &back));
	memset(note, 0xA5, 8);
	assert_false(nspy_status_exited(file, sizeof(file), &back));
	assert_int_equal(back, 99);
	for (size_t i = 0; i < 2 * sizeof(codes) / sizeof(codes[0]); i++) {
		int32_t code = codes[i / 2];

		seal = i % 2 ? nspy_status_gone_seal(code) : nspy_status_exit_seal(code);
		memcpy(note, &code, sizeof(code));
		memcpy(note + 4, &seal, sizeof(seal));
		assert_true(nspy_status_exited(file, sizeof(file), &back));
		assert_int_equal(back, code);
		assert_false(nspy_status_exited(file, sizeof(file) - 1, &back));
		note[0] ^= 1;
		assert_false(nspy_status_exited(file, sizeof(file), &back));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exit_note),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_fewer_operations),
		cmocka_unit_test(test_everything_fits),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_bad_indices),
		cmocka_unit_test(test_texts_are_cleaned),
		cmocka_unit_test(test_small_arena),
		cmocka_unit_test(test_signal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
