/* SPDX-License-Identifier: Apache-2.0 */
/*
 * STRAGGLER_RANK
 *
 * Question: is one rank, or one node, late again and again, and what does it cost?
 * Evidence: arrivals at the ends of rounds, i.e. bursts of operations between which all ranks had
 * been together. The same rank (or ranks of the same node) comes last in most of them, in the first
 * and in the second half of the job, by a margin that does not come from a few outliers. A round
 * counts as much as its ranks were apart, at most twice the average: where all came together, who
 * was last is chance. For the margin the traces are read again at up to 256 rounds. Threshold: 20
 * rounds within a second or more; 60 % of them by that measure and 45 % by number (80 % of both
 * where there are only two to choose from), by 1 ms or more in the median of those in which it was
 * last. P1 if the lateness adds up to 5 % of the time between first and last round, P2 from 2 % on.
 * Known false positives: rank 0 that really has more to do (logging, saving). A rank whose GPU is
 * slow arrives on time and is not seen: host times are not GPU times.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "detect.h"
#include "rounds.h"
#include "text.h"
#include "who.h"

#define ROUNDS_MIN     20u
#define SAMPLE_MAX     256u
#define LATE_MIN_NS    NSPY_NS_PER_MS
#define SPAN_MIN_NS    NSPY_NS_PER_S
#define SHARE_MIN      0.60
#define SHARE_MIN_PAIR 0.80
#define COUNT_MIN      0.45
#define COUNT_MIN_PAIR 0.80
#define WEIGHT_CAP     2.0 /* times the average */
#define COST_P1        0.05
#define COST_P2        0.02

/* A process, or all processes of a node. */
struct suspect {
	const struct nspy_proc *proc; /* one of them */
	bool node;
	size_t late;      /* rounds in which it came last */
	double weight[2]; /* of these, per half of the job */
};

/* How much each round says. */
struct weights {
	double *items;
	double half[2]; /* their sums */
};

static bool belongs(const struct suspect *suspect, const struct nspy_proc *proc)
{
	if (!suspect->node)
		return proc == suspect->proc;
	return strcmp(nspy_proc_host(proc), nspy_proc_host(suspect->proc)) == 0;
}

static double spread(const struct nspy_round *round)
{
	return (double)(round->last_ns - round->first_ns);
}

/* Who came last, or NULL: of several that came last at once none is, though their node may be. */
static const struct nspy_proc *last_of(const struct nspy_case *c, const struct nspy_round *round,
				       bool node)
{
	if (round->last_ns == round->first_ns || (round->gap_ns == 0 && !node))
		return NULL;
	return c->model->members[round->last_member]->proc;
}

static void weigh(const struct nspy_rounds *rounds, struct weights *ret)
{
	double cap = 0;

	*ret = (struct weights){.items = nspy_xcalloc(rounds->count, sizeof(double))};
	for (size_t i = 0; i < rounds->count; i++)
		cap += WEIGHT_CAP * spread(&rounds->items[i]) / (double)rounds->count;
	for (size_t i = 0; i < rounds->count; i++) {
		double apart = spread(&rounds->items[i]);

		ret->items[i] = apart < cap ? apart : cap;
		ret->half[i >= rounds->count / 2] += ret->items[i];
	}
}

static void count_late(const struct nspy_case *c, const struct nspy_rounds *rounds,
		       const struct weights *weights, struct suspect *suspect)
{
	for (size_t i = 0; i < rounds->count; i++) {
		const struct nspy_proc *last = last_of(c, &rounds->items[i], suspect->node);

		if (!last || !belongs(suspect, last))
			continue;
		suspect->late++;
		suspect->weight[i >= rounds->count / 2] += weights->items[i];
	}
}

/* How many there are to choose from, processes or nodes of the communicator: 1, 2, or 3 for more.
 */
static size_t count_choices(const struct nspy_comm *comm, bool node)
{
	size_t count = 0;

	for (size_t i = 0; i < comm->member_count && count < 3; i++) {
		bool seen = false;

		for (size_t k = 0; k < i && !seen; k++) {
			struct suspect s = {.proc = comm->members[k]->proc, .node = node};

			seen = belongs(&s, comm->members[i]->proc);
		}
		count += !seen;
	}
	return count;
}

