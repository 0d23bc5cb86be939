/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A circle through an operation that all have joined. Somebody left out a call, or made two in
 * another order: its call of B stands in its stream behind X, for which it waits. Its peers in X
 * are stuck in B, where everybody seems to be present, and never come to X. None of them is stuck
 * below NCCL. Which side is the odd one, those who came to B behind X or those who came to B
 * without X, is decided by number, over all X of the circle: one rank that left out a call of B
 * runs into as many X as it has communicators; one that left out a call of X is missed there by
 * all others.
 */
#include <stdlib.h>

#include "case.h"
#include "reread.h"

#define REREADS_MAX 64u /* of all in a case: each reads a trace once more */

struct entries {
	const struct nspy_comm *comm_x, *comm_b;
	uint64_t seq_b;
	uint64_t last_x, enter_b; /* 0 = not seen */
};

static void visit(void *context, const struct nspy_proc *proc, uint32_t thread,
		  const struct nspy_rec *rec)
{
	struct entries *entries = context;
	const struct nspy_member *member =
		rec->seq && rec->comm < proc->member_count ? proc->members[rec->comm] : NULL;

	(void)thread;
	if (!member || !member->comm)
		return;
	if (member->comm == entries->comm_x && rec->enter > entries->last_x)
		entries->last_x = rec->enter;
	if (member->comm == entries->comm_b && rec->seq == entries->seq_b)
		entries->enter_b = rec->enter;
}

/* Whether that process made all its calls in X's communicator before it came to B. */
static bool came_behind(const struct nspy_proc *proc, const struct nspy_wait_object *x,
			const struct nspy_wait_object *b)
{
	struct entries entries = {.comm_x = x->comm, .comm_b = b->comm, .seq_b = b->seq};

	nspy_reread(proc, visit, &entries);
	return entries.last_x && entries.enter_b && entries.last_x < entries.enter_b;
}

static bool is_member(const struct nspy_comm *comm, const struct nspy_proc *proc)
{
	for (size_t m = 0; m < comm->member_count; m++) {
		if (comm->members[m]->proc == proc)
			return true;
	}
	return false;
}

void nspy_held_up(struct nspy_waits *waits, const struct nspy_wait_object *x,
		  const struct nspy_proc *peer, const struct nspy_wait_object *b)
{
	struct nspy_held *held = &waits->held;
	bool any = false;

	if (!b->seq || x->comm == b->comm || (held->op && held->op != b))
		return;
	for (size_t i = 0; i < x->waiters.count; i++) {
		const struct nspy_proc *proc = x->waiters.items[i];

		if (!nspy_procs_has(&held->procs, proc)) {
			if (!is_member(b->comm, proc) || held->rereads >= REREADS_MAX)
				continue;
			held->rereads++;
			if (!came_behind(proc, x, b))
				continue;
			nspy_procs_add(&held->procs, proc);
		}
		any = true;
	}
	if (any) {
		held->op = b;
		if (!nspy_procs_has(&held->peers, peer))
			nspy_procs_add(&held->peers, peer);
		if (!held->behind ||
		    (held->behind->kind != NSPY_WAIT_COLL && x->kind == NSPY_WAIT_COLL))
			held->behind = x;
	}
}

/* One message, one against one: what is usual is that its sender or receiver left it out. */
bool nspy_held_are_few(const struct nspy_held *held)
{
	if (held->procs.count == held->peers.count)
		return held->behind && held->behind->kind == NSPY_WAIT_COLL;
	return held->procs.count < held->peers.count;
}
