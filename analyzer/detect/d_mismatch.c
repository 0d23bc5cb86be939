/* SPDX-License-Identifier: Apache-2.0 */
/*
 * COLLECTIVE_MISMATCH
 *
 * Question: did ranks call different things as the same operation of a communicator?
 * Evidence: function, count, datatype, reduction operator and root that each rank passed for the
 *   n-th collective of the communicator, for all operations, also those that came back: NCCL does
 *   not check, a mismatch may hang, corrupt or pass unnoticed. The majority is taken to be right;
 *   of two equal sides the one that does what always came next in the steps before. Without either
 *   both sides are named and nobody is blamed.
 * Threshold: none; one operation suffices.
 * Known false positives: pure data movement (broadcast, gather) whose sides describe the same bytes
 *   by different datatypes works; it is reported as P2. Captured operations are not compared.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "detect.h"
#include "reread.h"
#include "text.h"
#include "who.h"

#define OPS 2u /* the operation and the one after it, to recognise a call left out */

/* Ranks that called the same thing at the operation. */
struct side {
	const struct nspy_op_row *row; /* one of them */
	const struct nspy_rec *next;   /* what that one called next, or NULL */
	uint32_t next_signature;
	struct nspy_procs procs;
};

struct sides {
	struct side *items;
	size_t count, capacity;
};

static void sort_into_sides(struct sides *sides, const struct nspy_op_row *row,
			    const struct nspy_op_row *next)
{
	struct side *side = NULL;

	for (size_t i = 0; i < sides->count && !side; i++) {
		if (sides->items[i].row->signature == row->signature)
			side = &sides->items[i];
	}
	if (!side) {
		sides->items = nspy_grow(sides->items, sides->count, &sides->capacity,
					 sizeof(*sides->items));
		side = &sides->items[sides->count++];
		*side = (struct side){.row = row};
	}
	if (!side->next && next->seen) {
		side->next = &next->rec;
		side->next_signature = next->signature;
	}
	nspy_procs_add(&side->procs, row->member->proc);
}

static int compare_sides(const void *a, const void *b)
{
	const struct side *x = a, *y = b;

	return x->procs.count > y->procs.count ? -1 : x->procs.count < y->procs.count;
}

static void find_sides(const struct nspy_op_row *rows, size_t members, struct sides *sides)
{
	for (size_t m = 0; m < members; m++) {
		if (rows[m * OPS].seen)
			sort_into_sides(sides, &rows[m * OPS], &rows[m * OPS + 1]);
	}
	if (sides->count)
		qsort(sides->items, sides->count, sizeof(*sides->items), compare_sides);
}

/* --- of two equal sides, which one did as usual? --- */

#define HISTORY     4096u
#define CONTEXT_MIN 2u
#define CONTEXT_MAX 32u
#define CASES_MIN   2u

static bool same_before(const struct nspy_comm *comm, uint64_t a, uint64_t b, uint64_t context)
{
	for (uint64_t k = 1; k <= context; k++) {
		const struct nspy_cell *x = nspy_cells_get(&comm->cells, a - k);
		const struct nspy_cell *y = nspy_cells_get(&comm->cells, b - k);

		if (!x || !y || x->signature != y->signature)
			return false;
	}
	return true;
}

/* What followed whenever the operations before were these; false if that is not clear. */
static bool usual(const struct nspy_comm *comm, uint64_t seq, uint64_t context,
		  uint32_t *ret_signature)
{
	uint64_t from = seq > HISTORY ? seq - HISTORY : 1;
	size_t cases = 0;

	for (uint64_t i = from + context; i < seq; i++) {
		const struct nspy_cell *cell = nspy_cells_get(&comm->cells, i);

		if (!cell || !same_before(comm, i, seq, context))
			continue;
		if (cases++ && cell->signature != *ret_signature)
			return false;
		*ret_signature = cell->signature;
	}
	return cases >= CASES_MIN;
}

/* Puts the side that did as usual first. False if neither, or both, can be told to have. */
static bool by_habit(const struct nspy_comm *comm, struct sides *sides)
{
	struct side *items = sides->items;
	uint32_t signature;

	if (sides->count != 2)
		return false;
	for (uint64_t context = CONTEXT_MIN; context <= CONTEXT_MAX; context *= 2) {
		if (!usual(comm, comm->mixed_seq, context, &signature))
			continue;
		if (items[1].row->signature == signature) {
			struct side swap = items[0];

			items[0] = items[1];
			items[1] = swap;
		}
		return items[0].row->signature == signature;
	}
	return false;
}

static void sides_done(struct sides *sides)
{
	for (size_t i = 0; i < sides->count; i++)
		free(sides->items[i].procs.items);
	free(sides->items);
}

static void add_difference(struct nspy_str *s, const struct nspy_case *c, const struct nspy_rec *a,
			   const struct nspy_rec *b)
{
	const struct {
		bool differs;
		const char *name;
	} parts[] = {
		{nspy_model_get_fn(c->model, a->fn)->canon !=
			 nspy_model_get_fn(c->model, b->fn)->canon,
		 "function"},
		{a->count != b->count, "count"},
		{a->datatype != b->datatype, "datatype"},
		{a->redop != b->redop, "reduction operator"},
		{a->peer != b->peer, "root"},
	};
	bool any = false;

	for (size_t i = 0; i < nspy_array_size(parts); i++) {
		if (!parts[i].differs)
			continue;
		nspy_str_addf(s, "%s%s", any ? ", " : "", parts[i].name);
		any = true;
	}
}

