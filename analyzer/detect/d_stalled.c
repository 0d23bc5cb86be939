/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PROGRESS_STALLED_OUTSIDE_NCCL
 *
 * Question: did one rank keep all others waiting for long, and come in the end?
 * Evidence: an operation that all ranks joined, at which one arrived long after the second last.
 * The others had nothing to do with it; the late one was outside NCCL or in a call of its own.
 * Threshold: twice --hang-after of an ended job (10 s), 600 s for the first 20 operations of a
 *   communicator, where frameworks compile; and the pauses must add up to 5 % of the job, or one
 *   must reach three minutes, for P1, else P2. If there is none, a single one of 100 ms or more
 *   that cost 0.5 % of the job and stands out among the rounds (rounds.h) of the largest
 *   communicator, after the first five: eight times the median lateness, four times that of 95 % of
 *   them, twice what clocks may be apart. That is a note, P2.
 * Known false positives: intended pauses of one rank (evaluation, checkpoint). They are named as
 *   what they cost.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "detect.h"
#include "reread.h"
#include "rounds.h"
#include "text.h"
#include "who.h"

#define WARM_UP_OPS   20u
#define WARM_UP_NS    (600 * NSPY_NS_PER_S)
#define COST_P1       0.05
#define ONE_P1_NS     (180 * NSPY_NS_PER_S)
#define GAP_SATURATED UINT32_MAX
#define FINDINGS_MAX  4u
#define NOTE_MIN_NS   (100 * NSPY_NS_PER_MS)
#define NOTE_COST     0.005
#define NOTE_ROUNDS   20u
#define NOTE_WARM_UP  5u /* rounds */

struct pause {
	const struct nspy_comm *comm;
	uint64_t seq;
	uint64_t ns;      /* how long after the second last */
	uint64_t when_ns; /* arrival of the late one */
	const struct nspy_proc *proc;
};

struct pauses {
	struct pause *items;
	size_t count, capacity;
};

static bool long_gap(const struct nspy_case *c, const struct nspy_cell *cell, uint64_t seq)
{
	uint64_t limit = 2 * c->options.hang_ended_ns;

	if (seq <= WARM_UP_OPS && limit < WARM_UP_NS)
		limit = WARM_UP_NS;
	/* The cell keeps up to 4.3 s exactly; beyond that the spread decides, exactly later. */
	return cell->gap_ns == GAP_SATURATED ? cell->last_ns - cell->first_ns >= limit
					     : cell->gap_ns >= limit;
}

/* Exact distance between the last and the second last arrival. */
static uint64_t exact_gap(const struct nspy_case *c, const struct nspy_comm *comm, uint64_t seq)
{
	struct nspy_op_row *rows = nspy_reread_ops(c->model, comm, seq, 1);
	uint64_t last = 0, second = 0;

	for (size_t m = 0; m < comm->member_count; m++) {
		uint64_t ns = rows[m].seen ? rows[m].rec.enter : 0;

		if (ns > last) {
			second = last;
			last = ns;
		} else if (ns > second) {
			second = ns;
		}
	}
	free(rows);
	return second ? last - second : 0;
}

static void add_pause(const struct nspy_case *c, struct pauses *pauses,
		      const struct nspy_comm *comm, uint64_t seq, const struct nspy_cell *cell)
{
	struct pause pause = {
		.comm = comm,
		.seq = seq,
		.ns = cell->gap_ns == GAP_SATURATED ? exact_gap(c, comm, seq) : cell->gap_ns,
		.when_ns = cell->last_ns,
		.proc = c->model->members[cell->last_member]->proc,
	};
	uint64_t limit = 2 * c->options.hang_ended_ns;

	if (pause.ns < (seq <= WARM_UP_OPS && limit < WARM_UP_NS ? WARM_UP_NS : limit))
		return;
	/* One pause delays operations of several communicators: it counts once. */
	for (size_t i = 0; i < pauses->count; i++) {
		struct pause *other = &pauses->items[i];

		if (other->proc != pause.proc || other->when_ns - other->ns > pause.when_ns ||
		    pause.when_ns - pause.ns > other->when_ns)
			continue;
		if (pause.ns > other->ns)
			*other = pause;
		return;
	}
	pauses->items =
		nspy_grow(pauses->items, pauses->count, &pauses->capacity, sizeof(*pauses->items));
	pauses->items[pauses->count++] = pause;
}

static void find_pauses(const struct nspy_case *c, struct pauses *pauses)
{
	for (size_t i = 0; i < c->attempt->comm_count && pauses->count < 256; i++) {
		const struct nspy_comm *comm = c->attempt->comms[i];

		for (uint64_t seq = 1; comm->member_count > 1 && seq <= comm->low_seq; seq++) {
			const struct nspy_cell *cell = nspy_cells_get(&comm->cells, seq);

			if (cell && nspy_cell_count(cell) == comm->member_count &&
			    long_gap(c, cell, seq))
				add_pause(c, pauses, comm, seq, cell);
		}
	}
}

/* --- a short one that stands out --- */

