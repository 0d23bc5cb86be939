/* SPDX-License-Identifier: Apache-2.0 */
/* The statistics against known values, and what comparing says of runs whose truth is known. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "compare/baseline.h"
#include "runs.h"

static const struct noise quiet = {
	.cv = 0.03, .rho = 0.3, .between = 0.003, .steps = 400, .hosts = 4};

static void near(double got, double want, double within)
{
	if (!(fabs(got - want) <= within))
		fail_msg("%.9g is not %.9g", got, want);
}

static void test_student(void **state)
{
	(void)state;
	/* Tables of Student's distribution. */
	near(nspy_t_quantile(0.025, 1), 12.7062, 1e-3);
	near(nspy_t_quantile(0.025, 8), 2.30600, 1e-4);
	near(nspy_t_quantile(0.001, 8), 4.50079, 1e-4);
	near(nspy_t_quantile(0.0005, 4), 8.61030, 1e-4);
	near(nspy_t_quantile(0.05, 120), 1.65765, 1e-4);
	near(nspy_t_quantile(0.975, 8), -2.30600, 1e-4);
	near(nspy_t_tail(0, 3), 0.5, 1e-12);
	near(nspy_t_tail(2.30600, 8), 0.025, 1e-6);
	near(nspy_t_tail(-2.30600, 8), 0.975, 1e-6);
	near(nspy_t_tail(40, 30), 0, 1e-20);
	near(nspy_t_tail(INFINITY, 4), 0, 0);
}

static void test_error_is_honest(void **state)
{
	unsigned int inside = 0, series_count = 400;
	uint64_t random = 7;

	(void)state;
	for (unsigned int s = 0; s < series_count; s++) {
		struct nspy_series series = {0};
		struct nspy_summary summary;
		double value = runs_normal(&random);

		for (int i = 0; i < 500; i++) {
			nspy_series_add(&series, 100 + 3 * value);
			value = 0.3 * value + sqrt(1 - 0.09) * runs_normal(&random);
		}
		nspy_series_summary(&series, &summary);
		inside += fabs(summary.center - 100) <= 1.96 * summary.error;
		nspy_series_done(&series);
	}
	/* 95 % of 400 are 380; five standard deviations below. */
	assert_in_range(inside, 358, 400);
}

static void test_pauses_do_not_matter(void **state)
{
	struct nspy_series with = {0}, without = {0};
	struct nspy_summary a, b;
	uint64_t random = 9;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		double value = 100 + runs_normal(&random);

		nspy_series_add(&without, value);
		nspy_series_add(&with, i % 300 == 150 ? value + 5000 : value);
	}
	nspy_series_summary(&with, &a);
	nspy_series_summary(&without, &b);
	near(a.center, b.center, 0.1);
	nspy_series_done(&with);
	nspy_series_done(&without);
}

static void test_long_series_is_bounded(void **state)
{
	struct nspy_series series = {0};
	struct nspy_summary summary;

	(void)state;
	for (unsigned int i = 0; i < 5 * NSPY_SERIES_MAX; i++)
		nspy_series_add(&series, i);
	assert_in_range(series.count, NSPY_SERIES_MAX / 2, NSPY_SERIES_MAX);
	nspy_series_summary(&series, &summary);
	assert_int_equal(summary.count, 5 * NSPY_SERIES_MAX);
	near(summary.p50, 2.5 * NSPY_SERIES_MAX, 16);
	nspy_series_done(&series);
}

static void test_few_samples(void **state)
{
	struct nspy_series series = {0};
	struct nspy_summary summary;

	(void)state;
	nspy_series_summary(&series, &summary);
	assert_int_equal(summary.count, 0);
	for (int i = 0; i < 3; i++)
		nspy_series_add(&series, 5);
	nspy_series_summary(&series, &summary);
	near(summary.center, 5, 0);
	assert_true(isnan(summary.error));
	nspy_series_done(&series);
}

/* --- comparisons --- */

