/* SPDX-License-Identifier: Apache-2.0 */
#include "join.h"

#include <stdlib.h>
#include <string.h>

static struct nspy_comm *comm_of_key(struct nspy_model *model, uint64_t key)
{
	struct nspy_comm *comm = nspy_map_get(&model->comm_by_key, key);

	if (comm)
		return comm;
	comm = nspy_xcalloc(1, sizeof(*comm));
	comm->key = comm->shown = key;
	comm->nranks = -1;
	model->comms = nspy_grow(model->comms, model->comm_count, &model->comm_capacity,
				 sizeof(struct nspy_comm *));
	model->comms[model->comm_count++] = comm;
	nspy_map_put(&model->comm_by_key, key, comm);
	return comm;
}

void nspy_join_cells(struct nspy_model *model, struct nspy_loader *loader)
{
	for (size_t i = 0; i < loader->cells.capacity; i++) {
		struct nspy_map_slot *slot = &loader->cells.slots[i];
		struct nspy_cells *cells = slot->value;

		if (!cells)
			continue;
		model->refused_ops += cells->refused;
		nspy_cells_merge(&comm_of_key(model, slot->key)->cells, cells);
	}
}

static void add_member(struct nspy_comm *comm, struct nspy_member *member)
{
	const struct nspy_comm_rec *rec = &member->rec;

	member->comm = comm;
	comm->members = nspy_grow(comm->members, comm->member_count, &comm->member_capacity,
				  sizeof(struct nspy_member *));
	comm->members[comm->member_count++] = member;
	comm->shown = rec->key;
	comm->parent_key = rec->parent_key;
	comm->ordinal = rec->ordinal;
	if (rec->id_hash)
		comm->id_hash = rec->id_hash;
	/* A rank that only found the communicator in use knows less than one that made it. */
	if (comm->origin == 0 || comm->origin == NSPY_COMM_FOUND)
		comm->origin = rec->origin;
	if (rec->nranks > comm->nranks)
		comm->nranks = rec->nranks;
}

static int compare_members(const void *a, const void *b)
{
	const struct nspy_member *x = *(struct nspy_member *const *)a;
	const struct nspy_member *y = *(struct nspy_member *const *)b;

	if (x->rec.rank != y->rec.rank)
		return x->rec.rank < y->rec.rank ? -1 : 1;
	return x->proc->index < y->proc->index ? -1 : x->proc->index > y->proc->index;
}

/* A member that can be expected at the next operation. */
static bool takes_part(const struct nspy_member *member)
{
	return !(member->failed_ns && !member->ready_ns) && !member->proc->torn;
}

/* Nobody is known to have gone further than all others: the recording ended before the job did. */
static void settle_unsure(struct nspy_comm *comm)
{
	bool first = true;

	for (size_t i = 0; i < comm->member_count; i++) {
		const struct nspy_member *member = comm->members[i];

		if (takes_part(member) && (first || member->last_seq < comm->low_seq))
			comm->low_seq = member->last_seq;
		first = first && !takes_part(member);
	}
	comm->high_seq = comm->low_seq;
}

static void scan_cells(struct nspy_comm *comm)
{
	for (size_t b = 0; b < comm->cells.block_count; b++) {
		if (!comm->cells.blocks[b])
			continue;
		for (size_t i = 0; i < NSPY_CELLS_BLOCK; i++) {
			if (!(comm->cells.blocks[b][i].arrived & NSPY_CELL_MIXED))
				continue;
			if (!comm->mixed_count++)
				comm->mixed_seq = (uint64_t)b * NSPY_CELLS_BLOCK + i;
		}
	}
}

static void settle_comm(struct nspy_comm *comm)
{
	int32_t previous = -1;
	bool first = true;

	qsort(comm->members, comm->member_count, sizeof(struct nspy_member *), compare_members);
	for (size_t i = 0; i < comm->member_count; i++) {
		const struct nspy_member *member = comm->members[i];

		if (member->rec.rank >= 0 && member->rec.rank != previous)
			comm->rank_count++;
		previous = member->rec.rank;
		if (!takes_part(member) || nspy_member_unsure(member))
			continue;
		if (first || member->last_seq < comm->low_seq)
			comm->low_seq = member->last_seq;
		if (first || member->last_seq > comm->high_seq)
			comm->high_seq = member->last_seq;
		first = false;
	}
	if (first)
		settle_unsure(comm);
	scan_cells(comm);
}

static int compare_keys(const void *a, const void *b)
{
	const struct nspy_comm *x = *(struct nspy_comm *const *)a;
	const struct nspy_comm *y = *(struct nspy_comm *const *)b;

	return x->key < y->key ? -1 : x->key > y->key;
}

/* In the order of their first processes, and of each by its own: which thread has read what first
 * is chance. Those without members are last. */
