/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IO_OR_CHECKPOINT_STALL
 *
 * Question: does the job stand still again and again because one rank, or all, do something else
 * than compute and communicate: write checkpoints, read data, evaluate?
 * Evidence: the distance between rounds (rounds.h) of the largest communicator. A pause is a
 * distance of four times the median and 250 ms or more, after the first 20 operations. In the
 * pause one rank comes alone, half of it or more after all others; or all come together. The trace
 * of that rank (of any, for the second form) is read again: if it waited for the device or for NCCL
 * for half of the pauses, it is not this.
 * Threshold: three pauses, of one kind in 80 %, that cost 2 % of the time between first and last
 * round, and 2 s in all; P1 from 10 % on if they last a second on average. A single rank that
 * pauses for twice --hang-after is told by PROGRESS_STALLED_OUTSIDE_NCCL. Known false positives:
 * whatever else is done now and then outside NCCL without a wait for the device (evaluation on the
 * host, compilation). It is named as what it costs.
 */
#include <stdlib.h>

#include "detect.h"
#include "reread.h"
#include "rounds.h"
#include "text.h"
#include "who.h"

#define WARM_UP_OPS   20u
#define PAUSE_MIN_NS  (250 * NSPY_NS_PER_MS)
#define PAUSE_TIMES   4u
#define PAUSES_MIN    3u
#define PAUSES_MAX    1024u
#define SAME_KIND     0.80
#define COST_P1       0.10
#define COST_P2       0.02
#define COST_MIN_NS   (2 * NSPY_NS_PER_S) /* nobody looks into less */
#define LONG_NS       NSPY_NS_PER_S
#define WAITING_SHARE 0.50

struct pause {
	uint64_t from_ns, to_ns; /* nobody, or one rank only, had anything to do with the others */
	uint64_t seq;
	const struct nspy_proc *alone; /* the one that came late, NULL: all together */
};

struct pauses {
	struct pause items[PAUSES_MAX]; /* by time */
	size_t count;
	uint64_t waiting_ns; /* of the process read again: in calls that wait, during the pauses */
};

static int compare_ns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t distance(const struct nspy_rounds *rounds, size_t i)
{
	return rounds->items[i].last_ns - rounds->items[i - 1].last_ns;
}

static uint64_t median_distance(const struct nspy_rounds *rounds)
{
	uint64_t *ns = nspy_xcalloc(rounds->count, sizeof(*ns)), median;

	for (size_t i = 1; i < rounds->count; i++)
		ns[i - 1] = distance(rounds, i);
	qsort(ns, rounds->count - 1, sizeof(*ns), compare_ns);
	median = ns[(rounds->count - 1) / 2];
	free(ns);
	return median;
}

/* What a distance between rounds is: false if it is no pause, or one of neither kind. */
static bool classify(const struct nspy_case *c, const struct nspy_rounds *rounds, size_t i,
		     struct pause *ret)
{
	const struct nspy_round *round = &rounds->items[i];
	uint64_t whole = distance(rounds, i), apart = round->last_ns - round->first_ns;
	/* Beyond what a cell holds all others are taken to have come with the first. */
	uint64_t gap = round->gap_ns == UINT32_MAX ? apart : round->gap_ns;

	*ret = (struct pause){.to_ns = round->last_ns, .seq = round->seq};
	if (gap >= whole / 2) {
		ret->from_ns = round->last_ns - gap;
		ret->alone = c->model->members[round->last_member]->proc;
		return gap < 2 * c->options.hang_ended_ns;
	}
	ret->from_ns = rounds->items[i - 1].last_ns;
	ret->to_ns = round->first_ns;
	return apart <= whole / 4;
}

static void find_pauses(const struct nspy_case *c, const struct nspy_rounds *rounds,
			struct pauses *ret)
{
	uint64_t median = median_distance(rounds);

	for (size_t i = 1; i < rounds->count && ret->count < PAUSES_MAX; i++) {
		uint64_t whole = distance(rounds, i);

		if (rounds->items[i].seq <= WARM_UP_OPS || (int64_t)whole < 0 ||
		    whole < PAUSE_MIN_NS || whole < PAUSE_TIMES * median)
			continue;
		/* Without records there is no telling what was done. */
		if (nspy_attempt_has_hole(c->attempt, rounds->items[i - 1].last_ns,
					  rounds->items[i].last_ns))
			continue;
		ret->count += classify(c, rounds, i, &ret->items[ret->count]);
	}
}

/* Keeps those of the commonest kind; false if the kinds are mixed. */
static bool keep_kind(struct pauses *pauses)
{
	const struct nspy_proc *kind = NULL;
	size_t most = 0, kept = 0;

	for (size_t i = 0; i < pauses->count; i++) {
		size_t same = 0;

		for (size_t k = 0; k < pauses->count; k++)
			same += pauses->items[k].alone == pauses->items[i].alone;
		if (same > most) {
			most = same;
			kind = pauses->items[i].alone;
		}
	}
	if (most < PAUSES_MIN || (double)most < SAME_KIND * (double)pauses->count)
		return false;
	for (size_t i = 0; i < pauses->count; i++) {
		if (pauses->items[i].alone == kind)
			pauses->items[kept++] = pauses->items[i];
	}
	pauses->count = kept;
	return true;
}

