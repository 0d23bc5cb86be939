/* SPDX-License-Identifier: Apache-2.0 */
#include "clocks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clock_fit.h"
#include "clock_gpu.h"

/* Same boot id, yet system times further apart: not one clock (a cloned machine image). */
#define SAME_CLOCK_NS (10 * (int64_t)NSPY_NS_PER_S)
/* A system time is corrected if it lies so far outside what the traces leave possible. */
#define CORRECT_MIN_NS 200e3

struct clock {
	const char *boot_id;
	int64_t offset;
};

static bool same_clock(const struct clock *clock, const char *boot_id, int64_t offset)
{
	int64_t apart = clock->offset - offset;

	return clock->boot_id && boot_id && strcmp(clock->boot_id, boot_id) == 0 &&
	       apart < SAME_CLOCK_NS && apart > -SAME_CLOCK_NS;
}

void nspy_clocks_join(struct nspy_model *model)
{
	struct clock *clocks = nspy_xcalloc(model->proc_count, sizeof(*clocks));
	size_t count = 0;

	for (size_t i = 0; i < model->proc_count; i++) {
		struct nspy_proc *proc = model->procs[i];
		const char *boot_id = nspy_proc_fact(proc, "boot_id");
		size_t c = 0;

		while (c < count && !same_clock(&clocks[c], boot_id, proc->clock_offset))
			c++;
		if (c == count)
			clocks[count++] = (struct clock){boot_id, proc->clock_offset};
		else
			proc->clock_offset = clocks[c].offset;
		proc->clock = (uint32_t)c;
		proc->start_ns += (uint64_t)proc->clock_offset;
	}
	model->clock_count = count;
	model->clock_error_ns = count > 1 ? NSPY_CLOCK_ERROR_UNKNOWN : 0;
	free(clocks);
}

/* --- alignment --- */

/* What one member tells of an operation, or of the creation (seq 0). Times of its system clock. */
struct passing {
	uint64_t seq;
	uint32_t clock;
	bool left;
	uint64_t enter_ns, leave_ns;
};

struct passings {
	struct passing *items;
	size_t count, capacity;
};

/* A clock: what has to be added to it is offset + rate * (time - origin), give or take error. */
struct line {
	bool aligned, known;
	struct nspy_clock_fit fit;
	struct nspy_clock_point *points;
	size_t count, capacity;
};

struct alignment {
	struct nspy_model *model;
	struct line *lines;          /* by clock; the first one is the scale */
	struct nspy_clock_gpu *gpus; /* by proc->index */
	bool fine;                   /* there are times of GPUs */
	uint64_t origin_ns, end_ns;
};

static double since(const struct alignment *a, uint64_t ns)
{
	return (double)(int64_t)(ns - a->origin_ns);
}

static void add_passing(struct passings *list, const struct passing *passing)
{
	list->items = nspy_grow(list->items, list->count, &list->capacity, sizeof(*list->items));
	list->items[list->count++] = *passing;
}

static bool is_barrier(const struct nspy_member *member)
{
	return member->started_ns && member->ready_ns &&
	       !(member->rec.flags & NSPY_COMM_NONBLOCKING);
}

static void add_creation(const struct nspy_comm *comm, struct passings *list)
{
	for (size_t i = 0; i < comm->member_count; i++) {
		const struct nspy_member *member = comm->members[i];

		if (is_barrier(member))
			add_passing(list, &(struct passing){0, member->proc->clock, true,
							    member->started_ns, member->ready_ns});
	}
}

static void add_operations(const struct nspy_comm *comm, struct passings *list)
{
	for (size_t i = 0; i < comm->member_count; i++) {
		const struct nspy_member *member = comm->members[i];
		const struct nspy_proc *proc = member->proc;

		for (size_t k = 0; k < member->together_count; k++) {
			const struct nspy_together *t = &member->together[k];
			uint64_t leave_ns = nspy_proc_when(proc, t->leave_ns);
			bool left = !proc->abort_ns || leave_ns < proc->abort_ns;

			add_passing(list,
				    &(struct passing){t->seq, proc->clock, left,
						      nspy_proc_when(proc, t->enter_ns), leave_ns});
		}
	}
}

