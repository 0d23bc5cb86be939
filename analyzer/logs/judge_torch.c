/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's watchdog lines of all ranks together. The rank with the lowest counter of enqueued
 * operations holds up its group; equal counters everywhere mean that all joined and the data path
 * stands still. Ranks that do not say what the others say are told, too. Counters count within a
 * process group, so only lines of the same group are compared.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "log.h"
#include "text.h"

struct ranks {
	struct nspy_log_source **items;
	size_t count;
};

static bool same_group(const struct nspy_log_source *a, const struct nspy_log_source *b)
{
	return a->pg && b->pg ? strcmp(a->pg, b->pg) == 0 : !a->pg && !b->pg;
}

/* --- different operations or sizes at the same number --- */

/* Ranks may differ in size there. */
static bool sizes_may_differ(const char *op)
{
	return !op || strcasestr(op, "ALLTOALL") || strcasestr(op, "SEND") ||
	       strcasestr(op, "RECV") || strcasestr(op, "COALESCED") || strcasestr(op, "SCATTER") ||
	       strcasestr(op, "GATHER") || strcasestr(op, "BARRIER");
}

/* An all-gather of uneven shards into lists is legal; into one tensor it is not. */
static bool sizes_must_agree(const struct nspy_log_source *a)
{
	return !a->op || !sizes_may_differ(a->op) || strcasecmp(a->op, "_ALLGATHER_BASE") == 0 ||
	       strcasecmp(a->op, "_REDUCE_SCATTER_BASE") == 0;
}

static const char *disagree(const struct nspy_log_source *a, const struct nspy_log_source *b)
{
	if (a->seq != b->seq || !same_group(a, b))
		return NULL;
	if (a->op && b->op && strcmp(a->op, b->op) != 0)
		return "operation";
	if (a->numel_in != b->numel_in && sizes_must_agree(a))
		return "size";
	return NULL;
}

static void add_work(struct nspy_str *s, const struct nspy_log_source *source)
{
	nspy_log_add_who(s, (struct nspy_log_source *const *)&source, 1);
	nspy_str_addf(s, " %s with %" PRId64 " elements", source->op ? source->op : "an operation",
		      source->numel_in);
}

/* Those who are fewer; if that cannot be told, both sides. */
static void blame_odd(struct nspy_finding *finding, const struct ranks *r,
		      const struct nspy_log_source *a, const struct nspy_log_source *b)
{
	size_t like_a = 0, like_b = 0;

	for (size_t i = 0; i < r->count; i++) {
		like_a += !disagree(r->items[i], a) && r->items[i]->seq == a->seq &&
			  same_group(r->items[i], a);
		like_b += !disagree(r->items[i], b) && r->items[i]->seq == b->seq &&
			  same_group(r->items[i], b);
	}
	if (like_a == like_b)
		finding->confidence = NSPY_PROBABLE;
	for (size_t i = 0; i < r->count && finding->culprit_count < 64; i++) {
		const struct nspy_log_source *s = r->items[i];

		if (s->seq != a->seq || !same_group(s, a))
			continue;
		if ((like_a <= like_b && disagree(s, b)) || (like_b <= like_a && disagree(s, a)))
			nspy_finding_blame(finding, s->proc);
	}
}

static void judge_mismatch(const struct ranks *r, struct nspy_findings *out)
{
	for (size_t i = 1; i < r->count; i++) {
		const struct nspy_log_source *a = r->items[0], *b = r->items[i];
		const char *what = a->numel_in >= 0 && b->numel_in >= 0 ? disagree(a, b) : NULL;
		struct nspy_finding *finding;
		struct nspy_str s = {0};

		if (!what)
			continue;
		finding = nspy_log_finding(out, NSPY_FINDING_COLLECTIVE_MISMATCH, 0, NSPY_LOG_CAUSE,
					   a->first_line);
		if (!a->pg)
			finding->confidence = NSPY_PROBABLE; /* perhaps two groups */
		nspy_str_addf(&s, "ranks disagree about the %s of collective ", what);
		if (a->seq >= 0)
			nspy_str_addf(&s, "#%" PRId64, a->seq);
		nspy_str_add(&s, ": ");
		add_work(&s, a);
		nspy_str_add(&s, ", ");
		add_work(&s, b);
		finding->cause = nspy_xstrdup(s.text);
		finding->summary = nspy_str_take(&s);
		blame_odd(finding, r, a, b);
		return;
	}
}