static void make(struct nspy_runs *runs, size_t count, double factor, int slow, uint64_t *random)
{
	for (size_t i = 0; i < count; i++)
		runs_add(runs, &quiet, factor, slow, 3, random);
}

static void compare(struct nspy_runs *base, struct nspy_runs *now, struct nspy_comparison *ret)
{
	nspy_compare(base, now, &NSPY_COMPARE_DEFAULTS, ret);
}

static void done(struct nspy_runs *base, struct nspy_runs *now, struct nspy_comparison *c)
{
	nspy_comparison_done(c);
	nspy_runs_done(base);
	nspy_runs_done(now);
}

static void test_slower_node_is_named(void **state)
{
	struct nspy_runs base = {0}, now = {0};
	struct nspy_comparison c;
	uint64_t random = 3;

	(void)state;
	make(&base, 5, 1, -1, &random);
	make(&now, 5, 1.05, 2, &random);
	compare(&base, &now, &c);
	assert_int_equal(c.findings.count, 1);
	assert_int_equal(c.findings.items[0]->priority, 1);
	assert_int_equal(c.findings.items[0]->confidence, NSPY_CERTAIN);
	assert_string_equal(c.node, "node-2");
	assert_non_null(strstr(c.findings.items[0]->cause, "node-2"));
	near(nspy_comparison_row(&c, "step")->change, 0.05, 0.01);
	assert_true(nspy_comparison_row(&c, "step")->low > 0);
	done(&base, &now, &c);
}

static void test_all_slower_names_nobody(void **state)
{
	struct nspy_runs base = {0}, now = {0};
	struct nspy_comparison c;
	uint64_t random = 4;

	(void)state;
	make(&base, 5, 1, -1, &random);
	make(&now, 5, 1.05, -1, &random);
	compare(&base, &now, &c);
	assert_int_equal(c.findings.count, 1);
	assert_null(c.node);
	done(&base, &now, &c);
}

static void test_one_run_a_side_is_no_alarm(void **state)
{
	struct nspy_runs base = {0}, now = {0};
	struct nspy_comparison c;
	uint64_t random = 5;

	(void)state;
	make(&base, 1, 1, -1, &random);
	make(&now, 1, 1.2, 2, &random);
	compare(&base, &now, &c);
	assert_int_equal(c.findings.count, 1);
	assert_int_equal(c.findings.items[0]->priority, 2);
	assert_int_equal(c.findings.items[0]->confidence, NSPY_WEAK);
	done(&base, &now, &c);
}

static void test_faster_is_no_regression(void **state)
{
	struct nspy_runs base = {0}, now = {0};
	struct nspy_comparison c;
	uint64_t random = 6;

	(void)state;
	make(&base, 5, 1, -1, &random);
	make(&now, 5, 0.9, -1, &random);
	compare(&base, &now, &c);
	assert_int_equal(c.findings.count, 0);
	assert_int_equal(nspy_comparison_row(&c, "step")->verdict, NSPY_CHANGE_BETTER);
	done(&base, &now, &c);
}

/* A change below the least that counts is none, however sure. */
static void test_small_changes_do_not_count(void **state)
{
	static const struct noise steady = {
		.cv = 0.001, .rho = 0, .between = 0.0001, .steps = 400, .hosts = 4};
	struct nspy_runs base = {0}, now = {0};
	struct nspy_comparison c;
	uint64_t random = 8;

	(void)state;
	for (int i = 0; i < 5; i++) {
		runs_add(&base, &steady, 1, -1, 1, &random);
		runs_add(&now, &steady, 1.015, -1, 1, &random);
	}
	compare(&base, &now, &c);
	assert_int_equal(c.findings.count, 0);
	assert_true(nspy_comparison_row(&c, "step")->p < 1e-6);
	done(&base, &now, &c);
}

