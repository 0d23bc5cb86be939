/* SPDX-License-Identifier: Apache-2.0 */
#include "clocks.h"

#include <stdlib.h>
#include <string.h>

/* Same boot id, yet system times further apart: not one clock (a cloned machine image). */
#define SAME_CLOCK_NS (10 * (int64_t)NSPY_NS_PER_S)
/* Contradictions below this are noise of the measurement, not worth a correction. */
#define CORRECT_MIN_NS (5 * (int64_t)NSPY_NS_PER_MS)

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

/* What has to be added to a clock lies between low and high. */
struct bounds {
	int64_t low, high;
	bool known;
};

/* Earliest leave and latest entry of a creation, per clock. */
struct passage {
	uint64_t first_leave, last_enter;
	bool seen;
};

static bool is_barrier(const struct nspy_member *member)
{
	return member->started_ns && member->ready_ns &&
	       !(member->rec.flags & NSPY_COMM_NONBLOCKING);
}

static void collect_passages(const struct nspy_comm *comm, struct passage *passages)
{
	for (size_t i = 0; i < comm->member_count; i++) {
		const struct nspy_member *member = comm->members[i];
		struct passage *p = &passages[member->proc->clock];

		if (!is_barrier(member))
			continue;
		if (!p->seen || member->ready_ns < p->first_leave)
			p->first_leave = member->ready_ns;
		if (!p->seen || member->started_ns > p->last_enter)
			p->last_enter = member->started_ns;
		p->seen = true;
	}
}

static void narrow(struct bounds *bounds, const struct passage *base, const struct passage *other)
{
	int64_t high = (int64_t)(base->first_leave - other->last_enter);
	int64_t low = (int64_t)(base->last_enter - other->first_leave);

	if (!bounds->known) {
		*bounds = (struct bounds){low, high, true};
		return;
	}
	if (low > bounds->low)
		bounds->low = low;
	if (high < bounds->high)
		bounds->high = high;
}

static void find_bounds(const struct nspy_model *model, struct bounds *bounds)
{
	struct passage *passages = nspy_xcalloc(model->clock_count, sizeof(*passages));

	for (size_t c = 0; c < model->comm_count; c++) {
		memset(passages, 0, model->clock_count * sizeof(*passages));
		collect_passages(model->comms[c], passages);
		for (size_t k = 1; passages[0].seen && k < model->clock_count; k++) {
			if (passages[k].seen)
				narrow(&bounds[k], &passages[0], &passages[k]);
		}
	}
	free(passages);
}

/* What to add to a clock: nothing while the traces do not contradict its system time. */
static int64_t correction(const struct bounds *bounds)
{
	int64_t middle = bounds->low / 2 + bounds->high / 2;

	if (!bounds->known || (bounds->low <= CORRECT_MIN_NS && bounds->high >= -CORRECT_MIN_NS))
		return 0;
	return middle;
}

bool nspy_clocks_align(struct nspy_model *model)
{
	struct bounds *bounds = nspy_xcalloc(model->clock_count + 1, sizeof(*bounds));
	uint64_t error_ns = 0;
	bool changed = false;

	find_bounds(model, bounds);
	for (size_t k = 1; k < model->clock_count; k++) {
		uint64_t width = bounds[k].high > bounds[k].low
					 ? (uint64_t)(bounds[k].high - bounds[k].low)
					 : 0;

		if (!bounds[k].known)
			error_ns = NSPY_CLOCK_ERROR_UNKNOWN;
		else if (width > error_ns)
			error_ns = width;
	}
	model->clock_error_ns = error_ns;
	for (size_t i = 0; i < model->proc_count; i++) {
		struct nspy_proc *proc = model->procs[i];
		int64_t add = correction(&bounds[proc->clock]);

		proc->clock_offset += add;
		proc->start_ns += (uint64_t)add;
		proc->clock_corrected_ns += add;
		if (proc->exit.real_ns)
			proc->exit.real_ns += (uint64_t)add;
		changed |= add != 0;
	}
	free(bounds);
	return changed;
}