static bool late_enough(const struct suspect *suspect, const struct nspy_rounds *rounds,
			const struct weights *weights, size_t choices)
{
	double share = choices > 2 ? SHARE_MIN : SHARE_MIN_PAIR;
	double count = choices > 2 ? COUNT_MIN : COUNT_MIN_PAIR;

	return choices > 1 && (double)suspect->late >= count * (double)rounds->count &&
	       suspect->weight[0] >= share * weights->half[0] &&
	       suspect->weight[1] >= share * weights->half[1];
}

static const struct nspy_proc *heaviest(const struct nspy_case *c, const struct nspy_rounds *rounds,
					const struct weights *weights, bool node)
{
	double *sums = nspy_xcalloc(c->model->proc_count, sizeof(*sums));
	const struct nspy_proc *most = NULL;

	for (size_t i = 0; i < rounds->count; i++) {
		const struct nspy_proc *last = last_of(c, &rounds->items[i], node);

		if (!last)
			continue;
		sums[last->index] += weights->items[i];
		if (!most || sums[last->index] > sums[most->index])
			most = last;
	}
	free(sums);
	return most;
}

/* A single rank goes before its node: the narrower answer is the better one. */
static bool find_suspect(const struct nspy_case *c, const struct nspy_comm *comm,
			 const struct nspy_rounds *rounds, struct suspect *ret)
{
	struct weights weights;
	bool found = false;

	weigh(rounds, &weights);
	for (int node = 0; node < 2 && !found; node++) {
		*ret = (struct suspect){
			.proc = heaviest(c, rounds, &weights, node),
			.node = node,
		};
		if (!ret->proc)
			continue;
		count_late(c, rounds, &weights, ret);
		found = late_enough(ret, rounds, &weights, count_choices(comm, node));
	}
	free(weights.items);
	return found;
}

/* --- what it costs --- */

static int compare_ns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* How long after all others the suspect came, 0 if it did not come last. */
static uint64_t lateness(const struct nspy_comm *comm, const struct suspect *suspect,
			 const uint64_t *ns)
{
	uint64_t mine = 0, others = 0;

	for (size_t m = 0; m < comm->member_count; m++) {
		uint64_t *latest = belongs(suspect, comm->members[m]->proc) ? &mine : &others;

		if (ns[m] > *latest)
			*latest = ns[m];
	}
	return mine > others && others ? mine - others : 0;
}

struct cost {
	uint64_t median_ns;
	double share; /* of the time between first and last round */
	double seconds;
};

static struct cost work_out_cost(const struct nspy_case *c, const struct nspy_comm *comm,
				 const struct nspy_rounds *rounds, const struct suspect *suspect)
{
	uint64_t span = rounds->items[rounds->count - 1].last_ns - rounds->items[0].first_ns;
	struct nspy_arrivals arrivals;
	struct cost cost = {0};
	size_t count = 0;
	uint64_t *late;
	double sum = 0;

	nspy_rounds_sample(c->model, comm, rounds, SAMPLE_MAX, &arrivals);
	late = nspy_xcalloc(arrivals.rounds, sizeof(*late));
	for (size_t i = 0; i < arrivals.rounds; i++) {
		late[count] = lateness(comm, suspect, arrivals.ns + i * arrivals.members);
		sum += (double)late[count];
		count += late[count] > 0;
	}
	qsort(late, count, sizeof(*late), compare_ns);
	cost.median_ns = count ? late[count / 2] : 0;
	/* A few long pauses are another story: each counts as twice the median at most. */
	for (size_t i = 0; i < count; i++) {
		if (late[i] > 2 * cost.median_ns)
			sum -= (double)(late[i] - 2 * cost.median_ns);
	}
	sum *= (double)rounds->count / (double)arrivals.rounds;
	cost.seconds = sum / 1e9;
	cost.share = span ? sum / (double)span : 0;
	free(late);
	free(arrivals.ns);
	return cost;
}

static bool one_clock(const struct nspy_comm *comm)
{
	for (size_t i = 1; i < comm->member_count; i++) {
		if (comm->members[i]->proc->clock != comm->members[0]->proc->clock)
			return false;
	}
	return true;
}

