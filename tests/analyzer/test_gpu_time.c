/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of collectives taken apart: transfer, and waiting for the rank that came last. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu_time.h"
#include "util.h"

#define RANKS   4
#define OPS     20u
#define FLOAT32 7u
#define COUNT   262144u /* 1 MiB */
#define US      1000ull

struct job {
	struct nspy_proc procs[RANKS];
	struct nspy_proc *pointers[RANKS];
	struct nspy_attempt attempt;
	struct nspy_gpu_time time;
};

static int setup(void **state)
{
	struct job *job = nspy_xcalloc(1, sizeof(*job));

	for (int r = 0; r < RANKS; r++) {
		struct nspy_proc *proc = &job->procs[r];

		job->pointers[r] = proc;
		proc->index = (uint32_t)r;
		proc->rank = r;
		proc->type_bytes[FLOAT32] = 4;
		proc->prof.comms = nspy_xcalloc(1, sizeof(*proc->prof.comms));
		proc->prof.comm_count = 1;
		proc->prof.comms[0] = (struct nspy_prof_comm_view){
			.id = 1, .comm = UINT32_MAX, .hash = 0xabc, .nranks = RANKS, .rank = r};
	}
	job->attempt.procs = job->pointers;
	job->attempt.proc_count = RANKS;
	*state = job;
	return 0;
}

static int teardown(void **state)
{
	struct job *job = *state;

	nspy_gpu_time_done(&job->time);
	for (int r = 0; r < RANKS; r++)
		nspy_prof_done(&job->procs[r].prof);
	free(job);
	return 0;
}

/* A kernel as the plugin's record of an operation gives it. */
static void add_as(struct job *job, int rank, uint32_t func, uint64_t seq, uint64_t ns,
		   uint64_t queued_ns, uint64_t count)
{
	uint8_t room[128];
	struct nspy_prof_buffer buffer = {.data = room, .capacity = sizeof(room)};
	struct nspy_prof_op op = {
		.comm = 1,
		.what = NSPY_PROF_COLL,
		.func = func,
		.datatype = FLOAT32,
		.channels = 1,
		.peer = -1,
		.seq = seq,
		.count = count,
		.start_ns = 1000,
		.kernels = 1,
		.kernel_first_ns = queued_ns,
		.kernel_last_ns = queued_ns + ns,
		.gpu_kernels = 1,
		.gpu_ns = ns,
		.gpu_start_ns = 5000 + seq,
	};

	assert_int_equal(nspy_prof_put_op(&buffer, &op), 0);
	assert_int_equal(nspy_prof_ingest(&job->procs[rank].prof, room, buffer.used), 0);
}

static void add(struct job *job, int rank, uint64_t seq, uint64_t ns, uint64_t queued_ns)
{
	add_as(job, rank, NSPY_PROF_FUNC_ALL_REDUCE, seq, ns, queued_ns, COUNT);
}

static const struct nspy_gpu_series *find(struct job *job)
{
	nspy_gpu_time_find(&job->attempt, &job->time);
	assert_int_equal(job->time.count, 1);
	return &job->time.series[0];
}

/* Rank 2 comes 900 us after the others; its kernel had stood in the queue for queued_ns. */
static const struct nspy_gpu_series *with_late_rank(struct job *job, uint64_t queued_ns)
{
	for (uint64_t seq = 1; seq <= OPS; seq++)
		for (int r = 0; r < RANKS; r++)
			add(job, r, seq, r == 2 ? 100 * US : 1000 * US,
			    r == 2 ? queued_ns : 10 * US);
	return find(job);
}

static void test_slow_gpu(void **state)
{
	struct job *job = *state;
	const struct nspy_gpu_series *series = with_late_rank(job, 900 * US);

	assert_int_equal(series->ops, OPS);
	assert_int_equal(series->partial, 0);
	assert_int_equal(series->transfer_median_ns, 100 * US);
	assert_int_equal(series->slow, 0);
	assert_int_equal(series->kernel_ns, OPS * 3100 * US);
	assert_int_equal(series->wait_ns, OPS * 2700 * US);
	assert_int_equal(series->late, OPS);
	assert_ptr_equal(series->last, &job->procs[2]);
	assert_int_equal(series->last_ops, OPS);
	assert_int_equal(series->last_busy, OPS);
	/* 1 MiB in 100 us, times 2 (n - 1) / n */
	assert_int_equal((uint64_t)series->busbw, 15728640000ull);
}