static void test_other_sizes_are_not_compared(void **state)
{
	struct nspy_runs base = {0}, now = {0};
	struct nspy_comparison c;
	uint64_t random = 10;

	(void)state;
	make(&base, 2, 1, -1, &random);
	make(&now, 2, 1.5, -1, &random);
	now.items[1].ranks = 64;
	compare(&base, &now, &c);
	assert_false(c.comparable);
	assert_int_equal(c.row_count, 0);
	assert_int_equal(c.findings.count, 0);
	assert_int_equal(c.reasons.count, 1);
	done(&base, &now, &c);
}

static void test_another_pattern_is_not_compared(void **state)
{
	struct nspy_runs base = {0}, now = {0};
	struct nspy_comparison c;
	uint64_t random = 11;

	(void)state;
	make(&base, 3, 1, -1, &random);
	make(&now, 3, 1.5, -1, &random);
	for (size_t i = 0; i < now.count; i++) {
		now.items[i].step_length = 30;
		now.items[i].mix[0].per_step = 11;
	}
	compare(&base, &now, &c);
	assert_true(c.comparable);
	assert_null(nspy_comparison_row(&c, "step"));
	assert_int_equal(c.findings.count, 0);
	assert_int_equal(c.reasons.count, 1);
	assert_int_equal(c.differences.count, 1);
	assert_non_null(strstr(c.differences.text[0], "1 per step -> 11"));
	done(&base, &now, &c);
}

static void test_what_changed_is_listed(void **state)
{
	struct nspy_runs base = {0}, now = {0};
	struct nspy_comparison c;
	uint64_t random = 12;

	(void)state;
	make(&base, 2, 1, -1, &random);
	make(&now, 2, 1, -1, &random);
	for (size_t i = 0; i < 2; i++) {
		nspy_run_add_fact(&base.items[i], "nccl.version", "22703");
		nspy_run_add_fact(&now.items[i], "nccl.version", "22809");
		nspy_run_add_fact(&base.items[i], "cuda.driver", "12090");
		nspy_run_add_fact(&now.items[i], "cuda.driver", "12090");
		nspy_run_add_fact(&base.items[i], "libfabric.version",
				  "1.22"); /* not told by new */
		nspy_run_add_fact(&now.items[i], "env.NCCL_ALGO", "Tree");
		nspy_run_add_fact(&base.items[i], "env.NCCL_PROTO", i ? "LL" : "Simple");
		nspy_run_add_host(&now.items[i], "node-9");
	}
	compare(&base, &now, &c);
	assert_int_equal(c.differences.count, 4);
	assert_string_equal(c.differences.text[0], "nccl.version: 22703 -> 22809");
	assert_string_equal(c.differences.text[1],
			    "NCCL_PROTO: differs from run to run -> not set");
	assert_string_equal(c.differences.text[2], "NCCL_ALGO: not set -> Tree");
	assert_non_null(strstr(c.differences.text[3], "node-9"));
	done(&base, &now, &c);
}

static void test_creation_that_takes_longer(void **state)
{
	struct nspy_runs base = {0}, now = {0};
	struct nspy_comparison c;
	uint64_t random = 13;

	(void)state;
	make(&base, 4, 1, -1, &random);
	make(&now, 4, 1, -1, &random);
	for (size_t i = 0; i < 4; i++) {
		double base_ns = 10e9 * (1 + 0.01 * runs_normal(&random));
		double now_ns = 30e9 * (1 + 0.01 * runs_normal(&random));

		nspy_run_add_metric(&base.items[i], NSPY_METRIC_START, "start")->ns =
			(struct nspy_summary){base_ns, NAN, base_ns, base_ns, base_ns, 1};
		nspy_run_add_metric(&now.items[i], NSPY_METRIC_START, "start")->ns =
			(struct nspy_summary){now_ns, NAN, now_ns, now_ns, now_ns, 1};
	}
	compare(&base, &now, &c);
	assert_int_equal(c.findings.count, 1);
	assert_int_equal(c.findings.items[0]->priority, 2);
	assert_non_null(strstr(c.findings.items[0]->summary, "creation"));
	done(&base, &now, &c);
}

