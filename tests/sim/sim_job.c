/* SPDX-License-Identifier: Apache-2.0 */
/* From a seed to a job: layout, program of each pipeline stage, clocks, what goes wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

const char *const sim_kinds[SIM_KINDS] = {
	[SIM_CLEAN] = "clean",
	[SIM_HANG] = "hang",
	[SIM_HANG_MALLOC] = "hang-malloc",
	[SIM_STOPPED] = "stopped",
	[SIM_GRAPH_HANG] = "graph-hang",
	[SIM_NETWORK] = "network",
	[SIM_KILLED] = "killed",
	[SIM_CRASHED] = "crashed",
	[SIM_MISSING] = "missing",
	[SIM_SPLIT_MEMBER] = "split-member",
	[SIM_COUNT] = "mismatch-count",
	[SIM_CALL] = "mismatch-call",
	[SIM_SKIPPED] = "skipped",
	[SIM_ORDER] = "order",
	[SIM_P2P] = "p2p-mismatch",
	[SIM_P2P_ALONE] = "p2p-alone",
	[SIM_ERROR] = "call-failed",
	[SIM_OOM] = "oom",
	[SIM_SLOW_RANK] = "slow-rank",
	[SIM_SLOW_HOST] = "slow-host",
	[SIM_SLOW_LINK] = "slow-link",
	[SIM_SLOW_GPU] = "slow-gpu",
	[SIM_PAUSE] = "pause",
	[SIM_CHECKPOINT] = "checkpoint",
	[SIM_IO] = "io-stall",
	[SIM_SLOW_PAIR] = "slow-pair",
};

/* splitmix64 */
uint64_t sim_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9E3779B97F4A7C15ULL);

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
	return z ^ (z >> 31);
}

uint64_t sim_below(uint64_t *state, uint64_t n)
{
	return sim_random(state) % n;
}

/* --- programs --- */

static struct sim_op *add(struct sim_program *p, enum sim_do what, uint64_t ns)
{
	if (p->count == SIM_OPS_MAX)
		abort();
	p->ops[p->count] = (struct sim_op){.what = what, .ns = ns};
	return &p->ops[p->count++];
}

static void coll(struct sim_program *p, enum sim_group group, const char *fn, uint64_t count)
{
	struct sim_op *op = add(p, SIM_COLL, 20000 + count / 100);

	op->group = group;
	op->fn = fn;
	op->count = count;
}

static void message(struct sim_program *p, bool send, int to)
{
	struct sim_op *op = add(p, send ? SIM_SEND : SIM_RECV, 50000);

	op->group = SIM_PP;
	op->fn = send ? "ncclSend" : "ncclRecv";
	op->count = 1 << 20;
	op->to = to;
}

static void layers(struct sim_program *p, const struct sim *sim, uint64_t ns)
{
	for (int i = 0; i < 2; i++) {
		add(p, SIM_COMPUTE, ns / 2);
		if (sim->tp > 1)
			coll(p, SIM_TP, "ncclAllReduce", 1 << 20);
	}
	if (sim->ep > 1)
		coll(p, SIM_EP, "ncclAllGather", 1 << 18);
}

/* All forward passes, then all backward ones; gradients; a small operation of all; the wait. */
static void make_program(const struct sim *sim, int stage, struct sim_program *p)
{
	const int micros = sim->pp > 1 ? 3 : 1;
	uint64_t ns = sim->step_ns / 2 / (uint64_t)(2 * (micros + sim->pp - 1));

	p->count = 0;
	add(p, SIM_LOAD, sim->step_ns / 2);
	for (int m = 0; m < micros; m++) {
		if (stage > 0)
			message(p, false, -1);
		layers(p, sim, ns);
		if (stage < sim->pp - 1)
			message(p, true, 1);
	}
	for (int m = 0; m < micros; m++) {
		if (stage < sim->pp - 1)
			message(p, false, 1);
		layers(p, sim, ns);
		if (stage > 0)
			message(p, true, -1);
	}
	if (sim->dp > 1) {
		coll(p, SIM_DP, "ncclReduceScatter", 1 << 22);
		coll(p, SIM_DP, "ncclAllGather", 1 << 22);
	}
	coll(p, SIM_WORLD, "ncclAllReduce", 4);
	add(p, SIM_SYNC, 0);
}

/* --- layout --- */

