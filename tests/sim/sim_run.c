/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and the meeting of ranks. A rank goes on until it needs another; who completes an
 * operation puts its members on the list again. Completion times are maxima and sums of what is
 * known then, so the order of the list does not matter.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static void wake(struct sim *sim, int rank)
{
	if (sim->listed[rank])
		return;
	sim->listed[rank] = true;
	sim->work[sim->work_count++] = rank;
}

static struct sim_queued *head(struct sim_rank *r)
{
	return r->head < r->tail ? &r->queue[r->head] : NULL;
}

static uint64_t arrival(const struct sim_rank *r, const struct sim_queued *q)
{
	return r->gpu_ns > q->ready_ns ? r->gpu_ns : q->ready_ns;
}

/* How much longer than usual an operation takes because of this rank's GPU or its link onwards. */
static double slowness(const struct sim *sim, const struct sim_rank *r, const struct sim_op *op)
{
	const struct sim_comm *comm = op->what == SIM_COLL ? r->comms[op->group] : NULL;
	int next;

	if (sim->fault.kind == SIM_SLOW_GPU && op->what == SIM_COMPUTE && sim_is_culprit(sim, r))
		return 1 + sim->fault.strength;
	if (!comm)
		return 1;
	next = comm->first + (r->rank - comm->first + comm->stride) % (comm->size * comm->stride);
	return sim_link_slowness(sim, r->node, next / sim->per_node);
}

static void pop(struct sim *sim, struct sim_rank *r, uint64_t end_ns)
{
	r->gpu_ns = end_ns;
	r->head++;
	wake(sim, r->rank);
}

static uint64_t signature(const struct sim_op *op)
{
	return nspy_tg_hash(op->fn, op->count);
}

static bool run_collective(struct sim *sim, struct sim_rank *r, struct sim_queued *q)
{
	struct sim_comm *comm = r->comms[q->op.group];
	uint64_t when = arrival(r, q), ns = (uint64_t)((double)q->op.ns * slowness(sim, r, &q->op));
	uint64_t end;

	if (q->counted)
		return false;
	q->counted = true;
	q->came_ns = when;
	if (comm->arrived++ == 0) {
		comm->signature = signature(&q->op);
		comm->latest_ns = comm->took_ns = 0;
	}
	comm->broken |= comm->signature != signature(&q->op) || q->op.stuck;
	comm->latest_ns = when > comm->latest_ns ? when : comm->latest_ns;
	comm->took_ns = ns > comm->took_ns ? ns : comm->took_ns;
	if (comm->arrived < comm->size || comm->broken)
		return false;
	comm->arrived = 0;
	end = comm->latest_ns + comm->took_ns;
	sim_count_ring(sim, comm, &q->op, end);
	for (int i = 0; i < comm->size; i++) {
		struct sim_rank *member = &sim->all[comm->first + i * comm->stride];

		sim_keep_kernel(sim, member, head(member), end);
		pop(sim, member, end);
	}
	return true;
}

static bool run_message(struct sim *sim, struct sim_rank *r, struct sim_queued *q)
{
	struct sim_rank *other = &sim->all[r->rank + q->op.to * sim->tp];
	struct sim_queued *theirs = head(other);
	uint64_t mine = arrival(r, q), end;

	if (!theirs || other->state == SIM_DEAD || theirs->op.to != -q->op.to ||
	    theirs->op.what != (q->op.what == SIM_SEND ? SIM_RECV : SIM_SEND) ||
	    theirs->op.count != q->op.count)
		return false;
	end = arrival(other, theirs);
	end = (mine > end ? mine : end) +
	      (uint64_t)((double)q->op.ns * sim_link_slowness(sim, r->node, other->node));
	sim_count_message(sim, q->op.what == SIM_SEND ? r : other,
			  q->op.what == SIM_SEND ? other->rank : r->rank, &q->op, end);
	pop(sim, r, end);
	pop(sim, other, end);
	return true;
}