/* --- who is late --- */

static void ran_since(struct nspy_str *s, const struct ranks *r)
{
	const struct nspy_log_source *source = r->items[0];

	if (source->op)
		nspy_str_addf(s, " in %s", source->op);
	if (source->seq >= 0)
		nspy_str_addf(s, " #%" PRId64, source->seq);
	if (source->pg)
		nspy_str_addf(s, " of process group %s", source->pg);
	if (source->ran_ms > 0) {
		nspy_str_add(s, " for ");
		nspy_add_duration(s, (uint64_t)source->ran_ms * NSPY_NS_PER_MS);
	}
}

/* Ranks of the job that say nothing of a timeout while most others do. */
static size_t silent(const struct nspy_log *log, const struct ranks *late, int64_t *ret_ranks)
{
	int64_t world = 0;
	size_t count = 0;

	for (size_t i = 0; i < log->source_count; i++) {
		const struct nspy_proc *proc = log->sources[i]->proc;

		world = proc->world > world ? proc->world : world;
		world = proc->rank + 1 > world ? proc->rank + 1 : world;
	}
	if (world < 2 || world > 65536 || late->count * 2 < (size_t)world)
		return 0;
	for (int64_t rank = 0; rank < world; rank++) {
		const struct nspy_log_source *source =
			nspy_map_get(&log->by_rank, (uint64_t)rank + 1);

		if (!source || (!source->timed_out && source->enqueued < 0 && !source->stuck))
			ret_ranks[count++] = rank;
	}
	return count * 2 < (size_t)world ? count : 0;
}

/* The ranks of the first group with the lowest counter; 0 if they are all alike or unknown. */
static size_t behind(const struct ranks *r, struct nspy_log_source **ret, int64_t *ret_low,
		     int64_t *ret_high)
{
	size_t count = 0;

	*ret_low = INT64_MAX;
	*ret_high = -1;
	for (size_t i = 0; i < r->count; i++) {
		const struct nspy_log_source *s = r->items[i];

		if (s->enqueued < 0 || !same_group(s, r->items[0]))
			continue;
		*ret_low = s->enqueued < *ret_low ? s->enqueued : *ret_low;
		*ret_high = s->enqueued > *ret_high ? s->enqueued : *ret_high;
	}
	if (*ret_high <= *ret_low)
		return 0;
	for (size_t i = 0; i < r->count; i++) {
		if (r->items[i]->enqueued == *ret_low && same_group(r->items[i], r->items[0]))
			ret[count++] = r->items[i];
	}
	return count;
}

/*
 * Without counters: the ranks whose first operation that timed out is an earlier one than that of
 * most. What others did in between they did without them.
 */
static size_t behind_waited(const struct ranks *late, struct nspy_log_source **ret,
			    int64_t *ret_low, int64_t *ret_others)
{
	size_t count = 0;

	*ret_low = INT64_MAX;
	*ret_others = INT64_MAX;
	for (size_t i = 0; i < late->count; i++) {
		const struct nspy_log_source *s = late->items[i];

		if (s->enqueued >= 0 || s->waited_seq < 0 || !same_group(s, late->items[0]))
			return 0;
		*ret_low = s->waited_seq < *ret_low ? s->waited_seq : *ret_low;
	}
	for (size_t i = 0; i < late->count; i++) {
		if (late->items[i]->waited_seq == *ret_low)
			ret[count++] = late->items[i];
		else if (late->items[i]->waited_seq < *ret_others)
			*ret_others = late->items[i]->waited_seq;
	}
	return count < late->count && 2 * count <= late->count ? count : 0;
}

static void explain(const struct nspy_log *log, const struct ranks *r, const struct ranks *late,
		    struct nspy_finding *finding, struct nspy_str *s)
{
	struct nspy_log_source **low =
		nspy_xcalloc(r->count + late->count + 1, sizeof(struct nspy_log_source *));
	int64_t *quiet = nspy_xcalloc(65536, sizeof(*quiet));
	int64_t least, most, seq;
	size_t lows = behind(r, low, &least, &most), quiets = silent(log, late, quiet);

