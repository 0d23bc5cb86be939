/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UNEVEN_NODE_BANDWIDTH, from traces
 *
 * Question: does data go more slowly over some node, card or link than over its equals?
 * Evidence: (1) what was counted on the network: time of an operation from posting to completion,
 * per pair of nodes and card, where loads are equal. (2) communicators of one shape that did the
 * same operation of the same size on a stream seen empty; the rank that waited least shows how long
 * it took at most, so a rank or host that comes late makes nothing look slow. Threshold: below 95 %
 * of the median (if most are slow: of what nodes reach at best) and three times further off than
 * the others are apart; P1 below 80 %. (1) four paths of three nodes, 1,000 timed operations each,
 * bytes and sizes equal to 10 %. (2) four communicators, 8 operations each of 100 us or more; what
 * is lost must grow with the size, for which an operation of a quarter of the size or less must
 * have been timed too: a slow GPU before the operation costs the same at any size. Known false
 * positives: pairs over different distances in the fabric; other jobs on the same links.
 */
#include <stdlib.h>
#include <string.h>

#include "detect.h"
#include "uneven.h"

#define EQUAL       0.10
#define RUNS_MIN    4u
#define NODES_MIN   3u
#define TIMED_MIN   1000u
#define SAMPLES_MIN 8u
#define TIME_MIN_NS 100000u
#define SMALLER     4u  /* times smaller: an operation to compare what is lost with */
#define GROWS       2.0 /* times more is lost at the larger size */

/* --- what was counted on the network --- */

static bool equal(double a, double b)
{
	return a >= b * (1 - EQUAL) && a <= b * (1 + EQUAL);
}

static bool measured(const struct nspy_bw_path *path, const char *provider)
{
	return path->timed >= TIMED_MIN && nspy_bw_path_rate(path) > 0 &&
	       strcmp(path->rail->provider, provider) == 0 &&
	       strcmp(nspy_proc_host(path->from), nspy_proc_host(path->to)) != 0;
}

/* Paths of a provider with equal loads: those near the median in both size and sum of operations.
 */
static void equal_paths(const struct nspy_bandwidth *bandwidth, const char *provider,
			struct nspy_uneven_runs *ret)
{
	double *sizes = nspy_xcalloc(bandwidth->path_count, sizeof(*sizes));
	double *sums = nspy_xcalloc(bandwidth->path_count, sizeof(*sums)), size, sum;
	size_t count = 0;

	for (size_t i = 0; i < bandwidth->path_count; i++) {
		const struct nspy_bw_path *path = &bandwidth->paths[i];

		if (!measured(path, provider))
			continue;
		sizes[count] = (double)path->bytes / (double)path->operations;
		sums[count++] = (double)path->bytes;
	}
	size = nspy_uneven_median(sizes, count);
	sum = nspy_uneven_median(sums, count);
	for (size_t i = 0; i < bandwidth->path_count; i++) {
		const struct nspy_bw_path *path = &bandwidth->paths[i];
		struct nspy_uneven_run run = {.path = path};

		if (!measured(path, provider) || !equal((double)path->bytes, sum) ||
		    !equal((double)path->bytes / (double)path->operations, size))
			continue;
		run.rate = nspy_bw_path_rate(path);
		nspy_uneven_add(ret, &run);
	}
	free(sizes);
	free(sums);
}

/* Sends to a node that comes late to its receives take long: that is told as its lateness. */
static bool receives_late(const struct nspy_case *c, const struct nspy_uneven_runs *runs,
			  const struct nspy_uneven_subject *subject)
{
	const struct nspy_costs *costs = &c->costs;
	uint64_t charged = 0;

	for (size_t i = 0; i < runs->count; i++) {
		const struct nspy_uneven_run *run = &runs->items[i];

		if (run->slow && nspy_uneven_host_of(runs, run, 0) == subject->host)
			return false;
	}
	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		const struct nspy_proc *proc = c->attempt->procs[i];

		if (runs->hosts->of_proc[proc->index] == subject->host)
			charged += costs->by_proc[proc->index];
	}
	return costs->lost_ns * 50 > costs->rank_ns && charged * 2 > costs->lost_ns;
}