/* A metric that has one number a run, of about mean_ns. */
static void add_single(struct nspy_run *run, enum nspy_metric_kind kind, const char *key,
		       double mean_ns, double bus_bytes, uint64_t *random)
{
	struct nspy_metric *metric = nspy_run_add_metric(run, kind, key);
	double ns = mean_ns * (1 + 0.003 * runs_normal(random));

	metric->ns = (struct nspy_summary){ns, NAN, ns, ns, ns, 100};
	metric->bus_bytes = bus_bytes;
}

#define OPERATION "time: ncclAllReduce 64.0 MiB, 16 ranks on 2 nodes"
#define CARD      "network: efa rdmap0s6"

static void make_transfers(struct nspy_runs *runs, size_t count, double factor, double step,
			   uint64_t *random)
{
	make(runs, count, step, -1, random);
	for (size_t i = 0; i < count; i++) {
		add_single(&runs->items[i], NSPY_METRIC_TIME, OPERATION, 1e6 * factor, 2e8, random);
		add_single(&runs->items[i], NSPY_METRIC_NETWORK, CARD, 3e4, 0, random);
	}
}

static void test_the_same_job(void **state)
{
	struct nspy_runs runs = {0};
	struct nspy_run *a, *b;
	uint64_t random = 17;

	(void)state;
	make(&runs, 2, 1, -1, &random);
	a = &runs.items[0];
	b = &runs.items[1];
	nspy_run_add_mix(a, "ncclAllReduce 4 B to 16 B, 8 ranks on 1 node")->per_step = 2;
	assert_false(nspy_baseline_same_job(a, b));
	nspy_run_add_mix(b, "ncclAllReduce 4 B to 16 B, 8 ranks on 1 node")->per_step = 2.02;
	assert_true(nspy_baseline_same_job(a, b));
	nspy_run_add_mix(a, "memory registrations of a rank (libfabric)")->per_step = 5;
	assert_true(nspy_baseline_same_job(a, b)); /* a change to be told, not other work */
	nspy_run_add_fact(a, "job.tag", "pretrain");
	assert_false(nspy_baseline_same_job(a, b));
	nspy_run_add_fact(b, "job.tag", "finetune");
	assert_false(nspy_baseline_same_job(a, b));
	free(b->facts[b->fact_count - 1].value);
	b->facts[b->fact_count - 1].value = nspy_xstrdup("pretrain");
	assert_true(nspy_baseline_same_job(a, b));
	b->ranks *= 2;
	assert_false(nspy_baseline_same_job(a, b));
	nspy_runs_done(&runs);
}

static void test_operation_that_takes_longer(void **state)
{
	struct nspy_runs base = {0}, now = {0};
	struct nspy_comparison c;
	uint64_t random = 14;

	(void)state;
	make_transfers(&base, 5, 1, 1, &random);
	make_transfers(&now, 5, 1.1, 1, &random);
	compare(&base, &now, &c);
	assert_int_equal(nspy_comparison_row(&c, OPERATION)->verdict, NSPY_CHANGE_WORSE);
	assert_int_equal(nspy_comparison_row(&c, CARD)->verdict, NSPY_CHANGE_NONE);
	/* The step does not take longer: a note. */
	assert_int_equal(c.findings.count, 1);
	assert_int_equal(c.findings.items[0]->priority, 2);
	assert_non_null(strstr(c.findings.items[0]->summary, "ncclAllReduce 64.0 MiB"));
	assert_non_null(strstr(c.findings.items[0]->summary, "busbw at least 200 -> 182 GB/s"));
	done(&base, &now, &c);
}

static void test_operation_explains_the_step(void **state)
{
	struct nspy_runs base = {0}, now = {0};
	struct nspy_comparison c;
	uint64_t random = 15;
	size_t told = 0;

	(void)state;
	make_transfers(&base, 5, 1, 1, &random);
	make_transfers(&now, 5, 1.3, 1.05, &random);
	compare(&base, &now, &c);
	assert_int_equal(c.findings.count, 1);
	assert_int_equal(c.findings.items[0]->priority, 1);
	for (size_t i = 0; i < c.findings.items[0]->details.count; i++)
		told += strstr(c.findings.items[0]->details.text[i], "busbw at least") != NULL;
	assert_int_equal(told, 1);
	done(&base, &now, &c);
}