	if (lows) {
		nspy_str_add(s, "; ");
		nspy_log_add_who(s, low, lows);
		nspy_str_addf(s, " had come only to operation %" PRId64 ", others to %" PRId64,
			      least, most);
		for (size_t i = 0; i < lows && i < 64; i++)
			nspy_finding_blame(finding, low[i]->proc);
	} else if (quiets) {
		nspy_str_add(s, "; no such line from ranks ");
		nspy_add_ranges(s, quiet, quiets);
		nspy_str_add(s, ": late, stuck or dead");
		for (size_t i = 0; i < quiets && i < 64; i++)
			nspy_finding_blame(finding, nspy_log_proc(log, quiet[i]));
	} else if ((lows = behind_waited(late, low, &least, &seq)) > 0) {
		nspy_str_add(s, "; ");
		nspy_log_add_who(s, low, lows);
		nspy_str_addf(s, " waited in operation %" PRId64 " already, others in %" PRId64,
			      least, seq);
		for (size_t i = 0; i < lows && i < 64; i++)
			nspy_finding_blame(finding, low[i]->proc);
		finding->confidence = NSPY_PROBABLE;
	} else if (most > 0 && late->count > 1) {
		nspy_str_addf(s,
			      "; all that report had come to operation %" PRId64
			      ": nobody is late, the data path stands still",
			      most);
	} else {
		nspy_str_add(s, "; who is late cannot be told from these lines");
	}
	free(low);
	free(quiet);
}

static void tell_timeout(const struct nspy_log *log, const struct ranks *r,
			 const struct ranks *late, struct nspy_findings *out)
{
	struct nspy_finding *finding =
		nspy_log_finding(out, NSPY_FINDING_TORCH_WATCHDOG_TIMEOUT, 0, NSPY_LOG_SYMPTOM,
				 late->items[0]->timed_out_line);
	struct nspy_str s = {0};
	size_t told = 0;

	nspy_log_add_who(&s, late->items, late->count);
	nspy_str_addf(&s, "%swaited", s.bytes ? " " : "a rank ");
	ran_since(&s, late);
	explain(log, r, late, finding, &s);
	finding->cause = nspy_xstrdup(s.text);
	finding->summary = nspy_str_take(&s);
	for (size_t i = 0; i < log->event_count && told < 4; i++) {
		if (log->events[i]->rule == NSPY_LOG_WATCHDOG) {
			nspy_log_quote(log, finding, log->events[i]);
			told++;
		}
	}
}

static void tell_stuck(const struct nspy_log *log, const struct ranks *r, struct nspy_findings *out)
{
	struct nspy_finding *finding = nspy_log_finding(out, NSPY_FINDING_TORCH_WATCHDOG_TIMEOUT, 0,
							NSPY_LOG_SYMPTOM, r->items[0]->last_line);
	struct nspy_str s = {0}, who = {0};

	nspy_str_add(&s,
		     "a host thread is stuck (in CUDA, in NCCL, or with Python's lock held); the "
		     "watchdog");
	nspy_log_add_who(&who, r->items, r->count);
	if (who.bytes)
		nspy_str_addf(&s, " of %s", who.text);
	nspy_str_done(&who);
	nspy_str_add(&s,
		     " made no progress. This is no collective timeout: another rank may be gone");
	finding->cause = nspy_xstrdup(s.text);
	finding->summary = nspy_str_take(&s);
	for (size_t i = 0; i < log->event_count && finding->details.count < 4; i++) {
		if (log->events[i]->rule == NSPY_LOG_HEARTBEAT ||
		    log->events[i]->rule == NSPY_LOG_WATCHDOG_STUCK)
			nspy_log_quote(log, finding, log->events[i]);
	}
}

void nspy_log_judge_torch(const struct nspy_log *log, struct nspy_findings *out)
{
	struct nspy_log_source **all =
		nspy_xcalloc(3 * log->source_count + 3, sizeof(struct nspy_log_source *));
	struct ranks any = {all, 0}, late = {all + log->source_count + 1, 0};
	struct ranks stuck = {all + 2 * log->source_count + 2, 0};

	for (size_t i = 0; i < log->source_count; i++) {
		struct nspy_log_source *s = log->sources[i];

		if (s->numel_in >= 0 || s->enqueued >= 0)
			any.items[any.count++] = s;
		if (s->timed_out)
			late.items[late.count++] = s;
		if (s->stuck)
			stuck.items[stuck.count++] = s;
	}
	judge_mismatch(&any, out);
	if (late.count)
		tell_timeout(log, &any, &late, out);
	else if (stuck.count)
		tell_stuck(log, &stuck, out);
	free(all);
}