static bool judge_paths(const struct nspy_case *c, struct nspy_findings *out,
			const struct nspy_uneven_hosts *hosts, const char *provider)
{
	struct nspy_uneven_subject subjects[NSPY_UNEVEN_SUBJECTS_MAX];
	struct nspy_uneven_runs runs = {.hosts = hosts};
	size_t count = 0;
	bool found;

	equal_paths(&c->bandwidth, provider, &runs);
	found = runs.count >= RUNS_MIN && nspy_uneven_count_hosts(&runs) >= NODES_MIN &&
		nspy_uneven_mark(&runs) > 0;
	if (found) {
		count = nspy_uneven_subjects(&runs, subjects);
		found = !(count == 1 && receives_late(c, &runs, &subjects[0]));
	}
	if (found)
		nspy_uneven_report(c, out, &runs, subjects, count);
	free(runs.items);
	return found;
}

/* --- collectives --- */

static bool eligible(const struct nspy_bw_series *series)
{
	return series->alone && !series->message && series->peer == NSPY_PEER_NONE &&
	       series->size > 0 && series->samples >= SAMPLES_MIN &&
	       series->comm->rank_count == (size_t)series->comm->nranks;
}

/* Larger ones first; 0 if they are to be compared with each other. */
static int compare_kind(const struct nspy_bw_series *x, const struct nspy_bw_series *y)
{
	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	if (x->fn != y->fn)
		return x->fn < y->fn ? -1 : 1;
	if (x->ranks != y->ranks)
		return x->ranks > y->ranks ? -1 : 1;
	if (x->nodes != y->nodes)
		return x->nodes > y->nodes ? -1 : 1;
	return x->burst < y->burst ? -1 : x->burst > y->burst;
}

static int compare_series(const void *a, const void *b)
{
	const struct nspy_bw_series *x = *(const struct nspy_bw_series *const *)a;
	const struct nspy_bw_series *y = *(const struct nspy_bw_series *const *)b;
	int order = compare_kind(x, y);

	return order ? order : x->comm->key < y->comm->key ? -1 : x->comm->key > y->comm->key;
}

static void equal_series(const struct nspy_bandwidth *bandwidth, const struct nspy_bw_series *like,
			 struct nspy_uneven_runs *ret)
{
	for (size_t i = 0; i < bandwidth->series_count; i++) {
		const struct nspy_bw_series *series = &bandwidth->series[i];
		struct nspy_uneven_run run = {.series = series,
					      .rate = nspy_bw_alg(series, series->median_ns)};

		if (eligible(series) && compare_kind(series, like) == 0)
			nspy_uneven_add(ret, &run);
	}
}

/* How much longer than the median of its equals a series took, ns; false if these are too few. */
static bool excess(const struct nspy_bandwidth *bandwidth, const struct nspy_bw_series *series,
		   double *ret_ns)
{
	struct nspy_uneven_runs runs = {0};
	double *times;

	equal_series(bandwidth, series, &runs);
	times = nspy_xcalloc(runs.count + 1, sizeof(*times));
	for (size_t i = 0; i < runs.count; i++)
		times[i] = (double)runs.items[i].series->median_ns;
	*ret_ns = (double)series->median_ns - nspy_uneven_median(times, runs.count);
	free(times);
	free(runs.items);
	return runs.count >= RUNS_MIN;
}