static bool run_stream(struct sim *sim, struct sim_rank *r)
{
	struct sim_queued *q = head(r);

	if (!q || r->state == SIM_DEAD)
		return false;
	switch (q->op.what) {
	case SIM_COLL:
		return run_collective(sim, r, q);
	case SIM_SEND:
	case SIM_RECV:
		return run_message(sim, r, q);
	default:
		pop(sim, r,
		    arrival(r, q) + (uint64_t)((double)q->op.ns * slowness(sim, r, &q->op)));
		return true;
	}
}

/* --- the end --- */

#define POLL_NS       (100ull * SIM_MS) /* of the watchdogs */
#define TERM_GRACE_NS SIM_S             /* from the first death to SIGTERM for the rest */
#define KILL_GRACE_NS (30 * SIM_S)      /* from there to SIGKILL for what is stopped */

static uint64_t latest_sign(const struct sim *sim)
{
	uint64_t now = 0;

	for (int i = 0; i < sim->ranks; i++) {
		now = sim->all[i].host_ns > now ? sim->all[i].host_ns : now;
		now = sim->all[i].gpu_ns > now ? sim->all[i].gpu_ns : now;
	}
	return now;
}

/* When a rank's watchdog finds that an operation takes too long, or UINT64_MAX. */
static uint64_t loses_patience(const struct sim *sim, struct sim_rank *r)
{
	if (!sim->polls || r->state != SIM_SYNCS || !head(r))
		return UINT64_MAX;
	return (r->sync_ns + sim->fault.patience_ns) / POLL_NS * POLL_NS + POLL_NS +
	       sim_below(&r->random, POLL_NS);
}

/* Killed from outside at that time; who waits for the device is found in that call. */
static void end_rank(const struct sim *sim, struct sim_rank *r, uint64_t when_ns)
{
	struct nspy_tg_rank *trace = r->trace;

	if (r->state == SIM_SYNCS && !sim->polls)
		sim_wait_open(r);
	trace->fate = NSPY_TG_DIES;
	trace->exit_ns = when_ns + sim_below(&r->random, 20 * SIM_MS);
	if (sim->fault.kind == SIM_STOPPED && sim_is_culprit(sim, r)) {
		trace->exit_ns += KILL_GRACE_NS;
		trace->exit_line = strdup("signal=9");
	} else if (sim->fault.kind != SIM_CRASHED) {
		trace->exit_line = strdup("signal=15");
	}
}

/*
 * The launcher ends what is left. Where hosts poll, watchdogs abort first, and the launcher ends
 * the others because of that.
 */
static void end_all(struct sim *sim)
{
	uint64_t now = latest_sign(sim) + sim->fault.patience_ns, first = UINT64_MAX;

	for (int i = 0; i < sim->ranks; i++) {
		uint64_t when = loses_patience(sim, &sim->all[i]);

		first = when < first ? when : first;
	}
	if (first != UINT64_MAX)
		now = first + TERM_GRACE_NS;
	for (int i = 0; i < sim->ranks; i++) {
		struct sim_rank *r = &sim->all[i];
		uint64_t when;

		if (r->state == SIM_DONE || r->state == SIM_DEAD)
			continue;
		when = loses_patience(sim, r);
		if (when < now)
			sim_abort(r, head(r)->op.group, when);
		else
			end_rank(sim, r, now);
	}
}

void sim_run(struct sim *sim)
{
	if (sim_create(sim)) {
		for (int i = 0; i < sim->ranks; i++)
			wake(sim, i);
	} else if (sim->all[sim->fault.rank].trace->comm_count) {
		/* It goes on with what comes next; nobody else does. */
		sim->all[sim->fault.rank].state = SIM_RUNS;
		wake(sim, sim->fault.rank);
	}
	while (sim->work_count) {
		struct sim_rank *r = &sim->all[sim->work[--sim->work_count]];

		sim->listed[r->rank] = false;
		while (sim_host(sim, r) || run_stream(sim, r))
			;
		/* Who meets us in a message may have looked before we came. */
		if (head(r) && head(r)->op.to)
			(void)run_message(sim, r, head(r));
	}
	end_all(sim);
}
