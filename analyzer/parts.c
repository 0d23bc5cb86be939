/* SPDX-License-Identifier: Apache-2.0 */
#include "parts.h"

#include <stdlib.h>

#include "load.h"

struct split {
	struct nspy_proc *proc;
	uint32_t *parent;       /* by communicator index: members of one part share a root */
	struct nspy_map drives; /* thread serial -> communicator index + 1 */
	struct nspy_proc **parts;
	uint32_t *part_of; /* by communicator index: which part, or NOBODY */
};

#define NOBODY UINT32_MAX

static bool is_member(const struct nspy_proc *proc, uint32_t comm)
{
	return comm < proc->member_count && proc->members[comm] && proc->members[comm]->known;
}

/* Two ranks of one communicator in the same process. */
static bool holds_several(const struct nspy_proc *proc)
{
	struct nspy_map seen = {0};
	bool several = false;

	for (size_t m = 0; m < proc->member_count && !several; m++) {
		struct nspy_member *member = proc->members[m];
		const struct nspy_member *other;

		if (!member || !member->known || !member->rec.key || member->rec.rank < 0)
			continue;
		other = nspy_map_get(&seen, member->cells_key);
		several = other && other->rec.rank != member->rec.rank;
		nspy_map_put(&seen, member->cells_key, member);
	}
	nspy_map_done(&seen);
	return several;
}

/* --- which communicators belong together --- */

static uint32_t root_of(const struct split *split, uint32_t comm)
{
	while (split->parent[comm] != comm)
		comm = split->parent[comm] = split->parent[split->parent[comm]];
	return comm;
}

static void tie(struct split *split, uint32_t thread, uint32_t comm)
{
	uintptr_t first;
	uint32_t a, b;

	if (!thread || !is_member(split->proc, comm))
		return;
	first = (uintptr_t)nspy_map_get(&split->drives, thread);
	if (!first) {
		nspy_map_put(&split->drives, thread, (void *)((uintptr_t)comm + 1));
		return;
	}
	a = root_of(split, (uint32_t)(first - 1));
	b = root_of(split, comm);
	split->parent[a > b ? a : b] = a > b ? b : a;
}

/* The threads that use a communicator, or else the one that made it. */
static void tie_member(struct split *split, uint32_t comm)
{
	const struct nspy_member *member = split->proc->members[comm];
	bool used = member->last.thread;

	tie(split, member->last.thread, comm);
	for (size_t p = 0; p < member->peer_count; p++) {
		const struct nspy_peer *peer = member->peers[p];

		if (!peer)
			continue;
		used |= peer->send.thread || peer->recv.thread;
		tie(split, peer->send.thread, comm);
		tie(split, peer->recv.thread, comm);
	}
	if (!used)
		tie(split, member->maker, comm);
}

static void tie_all(struct split *split)
{
	const struct nspy_proc *proc = split->proc;

	for (uint32_t m = 0; m < proc->member_count; m++) {
		split->parent[m] = m;
		split->part_of[m] = NOBODY;
	}
	for (uint32_t m = 0; m < proc->member_count; m++) {
		if (is_member(proc, m))
			tie_member(split, m);
	}
	for (size_t i = 0; i < proc->wait_count; i++)
		tie(split, proc->waits[i].thread, proc->waits[i].rec.comm);
	for (size_t i = 0; i < proc->stall_count; i++)
		tie(split, proc->stalls[i].thread, proc->stalls[i].rec.comm);
}

static size_t number_parts(struct split *split)
{
	const struct nspy_proc *proc = split->proc;
	uint32_t count = 0;

	for (uint32_t m = 0; m < proc->member_count; m++) {
		uint32_t root;

		if (!is_member(proc, m))
			continue;
		root = root_of(split, m); /* the lowest of its kind: numbered already, or m */
		split->part_of[m] = root == m ? count++ : split->part_of[root];
	}
	return count;
}

/* --- what belongs to which part --- */

/* NOBODY: a thread that uses none of the communicators. */
static uint32_t owner(const struct split *split, uint32_t thread, uint32_t comm)
{
	uintptr_t driven;

	if (is_member(split->proc, comm))
		return split->part_of[comm];
	driven = (uintptr_t)nspy_map_get(&split->drives, thread);
	return driven ? split->part_of[driven - 1] : NOBODY;
}

static bool owns(const struct split *split, uint32_t part, uint32_t thread, uint32_t comm)
{
	uint32_t who = owner(split, thread, comm);

	return who == part || who == NOBODY;
}

static struct nspy_placed_call *choose_calls(const struct split *split, uint32_t part,
					     const struct nspy_placed_call *calls, size_t count,
					     size_t *ret_count)
{
	struct nspy_placed_call *chosen = nspy_xcalloc(count, sizeof(*chosen));

	*ret_count = 0;
	for (size_t i = 0; i < count; i++) {
		if (owns(split, part, calls[i].thread, calls[i].rec.comm))
			chosen[(*ret_count)++] = calls[i];
	}
	return chosen;
}

static void choose_errors(const struct split *split, uint32_t part, struct nspy_proc *into)
{
	const struct nspy_proc *proc = split->proc;

	into->errors = nspy_xcalloc(proc->error_count, sizeof(*into->errors));
	for (size_t i = 0; i < proc->error_count; i++) {
		uint32_t who = owner(split, proc->errors[i].thread, proc->errors[i].comm);

		if (who == part || (who == NOBODY && part == 0))
			into->errors[into->error_count++] = proc->errors[i];
	}
}