static void test_one_operation_time_a_side_decides_nothing(void **state)
{
	struct nspy_runs base = {0}, now = {0};
	struct nspy_comparison c;
	uint64_t random = 16;

	(void)state;
	make_transfers(&base, 1, 1, 1, &random);
	make_transfers(&now, 1, 2, 1, &random);
	compare(&base, &now, &c);
	assert_int_equal(nspy_comparison_row(&c, OPERATION)->verdict, NSPY_CHANGE_UNKNOWN);
	assert_int_equal(c.findings.count, 0);
	done(&base, &now, &c);
}

static void test_baseline_comes_back(void **state)
{
	struct nspy_runs runs = {0}, back = {0};
	char path[] = "/tmp/nspy-baseline-XXXXXX", error[160];
	char *text, *content;
	uint64_t random = 14;

	(void)state;
	make(&runs, 3, 1, 1, &random);
	nspy_run_add_fact(&runs.items[0], "nccl.version", "22809");
	assert_non_null(mkdtemp(path));
	text = nspy_xasprintf("%s/b.nspyb", path);
	assert_int_equal(nspy_runs_save(&runs, text), 0);
	assert_true(nspy_runs_is_baseline(text));
	content = nspy_read_text(text, NSPY_BASELINE_BYTES_MAX);
	assert_non_null(content);
	assert_int_equal(nspy_runs_parse(content, strlen(content), &back, error, sizeof(error)), 0);
	assert_int_equal(back.count, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(back.items[i].ranks, runs.items[i].ranks);
		assert_int_equal(back.items[i].metric_count, runs.items[i].metric_count);
		near(back.items[i].metrics[0].ns.center, runs.items[i].metrics[0].ns.center, 1);
		near(back.items[i].metrics[0].ns.error, runs.items[i].metrics[0].ns.error, 1);
		near(back.items[i].hosts[1].charged_ns, runs.items[i].hosts[1].charged_ns, 1);
	}
	assert_string_equal(nspy_run_fact(&back.items[0], "nccl.version"), "22809");
	/* Cut anywhere it is refused, in one line, and adds nothing. */
	for (size_t cut = 0; cut + 2 < strlen(content); cut += 97) {
		assert_true(nspy_runs_parse(content, cut, &back, error, sizeof(error)) < 0);
		assert_null(strchr(error, '\n'));
		assert_int_equal(back.count, 3);
	}
	assert_int_equal(unlink(text), 0);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(nspy_runs_save(&runs, text), -ENOENT);
	free(content);
	free(text);
	nspy_runs_done(&runs);
	nspy_runs_done(&back);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_student),
		cmocka_unit_test(test_error_is_honest),
		cmocka_unit_test(test_pauses_do_not_matter),
		cmocka_unit_test(test_long_series_is_bounded),
		cmocka_unit_test(test_few_samples),
		cmocka_unit_test(test_slower_node_is_named),
		cmocka_unit_test(test_all_slower_names_nobody),
		cmocka_unit_test(test_one_run_a_side_is_no_alarm),
		cmocka_unit_test(test_faster_is_no_regression),
		cmocka_unit_test(test_small_changes_do_not_count),
		cmocka_unit_test(test_other_sizes_are_not_compared),
		cmocka_unit_test(test_another_pattern_is_not_compared),
		cmocka_unit_test(test_what_changed_is_listed),
		cmocka_unit_test(test_creation_that_takes_longer),
		cmocka_unit_test(test_the_same_job),
		cmocka_unit_test(test_operation_that_takes_longer),
		cmocka_unit_test(test_operation_explains_the_step),
		cmocka_unit_test(test_one_operation_time_a_side_decides_nothing),
		cmocka_unit_test(test_baseline_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