/* --- what the rank did meanwhile --- */

struct reading {
	const struct nspy_case *c;
	struct pauses *pauses;
};

static void visit(void *context, const struct nspy_proc *proc, uint32_t thread,
		  const struct nspy_rec *rec)
{
	struct reading *r = context;
	uint16_t id = rec->fn < proc->fn_map_count ? proc->fn_map[rec->fn] : 0;
	uint64_t enter = nspy_proc_when(proc, rec->enter);
	uint64_t leave = rec->leave ? nspy_proc_when(proc, rec->leave) : UINT64_MAX;
	size_t low = 0, high = r->pauses->count;

	(void)thread;
	if (!nspy_class_waits(nspy_model_get_fn(r->c->model, id)->klass) ||
	    (rec->flags & NSPY_CALL_NESTED))
		return;
	while (low < high) { /* the first pause that ends after the call began */
		size_t middle = low + (high - low) / 2;

		if (r->pauses->items[middle].to_ns <= enter)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < r->pauses->count && r->pauses->items[low].from_ns < leave; low++) {
		const struct pause *p = &r->pauses->items[low];
		uint64_t from = enter > p->from_ns ? enter : p->from_ns;
		uint64_t to = leave < p->to_ns ? leave : p->to_ns;

		r->pauses->waiting_ns += to > from ? to - from : 0;
	}
}

static uint64_t sum_of(const struct pauses *pauses)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < pauses->count; i++)
		sum += pauses->items[i].to_ns - pauses->items[i].from_ns;
	return sum;
}

static void report(const struct nspy_case *c, struct nspy_findings *out,
		   const struct nspy_comm *comm, const struct pauses *pauses, double share)
{
	struct nspy_finding *finding = nspy_findings_add(out, NSPY_FINDING_IO_OR_CHECKPOINT_STALL);
	const struct pause *first = &pauses->items[0], *last = &pauses->items[pauses->count - 1];
	size_t between = pauses->count > 1 ? pauses->count - 1 : 1;
	struct nspy_str s = {0};

	if (first->alone)
		nspy_add_proc(&s, first->alone);
	else
		nspy_str_add(&s, "all ranks together");
	nspy_str_addf(&s, " did something outside NCCL and the device %zu times, ", pauses->count);
	nspy_add_duration(&s, sum_of(pauses) / pauses->count);
	nspy_str_addf(&s, " on average, about every %llu operations of ",
		      (unsigned long long)((last->seq - first->seq) / between));
	nspy_add_comm(&s, comm);
	nspy_str_addf(&s, ", %.1f %% of the time", 100 * share);
	finding->summary = nspy_str_take(&s);
	if (first->alone)
		nspy_add_proc(&s, first->alone);
	else
		nspy_str_add(&s, "the job");
	nspy_str_addf(&s, " pauses outside NCCL again and again, %.1f %% of the time", 100 * share);
	finding->cause = nspy_str_take(&s);
	finding->comm = comm;
	finding->seq = first->seq;
	finding->when_ns = first->from_ns;
	finding->priority = share >= COST_P1 && sum_of(pauses) >= LONG_NS * pauses->count ? 1 : 2;
	finding->confidence = nspy_case_confidence(c, comm);
	if (first->alone)
		nspy_finding_blame(finding, first->alone);
	nspy_finding_detail(finding, "what it did is not seen: checkpoint, data loading and "
				     "evaluation look alike from here");
}

static void judge(const struct nspy_case *c, struct nspy_findings *out,
		  const struct nspy_comm *comm, const struct nspy_rounds *rounds)
{
	struct pauses *pauses = nspy_xcalloc(1, sizeof(*pauses));
	struct reading reading = {c, pauses};
	uint64_t span = rounds->items[rounds->count - 1].last_ns - rounds->items[0].last_ns;
	uint64_t sum;

	find_pauses(c, rounds, pauses);
	if (!keep_kind(pauses)) {
		free(pauses);
		return;
	}
	sum = sum_of(pauses);
	if (span && sum >= COST_MIN_NS && (double)sum >= COST_P2 * (double)span) {
		nspy_reread(pauses->items[0].alone ? pauses->items[0].alone
						   : comm->members[0]->proc,
			    visit, &reading);
		if ((double)pauses->waiting_ns < WAITING_SHARE * (double)sum)
			report(c, out, comm, pauses, (double)sum / (double)span);
	}
	free(pauses);
}

void nspy_detect_io_stall(const struct nspy_case *c, struct nspy_findings *out)
{
	const struct nspy_comm *comm = c->attempt->world;
	struct nspy_rounds rounds;

	if (!comm || comm->member_count < 2)
		return;
	nspy_rounds_find(comm, &rounds);
	if (rounds.count > PAUSES_MIN)
		judge(c, out, comm, &rounds);
	free(rounds.items);
}