/* Who is late waits least. True if the others waited longer by half of what the lateness says. */
static bool waits_least(const struct nspy_comm *comm, const struct suspect *suspect,
			const struct cost *cost)
{
	double mine = 0, others = 0;
	size_t my_count = 0, other_count = 0;

	for (size_t i = 0; i < comm->member_count; i++) {
		const struct nspy_proc *proc = comm->members[i]->proc;

		if (belongs(suspect, proc)) {
			mine += (double)proc->sync_ns;
			my_count++;
		} else {
			others += (double)proc->sync_ns;
			other_count++;
		}
	}
	return my_count && other_count &&
	       others / (double)other_count - mine / (double)my_count >= cost->seconds * 1e9 / 2;
}

static void add_name(struct nspy_str *s, const struct nspy_case *c, const struct suspect *suspect)
{
	struct nspy_procs procs = {0};

	if (!suspect->node) {
		nspy_add_proc(s, suspect->proc);
		return;
	}
	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		if (belongs(suspect, c->attempt->procs[i]))
			nspy_procs_add(&procs, c->attempt->procs[i]);
	}
	nspy_str_addf(s, "node %s (", nspy_proc_host(suspect->proc));
	nspy_add_procs_short(s, procs.items, procs.count);
	nspy_str_add(s, ")");
	free(procs.items);
}

static void report(const struct nspy_case *c, struct nspy_findings *out,
		   const struct nspy_comm *comm, const struct nspy_rounds *rounds,
		   const struct suspect *suspect, const struct cost *cost)
{
	struct nspy_finding *finding = nspy_findings_add(out, NSPY_FINDING_STRAGGLER_RANK);
	struct nspy_str s = {0};

	add_name(&s, c, suspect);
	nspy_str_addf(&s, " last in %.0f %% of %zu rounds of ",
		      100.0 * (double)suspect->late / (double)rounds->count, rounds->count);
	nspy_add_comm(&s, comm);
	nspy_str_add(&s, ", ");
	nspy_add_duration(&s, cost->median_ns);
	nspy_str_addf(&s, " late, cost %.1f %% of the time (%.1f s on every rank)",
		      100 * cost->share, cost->seconds);
	finding->summary = nspy_str_take(&s);
	add_name(&s, c, suspect);
	nspy_str_addf(&s, " is late again and again and costs %.1f %% of the time",
		      100 * cost->share);
	finding->cause = nspy_str_take(&s);
	finding->comm = comm;
	finding->when_ns = rounds->items[0].first_ns;
	finding->priority = cost->share >= COST_P1 ? 1 : 2;
	finding->confidence = nspy_case_confidence(c, comm);
	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		if (belongs(suspect, c->attempt->procs[i]))
			nspy_finding_blame(finding, c->attempt->procs[i]);
	}
	nspy_finding_detail(finding, "late on the host: what it does between two operations takes "
				     "longer; a GPU that is slow would not show this way");
}

void nspy_detect_straggler(const struct nspy_case *c, struct nspy_findings *out)
{
	/* One communicator tells it; the largest one with enough rounds sees all ranks. */
	const struct nspy_comm *best = NULL;
	struct nspy_rounds rounds = {0};
	struct suspect suspect;
	struct cost cost;

	for (size_t i = 0; i < c->attempt->comm_count; i++) {
		const struct nspy_comm *comm = c->attempt->comms[i];
		struct nspy_rounds found;

		nspy_rounds_find(comm, &found);
		if (found.count >= ROUNDS_MIN &&
		    (!best || comm->member_count > best->member_count ||
		     (comm->member_count == best->member_count && found.count > rounds.count))) {
			free(rounds.items);
			rounds = found;
			best = comm;
		} else {
			free(found.items);
		}
	}
	if (best && find_suspect(c, best, &rounds, &suspect)) {
		cost = work_out_cost(c, best, &rounds, &suspect);
		if (rounds.items[rounds.count - 1].last_ns - rounds.items[0].first_ns >=
			    SPAN_MIN_NS &&
		    cost.median_ns >= LATE_MIN_NS && cost.share >= COST_P2 &&
		    (one_clock(best) || cost.median_ns > c->model->clock_error_ns ||
		     waits_least(best, &suspect, &cost)))
			report(c, out, best, &rounds, &suspect, &cost);
	}
	free(rounds.items);
}