static int pick_divisor(uint64_t *random, int n, int max)
{
	int options[16], count = 0;

	for (int d = 1; d <= max && d <= n; d *= 2) {
		if (n % d == 0)
			options[count++] = d;
	}
	return options[sim_below(random, (uint64_t)count)];
}

static struct sim_comm *group_of(struct sim *sim, enum sim_group group, int rank)
{
	int tp = sim->tp, pp = sim->pp, dp = sim->dp, ep = sim->ep, first, stride, size;

	switch (group) {
	case SIM_TP:
		first = rank - rank % tp, stride = 1, size = tp;
		break;
	case SIM_PP:
		first = rank % tp + rank / (tp * pp) * tp * pp, stride = tp, size = pp;
		break;
	case SIM_DP:
		first = rank % (tp * pp), stride = tp * pp, size = dp;
		break;
	case SIM_EP: /* neighbours within the data parallel group */
		first = rank % (tp * pp) + rank / (tp * pp) / ep * ep * tp * pp;
		stride = tp * pp, size = ep;
		break;
	default:
		first = 0, stride = 1, size = sim->ranks;
	}
	if (size < 2)
		return NULL;
	if (rank != first)
		return sim->all[first].comms[group];
	sim->comms[sim->comm_count] =
		(struct sim_comm){.group = group, .first = first, .stride = stride, .size = size};
	return &sim->comms[sim->comm_count++];
}

static void build(struct sim *sim)
{
	size_t n = (size_t)sim->ranks;

	sim->nodes = (sim->ranks + sim->per_node - 1) / sim->per_node;
	sim->offsets = calloc((size_t)sim->nodes, sizeof(*sim->offsets));
	sim->drifts = calloc((size_t)sim->nodes, sizeof(*sim->drifts));
	sim->gpu_drifts = calloc(n, sizeof(*sim->gpu_drifts));
	sim->programs = calloc((size_t)sim->pp, sizeof(*sim->programs));
	sim->comms = calloc(n * SIM_GROUPS, sizeof(*sim->comms));
	sim->all = calloc(n, sizeof(*sim->all));
	sim->work = calloc(n, sizeof(*sim->work));
	sim->listed = calloc(n, sizeof(*sim->listed));
	(void)snprintf(sim->tg.job, sizeof(sim->tg.job), "sim");
	sim->tg.size = sim->ranks;
	for (int s = 0; s < sim->pp; s++)
		make_program(sim, s, &sim->programs[s]);
	for (int i = 0; i < sim->ranks; i++) {
		struct sim_rank *r = &sim->all[i];

		r->rank = i;
		r->node = i / sim->per_node;
		r->stage = i / sim->tp % sim->pp;
		r->random = sim->seed * 1000003u + (uint64_t)i;
		r->trace = calloc(1, sizeof(*r->trace));
		r->trace->rank = i;
		(void)snprintf(r->trace->node, sizeof(r->trace->node), "node%d", r->node + 1);
		for (int g = 0; g < SIM_GROUPS; g++)
			r->comms[g] = group_of(sim, (enum sim_group)g, i);
	}
}

/* Up to 100 ppm. */
static double draw_drift(struct sim *sim)
{
	return ((double)sim_below(&sim->random, 200001) - 100000.0) * 1e-9;
}

void sim_draw_clocks(struct sim *sim)
{
	sim->clocks = true;
	for (int i = 0; i < sim->nodes; i++) {
		sim->offsets[i] = (int64_t)sim_below(&sim->random, SIM_S) - (int64_t)(SIM_S / 2);
		sim->drifts[i] = draw_drift(sim);
	}
	for (int i = 0; i < sim->ranks; i++)
		sim->gpu_drifts[i] = draw_drift(sim);
}

/* --- what goes wrong --- */

static bool fits(enum sim_kind kind, enum sim_do what)
{
	switch (kind) {
	case SIM_P2P:
		return what == SIM_SEND;
	case SIM_P2P_ALONE:
		return what == SIM_SEND || what == SIM_RECV;
	case SIM_GRAPH_HANG:
		return what == SIM_LOAD;
	default:
		return what == SIM_COLL;
	}
}

/* A place in the program where the fault can happen. */
static size_t draw_place(struct sim *sim, int rank)
{
	const struct sim_program *p = &sim->programs[sim->all[rank].stage];
	enum sim_kind kind = sim->fault.kind;
	size_t at;

	if (kind == SIM_ORDER) /* the last one of data parallelism: the next is everybody's */
		return p->count - 3;
	do
		at = (size_t)sim_below(&sim->random, p->count);
	while (!fits(kind, p->ops[at].what));
	return at;
}

