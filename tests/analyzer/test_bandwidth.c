/* SPDX-License-Identifier: Apache-2.0 */
/* Durations that the host saw, and what nccl-tests makes of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bandwidth.h"
#include "timed.h"

#define STREAM 0x7000u
#define FN     5u

/* --- factors --- */

static void known(const char *fn, double size, double factor)
{
	double got_size = 0, got_factor = 0;

	assert_true(nspy_bandwidth_factors(fn, 1000, 8, &got_size, &got_factor));
	assert_true(got_size == size);
	assert_true(got_factor > factor - 1e-9 && got_factor < factor + 1e-9);
}

/* The tables of nccl-tests' PERFORMANCE.md, for 8 ranks and 1,000 bytes in the call. */
static void test_factors(void **state)
{
	double size, factor;

	(void)state;
	known("ncclAllReduce", 1000, 2 * 7.0 / 8);
	known("ncclReduceScatter", 8000, 7.0 / 8);
	known("ncclAllGather", 8000, 7.0 / 8);
	known("ncclAlltoAll", 8000, 7.0 / 8);
	known("ncclGather", 8000, 7.0 / 8);
	known("ncclScatter", 8000, 7.0 / 8);
	known("ncclBroadcast", 1000, 1);
	known("ncclReduce", 1000, 1);
	known("ncclRecv", 1000, 1);
	assert_false(nspy_bandwidth_factors("ncclOfTomorrow", 1000, 8, &size, &factor));
	assert_false(nspy_bandwidth_factors("ncclAllReduce", 1000, 0, &size, &factor));
}

/* --- durations --- */

struct thread {
	struct nspy_member member;
	struct nspy_burst burst;
	uint64_t now_ns;
};

static void op(struct thread *t, uint64_t seq, uint64_t bytes, int result)
{
	struct nspy_rec rec = {.enter = t->now_ns,
			       .leave = t->now_ns + 10,
			       .arg = STREAM,
			       .seq = seq,
			       .peer = NSPY_PEER_NONE,
			       .result = (int16_t)result};

	t->now_ns += 10;
	nspy_timed_op(&t->burst, &t->member, FN, false, bytes, &rec);
}

static void wait_for(struct thread *t, uint64_t stream, bool device, uint64_t ns)
{
	struct nspy_rec rec = {.enter = t->now_ns, .leave = t->now_ns + ns, .arg = stream};

	t->now_ns += ns;
	nspy_timed_sync(&t->burst, &rec, device);
}

static size_t series_count(const struct thread *t)
{
	return t->member.timed ? t->member.timed->count : 0;
}

static void test_alone(void **state)
{
	struct thread t = {.now_ns = 1000};
	const struct nspy_timed_series *series;

	(void)state;
	op(&t, 1, 64, 0); /* nobody knows what the stream held before */
	wait_for(&t, STREAM, false, 990);
	op(&t, 2, 64, 0);
	wait_for(&t, STREAM, false, 490);
	assert_int_equal(series_count(&t), 2);
	series = t.member.timed->series;
	assert_false(series[0].alone);
	assert_int_equal(series[0].samples[0].ns, 1000);
	assert_true(series[1].alone);
	assert_int_equal(series[1].samples[0].ns, 500);
	assert_int_equal(series[1].samples[0].seq, 2);
	nspy_timed_done(t.member.timed);
}

static void test_burst(void **state)
{
	struct thread t = {.now_ns = 1000};

	(void)state;
	wait_for(&t, 0, true, 100); /* of the device: all streams */
	for (uint64_t seq = 1; seq <= 4; seq++)
		op(&t, seq, 64, 0);
	wait_for(&t, 0, true, 3960);
	assert_int_equal(series_count(&t), 1);
	assert_true(t.member.timed->series[0].alone);
	assert_int_equal(t.member.timed->series[0].burst, 4);
	assert_int_equal(t.member.timed->series[0].samples[0].ns, 1000);
	nspy_timed_done(t.member.timed);
}

/* What else was queued, an error, another stream, an event, a wait that came too late. */
static void test_not_alone(void **state)
{
	struct thread t = {.now_ns = 1000};

	(void)state;
	wait_for(&t, STREAM, false, 100);
	op(&t, 1, 64, 0);
	op(&t, 2, 128, 0);
	wait_for(&t, STREAM, false, 980);
	assert_int_equal(series_count(&t), 1);
	assert_int_equal(t.member.timed->series[0].bytes, 128);
	assert_false(t.member.timed->series[0].alone);
	op(&t, 3, 64, 1);
	wait_for(&t, STREAM, false, 1000);
	op(&t, 4, 64, 0);
	wait_for(&t, STREAM + 1, false, 1000);
	wait_for(&t, STREAM, false, 1000);
	assert_int_equal(series_count(&t), 1);
	op(&t, 5, 64, 0);
	t.now_ns += 100000; /* the host did something else: when it was over is not known */
	wait_for(&t, STREAM, false, 10);
	assert_int_equal(series_count(&t), 2);
	assert_false(t.member.timed->series[1].alone);
	nspy_timed_done(t.member.timed);
}

/* Two ranks, one of which saw only every third operation end, keep common ones. */
static void test_sample(void **state)
{
	struct thread all = {.now_ns = 1000}, some = {.now_ns = 1000};
	const struct nspy_timed_series *a, *b;
	size_t common = 0;

	(void)state;
	wait_for(&all, STREAM, false, 10);
	wait_for(&some, STREAM, false, 10);
	for (uint64_t seq = 1; seq <= 30000; seq++) {
		op(&all, seq, 64, 0);
		wait_for(&all, STREAM, false, 100);
		if (seq % 3)
			continue;
		op(&some, seq, 64, 0);
		wait_for(&some, STREAM, false, 100);
	}
	a = &all.member.timed->series[0];
	b = &some.member.timed->series[0];
	assert_int_equal(a->seen, 30000);
	assert_int_equal(b->seen, 10000);
	assert_in_range(a->count, NSPY_TIMED_SAMPLES_MAX / 4, NSPY_TIMED_SAMPLES_MAX);
	for (size_t i = 0; i < a->count; i++) {
		for (size_t k = 0; k < b->count; k++)
			common += a->samples[i].seq == b->samples[k].seq;
	}
	assert_true(common >= 3);
	nspy_timed_done(all.member.timed);
	nspy_timed_done(some.member.timed);
}

static void test_bounds(void **state)
{
	struct thread t = {.now_ns = 1000};

	(void)state;
	for (uint64_t i = 1; i <= NSPY_TIMED_SERIES_MAX + 10; i++) {
		wait_for(&t, STREAM, false, 10);
		op(&t, i, i * 64, 0);
		wait_for(&t, STREAM, false, 100);
	}
	assert_int_equal(series_count(&t), NSPY_TIMED_SERIES_MAX);
	assert_int_equal(t.member.timed->refused, 10);
	nspy_timed_done(t.member.timed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_factors), cmocka_unit_test(test_alone),
		cmocka_unit_test(test_burst),   cmocka_unit_test(test_not_alone),
		cmocka_unit_test(test_sample),  cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
