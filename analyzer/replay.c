/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hangs in graph replays. Operations in graphs have no numbers. But ranks that captured as many of
 * them replay them equally often: the few that did not begin the latest replay, and wait for
 * nothing, hold it up.
 */
#include "case.h"
#include "who.h"

/* Could replay what this process replays: it captured as much. */
static bool replays_alike(const struct nspy_proc *a, const struct nspy_proc *b)
{
	return a->captured == b->captured && !a->whole && !b->torn && !nspy_proc_lost_records(b);
}

void nspy_replay_blame(const struct nspy_case *c, struct nspy_wait_object *object,
		       const struct nspy_proc *waiter)
{
	const struct nspy_comm *comm = object->comm;
	size_t behind = 0;

	for (size_t i = 0; i < comm->member_count; i++) {
		const struct nspy_proc *proc = comm->members[i]->proc;

		if (!replays_alike(waiter, proc) || proc->replays > waiter->replays)
			return;
		behind += proc->replays < waiter->replays;
	}
	if (!waiter->captured || !behind || behind * 2 >= comm->member_count)
		return;
	for (size_t i = 0; i < comm->member_count; i++) {
		const struct nspy_proc *proc = comm->members[i]->proc;

		if (proc->replays < waiter->replays && !c->waits.procs[proc->index].waiting)
			nspy_procs_add(&object->blamed, proc);
	}
	if (object->blamed.count)
		object->replay = waiter->replays;
}

/* Where nothing ran but graphs, the communicator they were captured on cannot be told: the largest.
 */
const struct nspy_member *nspy_replay_member(const struct nspy_case *c,
					     const struct nspy_proc *proc)
{
	const struct nspy_comm *world = c->attempt->world;

	return proc->captured && proc->replays && world ? nspy_member_of(world, proc) : NULL;
}
