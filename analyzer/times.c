/* SPDX-License-Identifier: Apache-2.0 */
#include "times.h"

#include <stdlib.h>

static const struct {
	const char *name, *words;
} parts[NSPY_TIME_PARTS] = {
	[NSPY_TIME_OUTSIDE] = {"outside", "outside NCCL and CUDA"},
	[NSPY_TIME_LATE_PEER] = {"late_peer", "waiting for late peers"},
	[NSPY_TIME_TRANSFER] = {"transfer_at_most", "transfer (at most)"},
	[NSPY_TIME_QUEUED] = {"queued", "behind other work of the stream"},
	[NSPY_TIME_NCCL] = {"nccl_calls", "in calls of NCCL"},
	[NSPY_TIME_CUDA] = {"cuda_calls", "in other calls of CUDA"},
};

const char *nspy_time_part_name(enum nspy_time_part part)
{
	return parts[part].name;
}

const char *nspy_time_part_words(enum nspy_time_part part)
{
	return parts[part].words;
}

static const struct nspy_thread *thread_by_serial(const struct nspy_proc *whole, uint32_t serial)
{
	for (size_t i = 0; i < whole->thread_count; i++) {
		if (whole->threads[i].serial == serial)
			return &whole->threads[i];
	}
	return NULL;
}

const struct nspy_thread *nspy_times_thread(const struct nspy_proc *proc)
{
	const struct nspy_proc *whole = nspy_proc_whole(proc);
	const struct nspy_thread *best = NULL;

	for (size_t m = 0; proc->whole && m < proc->member_count; m++) {
		const struct nspy_member *member = proc->members[m];
		const struct nspy_thread *thread =
			member ? thread_by_serial(whole, member->last.thread) : NULL;

		if (thread && (!best || thread->ops > best->ops))
			best = thread;
	}
	for (size_t i = 0; !proc->whole && i < whole->thread_count; i++) {
		if (!best || whole->threads[i].ops > best->ops)
			best = &whole->threads[i];
	}
	return best;
}

static uint64_t at_most(uint64_t ns, uint64_t limit)
{
	return ns < limit ? ns : limit;
}

/* Calls that were still open when the evidence ends are in no record. */
static void add_open(const struct nspy_model *model, const struct nspy_proc *proc, uint32_t serial,
		     uint64_t *spent)
{
	for (size_t i = 0; i < proc->wait_count; i++) {
		const struct nspy_placed_call *call = &proc->waits[i];

		if (call->thread == serial && proc->end_ns > call->rec.enter)
			spent[nspy_model_get_fn(model, call->rec.fn)->spent] +=
				proc->end_ns - call->rec.enter;
	}
}

static void divide(const struct nspy_model *model, const struct nspy_costs *costs,
		   const struct nspy_proc *proc, uint64_t transfer_ns, uint64_t *ret)
{
	const struct nspy_thread *thread = nspy_times_thread(proc);
	uint64_t life = proc->end_ns > proc->start_ns ? proc->end_ns - proc->start_ns : 0, rest;
	uint64_t spent[NSPY_SPENT_KINDS] = {0};

	for (int i = 0; thread && i < NSPY_SPENT_KINDS; i++)
		spent[i] = thread->spent_ns[i];
	if (thread)
		add_open(model, proc, thread->serial, spent);
	rest = at_most(spent[NSPY_SPENT_WAITING], life);
	life -= rest;
	ret[NSPY_TIME_LATE_PEER] = at_most(costs->waited[proc->index], rest);
	rest -= ret[NSPY_TIME_LATE_PEER];
	ret[NSPY_TIME_TRANSFER] = at_most(transfer_ns, rest);
	ret[NSPY_TIME_QUEUED] = rest - ret[NSPY_TIME_TRANSFER];
	ret[NSPY_TIME_NCCL] = at_most(spent[NSPY_SPENT_NCCL], life);
	life -= ret[NSPY_TIME_NCCL];
	ret[NSPY_TIME_CUDA] = at_most(spent[NSPY_SPENT_OTHER], life);
	ret[NSPY_TIME_OUTSIDE] = life - ret[NSPY_TIME_CUDA];
}

static bool same_series(const struct nspy_bw_series *series, const struct nspy_timed_series *timed)
{
	return timed->alone && !timed->message && timed->fn == series->fn &&
	       timed->bytes == series->bytes && timed->burst == series->burst &&
	       timed->peer == series->peer;
}

/* All operations alone on their stream, each with the median of what it took at most. */
static void add_transfers(const struct nspy_bw_series *series, uint64_t *transfers)
{
	for (size_t m = 0; series->alone && m < series->comm->member_count; m++) {
		const struct nspy_member *member = series->comm->members[m];

		for (size_t i = 0; member->timed && i < member->timed->count; i++) {
			const struct nspy_timed_series *timed = &member->timed->series[i];

			if (same_series(series, timed))
				transfers[member->proc->index] +=
					timed->seen * timed->burst * series->median_ns;
		}
	}
}

void nspy_times_find(const struct nspy_model *model, const struct nspy_attempt *attempt,
		     const struct nspy_costs *costs, const struct nspy_bandwidth *bandwidth,
		     struct nspy_times *ret)
{
	uint64_t *transfers = nspy_xcalloc(model->proc_count + 1, sizeof(*transfers));

	*ret = (struct nspy_times){
		.by_proc = nspy_xcalloc(model->proc_count + 1, sizeof(*ret->by_proc)),
	};
	for (size_t i = 0; i < bandwidth->series_count; i++) {
		if (!bandwidth->series[i].message)
			add_transfers(&bandwidth->series[i], transfers);
	}
	for (size_t i = 0; i < attempt->proc_count; i++) {
		const struct nspy_proc *proc = attempt->procs[i];

		divide(model, costs, proc, transfers[proc->index], ret->by_proc[proc->index]);
		for (int k = 0; k < NSPY_TIME_PARTS; k++)
			ret->total[k] += ret->by_proc[proc->index][k];
	}
	free(transfers);
	nspy_activities_find(model, costs, ret);
}

void nspy_times_done(struct nspy_times *times)
{
	free(times->by_proc);
	free(times->activities);
	*times = (struct nspy_times){0};
}
