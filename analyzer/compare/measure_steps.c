/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "costs.h"
#include "measure.h"
#include "reread.h"

#define RANKS_MAX 16u /* read again, spread over all */
#define STEPS_MAX (1u << 20)

/* --- when steps began --- */

static const struct nspy_cell *whole_cell(const struct nspy_comm *comm, uint64_t seq)
{
	const struct nspy_cell *cell = nspy_cells_get(&comm->cells, seq);

	return cell && nspy_cell_count(cell) >= comm->member_count ? cell : NULL;
}

static void reverse(uint64_t *numbers, size_t count)
{
	for (size_t i = 0; i < count / 2; i++) {
		uint64_t number = numbers[i];

		numbers[i] = numbers[count - 1 - i];
		numbers[count - 1 - i] = number;
	}
}

/* The pattern was found in the last operations; from there it is followed back as far as it goes.
 */
void nspy_steps_walk(const struct nspy_comm *world, struct nspy_step_times *ret)
{
	struct nspy_steps found;
	const struct nspy_cell *first, *cell;
	uint64_t last, seq;
	size_t count = 0;

	*ret = (struct nspy_step_times){0};
	nspy_steps_find(world, &found);
	if (!found.length || !found.count)
		return;
	ret->length = found.length;
	last = found.first_seq + found.count * found.length;
	first = whole_cell(world, found.first_seq);
	if (!first)
		return;
	ret->starts = nspy_xcalloc(last / found.length + 2, sizeof(*ret->starts));
	for (seq = last; count < STEPS_MAX; seq -= found.length) {
		cell = whole_cell(world, seq);
		if (!cell || cell->signature != first->signature ||
		    (count && cell->first_ns > ret->starts[count - 1]))
			break;
		ret->starts[count++] = cell->first_ns;
		if (seq <= found.length)
			break;
	}
	reverse(ret->starts, count);
	ret->count = count ? count - 1 : 0;
}

/* --- where the time of a step goes --- */

struct split {
	const struct nspy_model *model;
	const struct nspy_step_times *steps;
	double *wait, *calls; /* per step, added up over the ranks read */
};

static bool find_step(const struct nspy_step_times *steps, uint64_t ns, size_t *ret_step)
{
	size_t low = 0, high = steps->count;

	if (ns < steps->starts[0] || ns >= steps->starts[steps->count])
		return false;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (steps->starts[middle] <= ns)
			low = middle;
		else
			high = middle;
	}
	*ret_step = low;
	return true;
}

static void visit(void *context, const struct nspy_proc *proc, uint32_t thread,
		  const struct nspy_rec *rec)
{
	const struct split *split = context;
	uint16_t id = rec->fn < proc->fn_map_count ? proc->fn_map[rec->fn] : 0;
	const struct nspy_fn *fn = nspy_model_get_fn(split->model, id);
	size_t step;

	(void)thread;
	if ((rec->flags & NSPY_CALL_NESTED) || rec->leave <= rec->enter ||
	    !find_step(split->steps, nspy_proc_when(proc, rec->enter), &step))
		return;
	if (fn->klass == NSPY_CLASS_SYNC)
		split->wait[step] += (double)(rec->leave - rec->enter);
	else if (fn->lib == NSPY_MODEL_NCCL)
		split->calls[step] += (double)(rec->leave - rec->enter);
}

static void add_metric(struct nspy_run *run, enum nspy_metric_kind kind, const double *values,
		       size_t count)
{
	struct nspy_series series = {0};
	struct nspy_metric *metric = nspy_run_add_metric(run, kind, nspy_metric_kind_name(kind));

	for (size_t i = 0; i < count; i++)
		nspy_series_add(&series, values[i]);
	nspy_series_summary(&series, &metric->ns);
	metric->per_step = 1;
	nspy_series_done(&series);
}

void nspy_measure_steps(const struct nspy_model *model, const struct nspy_attempt *attempt,
			const struct nspy_step_times *steps, struct nspy_run *run)
{
	const struct nspy_comm *world = attempt->world;
	size_t gap = world->member_count / RANKS_MAX + 1, ranks = 0;
	double *step_ns = nspy_xcalloc(steps->count, sizeof(*step_ns));
	struct split split = {model, steps, nspy_xcalloc(steps->count, sizeof(double)),
			      nspy_xcalloc(steps->count, sizeof(double))};

	for (size_t m = 0; m < world->member_count; m += gap, ranks++)
		nspy_reread(world->members[m]->proc, visit, &split);
	for (size_t i = 0; i < steps->count; i++) {
		step_ns[i] = (double)(steps->starts[i + 1] - steps->starts[i]);
		split.wait[i] /= (double)ranks;
		split.calls[i] /= (double)ranks;
	}
	add_metric(run, NSPY_METRIC_STEP, step_ns, steps->count);
	add_metric(run, NSPY_METRIC_WAIT, split.wait, steps->count);
	add_metric(run, NSPY_METRIC_CALLS, split.calls, steps->count);
	for (size_t i = 0; i < steps->count; i++) {
		step_ns[i] -= split.wait[i] + split.calls[i];
		if (step_ns[i] < 0) /* threads overlap */
			step_ns[i] = 0;
	}
	add_metric(run, NSPY_METRIC_OTHER, step_ns, steps->count);
	free(step_ns);
	free(split.wait);
	free(split.calls);
}