static void test_late_host(void **state)
{
	const struct nspy_gpu_series *series = with_late_rank(*state, 10 * US);

	assert_int_equal(series->last_ops, OPS);
	assert_int_equal(series->last_busy, 0);
}

/* Nobody waits for anybody: what takes longer is the transfer. */
static void test_slow_transfer(void **state)
{
	struct job *job = *state;
	const struct nspy_gpu_series *series;

	for (uint64_t seq = 1; seq <= OPS; seq++)
		for (int r = 0; r < RANKS; r++)
			add(job, r, seq, (seq % 4 == 0 ? 5000 : 100) * US + (uint64_t)r, US);
	series = find(job);
	assert_int_equal(series->slow, OPS / 4);
	assert_int_equal(series->late, 0);
	assert_null(series->last);
	assert_int_equal(series->transfer_max_ns, 5000 * US);
}

/* Half of the ranks come later than the other half, or another one each time: no culprit. */
static void test_nobody_alone(void **state)
{
	struct job *job = *state;
	const struct nspy_gpu_series *series;

	for (uint64_t seq = 1; seq <= OPS; seq++)
		for (int r = 0; r < RANKS; r++)
			add(job, r, seq, r < 2 ? 100 * US : 1000 * US, US);
	for (uint64_t seq = OPS + 1; seq <= 2 * OPS; seq++)
		for (uint64_t r = 0; r < RANKS; r++)
			add(job, (int)r, seq, r == seq % RANKS ? 100 * US : 1000 * US, US);
	series = find(job);
	assert_int_equal(series->late, 2 * OPS);
	assert_null(series->last);
	assert_int_equal(series->last_ops, 0);
}

/* Jitter of launches is no lateness. */
static void test_jitter(void **state)
{
	struct job *job = *state;
	const struct nspy_gpu_series *series;

	for (uint64_t seq = 1; seq <= OPS; seq++)
		for (int r = 0; r < RANKS; r++)
			add(job, r, seq, r == 2 ? 10 * US : 25 * US, US);
	series = find(job);
	assert_int_equal(series->late, 0);
	assert_null(series->last);
}

/* Traces of ranks that are missing: the last rank may be one of them. */
static void test_partial(void **state)
{
	struct job *job = *state;
	const struct nspy_gpu_series *series;

	for (uint64_t seq = 1; seq <= OPS; seq++)
		for (int r = 0; r < RANKS - 1; r++)
			add(job, r, seq, 100 * US, US);
	series = find(job);
	assert_int_equal(series->ops, OPS);
	assert_int_equal(series->partial, OPS);
}

static void test_sizes_apart(void **state)
{
	struct job *job = *state;

	for (uint64_t seq = 1; seq <= OPS; seq++)
		for (int r = 0; r < RANKS; r++)
			add_as(job, r, NSPY_PROF_FUNC_ALL_GATHER, seq, 100 * US * (seq % 2 + 1), US,
			       seq % 2 ? COUNT : 8);
	nspy_gpu_time_find(&job->attempt, &job->time);
	assert_int_equal(job->time.count, 2);
	assert_int_equal(job->time.series[0].bytes, (uint64_t)COUNT * 4);
	assert_int_equal(job->time.series[1].bytes, 32);
}

/* What cannot be compared is left out: roots, one rank alone, sizes that differ, no hash. */
static void test_left_out(void **state)
{
	struct job *job = *state;

	for (int r = 0; r < RANKS; r++) {
		add_as(job, r, NSPY_PROF_FUNC_BROADCAST, 1, 100 * US, US, COUNT);
		add_as(job, r, NSPY_PROF_FUNC_ALL_REDUCE, 1, 100 * US, US, COUNT + (uint64_t)r);
	}
	add(job, 0, 2, 100 * US, US);
	nspy_gpu_time_find(&job->attempt, &job->time);
	assert_int_equal(job->time.count, 0);
	for (int r = 0; r < RANKS; r++) {
		job->procs[r].prof.comms[0].hash = 0;
		add(job, r, 3, 100 * US, US);
	}
	nspy_gpu_time_find(&job->attempt, &job->time);
	assert_int_equal(job->time.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_slow_gpu, setup, teardown),
		cmocka_unit_test_setup_teardown(test_late_host, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slow_transfer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nobody_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_jitter, setup, teardown),
		cmocka_unit_test_setup_teardown(test_partial, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sizes_apart, setup, teardown),
		cmocka_unit_test_setup_teardown(test_left_out, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