/* Operations without a root: no kernel of theirs ends before all have begun. */
static bool is_barrier_func(uint32_t func)
{
	return func == NSPY_PROF_FUNC_ALL_REDUCE || func == NSPY_PROF_FUNC_ALL_GATHER ||
	       func == NSPY_PROF_FUNC_REDUCE_SCATTER || func == NSPY_PROF_FUNC_ALL_TO_ALL;
}

/* NCCL counts operations of each function apart; our own numbers have no top bit. */
static uint64_t kernel_seq(uint32_t func, uint64_t seq)
{
	return 1ULL << 63 | (uint64_t)func << 56 | (seq & ((1ULL << 56) - 1));
}

static void add_kernels(const struct alignment *a, const struct nspy_member *member,
			struct passings *list)
{
	const struct nspy_proc *proc = member->proc;
	const struct nspy_clock_gpu *gpu = &a->gpus[proc->index];

	for (size_t i = 0; gpu->known && i < proc->prof.kind_count; i++) {
		const struct nspy_prof_kind_view *kind = &proc->prof.kinds[i];
		const struct nspy_prof_comm_view *comm =
			nspy_prof_comm_by_id(&proc->prof, kind->comm);

		if (!comm || comm->comm != member->rec.comm || kind->what != NSPY_PROF_COLL ||
		    !is_barrier_func(kind->func))
			continue;
		for (size_t k = 0; k < kind->kernel_count; k++) {
			const struct nspy_prof_kernel *kernel = &kind->kernels[k];
			uint64_t start_ns = nspy_clock_gpu_when(gpu, kernel->gpu_start_ns);
			uint64_t end_ns =
				nspy_clock_gpu_when(gpu, kernel->gpu_start_ns + kernel->gpu_ns);

			add_passing(list,
				    &(struct passing){
					    kernel_seq(kind->func, kernel->seq), proc->clock, true,
					    nspy_proc_when(proc, start_ns - gpu->margin_ns),
					    nspy_proc_when(proc, end_ns)});
		}
	}
}

static int compare_passings(const void *x, const void *y)
{
	const struct passing *a = x, *b = y;

	if (a->seq != b->seq)
		return a->seq < b->seq ? -1 : 1;
	return a->clock < b->clock ? -1 : a->clock > b->clock;
}

/* One per clock: its latest entry and its earliest leave. Returns how many remain. */
static size_t per_clock(struct passing *items, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		struct passing *last = kept ? &items[kept - 1] : NULL;

		if (!last || last->clock != items[i].clock) {
			items[kept++] = items[i];
			continue;
		}
		if (items[i].enter_ns > last->enter_ns)
			last->enter_ns = items[i].enter_ns;
		if (items[i].left && (!last->left || items[i].leave_ns < last->leave_ns))
			last->leave_ns = items[i].leave_ns;
		last->left |= items[i].left;
	}
	return kept;
}

static double shifted(const struct alignment *a, const struct line *line, uint64_t ns)
{
	double t = since(a, ns);

	return t + line->fit.offset + line->fit.rate * t;
}

/*
 * All had entered before anybody left: what the aligned clocks say of that moment bounds each of
 * the others.
 */
static void constrain(struct alignment *a, const struct passing *items, size_t count)
{
	double entered = -INFINITY, left = INFINITY;

	for (size_t i = 0; i < count; i++) {
		const struct line *line = &a->lines[items[i].clock];

		if (!line->aligned)
			continue;
		entered = fmax(entered, shifted(a, line, items[i].enter_ns) - line->fit.error);
		if (items[i].left)
			left = fmin(left, shifted(a, line, items[i].leave_ns) + line->fit.error);
	}
	for (size_t i = 0; i < count && isfinite(entered); i++) {
		struct line *line = &a->lines[items[i].clock];

		if (line->aligned)
			continue;
		line->points = nspy_grow(line->points, line->count, &line->capacity,
					 sizeof(*line->points));
		line->points[line->count++] = (struct nspy_clock_point){
			.t = since(a, items[i].enter_ns),
			.low = items[i].left ? entered - since(a, items[i].leave_ns) : -INFINITY,
			.high = left - since(a, items[i].enter_ns),
		};
	}
}