/* What is lost grows with the size; false also if no smaller operation was timed. */
static bool grows(const struct nspy_bandwidth *bandwidth, const struct nspy_bw_series *series)
{
	bool compared = false;
	double mine, less;

	if (!excess(bandwidth, series, &mine))
		return false;

	for (size_t i = 0; i < bandwidth->series_count; i++) {
		const struct nspy_bw_series *small = &bandwidth->series[i];

		if (!eligible(small) || small->comm != series->comm || small->fn != series->fn ||
		    small->bytes * SMALLER > series->bytes)
			continue;
		if (!excess(bandwidth, small, &less))
			continue;
		if (less * GROWS > mine)
			return false;
		compared = true;
	}
	return compared;
}

/* The times of the slow one and of most others must not overlap. */
static void keep_apart(const struct nspy_bandwidth *bandwidth, struct nspy_uneven_runs *runs)
{
	for (size_t i = 0; i < runs->count; i++) {
		struct nspy_uneven_run *run = &runs->items[i];
		double others = run->series->size * 1e9 / runs->median;

		run->slow = run->slow && (double)run->series->low_ns > others &&
			    grows(bandwidth, run->series);
	}
}

static bool judge_series(const struct nspy_case *c, struct nspy_findings *out,
			 const struct nspy_uneven_hosts *hosts,
			 const struct nspy_bw_series *const *equals, size_t count)
{
	struct nspy_uneven_subject subjects[NSPY_UNEVEN_SUBJECTS_MAX];
	struct nspy_uneven_runs runs = {.hosts = hosts};
	bool found = false;

	for (size_t i = 0; i < count; i++) {
		struct nspy_uneven_run run = {.series = equals[i],
					      .rate = nspy_bw_alg(equals[i], equals[i]->median_ns)};

		nspy_uneven_add(&runs, &run);
	}
	if (nspy_uneven_mark(&runs)) {
		keep_apart(&c->bandwidth, &runs);
		for (size_t i = 0; i < runs.count; i++)
			found |= runs.items[i].slow;
	}
	if (found)
		nspy_uneven_report(c, out, &runs, subjects, nspy_uneven_subjects(&runs, subjects));
	free(runs.items);
	return found;
}

/* The largest size at which one is slow tells. */
static void judge_collectives(const struct nspy_case *c, struct nspy_findings *out,
			      const struct nspy_uneven_hosts *hosts)
{
	const struct nspy_bandwidth *bandwidth = &c->bandwidth;
	const struct nspy_bw_series **sorted =
		nspy_xcalloc(bandwidth->series_count + 1, sizeof(const struct nspy_bw_series *));
	size_t count = 0, end;

	for (size_t i = 0; i < bandwidth->series_count; i++) {
		if (eligible(&bandwidth->series[i]) &&
		    bandwidth->series[i].median_ns >= TIME_MIN_NS)
			sorted[count++] = &bandwidth->series[i];
	}
	qsort(sorted, count, sizeof(const struct nspy_bw_series *), compare_series);
	for (size_t begin = 0; begin < count; begin = end) {
		end = begin + 1;
		while (end < count && compare_kind(sorted[begin], sorted[end]) == 0)
			end++;
		if (end - begin >= RUNS_MIN &&
		    judge_series(c, out, hosts, sorted + begin, end - begin))
			break;
	}
	free(sorted);
}

void nspy_detect_bandwidth(const struct nspy_case *c, struct nspy_findings *out)
{
	const struct nspy_bandwidth *bandwidth = &c->bandwidth;
	struct nspy_uneven_hosts hosts = {0};
	bool found = false;

	if (!bandwidth->path_count && !bandwidth->series_count)
		return;
	nspy_uneven_hosts_number(c, &hosts);
	for (size_t i = 0; i < bandwidth->path_count; i++) {
		const char *provider = bandwidth->paths[i].rail->provider;
		size_t k = 0;

		while (k < i && strcmp(bandwidth->paths[k].rail->provider, provider) != 0)
			k++;
		if (k == i)
			found |= judge_paths(c, out, &hosts, provider);
	}
	if (!found)
		judge_collectives(c, out, &hosts);
	free(hosts.names);
	free(hosts.of_proc);
}
