/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks of hosts with known offsets and drifts: how far the analyzer's scale is from the truth,
 * and whether the bound that it states covers that.
 */
#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "clock_fit.h"
#include "inputs.h"
#include "load.h"
#include "map.h"
#include "tracegen.h"

#define NODES    5
#define PER_NODE 2
#define JOBS     40
#define SPAN_NS  (120 * NSPY_NS_PER_S)

/* Node n meets node n + 1 in pair n: those beyond the first are reached through others only. */
static const char chain[] = "ranks 10 per-node 2\n"
			    "comm first 0-3\ncomm second 2-5\ncomm third 4-7\ncomm fourth 6-9\n"
			    "0-3 init first\n2-5 init second\n4-7 init third\n6-9 init fourth\n"
			    "jitter 300us\nrepeat 60\nall sleep 2s\n"
			    "0-3 coll ncclAllReduce first 1000 f32 sum\n0-3 meet 200us\n"
			    "2-5 coll ncclAllReduce second 1000 f32 sum\n2-5 meet 200us\n"
			    "4-7 coll ncclAllReduce third 1000 f32 sum\n4-7 meet 200us\n"
			    "6-9 coll ncclAllReduce fourth 1000 f32 sum\n6-9 meet 200us\n"
			    "done\nall end\n";
static const char together[] = "ranks 10 per-node 2\ncomm world all\nall init world\njitter 300us\n"
			       "repeat 60\nall sleep 2s\n"
			       "all coll ncclAllReduce world 1000 f32 sum\nall meet 200us\n"
			       "done\nall end\n";
/* Only the root must have come before others may leave: nothing is learnt from these. */
static const char rooted[] = "ranks 10 per-node 2\ncomm world all\nall init world\njitter 300us\n"
			     "repeat 60\nall sleep 2s\n"
			     "all coll ncclBroadcast world 1000 f32 - 0\nall sync 10us\n"
			     "done\nall end\n";

/* Nodes come to the first creation one after the other, and meet in splits only, not in groups. */
static const char splits[] =
	"ranks 10 per-node 2\ncomm world all\njitter 300us\n"
	"comm a 0-1 parent=world\ncomm b 2-3 parent=world\ncomm c 4-5 parent=world\n"
	"comm d 6-7 parent=world\ncomm e 8-9 parent=world\n"
	"comm f 0-1 parent=world\ncomm g 2-3 parent=world\ncomm h 4-5 parent=world\n"
	"comm i 6-7 parent=world\ncomm j 8-9 parent=world\n"
	"2-3 sleep 100ms\n4-5 sleep 200ms\n6-7 sleep 300ms\n8-9 sleep 400ms\nall init world\n"
	"0-1 init a\n2-3 init b\n4-5 init c\n6-7 init d\n8-9 init e\nall sleep 110s\n"
	"0-1 init f\n2-3 init g\n4-5 init h\n6-7 init i\n8-9 init j\nall sleep 8s\nall end\n";

struct truth {
	double ppm[NODES];
	int64_t skew_ns[NODES];
};

static double random_between(uint64_t *seed, double low, double high)
{
	*seed = nspy_mix(*seed + 0x9E3779B97F4A7C15ULL);
	return low + (high - low) * (double)(*seed >> 11) / (double)(1ULL << 53);
}

static uint64_t drifted(uint64_t ns, double ppm)
{
	return ns + (uint64_t)(int64_t)((double)(int64_t)(ns - NSPY_TG_START_MONO_NS) * ppm / 1e6);
}

static void drift_rank(struct nspy_tg_rank *rank, double ppm)
{
	for (size_t i = 0; i < rank->count; i++) {
		union nspy_any_rec *rec = &rank->records[i];

		rec->call.enter = drifted(rec->call.enter, ppm); /* "when" of the other kinds */
		if (rec->call.kind == NSPY_REC_CALL)
			rec->call.leave = drifted(rec->call.leave, ppm);
	}
	for (size_t i = 0; i < rank->comm_count; i++)
		rank->comms[i].when = drifted(rank->comms[i].when, ppm);
	rank->start_ns = drifted(rank->start_ns, ppm);
	rank->exit_ns = drifted(rank->exit_ns, ppm);
}

