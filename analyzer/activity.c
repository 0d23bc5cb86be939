/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ranks that cost most were doing while others waited for them: their traces are read
 * again, and the calls of the thread that calls NCCL are laid over the times in which they were
 * waited for.
 */
#include <stdlib.h>

#include "reread.h"
#include "times.h"

struct reading {
	const struct nspy_model *model;
	uint32_t thread;
	const struct nspy_cost_window *windows; /* of this rank, by to_ns */
	size_t count;
	uint64_t longest_ns;
	uint64_t *by_fn; /* by model function id; 0 = all of the time waited, at first */
};

static int compare_windows(const void *a, const void *b)
{
	const struct nspy_cost_window *x = a, *y = b;

	if (x->proc != y->proc)
		return x->proc < y->proc ? -1 : 1;
	return x->to_ns < y->to_ns ? -1 : x->to_ns > y->to_ns;
}

static size_t first_after(const struct reading *r, uint64_t ns)
{
	size_t low = 0, high = r->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (r->windows[middle].to_ns <= ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void visit(void *context, const struct nspy_proc *proc, uint32_t thread,
		  const struct nspy_rec *rec)
{
	struct reading *r = context;
	uint16_t id = rec->fn < proc->fn_map_count ? proc->fn_map[rec->fn] : 0;
	uint64_t enter = nspy_proc_when(proc, rec->enter);
	uint64_t leave = nspy_proc_when(proc, rec->leave);

	if (thread != r->thread || (rec->flags & NSPY_CALL_NESTED) || !rec->leave || !id)
		return;
	for (size_t i = first_after(r, enter);
	     i < r->count && r->windows[i].to_ns < leave + r->longest_ns; i++) {
		const struct nspy_cost_window *w = &r->windows[i];
		uint64_t from = enter > w->from_ns ? enter : w->from_ns;
		uint64_t to = leave < w->to_ns ? leave : w->to_ns;
		uint64_t ns = to > from ? (to - from) * w->waiters : 0;

		/* A call may be visited twice. */
		ns = ns < r->by_fn[0] ? ns : r->by_fn[0];
		r->by_fn[id] += ns;
		r->by_fn[0] -= ns;
	}
}

static int compare_activities(const void *a, const void *b)
{
	const struct nspy_activity *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	return x->fn < y->fn ? -1 : x->fn > y->fn;
}

static void read_one(const struct nspy_model *model, const struct nspy_proc *proc,
		     const struct nspy_cost_window *windows, size_t count, struct nspy_times *ret)
{
	const struct nspy_thread *thread = nspy_times_thread(proc);
	struct reading r = {.model = model,
			    .thread = thread ? thread->serial : 0,
			    .windows = windows,
			    .count = count};
	size_t first = ret->activity_count;

	r.by_fn = nspy_xcalloc(model->fn_count, sizeof(*r.by_fn));
	for (size_t i = 0; i < count; i++) {
		uint64_t ns = windows[i].to_ns - windows[i].from_ns;

		r.longest_ns = ns > r.longest_ns ? ns : r.longest_ns;
		r.by_fn[0] += ns * windows[i].waiters;
	}
	nspy_reread(proc, visit, &r);
	for (size_t i = 0; i < model->fn_count; i++) {
		if (!r.by_fn[i])
			continue;
		ret->activities = nspy_grow(ret->activities, ret->activity_count,
					    &ret->activity_capacity, sizeof(*ret->activities));
		ret->activities[ret->activity_count++] =
			(struct nspy_activity){proc, (uint16_t)i, r.by_fn[i]};
	}
	if (ret->activity_count > first)
		qsort(ret->activities + first, ret->activity_count - first,
		      sizeof(*ret->activities), compare_activities);
	free(r.by_fn);
}

void nspy_activities_find(const struct nspy_model *model, const struct nspy_costs *costs,
			  struct nspy_times *ret)
{
	size_t end;

	if (costs->window_count)
		qsort(costs->windows, costs->window_count, sizeof(*costs->windows),
		      compare_windows);
	for (size_t begin = 0; begin < costs->window_count; begin = end) {
		const struct nspy_cost_window *first = &costs->windows[begin];

		end = begin + 1;
		while (end < costs->window_count && costs->windows[end].proc == first->proc)
			end++;
		read_one(model, model->procs[first->proc], first, end - begin, ret);
	}
}
