/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attempts. Processes that share a communicator belong together; groups that never share one (a
 * serving job of several tensor-parallel groups, a rank that died before it could join) are one
 * attempt if they ran at the same time and no rank is there twice.
 */
#include <stdlib.h>
#include <string.h>

#include "join.h"

/* A process without a communicator may have started this long before the others. */
#define NEAR_START_NS (120 * NSPY_NS_PER_S)

static uint32_t find_root(uint32_t *parent, uint32_t i)
{
	while (parent[i] != i) {
		parent[i] = parent[parent[i]];
		i = parent[i];
	}
	return i;
}

static void unite(const struct nspy_model *model, uint32_t *parent)
{
	for (uint32_t i = 0; i < model->proc_count; i++)
		parent[i] = i;
	for (uint32_t i = 0; i < model->proc_count; i++) {
		if (model->procs[i]->whole)
			parent[i] = model->procs[i]->whole->index;
	}
	for (size_t c = 0; c < model->comm_count; c++) {
		const struct nspy_comm *comm = model->comms[c];

		for (size_t m = 1; m < comm->member_count; m++) {
			uint32_t a = find_root(parent, comm->members[0]->proc->index);
			uint32_t b = find_root(parent, comm->members[m]->proc->index);

			parent[a > b ? a : b] = a > b ? b : a;
		}
	}
}

/* --- the ranks of processes --- */

static void rank_from_world(struct nspy_attempt *attempt)
{
	for (size_t i = 0; i < attempt->proc_count; i++) {
		struct nspy_proc *proc = attempt->procs[i];
		const struct nspy_member *found = NULL;
		size_t count = 0;

		for (size_t m = 0; m < proc->member_count; m++) {
			if (proc->members[m] && attempt->world &&
			    proc->members[m]->comm == attempt->world) {
				found = proc->members[m];
				count++;
			}
		}
		if (proc->rank < 0 && count == 1 && found->rec.rank >= 0)
			proc->rank = found->rec.rank;
	}
}

/* --- groups --- */

static bool has_rank(const struct nspy_attempt *attempt, int64_t rank)
{
	for (size_t i = 0; i < attempt->proc_count; i++) {
		if (rank >= 0 && attempt->procs[i]->rank == rank)
			return true;
	}
	return false;
}

static const char *hint_of(const struct nspy_attempt *attempt)
{
	return attempt->proc_count ? nspy_proc_fact(attempt->procs[0], "attempt.hint") : NULL;
}

static bool fits(const struct nspy_attempt *into, const struct nspy_attempt *group)
{
	const char *a = hint_of(into), *b = hint_of(group);
	bool alone = group->proc_count == 1 && !group->world;
	uint64_t slack = alone ? NEAR_START_NS : 0;

	if (a && b && strcmp(a, b) != 0)
		return false;
	if (group->start_ns > into->end_ns + slack || into->start_ns > group->end_ns + slack)
		return false;
	for (size_t i = 0; i < group->proc_count; i++) {
		if (has_rank(into, group->procs[i]->rank))
			return false;
	}
	return true;
}

static void add_proc(struct nspy_attempt *attempt, struct nspy_proc *proc)
{
	attempt->procs = nspy_grow(attempt->procs, attempt->proc_count, &attempt->proc_capacity,
				   sizeof(struct nspy_proc *));
	attempt->procs[attempt->proc_count++] = proc;
	if (attempt->proc_count == 1 || proc->start_ns < attempt->start_ns)
		attempt->start_ns = proc->start_ns;
	if (proc->end_ns > attempt->end_ns)
		attempt->end_ns = proc->end_ns;
}

static uint64_t first_start(const struct nspy_comm *comm)
{
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; i < comm->member_count; i++) {
		if (comm->members[i]->started_ns && comm->members[i]->started_ns < first)
			first = comm->members[i]->started_ns;
	}
	return first;
}

/* The largest communicator, among equals the one that was created first. */
static bool better_world(const struct nspy_comm *comm, const struct nspy_comm *world)
{
	if (!world || comm->nranks != world->nranks)
		return !world || comm->nranks > world->nranks;
	return first_start(comm) < first_start(world);
}

static void absorb(struct nspy_attempt *into, struct nspy_attempt *group)
{
	for (size_t i = 0; i < group->proc_count; i++)
		add_proc(into, group->procs[i]);
	if (group->world && better_world(group->world, into->world))
		into->world = group->world;
	free(group->procs);
	*group = (struct nspy_attempt){0};
}