/* The same bytes under another name: works as long as nothing is computed. */
static bool same_bytes(const struct nspy_proc *proc, const struct nspy_rec *a,
		       const struct nspy_rec *b)
{
	return a->fn == b->fn && a->peer == b->peer && a->redop == NSPY_REDOP_NONE &&
	       b->redop == NSPY_REDOP_NONE &&
	       a->count * proc->type_bytes[a->datatype] == b->count * proc->type_bytes[b->datatype];
}

static void add_side(struct nspy_str *s, const struct nspy_case *c, const struct side *side)
{
	nspy_add_procs(s, side->procs.items, side->procs.count);
	nspy_str_add(s, " called ");
	nspy_add_call(s, c->model, &side->row->rec);
}

/* Where all calls are alike, that the odd side goes on like the others says nothing. */
static void tell_shift(struct nspy_finding *finding, const struct side *right,
		       const struct side *odd)
{
	bool early = right->next && odd->row->signature == right->next_signature;
	bool late = odd->next && right->row->signature == odd->next_signature;
	bool alike = right->next && right->next_signature == right->row->signature;

	if (early && late)
		nspy_finding_detail(finding, "the odd side made this call and the next one in the "
					     "other order");
	else if (early)
		nspy_finding_detail(finding, "that is what the others called next: a call was left "
					     "out on the odd side");
	else if (late && !alike)
		nspy_finding_detail(finding, "the odd side called next what the others called now: "
					     "it made a call too many");
}

static void tell_sides(struct nspy_finding *finding, const struct nspy_case *c,
		       const struct nspy_comm *comm, struct sides *sides)
{
	bool even = sides->items[0].procs.count == sides->items[1].procs.count;
	bool habit = even && by_habit(comm, sides), tie = even && !habit;
	const struct side *right = &sides->items[0], *odd = &sides->items[1];
	struct nspy_str s = {0};

	add_side(&s, c, odd);
	nspy_str_addf(&s, " as #%" PRIu64 " of ", comm->mixed_seq);
	nspy_add_comm(&s, comm);
	nspy_str_add(&s, " where ");
	nspy_add_procs_short(&s, right->procs.items, right->procs.count);
	nspy_str_add(&s, " called ");
	nspy_add_call(&s, c->model, &right->row->rec);
	finding->summary = nspy_str_take(&s);
	nspy_add_procs(&s, odd->procs.items, odd->procs.count);
	nspy_str_addf(&s, "%s at #%" PRIu64 " of ", tie ? " and the others differ" : " differs",
		      comm->mixed_seq);
	nspy_add_comm(&s, comm);
	nspy_str_add(&s, " in ");
	add_difference(&s, c, &right->row->rec, &odd->row->rec);
	finding->cause = nspy_str_take(&s);
	if (tie)
		nspy_finding_detail(finding, "equally many ranks on both sides: which is right "
					     "is not determinable");
	if (habit) {
		finding->confidence = NSPY_PROBABLE;
		nspy_finding_detail(finding, "equally many ranks on both sides; those named depart "
					     "from what came next in all steps before");
	}
	for (size_t i = 1; i < sides->count && !tie; i++) {
		for (size_t k = 0; k < sides->items[i].procs.count; k++)
			nspy_finding_blame(finding, sides->items[i].procs.items[k]);
	}
	for (size_t i = 2; i < sides->count && i < 6; i++) {
		add_side(&s, c, &sides->items[i]);
		nspy_texts_add(&finding->details, nspy_str_take(&s));
	}
	tell_shift(finding, right, odd);
	if (sides->count == 2 &&
	    same_bytes(odd->procs.items[0], &right->row->rec, &odd->row->rec)) {
		finding->priority = 2;
		nspy_finding_detail(finding, "both describe the same number of bytes and nothing "
					     "is computed: it works, but by luck");
	}
}

static void tell_consequences(const struct nspy_case *c, struct nspy_finding *finding,
			      const struct nspy_comm *comm)
{
	if (comm->mixed_count > 1)
		nspy_texts_add(&finding->consequences,
			       nspy_xasprintf("%" PRIu64 " later operation%s of it differ too",
					      comm->mixed_count - 1,
					      comm->mixed_count == 2 ? "" : "s"));
	for (size_t h = 0; h < c->waits.hang_count; h++) {
		if (nspy_hang_teller(c, &c->waits.hangs[h]) == NSPY_TOLD_BY_MISMATCH)
			nspy_texts_add(&finding->consequences,
				       nspy_tell_waiters(c, &c->waits.hangs[h]));
	}
}

static void report(const struct nspy_case *c, struct nspy_findings *out,
		   const struct nspy_comm *comm)
{
	struct nspy_op_row *rows = nspy_reread_ops(c->model, comm, comm->mixed_seq, OPS);
	struct sides sides = {0};
	struct nspy_finding *finding;

	find_sides(rows, comm->member_count, &sides);
	if (sides.count > 1) {
		finding = nspy_findings_add(out, NSPY_FINDING_COLLECTIVE_MISMATCH);
		finding->comm = comm;
		finding->seq = comm->mixed_seq;
		finding->when_ns = sides.items[0].row->rec.enter;
		tell_sides(finding, c, comm, &sides);
		tell_consequences(c, finding, comm);
	}
	sides_done(&sides);
	free(rows);
}

void nspy_detect_mismatch(const struct nspy_case *c, struct nspy_findings *out)
{
	for (size_t i = 0; i < c->attempt->comm_count; i++) {
		if (c->attempt->comms[i]->mixed_seq)
			report(c, out, c->attempt->comms[i]);
	}
}