static void order_comms(struct nspy_model *model)
{
	struct nspy_comm **sorted = nspy_xcalloc(model->comm_count + 1, sizeof(struct nspy_comm *));
	struct nspy_map seen = {0};
	size_t count = 0, known;

	for (size_t p = 0; p < model->proc_count; p++) {
		const struct nspy_proc *proc = model->procs[p];

		for (size_t m = 0; m < proc->member_count; m++) {
			struct nspy_comm *comm = proc->members[m] ? proc->members[m]->comm : NULL;

			if (!comm || nspy_map_get(&seen, comm->key))
				continue;
			nspy_map_put(&seen, comm->key, comm);
			sorted[count++] = comm;
		}
	}
	known = count;
	for (size_t c = 0; c < model->comm_count; c++)
		if (!nspy_map_get(&seen, model->comms[c]->key))
			sorted[count++] = model->comms[c];
	qsort(sorted + known, count - known, sizeof(struct nspy_comm *), compare_keys);
	for (size_t c = 0; c < count; c++)
		model->comms[c] = sorted[c];
	nspy_map_done(&seen);
	free(sorted);
}

void nspy_join_members(struct nspy_model *model)
{
	model->members = nspy_xcalloc(model->member_ids, sizeof(struct nspy_member *));
	for (size_t p = 0; p < model->proc_count; p++) {
		struct nspy_proc *proc = model->procs[p];

		for (size_t m = 0; !proc->whole && m < proc->member_count; m++) {
			struct nspy_member *member = proc->members[m];

			if (!member || !member->known || !member->rec.key)
				continue;
			model->members[member->id] = member;
			member->cells = NULL; /* the loader's table is gone */
			add_member(comm_of_key(model, member->cells_key), member);
		}
	}
	order_comms(model);
	for (size_t c = 0; c < model->comm_count; c++)
		settle_comm(model->comms[c]);
	nspy_join_attempts(model);
}

bool nspy_join_has_twins(const struct nspy_model *model)
{
	for (size_t c = 0; c < model->comm_count; c++) {
		const struct nspy_comm *comm = model->comms[c];

		for (size_t i = 1; i < comm->member_count; i++) {
			const struct nspy_member *a = comm->members[i - 1];
			const struct nspy_member *b = comm->members[i];

			if (a->rec.rank >= 0 && a->rec.rank == b->rec.rank &&
			    nspy_proc_whole(a->proc) != nspy_proc_whole(b->proc))
				return true;
		}
	}
	return false;
}

static int compare_starts(const void *a, const void *b)
{
	const struct nspy_proc *x = *(struct nspy_proc *const *)a;
	const struct nspy_proc *y = *(struct nspy_proc *const *)b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->index < y->index ? -1 : 1;
}

/* The rank a process has whatever the launcher says: in its largest communicator. */
static int64_t any_rank(const struct nspy_proc *proc)
{
	int64_t rank = proc->rank;
	int32_t size = 0;

	for (size_t m = 0; rank < 0 && m < proc->member_count; m++) {
		const struct nspy_member *member = proc->members[m];

		if (member && member->known && member->rec.nranks > size) {
			size = member->rec.nranks;
			rank = member->rec.rank;
		}
	}
	return rank;
}

void nspy_join_epochs(struct nspy_model *model)
{
	struct nspy_proc **sorted = nspy_xcalloc(model->proc_count, sizeof(struct nspy_proc *));
	struct nspy_map seen = {0};
	uint32_t epoch = 0;

	for (size_t i = 0; i < model->proc_count; i++)
		sorted[i] = model->procs[i];
	qsort(sorted, model->proc_count, sizeof(struct nspy_proc *), compare_starts);
	for (size_t i = 0; i < model->proc_count; i++) {
		uint64_t rank = (uint64_t)any_rank(sorted[i]);

		if (nspy_map_get(&seen, rank)) {
			nspy_map_done(&seen);
			epoch++;
		}
		if ((int64_t)rank >= 0)
			nspy_map_put(&seen, rank, sorted[i]);
		sorted[i]->epoch = epoch;
	}
	nspy_map_done(&seen);
	free(sorted);
}

void nspy_join_reset(struct nspy_model *model)
{
	for (size_t i = 0; i < model->comm_count; i++) {
		nspy_cells_done(&model->comms[i]->cells);
		free(model->comms[i]->members);
		free(model->comms[i]);
	}
	model->comm_count = 0;
	nspy_map_done(&model->comm_by_key);
	for (size_t i = 0; i < model->attempt_count; i++) {
		free(model->attempts[i].procs);
		free(model->attempts[i].comms);
	}
	free(model->members);
	model->members = NULL;
	atomic_store(&model->member_ids, 0);
	free(model->attempts);
	model->attempts = NULL;
	model->attempt_count = 0;
	model->refused_ops = 0;
}