static int node_of(const struct nspy_tg_rank *rank)
{
	return rank->rank / PER_NODE;
}

static void make_job(const char *scenario, const char *directory, const struct truth *truth,
		     uint64_t seed)
{
	struct nspy_tg *tg = nspy_tg_new();

	tg->random = seed;
	nspy_tg_run(tg, scenario, "clocks");
	for (size_t i = 0; i < tg->rank_count; i++) {
		const struct nspy_tg_rank *rank = tg->ranks[i];
		int node = node_of(rank);

		drift_rank(tg->ranks[i], truth->ppm[node]);
		if (rank->rank % PER_NODE)
			continue;
		(void)snprintf(tg->skews[tg->skew_count].node, 32, "%s", rank->node);
		tg->skews[tg->skew_count++].skew_ns = truth->skew_ns[node];
	}
	nspy_tg_write(tg, directory);
	nspy_tg_free(tg);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* Loads the traces; the caller frees inputs. */
static struct nspy_model *load(struct nspy_inputs *inputs, char *directory)
{
	const struct nspy_load_options options = {.threads = 2, .now_real_ns = UINT64_MAX / 4};
	char *arguments[] = {directory, NULL};

	*inputs = (struct nspy_inputs){0};
	nspy_inputs_add_arguments(inputs, 1, arguments);
	assert_int_equal(inputs->job_count, 1);
	nspy_load(inputs->jobs[0], &options);
	return inputs->jobs[0];
}

/* How far a process's scale is from that of the first clock, at a moment of true time. */
static double off_by(const struct nspy_model *model, const struct nspy_proc *proc,
		     const struct truth *truth, uint64_t mono_ns)
{
	const struct nspy_proc *base = NULL;

	for (size_t i = 0; i < model->proc_count && !base; i++)
		base = model->procs[i]->clock == 0 ? model->procs[i] : NULL;
	assert_non_null(base);
	return (double)(int64_t)(nspy_proc_when(proc, drifted(mono_ns,
							      truth->ppm[proc->rank / PER_NODE])) -
				 nspy_proc_when(base, drifted(mono_ns,
							      truth->ppm[base->rank / PER_NODE])));
}

struct score {
	size_t stated, covered, unknown;
	double *bounds;
};

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void judge(const struct nspy_model *model, const struct truth *truth, struct score *score)
{
	for (size_t i = 0; i < model->proc_count; i++) {
		const struct nspy_proc *proc = model->procs[i];

		if (proc->clock == 0)
			continue;
		if (proc->clock_error_ns == NSPY_CLOCK_ERROR_UNKNOWN) {
			score->unknown++;
			continue;
		}
		score->bounds[score->stated / 5] = (double)proc->clock_error_ns;
		for (int step = 0; step < 5; step++) {
			uint64_t when =
				NSPY_TG_START_MONO_NS + SPAN_NS / 5 * (uint64_t)step + SPAN_NS / 10;

			score->stated++;
			score->covered += fabs(off_by(model, proc, truth, when)) <=
					  (double)proc->clock_error_ns;
		}
	}
}

static void one_job(const char *scenario, uint64_t seed, struct score *score)
{
	char directory[] = "/tmp/nspy-clocks-XXXXXX";
	struct truth truth;
	struct nspy_inputs inputs;

	for (int n = 0; n < NODES; n++) {
		truth.ppm[n] = random_between(&seed, -100, 100);
		truth.skew_ns[n] = (int64_t)random_between(&seed, -500e6, 500e6);
	}
	assert_non_null(mkdtemp(directory));
	make_job(scenario, directory, &truth, seed | 1);
	judge(load(&inputs, directory), &truth, score);
	nspy_inputs_done(&inputs);
	(void)nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void run_jobs(const char *scenario, const char *name, double bound_ns)
{
	struct score score = {.bounds = calloc((size_t)JOBS * NODES * PER_NODE, sizeof(double))};
	size_t count;

	for (uint64_t i = 0; i < JOBS; i++)
		one_job(scenario, i + 1, &score);
	count = score.stated / 5;
	qsort(score.bounds, count, sizeof(double), compare_doubles);
	print_message("%s: %zu of %zu statements within the bound, median bound %.0f us\n", name,
		      score.covered, score.stated, score.bounds[count / 2] / 1e3);
	assert_int_equal(score.unknown, 0);
	assert_true((double)score.covered >= 0.99 * (double)score.stated);
	/* A bound of any size covers: it must say something. */
	assert_true(score.bounds[count / 2] <= bound_ns);
	free(score.bounds);
}

static void test_together(void **state)
{
	(void)state;
	run_jobs(together, "one communicator", 1e6);
}

static void test_chain(void **state)
{
	(void)state;
	run_jobs(chain, "through other hosts", 4e6);
}

static void test_splits(void **state)
{
	(void)state;
	run_jobs(splits, "through splits of their parent", 8e6);
}

/* Near miss: a bound from the creation alone grows with the time since, and says so. */
static void test_rooted(void **state)
{
	struct score score = {.bounds = calloc((size_t)NODES * PER_NODE, sizeof(double))};

	(void)state;
	one_job(rooted, 3, &score);
	assert_int_equal(score.covered, score.stated);
	for (size_t i = 0; i < score.stated / 5; i++)
		assert_true(score.bounds[i] > 10e6);
	free(score.bounds);
}

/* --- the fit by itself --- */

static void test_fit(void **state)
{
	struct nspy_clock_point points[100];
	struct nspy_clock_fit fit;

	(void)state;
	for (int i = 0; i < 100; i++) {
		double t = i * 1e9, truth = 5e6 + 50e-6 * t;

		points[i] = (struct nspy_clock_point){t, truth - 1e3 * (1 + i % 7),
						      truth + 1e3 * (1 + i % 5)};
	}
	assert_int_equal(nspy_clock_fit(points, 100, 0, 99e9, &fit), 0);
	assert_true(fabs(fit.offset - 5e6) <= fit.error);
	assert_true(fabs(fit.offset + fit.rate * 99e9 - (5e6 + 50e-6 * 99e9)) <= fit.error);
	assert_true(fit.error < 3e3);
	/* One side only, from two kinds of observations that never meet. */
	for (int i = 0; i < 100; i++)
		points[i].low = -INFINITY;
	assert_int_equal(nspy_clock_fit(points, 100, 0, 99e9, &fit), -ENODATA);
	assert_int_equal(nspy_clock_fit(points, 0, 0, 99e9, &fit), -ENODATA);
}

/* A clock that was set in between is on no line. */
static void test_step(void **state)
{
	struct nspy_clock_point points[40];
	struct nspy_clock_fit fit;

	(void)state;
	for (int i = 0; i < 40; i++) {
		double truth = i < 20 ? 0 : 250e6;

		points[i] = (struct nspy_clock_point){i * 1e9, truth - 1e3, truth + 1e3};
	}
	assert_int_equal(nspy_clock_fit(points, 40, 0, 39e9, &fit), -EDOM);
}

/* A moment: no rate can be told, and the bound grows with the distance from it. */
static void test_moment(void **state)
{
	const struct nspy_clock_point point = {0, -1e6, 1e6};
	struct nspy_clock_fit fit;

	(void)state;
	assert_int_equal(nspy_clock_fit(&point, 1, 0, 0, &fit), 0);
	assert_true(fit.error >= 0.99e6 && fit.error <= 1.01e6);
	assert_int_equal(nspy_clock_fit(&point, 1, 0, 100e9, &fit), 0);
	assert_true(fit.error >= 30e6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fit),      cmocka_unit_test(test_step),
		cmocka_unit_test(test_moment),   cmocka_unit_test(test_rooted),
		cmocka_unit_test(test_together), cmocka_unit_test(test_chain),
		cmocka_unit_test(test_splits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