static void constrain_by(struct alignment *a, struct passings *list)
{
	if (list->count)
		qsort(list->items, list->count, sizeof(*list->items), compare_passings);
	for (size_t i = 0, next; i < list->count; i = next) {
		for (next = i; next < list->count && list->items[next].seq == list->items[i].seq;)
			next++;
		constrain(a, list->items + i, per_clock(list->items + i, next - i));
	}
	list->count = 0;
}

/* What came of one split, in order: the same parent, of one start of the job, and ordinal. */
static int compare_splits(const void *x, const void *y)
{
	const struct nspy_comm *a = *(struct nspy_comm *const *)x;
	const struct nspy_comm *b = *(struct nspy_comm *const *)y;
	uint32_t epoch_a = a->members[0]->proc->epoch, epoch_b = b->members[0]->proc->epoch;

	if (a->parent_key != b->parent_key)
		return a->parent_key < b->parent_key ? -1 : 1;
	if (a->ordinal != b->ordinal)
		return a->ordinal < b->ordinal ? -1 : 1;
	return epoch_a < epoch_b ? -1 : epoch_a > epoch_b;
}

/* Nobody leaves a split before all of the parent have told their colour. */
static void constrain_splits(struct alignment *a, struct passings *list)
{
	const struct nspy_model *model = a->model;
	struct nspy_comm **splits = nspy_xcalloc(model->comm_count + 1, sizeof(struct nspy_comm *));
	size_t count = 0;

	for (size_t c = 0; c < model->comm_count; c++) {
		struct nspy_comm *comm = model->comms[c];

		if (comm->origin == NSPY_COMM_SPLIT && comm->parent_key && comm->member_count)
			splits[count++] = comm;
	}
	if (count)
		qsort(splits, count, sizeof(struct nspy_comm *), compare_splits);
	for (size_t i = 0; i < count; i++) {
		add_creation(splits[i], list);
		if (i + 1 == count || compare_splits(&splits[i], &splits[i + 1]) != 0)
			constrain_by(a, list);
	}
	free(splits);
}

static void constrain_all(struct alignment *a)
{
	struct passings list = {0};

	for (size_t c = 0; c < a->model->comm_count; c++) {
		const struct nspy_comm *comm = a->model->comms[c];

		if (comm->origin != NSPY_COMM_SPLIT || !comm->parent_key)
			add_creation(comm, &list);
		add_operations(comm, &list);
		for (size_t i = 0; a->fine && i < comm->member_count; i++)
			add_kernels(a, comm->members[i], &list);
		constrain_by(a, &list);
	}
	constrain_splits(a, &list);
	free(list.items);
}

/* Fits the clocks that met an aligned one; true if there were any. */
static bool fit_round(struct alignment *a)
{
	bool any = false;

	constrain_all(a);
	for (size_t k = 1; k < a->model->clock_count; k++) {
		struct line *line = &a->lines[k];

		if (line->known || !line->count)
			continue;
		line->known = nspy_clock_fit(line->points, line->count, 0, since(a, a->end_ns),
					     &line->fit) == 0;
		any |= line->known;
		line->count = 0;
	}
	for (size_t k = 1; k < a->model->clock_count; k++)
		a->lines[k].aligned = a->lines[k].known;
	return any;
}

/*
 * Nothing is changed while the traces do not contradict the system time; where GPUs tell better
 * than that, they are believed.
 */
