/* SPDX-License-Identifier: Apache-2.0 */
/* PROF payloads: what goes in comes out, and damage is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "trace_format.h"
#include "trace_prof.h"

static uint8_t data[4096];

static struct nspy_prof_buffer all(void)
{
	struct nspy_prof_buffer buffer = {data, sizeof(data), 0};
	struct nspy_prof_comm comm = {
		.id = 7,
		.comm = NSPY_COMM_INDEX_NONE,
		.when_ns = 1ull << 60,
		.hash = UINT64_MAX,
		.api = 6,
		.mask = 0x1fff,
		.nranks = 4096,
		.rank = -1,
		.nodes = 512,
		.name = {"world", 5},
	};
	struct nspy_prof_op op = {
		.comm = 7,
		.what = NSPY_PROF_P2P,
		.flags = NSPY_PROF_CAPTURED | NSPY_PROF_CUT,
		.func = NSPY_PROF_FUNC_RECV,
		.datatype = NSPY_DATATYPE_NONE,
		.channels = 2,
		.peer = -1,
		.seq = 1ull << 40,
		.count = 1ull << 50,
		.start_ns = 123456789,
		.queued_ns = 10,
		.proxies = 4,
		.proxy_first_ns = 11,
		.proxy_last_ns = 12,
		.kernels = 2,
		.kernel_first_ns = 13,
		.kernel_last_ns = 14,
		.gpu_kernels = 2,
		.gpu_ns = 15,
		.gpu_start_ns = 1ull << 61,
	};
	struct nspy_prof_wait wait = {.comm = NSPY_PROF_NONE, .peer = -1, .when_ns = 5};
	struct nspy_prof_sums sums = {.when_ns = 6};

	for (uint32_t i = 0; i < NSPY_PROF_WAIT_COUNT; i++)
		wait.counter[i] = i * 1000000007ull;
	for (uint32_t i = 0; i < NSPY_PROF_SUM_COUNT; i++)
		sums.counter[i] = UINT64_MAX - i;
	assert_int_equal(nspy_prof_put_comm(&buffer, &comm), 0);
	assert_int_equal(nspy_prof_put_op(&buffer, &op), 0);
	assert_int_equal(nspy_prof_put_wait(&buffer, &wait), 0);
	assert_int_equal(nspy_prof_put_sums(&buffer, &sums), 0);
	return buffer;
}

static void test_round_trip(void **state)
{
	struct nspy_prof_buffer buffer = all();
	struct nspy_prof_record record;
	size_t cursor = 0;

	(void)state;
	assert_int_equal(nspy_prof_next(data, buffer.used, &cursor, &record), 0);
	assert_int_equal(record.kind, NSPY_PROF_COMM);
	assert_true(record.comm.hash == UINT64_MAX && record.comm.rank == -1);
	assert_true(record.comm.comm == NSPY_COMM_INDEX_NONE && record.comm.nranks == 4096);
	assert_int_equal(record.comm.name.bytes, 5);
	assert_memory_equal(record.comm.name.text, "world", 5);
	assert_int_equal(nspy_prof_next(data, buffer.used, &cursor, &record), 0);
	assert_int_equal(record.kind, NSPY_PROF_OP);
	assert_true(record.op.peer == -1 && record.op.count == 1ull << 50);
	assert_true(record.op.proxies == 4 && record.op.kernel_last_ns == 14);
	assert_true(record.op.gpu_start_ns == 1ull << 61);
	assert_true(record.op.gpu_ns == 15 && nspy_prof_is_exact(&record.op));
	assert_int_equal(nspy_prof_next(data, buffer.used, &cursor, &record), 0);
	assert_int_equal(record.kind, NSPY_PROF_WAIT);
	assert_true(record.wait.comm == NSPY_PROF_NONE && record.wait.peer == -1);
	assert_true(record.wait.counter[9] == 9 * 1000000007ull);
	assert_int_equal(nspy_prof_next(data, buffer.used, &cursor, &record), 0);
	assert_int_equal(record.kind, NSPY_PROF_SUMS);
	assert_true(record.sums.counter[8] == UINT64_MAX - 8);
	assert_int_equal(nspy_prof_next(data, buffer.used, &cursor, &record), -ENODATA);
}

/* A duration is exact only if every channel has both times. */
static void test_exact(void **state)
{
	struct nspy_prof_op op = {.channels = 8, .gpu_kernels = 8, .gpu_ns = 1};

	(void)state;
	assert_true(nspy_prof_is_exact(&op));
	op.gpu_kernels = 7;
	assert_false(nspy_prof_is_exact(&op));
	op = (struct nspy_prof_op){.channels = 0, .gpu_kernels = 1, .gpu_ns = 1};
	assert_false(nspy_prof_is_exact(&op));
	op = (struct nspy_prof_op){.channels = 0};
	assert_false(nspy_prof_is_exact(&op));
}

static void test_no_room(void **state)
{
	struct nspy_prof_sums sums = {.when_ns = UINT64_MAX};
	struct nspy_prof_buffer buffer = {data, 0, 0};

	(void)state;
	for (; buffer.capacity < 12; buffer.capacity++) {
		assert_int_equal(nspy_prof_put_sums(&buffer, &sums), -ENOBUFS);
		assert_int_equal(buffer.used, 0);
	}
}

/* Kinds and trailing fields of a newer version are skipped; of an older one are missing. */
static void test_other_versions(void **state)
{
	static const uint8_t newer[] = {
		200,
		2,
		0,
		0,
		0,
		1,
		2, /* a kind that is not known */
		NSPY_PROF_SUMS,
		5,
		0,
		0,
		0,
		9,
		2,
		7,
		8,
		99, /* two counters, and something more */
	};
	struct nspy_prof_record record;
	size_t cursor = 0;

	(void)state;
	assert_int_equal(nspy_prof_next(newer, sizeof(newer), &cursor, &record), 0);
	assert_int_equal(record.kind, 200);
	assert_int_equal(nspy_prof_next(newer, sizeof(newer), &cursor, &record), 0);
	assert_true(record.sums.when_ns == 9 && record.sums.counter[0] == 7);
	assert_true(record.sums.counter[1] == 8 && record.sums.counter[2] == 0);
	assert_int_equal(nspy_prof_next(newer, sizeof(newer), &cursor, &record), -ENODATA);
}

static void test_damage(void **state)
{
	struct nspy_prof_buffer buffer = all();
	struct nspy_prof_record record;

	(void)state;
	for (size_t bytes = 1; bytes < buffer.used; bytes++) {
		size_t cursor = 0;
		int rc;

		while ((rc = nspy_prof_next(data, bytes, &cursor, &record)) == 0)
			assert_true(cursor <= bytes);
		assert_true(rc == -EBADMSG || (rc == -ENODATA && cursor == bytes));
	}
	/* A record whose fields end before it should. */
	data[1] = 3;
	memset(data + 2, 0, 3);
	assert_int_equal(nspy_prof_next(data, buffer.used, &(size_t){0}, &record), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip), cmocka_unit_test(test_exact),
		cmocka_unit_test(test_no_room),    cmocka_unit_test(test_other_versions),
		cmocka_unit_test(test_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