/* Large groups first, so that single processes find their place among them. */
static int compare_groups(const void *a, const void *b)
{
	const struct nspy_attempt *x = a, *y = b;
	bool alone_x = !x->world, alone_y = !y->world;

	if (alone_x != alone_y)
		return alone_x ? 1 : -1;
	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static int compare_attempts(const void *a, const void *b)
{
	const struct nspy_attempt *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

static size_t merge_groups(struct nspy_attempt *groups, size_t count)
{
	size_t kept = 0;

	qsort(groups, count, sizeof(*groups), compare_groups);
	for (size_t g = 0; g < count; g++) {
		bool merged = false;

		for (size_t k = 0; k < kept && !merged; k++) {
			if (!fits(&groups[k], &groups[g]))
				continue;
			absorb(&groups[k], &groups[g]);
			merged = true;
		}
		if (!merged) {
			struct nspy_attempt group = groups[g];

			groups[g] = (struct nspy_attempt){0};
			groups[kept++] = group;
		}
	}
	qsort(groups, kept, sizeof(*groups), compare_attempts);
	return kept;
}

/* --- finishing --- */

static int compare_procs(const void *a, const void *b)
{
	const struct nspy_proc *x = *(struct nspy_proc *const *)a;
	const struct nspy_proc *y = *(struct nspy_proc *const *)b;
	int order;

	if (x->rank != y->rank)
		return (uint64_t)x->rank < (uint64_t)y->rank ? -1 : 1; /* unknown ranks last */
	order = strcmp(nspy_proc_host(x), nspy_proc_host(y));
	if (order)
		return order;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static void finish_attempt(struct nspy_model *model, struct nspy_attempt *attempt, uint32_t number)
{
	attempt->number = number;
	rank_from_world(attempt);
	qsort(attempt->procs, attempt->proc_count, sizeof(struct nspy_proc *), compare_procs);
	attempt->world_size = -1;
	for (size_t i = 0; i < attempt->proc_count; i++) {
		attempt->procs[i]->attempt = attempt;
		if (attempt->procs[i]->world > attempt->world_size)
			attempt->world_size = attempt->procs[i]->world;
	}
	/* Launchers count processes, which may hold several ranks each. */
	if (attempt->world && attempt->world->nranks > attempt->world_size)
		attempt->world_size = attempt->world->nranks;
	for (size_t c = 0; c < model->comm_count; c++) {
		struct nspy_comm *comm = model->comms[c];

		if (comm->member_count == 0 || comm->members[0]->proc->attempt != attempt)
			continue;
		comm->attempt = attempt;
		attempt->comms = nspy_grow(attempt->comms, attempt->comm_count,
					   &attempt->comm_capacity, sizeof(struct nspy_comm *));
		attempt->comms[attempt->comm_count++] = comm;
	}
}

static void find_worlds(const struct nspy_model *model, uint32_t *parent,
			struct nspy_attempt *groups)
{
	for (size_t c = 0; c < model->comm_count; c++) {
		struct nspy_comm *comm = model->comms[c];
		struct nspy_attempt *group;

		if (comm->member_count == 0)
			continue;
		group = &groups[find_root(parent, comm->members[0]->proc->index)];
		if (better_world(comm, group->world))
			group->world = comm;
	}
}

void nspy_join_attempts(struct nspy_model *model)
{
	uint32_t *parent = nspy_xcalloc(model->proc_count, sizeof(*parent));
	struct nspy_attempt *groups = nspy_xcalloc(model->proc_count, sizeof(*groups));
	size_t count = 0;

	unite(model, parent);
	for (uint32_t i = 0; i < model->proc_count; i++) {
		if (!model->procs[i]->part_count)
			add_proc(&groups[find_root(parent, i)], model->procs[i]);
	}
	find_worlds(model, parent, groups);
	for (size_t i = 0; i < model->proc_count; i++) {
		if (groups[i].proc_count == 0)
			continue;
		groups[count] = groups[i];
		if (i != count)
			groups[i] = (struct nspy_attempt){0};
		rank_from_world(&groups[count]);
		count++;
	}
	model->attempts = groups;
	model->attempt_count = merge_groups(groups, count);
	for (size_t i = 0; i < model->attempt_count; i++)
		finish_attempt(model, &groups[i], (uint32_t)i + 1);
	free(parent);
}