static void draw_fault(struct sim *sim)
{
	struct sim_fault *f = &sim->fault;
	uint64_t tenths = 1 + sim_below(&sim->random, 600);

	f->rank = (int)sim_below(&sim->random, (uint64_t)sim->ranks);
	f->step = sim->steps / 3 + sim_below(&sim->random, sim->steps / 3);
	f->at = draw_place(sim, f->rank);
	f->strength = 0.05 + 0.95 * (double)sim_below(&sim->random, 1001) / 1000.0;
	f->delay_ns = tenths * 100 * SIM_MS;
	if (f->kind == SIM_CHECKPOINT || f->kind == SIM_IO) /* again and again */
		f->delay_ns = 4 * sim->step_ns + f->delay_ns / 10;
	f->patience_ns = (20 + sim_below(&sim->random, 580)) * SIM_S;
}

static void draw_damage(struct sim *sim)
{
	uint64_t dice = sim_below(&sim->random, 10);

	sim->untraced = sim->torn = -1;
	if (dice == 0)
		sim->untraced = (int)sim_below(&sim->random, (uint64_t)sim->ranks);
	else if (dice == 1)
		sim->torn = (int)sim_below(&sim->random, (uint64_t)sim->ranks);
}

void sim_draw(struct sim *sim, uint64_t seed, int kind, int ranks)
{
	memset(sim, 0, sizeof(*sim));
	sim->seed = seed;
	sim->random = seed * 0x2545F4914F6CDD1DULL + 1;
	if (kind < 0)
		kind = (int)sim_below(&sim->random, SIM_KINDS);
	/* 8 to 4,096, each size as likely as any other */
	sim->ranks = ranks ? ranks : 8 << sim_below(&sim->random, 10);
	sim->per_node = 8;
	sim->fault.kind = (enum sim_kind)kind;
	sim->tp = pick_divisor(&sim->random, sim->ranks, 8);
	sim->pp = pick_divisor(&sim->random, sim->ranks / sim->tp, 4);
	if ((kind == SIM_P2P || kind == SIM_P2P_ALONE) && sim->pp == 1) {
		sim->pp = 2;
		sim->tp = sim->tp > sim->ranks / 2 ? sim->ranks / 2 : sim->tp;
	}
	if (kind == SIM_ORDER && sim->tp * sim->pp == sim->ranks)
		sim->tp = 1;
	sim->dp = sim->ranks / sim->tp / sim->pp;
	sim->ep = pick_divisor(&sim->random, sim->dp, 4);
	sim->step_ns = (50 + sim_below(&sim->random, 200)) * SIM_MS;
	sim->jitter_ns = sim->step_ns / 200;
	sim->steps = 45 + sim_below(&sim->random, 30);
	sim->clocks = sim_below(&sim->random, 2);
	sim->polls = sim_below(&sim->random, 2);
	build(sim);
	if (sim->clocks)
		sim_draw_clocks(sim);
	draw_damage(sim);
	draw_fault(sim);
	sim->net = true;
	sim_draw_pair(sim);
}

void sim_bulk(struct sim *sim, int ranks, uint64_t ops)
{
	uint64_t per_step = 0;

	memset(sim, 0, sizeof(*sim));
	sim->ranks = ranks;
	sim->per_node = sim->tp = 8;
	sim->pp = sim->ep = 1;
	sim->dp = ranks / sim->tp;
	sim->step_ns = 100 * SIM_MS;
	sim->jitter_ns = SIM_MS;
	sim->untraced = sim->torn = -1;
	build(sim);
	for (size_t i = 0; i < sim->programs[0].count; i++)
		per_step += sim->programs[0].ops[i].what == SIM_COLL;
	sim->steps = (ops + per_step - 1) / per_step;
}

void sim_free(struct sim *sim)
{
	for (int i = 0; i < sim->ranks; i++) {
		struct nspy_tg_rank *trace = sim->all[i].trace;

		free(trace->records);
		free(trace->comms);
		free(trace->exit_line);
		free(trace->net);
		free(trace->prof);
		free(trace);
		free(sim->all[i].sent);
		free(sim->all[i].kernels);
	}
	free(sim->offsets);
	free(sim->drifts);
	free(sim->gpu_drifts);
	free(sim->programs);
	free(sim->comms);
	free(sim->all);
	free(sim->work);
	free(sim->listed);
}
