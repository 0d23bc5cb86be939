/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of nccl-tests, settings, and what is left when only effects are known. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "log.h"
#include "text.h"

/* --- nccl-tests --- */

#define RUNS_MIN   3u   /* fewer have no median worth the name */
#define SHARE_NOTE 0.95 /* of the median: told below */
#define SHARE_ACT  0.80

static double figure(const struct nspy_log_bench_run *run)
{
	return run->avg > 0 ? run->avg : run->best;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static bool has_host(const struct nspy_log_bench_run *run, const char *host)
{
	for (size_t h = 0; h < run->host_count; h++) {
		if (strcmp(run->hosts[h], host) == 0)
			return true;
	}
	return false;
}

static double best_of(const struct nspy_log *log, const char *host)
{
	double best = 0;

	for (size_t i = 0; i < log->run_count; i++) {
		if (has_host(&log->runs[i], host) && figure(&log->runs[i]) > best)
			best = figure(&log->runs[i]);
	}
	return best;
}

/* All nodes of all runs, once each. */
static const char **all_hosts(const struct nspy_log *log, size_t *ret_count)
{
	size_t limit = log->run_count * nspy_array_size(log->runs->hosts);
	const char **hosts = nspy_xcalloc(limit + 1, sizeof(const char *));
	struct nspy_map seen = {0};

	*ret_count = 0;
	for (size_t i = 0; i < log->run_count; i++) {
		for (size_t h = 0; h < log->runs[i].host_count; h++) {
			const char *host = log->runs[i].hosts[h];
			uint64_t key = nspy_log_hash(host, strlen(host)) | 1;

			if (nspy_map_get(&seen, key))
				continue;
			nspy_map_put(&seen, key, log->runs[i].hosts[h]);
			hosts[(*ret_count)++] = host;
		}
	}
	nspy_map_done(&seen);
	return hosts;
}

/* The median of what nodes reach at best; 0 if the runs do not tell their nodes. */
static double median_best(const struct nspy_log *log)
{
	size_t count;
	const char **hosts = all_hosts(log, &count);
	double *values = nspy_xcalloc(count + 1, sizeof(*values)), median = 0;

	for (size_t i = 0; i < count; i++)
		values[i] = best_of(log, hosts[i]);
	qsort(values, count, sizeof(*values), by_value);
	if (count > 2)
		median = values[count / 2];
	free(values);
	free(hosts);
	return median;
}

static double median_of(const struct nspy_log *log, size_t *ret_count)
{
	double *values = nspy_xcalloc(log->run_count + 1, sizeof(*values)), median = 0;
	size_t count = 0;

	for (size_t i = 0; i < log->run_count; i++) {
		if (figure(&log->runs[i]) > 0)
			values[count++] = figure(&log->runs[i]);
	}
	qsort(values, count, sizeof(*values), by_value);
	if (count)
		median = values[count / 2];
	free(values);
	*ret_count = count;
	/* A few slow nodes make most pairs slow: then what nodes reach at best is the measure. */
	if (median < SHARE_NOTE * median_best(log))
		median = median_best(log);
	return median;
}

/* Slow runs of a node that no node found before explains; 0 if one of its runs is fine. */
static size_t slow_throughout(const struct nspy_log *log, const bool *explained, const char *host,
			      double limit)
{
	size_t runs = 0, slow = 0;

	for (size_t i = 0; i < log->run_count; i++) {
		if (!has_host(&log->runs[i], host) || figure(&log->runs[i]) <= 0)
			continue;
		if (figure(&log->runs[i]) >= limit)
			return 0;
		runs++;
		slow += !explained[i];
	}
	return runs >= 2 ? slow : 0;
}

/*
 * Nodes whose runs are slow with every partner, the one with most of them first. A run is
 * explained by one of its nodes: the partner is not slow because of it.
 */
static size_t slow_nodes(const struct nspy_log *log, double median, const char **ret, size_t limit)
{
	bool *explained = nspy_xcalloc(log->run_count + 1, sizeof(*explained));
	size_t count = 0, host_count;
	const char **hosts = all_hosts(log, &host_count);

	while (count < limit) {
		const char *worst = NULL;
		size_t most = 1;

		for (size_t i = 0; i < host_count; i++) {
			size_t slow =
				slow_throughout(log, explained, hosts[i], median * SHARE_NOTE);

			if (slow <= most)
				continue;
			most = slow;
			worst = hosts[i];
		}
		if (!worst)
			break;
		for (size_t i = 0; i < log->run_count; i++)
			explained[i] |= has_host(&log->runs[i], worst);
		ret[count++] = worst;
	}
	free(explained);
	free(hosts);
	return count;
}

static void name_run(struct nspy_str *s, const struct nspy_log *log,
		     const struct nspy_log_bench_run *run)
{
	const char *path = log->files[run->file].path, *base = strrchr(path, '/');

	for (size_t h = 0; h < run->host_count; h++)
		nspy_str_addf(s, "%s%s", h ? "-" : "", run->hosts[h]);
	if (!run->host_count)
		nspy_str_add(s, base ? base + 1 : path);
}

static void tell_even(const struct nspy_log *log, struct nspy_findings *out, double median,
		      size_t runs, double worst, size_t slow, const char *list)
{
	const char *nodes[8];
	size_t count = slow_nodes(log, median, nodes, nspy_array_size(nodes));
	struct nspy_finding *finding =
		nspy_log_finding(out, NSPY_FINDING_UNEVEN_NODE_BANDWIDTH, worst < SHARE_ACT ? 1 : 2,
				 NSPY_LOG_CAUSE, 0);
	struct nspy_str s = {0};

	for (size_t i = 0; i < count; i++) {
		nspy_str_addf(&s, "%s%s", i ? ", " : "", nodes[i]);
		nspy_finding_blame(finding, nspy_log_host(log, nodes[i]));
	}
	if (count)
		nspy_str_addf(&s, " %s slow with every partner: ", count == 1 ? "is" : "are");
	nspy_str_addf(&s, "%zu of %zu runs are below the median of %.4g GB/s: %s", slow, runs,
		      median, list);
	finding->summary = nspy_str_take(&s);
	finding->cause = nspy_xstrdup(finding->summary);
}

static void judge_even(const struct nspy_log *log, struct nspy_findings *out)
{
	size_t runs, slow = 0;
	double median = median_of(log, &runs), worst = 1;
	struct nspy_str s = {0};

	for (size_t i = 0; runs >= RUNS_MIN && i < log->run_count; i++) {
		double share = figure(&log->runs[i]) / median;

		if (share >= SHARE_NOTE || figure(&log->runs[i]) <= 0)
			continue;
		worst = share < worst ? share : worst;
		if (slow++ < 8) {
			nspy_str_addf(&s, "%s", s.bytes ? ", " : "");
			name_run(&s, log, &log->runs[i]);
			nspy_str_addf(&s, " %.0f %%", 100 * share);
		}
	}
	if (slow)
		tell_even(log, out, median, runs, worst, slow, s.text);
	nspy_str_done(&s);
}

void nspy_log_judge_bench(const struct nspy_log *log, struct nspy_findings *out)
{
	struct nspy_finding *finding;
	struct nspy_str s = {0};
	int64_t wrong = 0;

	for (size_t i = 0; i < log->run_count; i++) {
		if (log->runs[i].wrong <= 0)
			continue;
		wrong += log->runs[i].wrong;
		nspy_str_addf(&s, "%s", s.bytes ? ", " : "");
		name_run(&s, log, &log->runs[i]);
	}
	if (wrong) {
		finding = nspy_log_finding(out, NSPY_FINDING_DATA_CORRUPTION, 0, NSPY_LOG_CAUSE, 0);
		finding->summary = nspy_xasprintf(
			"nccl-tests counted %" PRId64 " wrong results: %s", wrong, s.text);
		finding->cause = nspy_xstrdup(finding->summary);
		for (size_t i = 0; i < log->event_count && finding->details.count < 4; i++) {
			if (log->events[i]->rule == NSPY_LOG_TESTS_TABLE)
				nspy_log_quote(log, finding, log->events[i]);
		}
	}
	nspy_str_done(&s);
	judge_even(log, out);
}

/* --- settings --- */

/* Overrides that hang or corrupt where sizes do not fit what NCCL expects. */
static bool risky(const char *name)
{
	return strstr(name, "BUFFSIZE") || strcmp(name, "NCCL_CHUNK_SIZE") == 0 ||
	       strcmp(name, "NCCL_P2P_NET_CHUNKSIZE") == 0 || strcmp(name, "NCCL_NTHREADS") == 0;
}

/* Must be the same on all ranks. */
static bool common(const char *name)
{
	return risky(name) || strcmp(name, "NCCL_ALGO") == 0 || strcmp(name, "NCCL_PROTO") == 0 ||
	       strcmp(name, "NCCL_MIN_NCHANNELS") == 0 || strcmp(name, "NCCL_MAX_NCHANNELS") == 0 ||
	       strcmp(name, "NCCL_NET") == 0 || strcmp(name, "NCCL_IB_DISABLE") == 0 ||
	       strcmp(name, "NCCL_NVLS_ENABLE") == 0 || strcmp(name, "NCCL_CROSS_NIC") == 0;
}

/* LL128 moves 120 of 128 bytes: its buffers must be multiples of 120. */
static bool impossible(const struct nspy_log_env *env)
{
	uint64_t value;

	return strcmp(env->name, "NCCL_LL128_BUFFSIZE") == 0 &&
	       nspy_parse_u64(env->value, &value) && value % 120 != 0;
}

static bool wrong_results(const struct nspy_log *log)
{
	for (size_t i = 0; i < log->event_count; i++) {
		if (log->events[i]->rule == NSPY_LOG_XID &&
		    (log->events[i]->number == 31 || log->events[i]->number == 13))
			return true;
	}
	return nspy_log_any(log, NSPY_LOG_TESTS_TABLE) || nspy_log_any(log, NSPY_LOG_WATCHDOG) ||
	       nspy_log_any(log, NSPY_LOG_SOCKET_SIZE) || nspy_log_any(log, NSPY_LOG_IB_SIZE);
}

static void judge_risky(const struct nspy_log *log, struct nspy_findings *out)
{
	struct nspy_finding *finding;
	struct nspy_str s = {0};
	bool bad = false;

	for (size_t i = 0; i < log->env_count; i++) {
		bad |= impossible(log->envs[i]);
		if (risky(log->envs[i]->name))
			nspy_str_addf(&s, "%s%s=%s", s.bytes ? ", " : "", log->envs[i]->name,
				      log->envs[i]->value);
	}
	if (!s.bytes)
		return;
	finding = nspy_log_finding(out, NSPY_FINDING_ENV_HARMFUL,
				   wrong_results(log) ? 0
				   : bad              ? 1
						      : 2,
				   NSPY_LOG_CAUSE, 0);
	finding->summary =
		nspy_xasprintf("sizes inside NCCL are overridden (%s), which can hang, corrupt "
			       "data or fault on the GPU%s",
			       s.text, wrong_results(log) ? ", as happened here" : "");
	finding->cause = nspy_xstrdup(finding->summary);
	nspy_str_done(&s);
}

/* One GPU that all failing runs have in common and no passing run used. */
static void judge_subsets(const struct nspy_log *log, struct nspy_findings *out)
{
	uint64_t guilty = log->subsets_bad & ~log->subsets_good;
	struct nspy_finding *finding;
	int64_t gpus[64];
	struct nspy_str s = {0};
	size_t count = 0;

	for (int64_t i = 0; i < 64; i++) {
		if (guilty >> i & 1)
			gpus[count++] = i;
	}
	if (log->subset_bad_count < 2 || !log->subsets_good || count == 0 || count > 2)
		return;
	nspy_add_ranges(&s, gpus, count);
	finding = nspy_log_finding(out, NSPY_FINDING_CUDA_DEVICE_FAULT, 0, NSPY_LOG_SYMPTOM, 0);
	finding->summary =
		nspy_xasprintf("GPU %s is in all runs that fail and in none that passes", s.text);
	finding->cause = nspy_xstrdup(finding->summary);
	nspy_str_done(&s);
}

/* An interface that leads nowhere, in a job of several nodes or one that cannot connect. */
static void judge_interface(const struct nspy_log *log, struct nspy_findings *out)
{
	const char *host = NULL;
	bool several = nspy_log_any(log, NSPY_LOG_CONNECT) || nspy_log_any(log, NSPY_LOG_RETRIES);

	for (size_t i = 0; i < log->source_count && !several; i++) {
		const char *own = nspy_proc_fact(log->sources[i]->proc, "host");

		several = own && host && strcmp(own, host) != 0;
		host = own ? own : host;
	}
	for (size_t i = 0; several && i < log->event_count; i++) {
		const struct nspy_log_event *event = log->events[i];
		struct nspy_finding *finding;

		if (event->rule != NSPY_LOG_BOOT_USING && event->rule != NSPY_LOG_BOOT_USING2)
			continue;
		finding = nspy_log_finding(out, NSPY_FINDING_SOCKET_IFNAME_INVALID, 1,
					   NSPY_LOG_CAUSE, event->order);
		finding->summary =
			nspy_xasprintf("NCCL chose the interface %s, which does not lead to other "
				       "nodes",
				       event->peer);
		finding->cause = nspy_xstrdup(finding->summary);
		nspy_finding_blame(finding, event->source->proc);
		nspy_log_quote(log, finding, event);
		return;
	}
}

void nspy_log_judge_env(const struct nspy_log *log, struct nspy_findings *out)
{
	judge_subsets(log, out);
	judge_interface(log, out);
	judge_risky(log, out);
	for (size_t i = 0; i < log->env_count; i++) {
		for (size_t k = i + 1; k < log->env_count; k++) {
			const struct nspy_log_env *a = log->envs[i], *b = log->envs[k];
			struct nspy_finding *finding;

			if (strcmp(a->name, b->name) != 0 || !common(a->name) ||
			    a->first == b->first)
				continue;
			finding = nspy_log_finding(out, NSPY_FINDING_STACK_DRIFT, 1, NSPY_LOG_CAUSE,
						   b->first->first_line);
			finding->summary = nspy_xasprintf("%s is %s on some ranks and %s on others",
							  a->name, a->value, b->value);
			finding->cause = nspy_xstrdup(finding->summary);
			nspy_finding_blame(finding, a->sources < b->sources ? a->first->proc
									    : b->first->proc);
			return;
		}
	}
}

/* --- only effects --- */

static const char *most_blamed(const struct nspy_log *log, size_t *ret_votes, size_t *ret_sources)
{
	const char *best = NULL;

	*ret_votes = *ret_sources = 0;
	for (size_t i = 0; i < log->event_count; i++) {
		const struct nspy_log_event *event = log->events[i];
		size_t votes = 0;

		if (event->klass != NSPY_LOG_EFFECT || !event->peer ||
		    event->rule == NSPY_LOG_CHAIN)
			continue;
		++*ret_sources;
		for (size_t k = 0; k < log->event_count; k++)
			votes += log->events[k]->klass == NSPY_LOG_EFFECT && log->events[k]->peer &&
				 log->events[k]->rule != NSPY_LOG_CHAIN &&
				 strcmp(log->events[k]->peer, event->peer) == 0;
		if (votes > *ret_votes) {
			*ret_votes = votes;
			best = event->peer;
		}
	}
	return best;
}

/*
 * A failed call says less than a warning, and what also happens at a normal end least. How a
 * process ended says more than that a connection to it was closed.
 */
static int rank_of(const struct nspy_log_event *event)
{
	return 4 * event->priority + 2 * (event->rule == NSPY_LOG_CHAIN) +
	       (event->rule == NSPY_LOG_LOCAL_CLOSED);
}

static const struct nspy_log_event *first_effect(const struct nspy_log *log)
{
	const struct nspy_log_event *first = NULL;

	for (size_t i = 0; i < log->event_count; i++) {
		if (log->events[i]->klass != NSPY_LOG_EFFECT)
			continue;
		if (!first || rank_of(log->events[i]) < rank_of(first))
			first = log->events[i];
	}
	return first;
}

static bool starting(const struct nspy_log *log)
{
	for (size_t i = 0; i < log->event_count; i++) {
		const struct nspy_log_event *event = log->events[i];

		if (event->rule == NSPY_LOG_CHAIN && event->peer &&
		    strstr(event->peer, "bootstrap.cc"))
			return true;
	}
	return false;
}

/* The rank that the first effect is about; who sees it if it names nobody. */
static void name_first(struct nspy_finding *finding, const struct nspy_log *log,
		       const struct nspy_log_event *first, const char *peer)
{
	struct nspy_str s = {0};

	if (peer) {
		nspy_finding_blame(finding, nspy_log_host(log, peer));
	} else if (first->rank >= 0) {
		nspy_finding_blame(finding, nspy_log_proc(log, first->rank));
		nspy_str_addf(&s, "%s; rank %" PRId64, finding->summary, first->rank);
	} else {
		nspy_log_add_who(&s, (struct nspy_log_source *const *)&first->source, 1);
		if (s.bytes) {
			struct nspy_str whole = {0};

			nspy_str_addf(&whole, "%s; seen by %s", finding->summary, s.text);
			nspy_str_done(&s);
			s = whole;
		}
	}
	if (s.bytes) {
		free(finding->summary);
		finding->summary = nspy_str_take(&s);
	}
	nspy_str_done(&s);
}

void nspy_log_judge_deaths(const struct nspy_log *log, struct nspy_findings *out)
{
	const struct nspy_log_event *first = first_effect(log);
	bool start = starting(log);
	size_t votes, sources;
	const char *peer = most_blamed(log, &votes, &sources);
	struct nspy_finding *finding;

	if (!first)
		return;
	finding = nspy_log_finding(out,
				   start ? NSPY_FINDING_BOOTSTRAP_CONNECT_FAILED : first->finding,
				   start ? 0 : first->priority, NSPY_LOG_EFFECT, first->order);
	if (start)
		finding->summary =
			nspy_xasprintf("a connection was closed while NCCL started, by %s: that "
				       "rank ended, or it is no rank at all but a scanner or a "
				       "health check",
				       peer ? peer : "a peer");
	else if (peer)
		finding->summary = nspy_xasprintf(
			"%s; peer %s, named by %zu of %zu such lines: its own log "
			"says more, or is missing",
			first->meaning ? first->meaning : nspy_log_rules[first->rule].meaning, peer,
			votes, sources);
	else
		finding->summary = nspy_xasprintf(
			"%s; only effects of trouble elsewhere are in these logs",
			first->meaning ? first->meaning : nspy_log_rules[first->rule].meaning);
	name_first(finding, log, first, peer);
	finding->cause = nspy_xstrdup(finding->summary);
	finding->confidence = NSPY_WEAK;
	for (size_t i = 0; i < log->event_count && finding->details.count < 6; i++) {
		if (log->events[i]->klass == NSPY_LOG_EFFECT)
			nspy_log_quote(log, finding, log->events[i]);
	}
	if (first->rule == NSPY_LOG_LOCAL_CLOSED)
		nspy_finding_detail(finding,
				    "local rank %" PRId64 " of that node was the first to go",
				    first->number);
}
