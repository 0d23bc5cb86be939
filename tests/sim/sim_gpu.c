/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives as NCCL's profiler interface tells of them: when the kernel ran by the GPU's own
 * clock, and when NCCL's thread, which asks again and again, saw it begin and end. The GPU's clock
 * begins anywhere and drifts against that of its host.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "trace_format.h"
#include "trace_prof.h"

#define CHANNELS    2u
#define LATENCY_NS  2000u  /* until a thread that asks right then has seen it */
#define ASKS_NS     20000u /* it has other work in between */
#define BUSY_NS     (2 * SIM_MS)
#define PAYLOAD_MAX (1u << 20)

static uint64_t seen(struct sim_rank *r, uint64_t ns)
{
	ns += LATENCY_NS + sim_below(&r->random, ASKS_NS);
	return ns + (sim_below(&r->random, 50) == 0 ? sim_below(&r->random, BUSY_NS) : 0);
}

static uint64_t count_before(const struct sim_rank *r, const struct sim_op *op)
{
	for (size_t i = r->kernel_count; i-- > 0;) {
		if (r->kernels[i].group == op->group && strcmp(r->kernels[i].fn, op->fn) == 0)
			return r->kernels[i].seq;
	}
	return 0;
}

void sim_keep_kernel(struct sim *sim, struct sim_rank *r, const struct sim_queued *q,
		     uint64_t end_ns)
{
	struct sim_kernel *kernel;

	if (!sim->gpu)
		return;
	if (r->kernel_count == r->kernel_capacity) {
		r->kernel_capacity = r->kernel_capacity ? r->kernel_capacity * 2 : 256;
		r->kernels = realloc(r->kernels, r->kernel_capacity * sizeof(*r->kernels));
		if (!r->kernels)
			abort();
	}
	kernel = &r->kernels[r->kernel_count];
	*kernel = (struct sim_kernel){
		.group = q->op.group,
		.fn = q->op.fn,
		.seq = count_before(r, &q->op) + 1,
		.count = q->op.count,
		.queued_ns = q->ready_ns,
		.start_ns = q->came_ns,
		.end_ns = end_ns,
	};
	kernel->saw_start_ns = seen(r, kernel->start_ns);
	kernel->saw_end_ns = seen(r, kernel->end_ns);
	if (kernel->saw_end_ns < kernel->saw_start_ns)
		kernel->saw_end_ns = kernel->saw_start_ns;
	r->kernel_count++;
}

/* The GPU's clock; every GPU's begins elsewhere. */
static uint64_t gpu_clock(const struct sim *sim, const struct sim_rank *r, uint64_t ns)
{
	uint64_t random = sim->seed + (uint64_t)r->rank * 977;

	return SIM_S + sim_below(&random, 1ull << 50) + ns +
	       (uint64_t)(int64_t)((double)ns * sim->gpu_drifts[r->rank]);
}

static uint32_t function(const char *fn)
{
	if (strcmp(fn, "ncclAllReduce") == 0)
		return NSPY_PROF_FUNC_ALL_REDUCE;
	return strcmp(fn, "ncclAllGather") == 0 ? NSPY_PROF_FUNC_ALL_GATHER
						: NSPY_PROF_FUNC_REDUCE_SCATTER;
}

static int put_comms(const struct sim *sim, const struct sim_rank *r, struct nspy_prof_buffer *b)
{
	int rc = 0;

	for (int g = 0; g < SIM_GROUPS && rc == 0; g++) {
		if (!r->comms[g])
			continue;
		rc = nspy_prof_put_comm(
			b, &(struct nspy_prof_comm){
				   .id = (uint32_t)g + 1,
				   .comm = r->index[g],
				   .when_ns = sim_shown(sim, r->node, 0),
				   .hash = r->comms[g]->key,
				   .api = 6,
				   .nranks = r->comms[g]->size,
				   .rank = (r->rank - r->comms[g]->first) / r->comms[g]->stride,
				   .nodes = -1,
			   });
	}
	return rc;
}

static int put_kernel(const struct sim *sim, const struct sim_rank *r,
		      const struct sim_kernel *kernel, struct nspy_prof_buffer *b)
{
	uint64_t start_ns = sim_shown(sim, r->node, kernel->queued_ns);
	uint64_t gpu_ns = gpu_clock(sim, r, kernel->start_ns);

	return nspy_prof_put_op(
		b,
		&(struct nspy_prof_op){
			.comm = (uint32_t)kernel->group + 1,
			.what = NSPY_PROF_COLL,
			.func = function(kernel->fn),
			.datatype = SIM_DATATYPE,
			.channels = CHANNELS,
			.peer = -1,
			.seq = kernel->seq,
			.count = kernel->count,
			.start_ns = start_ns,
			.kernels = CHANNELS,
			.kernel_first_ns = sim_shown(sim, r->node, kernel->saw_start_ns) - start_ns,
			.kernel_last_ns = sim_shown(sim, r->node, kernel->saw_end_ns) - start_ns,
			.gpu_kernels = CHANNELS,
			.gpu_ns = gpu_clock(sim, r, kernel->end_ns) - gpu_ns,
			.gpu_start_ns = gpu_ns,
		});
}

void sim_put_prof(const struct sim *sim, struct sim_rank *r)
{
	struct nspy_prof_buffer b = {malloc(PAYLOAD_MAX), PAYLOAD_MAX, 0};
	int rc = b.data ? put_comms(sim, r, &b) : -1;

	/* As much as a chunk holds; of a long job the beginning. */
	for (size_t i = 0; i < r->kernel_count && rc == 0; i++)
		rc = put_kernel(sim, r, &r->kernels[i], &b);
	if (!b.used)
		abort();
	r->trace->prof = b.data;
	r->trace->prof_bytes = b.used;
}
