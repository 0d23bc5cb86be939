/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a step does. The shapes are those of real training loops: gradient buckets reduced and
 * parameters gathered (dp), two reductions per layer and direction (tp), activations passed along
 * stages (pp), tokens sent to experts and back (ep), and all of it together (mix).
 */
#include "trainjob.h"

#include <string.h>

static int find(const struct rank *rank, const char *name)
{
	for (int i = 0; i < rank->comm_count; i++) {
		if (strcmp(rank->comms[i].name, name) == 0)
			return i;
	}
	return 0;
}

static struct step_op *add(struct rank *rank, enum fake_op op, int comm, size_t count)
{
	struct step_op *one = &rank->ops[rank->op_count++];

	*one = (struct step_op){
		.op = op, .comm = comm, .count = count, .datatype = ncclFloat32, .redop = ncclSum};
	for (int i = 0; i < rank->op_count - 1; i++)
		one->tag += rank->ops[i].op == op && rank->ops[i].comm == comm;
	return one;
}

/* Of a sharded operation each rank has an equal part. */
static size_t part(const struct rank *rank, int comm)
{
	size_t count = rank->options->count / (size_t)rank->comms[comm].size;

	return count > 0 ? count : 1;
}

/* The loss, or the norm of the gradient: small, and in everybody's way. */
static void add_small(struct rank *rank, int comm, ncclDataType_t datatype, ncclRedOp_t redop)
{
	struct step_op *one = add(rank, FAKE_OP_ALL_REDUCE, comm, 1);

	one->datatype = datatype;
	one->redop = redop;
}

/* Buckets, latest layers first. */
static void add_gradients(struct rank *rank, int comm, int buckets)
{
	for (int i = 0; i < buckets; i++) {
		struct step_op *one = add(rank, FAKE_OP_REDUCE_SCATTER, comm, part(rank, comm));

		one->datatype = i % 2 ? ncclBfloat16 : ncclFloat32;
	}
}

static void add_parameters(struct rank *rank, int comm, int buckets)
{
	for (int i = 0; i < buckets; i++) {
		struct step_op *one = add(rank, FAKE_OP_ALL_GATHER, comm, part(rank, comm));

		one->datatype = i % 2 ? ncclBfloat16 : ncclFloat32;
	}
}

/* 24 calls */
static void build_dp(struct rank *rank)
{
	size_t count = rank->options->count;
	int comm = find(rank, "dp");

	add_gradients(rank, comm, 8);
	for (int i = 0; i < 6; i++) {
		struct step_op *one = add(rank, FAKE_OP_ALL_REDUCE, comm, count >> (i % 3));

		one->count = one->count ? one->count : 1;
		one->datatype = i % 2 ? ncclBfloat16 : ncclFloat32;
	}
	add(rank, FAKE_OP_BROADCAST, comm, 16)->datatype = ncclInt64;
	add_parameters(rank, comm, 8);
	add_small(rank, comm, ncclFloat64, ncclSum);
}

/* Two reductions a layer forwards, two backwards. */
static void add_layers(struct rank *rank, int comm, int layers)
{
	for (int i = 0; i < 4 * layers; i++)
		add(rank, FAKE_OP_ALL_REDUCE, comm, rank->options->count)->datatype =
			i % 4 < 2 ? ncclBfloat16 : ncclFloat32;
}

static void build_tp(struct rank *rank)
{
	add_layers(rank, find(rank, "tp"), 4);
	add_gradients(rank, find(rank, "dp"), 3);
	add_parameters(rank, find(rank, "dp"), 3);
	add_small(rank, 0, ncclInt32, ncclMax);
	add_small(rank, 0, ncclFloat32, ncclSum);
}

static void add_p2p(struct rank *rank, enum fake_op op, int comm, int peer)
{
	struct step_op *one = add(rank, op, comm, rank->options->count);

	one->peer = peer;
	one->datatype = ncclBfloat16;
}

/* Activations down the stages for each micro-batch, then gradients back up. */
static void add_stages(struct rank *rank, int comm, int batches)
{
	int me = rank->comms[comm].rank, last = rank->comms[comm].size - 1;

	for (int i = 0; i < batches; i++) {
		if (me > 0)
			add_p2p(rank, FAKE_OP_RECV, comm, me - 1);
		if (me < last)
			add_p2p(rank, FAKE_OP_SEND, comm, me + 1);
	}
	for (int i = 0; i < batches; i++) {
		if (me < last)
			add_p2p(rank, FAKE_OP_RECV, comm, me + 1);
		if (me > 0)
			add_p2p(rank, FAKE_OP_SEND, comm, me - 1);
	}
}

static void build_pp(struct rank *rank)
{
	add_stages(rank, find(rank, "pp"), 4);
	add_gradients(rank, find(rank, "dp"), 3);
	add_parameters(rank, find(rank, "dp"), 3);
	add_small(rank, 0, ncclFloat32, ncclSum);
}

/* The same exchange as an all-to-all, spelt out as a group of sends and receives. */
static void add_exchange(struct rank *rank, int comm, int group)
{
	const struct job_comm *the = &rank->comms[comm];

	for (int i = 0; i < the->size; i++) {
		int to = (the->rank + i) % the->size;
		int from = (the->rank - i + the->size) % the->size;
		struct step_op *one = add(rank, FAKE_OP_SEND, comm, part(rank, comm));

		one->peer = to;
		one->group = group;
		one = add(rank, FAKE_OP_RECV, comm, part(rank, comm));
		one->peer = from;
		one->group = group;
	}
}

/* Tokens to the experts and back, per layer. */
static void add_experts(struct rank *rank, int comm, int layers)
{
	for (int i = 0; i < 2 * layers; i++)
		add(rank, FAKE_OP_ALL_TO_ALL, comm, part(rank, comm))->datatype = ncclBfloat16;
	/* an expanded exchange grows with the group; keep the step readable */
	if (rank->comms[comm].size <= 16)
		add_exchange(rank, comm, 1);
}

static void build_ep(struct rank *rank)
{
	add_experts(rank, find(rank, "ep"), 3);
	add(rank, FAKE_OP_GATHER, find(rank, "ep"), 8)->datatype = ncclInt32;
	add(rank, FAKE_OP_SCATTER, find(rank, "ep"), 8)->datatype = ncclInt32;
	add_gradients(rank, find(rank, "dp"), 3);
	add_parameters(rank, find(rank, "dp"), 3);
	add(rank, FAKE_OP_REDUCE, 0, 8)->datatype = ncclInt64;
	add_small(rank, 0, ncclFloat32, ncclSum);
}

static void build_mix(struct rank *rank)
{
	add_layers(rank, find(rank, "tp"), 1);
	add_stages(rank, find(rank, "pp"), 2);
	add_experts(rank, find(rank, "ep"), 1);
	add_gradients(rank, find(rank, "dp"), 2);
	add_parameters(rank, find(rank, "dp"), 2);
	add_small(rank, 0, ncclInt32, ncclMin);
	add_small(rank, 0, ncclFloat32, ncclSum);
}

void job_build_step(struct rank *rank)
{
	static void (*const build[])(struct rank *) = {build_dp, build_tp, build_pp, build_ep,
						       build_mix};

	rank->op_count = 0;
	build[rank->options->pattern](rank);
	for (int i = 0; i < rank->comm_count; i++) {
		if (strncmp(rank->comms[i].name, "extra", 5) == 0)
			add_small(rank, i, ncclFloat32, ncclSum);
	}
}