static int compare_gaps(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Is the largest lateness out of all proportion to what is usual? */
static bool stands_out(const struct nspy_rounds *rounds, uint64_t ns)
{
	uint32_t *gaps = nspy_xcalloc(rounds->count, sizeof(*gaps));
	uint64_t median, most;

	for (size_t i = 0; i < rounds->count; i++)
		gaps[i] = rounds->items[i].gap_ns;
	qsort(gaps, rounds->count, sizeof(*gaps), compare_gaps);
	median = gaps[rounds->count / 2];
	most = gaps[rounds->count * 95 / 100];
	free(gaps);
	return ns >= 8 * median && ns >= 4 * most;
}

static bool told_apart(const struct nspy_case *c, uint64_t ns)
{
	return c->model->clock_error_ns != NSPY_CLOCK_ERROR_UNKNOWN &&
	       ns >= 2 * c->model->clock_error_ns;
}

static void find_note(const struct nspy_case *c, struct pauses *pauses)
{
	const struct nspy_comm *comm = c->attempt->world;
	const struct nspy_round *most = NULL;
	struct nspy_rounds rounds;
	uint64_t ns;

	if (!comm)
		return;
	nspy_rounds_find(comm, &rounds);
	for (size_t i = NOTE_WARM_UP; i < rounds.count; i++) {
		const struct nspy_round *round = &rounds.items[i];

		if (!most || round->gap_ns > most->gap_ns)
			most = round;
	}
	if (most && most->gap_ns >= NOTE_MIN_NS && rounds.count >= NOTE_ROUNDS) {
		ns = most->gap_ns == GAP_SATURATED ? exact_gap(c, comm, most->seq) : most->gap_ns;
		if (stands_out(&rounds, ns) && told_apart(c, ns) &&
		    (double)ns >= NOTE_COST * (double)(c->attempt->end_ns - c->attempt->start_ns)) {
			pauses->items = nspy_grow(pauses->items, pauses->count, &pauses->capacity,
						  sizeof(*pauses->items));
			pauses->items[pauses->count++] = (struct pause){
				.comm = comm,
				.seq = most->seq,
				.ns = ns,
				.when_ns = most->last_ns,
				.proc = c->model->members[most->last_member]->proc,
			};
		}
	}
	free(rounds.items);
}

static void report(const struct nspy_case *c, struct nspy_findings *out,
		   const struct pauses *pauses, const struct nspy_proc *proc, bool note)
{
	struct nspy_finding *finding;
	const struct pause *worst = NULL;
	struct nspy_str s = {0};
	uint64_t sum = 0;
	size_t count = 0;

	for (size_t i = 0; i < pauses->count; i++) {
		const struct pause *pause = &pauses->items[i];

		if (pause->proc != proc)
			continue;
		sum += pause->ns;
		count++;
		if (!worst || pause->ns > worst->ns)
			worst = pause;
	}
	if (!worst)
		return;
	finding = nspy_findings_add(out, NSPY_FINDING_PROGRESS_STALLED_OUTSIDE_NCCL);
	nspy_add_proc(&s, proc);
	nspy_str_add(&s, " came ");
	nspy_add_duration(&s, worst->ns);
	nspy_str_add(&s, " after all others to ");
	nspy_add_op(&s, c->model, worst->comm, worst->seq);
	nspy_str_add(&s, " of ");
	nspy_add_comm(&s, worst->comm);
	nspy_str_add(&s, " at ");
	nspy_add_clock(&s, worst->when_ns);
	if (count > 1) {
		nspy_str_addf(&s, "; %zu such pauses, ", count);
		nspy_add_duration(&s, sum);
		nspy_str_add(&s, " in all");
	}
	finding->summary = nspy_str_take(&s);
	nspy_add_proc(&s, proc);
	nspy_str_add(&s, " kept all others waiting for ");
	nspy_add_duration(&s, sum);
	finding->cause = nspy_str_take(&s);
	finding->comm = worst->comm;
	finding->seq = worst->seq;
	finding->when_ns = worst->when_ns - worst->ns;
	finding->confidence = nspy_case_confidence(c, worst->comm);
	nspy_finding_blame(finding, proc);
	if (note || (worst->ns < ONE_P1_NS &&
		     (double)sum < COST_P1 * (double)(c->attempt->end_ns - c->attempt->start_ns)))
		finding->priority = 2;
}

void nspy_detect_stalled(const struct nspy_case *c, struct nspy_findings *out)
{
	struct pauses pauses = {0};
	size_t told = 0;
	bool note;

	find_pauses(c, &pauses);
	note = pauses.count == 0;
	if (note)
		find_note(c, &pauses);
	for (size_t i = 0; i < pauses.count && told < FINDINGS_MAX; i++) {
		bool before = false;

		for (size_t k = 0; k < i && !before; k++)
			before = pauses.items[k].proc == pauses.items[i].proc;
		if (before)
			continue;
		report(c, out, &pauses, pauses.items[i].proc, note);
		told++;
	}
	free(pauses.items);
}
