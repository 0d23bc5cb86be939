/* SPDX-License-Identifier: Apache-2.0 */
#include "rounds.h"

#include <stdlib.h>

#include "reread.h"

static void add_round(struct nspy_rounds *rounds, uint64_t seq, const struct nspy_cell *cell)
{
	rounds->items =
		nspy_grow(rounds->items, rounds->count, &rounds->capacity, sizeof(*rounds->items));
	rounds->items[rounds->count++] = (struct nspy_round){
		.seq = seq,
		.first_ns = cell->first_ns,
		.last_ns = cell->last_ns,
		.last_member = cell->last_member,
		.gap_ns = cell->gap_ns,
	};
}

void nspy_rounds_find(const struct nspy_comm *comm, struct nspy_rounds *ret)
{
	const struct nspy_cell *previous = NULL;
	bool begun = false;

	*ret = (struct nspy_rounds){0};
	if (comm->member_count < 2)
		return;
	for (uint64_t seq = 1; seq <= comm->low_seq; seq++) {
		const struct nspy_cell *cell = nspy_cells_get(&comm->cells, seq);

		if (!cell || nspy_cell_count(cell) != comm->member_count) {
			previous = NULL;
			begun = false;
			continue;
		}
		if (previous && previous->last_ns < cell->first_ns) {
			if (begun)
				add_round(ret, seq - 1, previous);
			begun = true;
		}
		previous = cell;
	}
}

/* --- sampling --- */

struct sample {
	const struct nspy_model *model;
	const struct nspy_comm *comm;
	uint64_t *seqs; /* sorted */
	struct nspy_arrivals *arrivals;
};

static bool find_round(const struct sample *sample, uint64_t seq, size_t *ret_round)
{
	size_t low = 0, high = sample->arrivals->rounds;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (sample->seqs[middle] < seq)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_round = low;
	return low < sample->arrivals->rounds && sample->seqs[low] == seq;
}

static void visit(void *context, const struct nspy_proc *proc, uint32_t thread,
		  const struct nspy_rec *rec)
{
	struct sample *sample = context;
	uint16_t id = rec->fn < proc->fn_map_count ? proc->fn_map[rec->fn] : 0;
	const struct nspy_member *member;
	size_t round;

	(void)thread;
	if (rec->comm >= proc->member_count || rec->seq == 0 || (rec->flags & NSPY_CALL_CAPTURED) ||
	    nspy_model_get_fn(sample->model, id)->klass != NSPY_CLASS_COLL)
		return;
	member = proc->members[rec->comm];
	if (!member || member->comm != sample->comm || !find_round(sample, rec->seq, &round))
		return;
	for (size_t m = 0; m < sample->comm->member_count; m++) {
		if (sample->comm->members[m] == member)
			sample->arrivals->ns[round * sample->arrivals->members + m] =
				nspy_proc_when(proc, rec->enter);
	}
}

void nspy_rounds_sample(const struct nspy_model *model, const struct nspy_comm *comm,
			const struct nspy_rounds *rounds, size_t max, struct nspy_arrivals *ret)
{
	struct sample sample = {.model = model, .comm = comm, .arrivals = ret};
	const struct nspy_proc *previous = NULL;

	ret->members = comm->member_count;
	ret->rounds = rounds->count < max ? rounds->count : max;
	ret->ns = nspy_xcalloc(ret->rounds * ret->members, sizeof(*ret->ns));
	sample.seqs = nspy_xcalloc(ret->rounds, sizeof(*sample.seqs));
	for (size_t i = 0; i < ret->rounds; i++)
		sample.seqs[i] = rounds->items[i * rounds->count / ret->rounds].seq;
	for (size_t m = 0; m < comm->member_count; m++) {
		if (comm->members[m]->proc != previous)
			nspy_reread(comm->members[m]->proc, visit, &sample);
		previous = comm->members[m]->proc;
	}
	free(sample.seqs);
}
