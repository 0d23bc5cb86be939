/* SPDX-License-Identifier: Apache-2.0 */
#include "case.h"

#include <stdlib.h>

static void ranks_without_trace(struct nspy_coverage *coverage, const struct nspy_comm *comm)
{
	size_t at = 0;

	/* nranks comes from a trace: the gaps are counted before anything is reserved. */
	if ((size_t)comm->nranks - comm->rank_count > NSPY_PEERS_MAX)
		return;
	coverage->comm = comm;
	coverage->ranks = nspy_xcalloc((size_t)comm->nranks - comm->rank_count, sizeof(int64_t));
	for (int32_t rank = 0; rank < comm->nranks; rank++) {
		while (at < comm->member_count && comm->members[at]->rec.rank < rank)
			at++;
		if (at < comm->member_count && comm->members[at]->rec.rank == rank)
			continue;
		if (coverage->count == (size_t)comm->nranks - comm->rank_count)
			return;
		coverage->ranks[coverage->count++] = rank;
	}
}

/* A communicator that exists although not all its ranks left a trace. */
static bool has_gap(const struct nspy_comm *comm)
{
	bool exists = false;

	if (comm->nranks <= 0 || (size_t)comm->nranks <= comm->rank_count ||
	    comm->origin == NSPY_COMM_FOUND)
		return false;
	for (size_t i = 0; i < comm->member_count && !exists; i++)
		exists = comm->members[i]->ready_ns != 0;
	return exists;
}

static void find_coverage(struct nspy_case *c)
{
	struct nspy_coverage *coverage = &c->coverage;
	const struct nspy_comm *widest = NULL;

	for (size_t i = 0; i < c->attempt->comm_count; i++) {
		const struct nspy_comm *comm = c->attempt->comms[i];

		if (has_gap(comm) && (!widest || comm->nranks > widest->nranks))
			widest = comm;
	}
	if (widest)
		ranks_without_trace(coverage, widest);
	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		const struct nspy_proc *proc = c->attempt->procs[i];
		uint64_t lost = nspy_proc_lost_records(proc);

		coverage->lost += lost;
		coverage->lossy += lost > 0;
		coverage->holes += nspy_proc_account(proc)->hole_count > 0;
		coverage->damaged += proc->trouble_count;
		coverage->captured += proc->captured;
	}
}

void nspy_case_init(struct nspy_case *c, const struct nspy_model *model,
		    const struct nspy_attempt *attempt, const struct nspy_case_options *options)
{
	*c = (struct nspy_case){.model = model, .attempt = attempt, .options = *options};
	find_coverage(c);
	nspy_waits_find(c);
	nspy_deaths_find(c);
	nspy_p2p_find(c);
	nspy_order_find(c);
	nspy_costs_find(model, attempt, &c->costs);
	if (attempt->world)
		nspy_steps_find(attempt->world, &c->steps);
	nspy_bandwidth_find(model, attempt, &c->bandwidth);
	nspy_times_find(model, attempt, &c->costs, &c->bandwidth, &c->times);
}

void nspy_case_done(struct nspy_case *c)
{
	nspy_waits_done(&c->waits);
	nspy_deaths_done(&c->deaths);
	nspy_p2p_done(&c->p2p);
	nspy_order_done(&c->order);
	nspy_costs_done(&c->costs);
	nspy_bandwidth_done(&c->bandwidth);
	nspy_times_done(&c->times);
	free(c->coverage.ranks);
}

enum nspy_confidence nspy_case_confidence(const struct nspy_case *c, const struct nspy_comm *comm)
{
	if (comm && comm->nranks > 0 && (size_t)comm->nranks > comm->rank_count)
		return NSPY_PROBABLE;
	return c->coverage.lost || c->coverage.damaged || c->coverage.holes ? NSPY_PROBABLE
									    : NSPY_CERTAIN;
}