static void choose_members(const struct split *split, uint32_t part, struct nspy_proc *into)
{
	struct nspy_proc *proc = split->proc;

	into->members = nspy_xcalloc(proc->member_count, sizeof(struct nspy_member *));
	into->member_count = proc->member_count;
	for (size_t m = 0; m < proc->member_count; m++) {
		struct nspy_member *member = proc->members[m];

		if (!member || split->part_of[m] != part)
			continue;
		into->members[m] = member;
		member->proc = into;
		into->ops += member->ops;
		into->bytes += member->bytes;
		for (size_t p = 0; p < member->peer_count; p++) {
			const struct nspy_peer *peer = member->peers[p];

			if (!peer)
				continue;
			into->ops += peer->send.seen + peer->recv.seen;
			into->bytes += peer->send.bytes + peer->recv.bytes;
		}
	}
}

static void choose_threads(const struct split *split, uint32_t part, struct nspy_proc *into)
{
	const struct nspy_proc *proc = split->proc;

	for (size_t i = 0; i < proc->thread_count; i++) {
		const struct nspy_thread *thread = &proc->threads[i];

		if (thread->abort_ns && owns(split, part, thread->serial, thread->abort_comm) &&
		    (!into->abort_ns || thread->abort_ns < into->abort_ns)) {
			into->abort_ns = thread->abort_ns;
			into->abort_comm = thread->abort_comm;
		}
		if (thread->has_busy && owner(split, thread->serial, NOBODY) == part &&
		    (!into->busy.thread ||
		     nspy_proc_when(proc, thread->busy.leave) > into->busy.rec.leave)) {
			into->busy.thread = thread->serial;
			into->busy.rec = thread->busy;
			nspy_place_call(proc, &into->busy);
		}
	}
}

/* What cannot be told apart is counted once, with the first part. */
static void give_rest(const struct split *split)
{
	const struct nspy_proc *proc = split->proc;
	struct nspy_proc *first = split->parts[0];
	uint32_t refused = owner(split, proc->memory.refused_thread, NOBODY);

	for (int i = 0; i < NSPY_LOSS_COUNT; i++)
		first->loss[i] = proc->loss[i];
	first->records = proc->records;
	first->calls = proc->calls;
	first->captured = proc->captured;
	first->unnumbered = proc->unnumbered;
	first->unplaced = proc->unplaced;
	first->packed_bytes = proc->packed_bytes;
	first->live_records = proc->live_records;
	first->cuda_errors = proc->cuda_errors;
	first->troubles = proc->troubles;
	first->trouble_count = proc->trouble_count;
	first->notes = proc->notes;
	first->note_count = proc->note_count;
	split->parts[refused == NOBODY ? 0 : refused]->memory = proc->memory;
}

static struct nspy_proc *make_part(struct nspy_model *model, const struct split *split,
				   uint32_t part)
{
	const struct nspy_proc *proc = split->proc;
	struct nspy_proc *into = nspy_model_add_proc(model, proc->run_id);

	into->whole = proc;
	into->base = proc->base;
	into->summary = proc->summary;
	into->world = proc->world;
	into->pid = proc->pid;
	into->epoch = proc->epoch;
	into->clock_offset = proc->clock_offset;
	into->has_clock = proc->has_clock;
	into->clock = proc->clock;
	into->clock_rate = proc->clock_rate;
	into->clock_base_ns = proc->clock_base_ns;
	into->clock_corrected_ns = proc->clock_corrected_ns;
	into->clock_error_ns = proc->clock_error_ns;
	into->start_ns = proc->start_ns;
	into->first_ns = proc->first_ns;
	into->evidence_ns = proc->evidence_ns;
	into->end_ns = proc->end_ns;
	into->state = proc->state;
	into->ended_clean = proc->ended_clean;
	into->torn = proc->torn;
	into->exit = proc->exit;
	into->live_read = proc->live_read;
	into->net = proc->net; /* shared: nobody can tell whose it is */
	into->prof = proc->prof;
	into->sync_ns = proc->sync_ns;
	into->longest_sync_ns = proc->longest_sync_ns;
	into->waits = choose_calls(split, part, proc->waits, proc->wait_count, &into->wait_count);
	into->stalls =
		choose_calls(split, part, proc->stalls, proc->stall_count, &into->stall_count);
	choose_errors(split, part, into);
	choose_members(split, part, into);
	choose_threads(split, part, into);
	return into;
}

static void split_proc(struct nspy_model *model, struct nspy_proc *proc)
{
	struct split split = {
		.proc = proc,
		.parent = nspy_xcalloc(proc->member_count, sizeof(*split.parent)),
		.part_of = nspy_xcalloc(proc->member_count, sizeof(*split.part_of)),
	};
	size_t count;

	tie_all(&split);
	count = number_parts(&split);
	if (count > 1) {
		split.parts = nspy_xcalloc(count, sizeof(struct nspy_proc *));
		proc->part_count = count;
		for (uint32_t i = 0; i < count; i++)
			split.parts[i] = make_part(model, &split, i);
		give_rest(&split);
		free(split.parts);
	}
	nspy_map_done(&split.drives);
	free(split.parent);
	free(split.part_of);
}

void nspy_parts_make(struct nspy_model *model)
{
	size_t count = model->proc_count;

	for (size_t i = 0; i < count; i++) {
		if (holds_several(model->procs[i]))
			split_proc(model, model->procs[i]);
	}
}

void nspy_parts_drop(struct nspy_model *model)
{
	while (model->proc_count && model->procs[model->proc_count - 1]->whole) {
		struct nspy_proc *part = model->procs[--model->proc_count];

		free(part->members);
		free(part->waits);
		free(part->stalls);
		free(part->errors);
		free(part);
	}
	for (size_t i = 0; i < model->proc_count; i++) {
		struct nspy_proc *proc = model->procs[i];

		for (size_t m = 0; proc->part_count && m < proc->member_count; m++) {
			if (proc->members[m])
				proc->members[m]->proc = proc;
		}
		proc->part_count = 0;
	}
}