static void leave_alone(const struct alignment *a, struct nspy_clock_fit *fit)
{
	double first = fabs(fit->offset);
	double last = fabs(fit->offset + fit->rate * since(a, a->end_ns));
	double off = fmax(first, last);

	if (off > (a->fine ? fit->error / 4 : fit->error + CORRECT_MIN_NS))
		return;
	*fit = (struct nspy_clock_fit){.error = off + fit->error};
}

static uint64_t error_of(const struct line *line)
{
	return line->known ? (uint64_t)line->fit.error + 1 : NSPY_CLOCK_ERROR_UNKNOWN;
}

/* Any two clocks are apart by no more than both are from the first one. */
static uint64_t total_error(const struct alignment *a)
{
	uint64_t most = 0, second = 0;

	for (size_t k = 1; k < a->model->clock_count; k++) {
		uint64_t error = error_of(&a->lines[k]);

		if (error == NSPY_CLOCK_ERROR_UNKNOWN)
			return error;
		if (error > most) {
			second = most;
			most = error;
		} else if (error > second) {
			second = error;
		}
	}
	return most + second;
}

static bool apply(const struct alignment *a, struct nspy_proc *proc)
{
	const struct line *line = &a->lines[proc->clock];
	uint64_t before;

	proc->clock_error_ns = proc->clock ? error_of(line) : 0;
	if (!line->known || (line->fit.offset == 0 && line->fit.rate == 0))
		return false;
	before = proc->start_ns;
	proc->start_ns += (uint64_t)(int64_t)(shifted(a, line, before) - since(a, before));
	if (proc->exit.real_ns)
		proc->exit.real_ns += (uint64_t)(int64_t)(shifted(a, line, proc->exit.real_ns) -
							  since(a, proc->exit.real_ns));
	if (proc->exit.asked_ns)
		proc->exit.asked_ns += (uint64_t)(int64_t)(shifted(a, line, proc->exit.asked_ns) -
							   since(a, proc->exit.asked_ns));
	proc->clock_base_ns = a->origin_ns - (uint64_t)proc->clock_offset;
	proc->clock_rate = line->fit.rate;
	proc->clock_offset += (int64_t)line->fit.offset;
	proc->clock_corrected_ns += (int64_t)line->fit.offset;
	return true;
}

static void find_span(struct alignment *a)
{
	const struct nspy_model *model = a->model;

	a->origin_ns = UINT64_MAX;
	for (size_t i = 0; i < model->proc_count; i++) {
		const struct nspy_proc *proc = model->procs[i];

		if (proc->first_ns && proc->first_ns < a->origin_ns)
			a->origin_ns = proc->first_ns;
		if (proc->evidence_ns > a->end_ns)
			a->end_ns = proc->evidence_ns;
	}
	if (a->end_ns < a->origin_ns)
		a->end_ns = a->origin_ns;
}

static void find_gpus(struct alignment *a)
{
	const struct nspy_model *model = a->model;

	a->gpus = nspy_xcalloc(model->proc_count + 1, sizeof(*a->gpus));
	for (size_t i = 0; i < model->proc_count; i++) {
		const struct nspy_proc *proc = model->procs[i];

		if (proc->prof.kind_count)
			nspy_clock_gpu_fit(&proc->prof, &a->gpus[proc->index]);
		a->fine |= a->gpus[proc->index].known;
	}
}

bool nspy_clocks_align(struct nspy_model *model)
{
	struct alignment a = {.model = model};
	bool changed = false;

	a.lines = nspy_xcalloc(model->clock_count, sizeof(*a.lines));
	a.lines[0].aligned = true;
	find_span(&a);
	find_gpus(&a);
	while (fit_round(&a))
		;
	for (size_t k = 1; k < model->clock_count; k++) {
		if (a.lines[k].known)
			leave_alone(&a, &a.lines[k].fit);
		free(a.lines[k].points);
	}
	model->clock_error_ns = total_error(&a);
	for (size_t i = 0; i < model->proc_count; i++)
		changed |= apply(&a, model->procs[i]);
	free(a.lines);
	free(a.gpus);
	return changed;
}
