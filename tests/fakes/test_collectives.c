/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random sequences of collectives on 2 to 16 ranks, compared with results that are computed here
 * from the same inputs: all types and operations, counts from 0 to beyond the size at which the
 * algorithms change, in place and not, alone and in groups, on two communicators whose ranks are in
 * opposite order and whose streams run side by side.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test_reference.h"
#include "test_world.h"

#define GROUP 4

enum kind {
	ALL_REDUCE,
	REDUCE,
	BROADCAST,
	BCAST,
	ALL_GATHER,
	REDUCE_SCATTER,
	ALL_TO_ALL,
	GATHER,
	SCATTER,
	KINDS
};

/* A communicator with the stream that is used for it. */
struct lane {
	ncclComm_t comm;
	cudaStream_t stream;
	int rank;
};

struct one {
	const struct lane *lane;
	size_t count;
	double scale; /* of a user operation */
	char *send, *recv;
	size_t send_count, recv_count;
	char *memory[2];
	enum kind kind;
	ncclDataType_t type;
	ncclRedOp_t op;
	int root;
	int tag;
	bool in_place;
};

static bool reduces(const struct one *one)
{
	return one->kind == ALL_REDUCE || one->kind == REDUCE || one->kind == REDUCE_SCATTER;
}

/* Most counts are small; some are where messages are cut or other algorithms take over. */
static size_t random_count(uint64_t *random)
{
	static const size_t edges[] = {0, 1, 2, 4095, 4096, 32768, 65536, 65537, 131073};

	if (world_random(random, 5) == 0)
		return edges[world_random(random, sizeof(edges) / sizeof(edges[0]))];
	return world_random(random, 3000);
}

static void choose(const struct world *world, const struct lane *lanes, uint64_t *random,
		   struct one *one)
{
	size_t n = (size_t)world->size;
	bool many_out, many_in;

	memset(one, 0, sizeof(*one));
	one->lane = &lanes[world_random(random, 2)];
	one->kind = (enum kind)world_random(random, KINDS);
	one->type = (ncclDataType_t)world_random(random, ncclNumTypes);
	one->op = (ncclRedOp_t)world_random(random, 6);
	one->root = (int)world_random(random, n);
	one->tag = (int)world_random(random, 1000);
	one->in_place = world_random(random, 2);
	one->count = random_count(random);
	many_out = one->kind == REDUCE_SCATTER || one->kind == ALL_TO_ALL || one->kind == SCATTER;
	many_in = one->kind == ALL_GATHER || one->kind == ALL_TO_ALL || one->kind == GATHER;
	if (many_out || many_in)
		one->count /= n > 4 ? 4 : 1;
	one->send_count = one->count * (many_out ? n : 1);
	one->recv_count = one->count * (many_in ? n : 1);
}

static char *allocate(struct world *world, size_t bytes)
{
	void *memory;

	CUDA(cudaMalloc(&memory, bytes + 64));
	memset(memory, 0xa5, bytes + 64);
	return memory;
}

/* Where each kind has its data when it works in place. */
static void place(struct world *world, struct one *one)
{
	size_t bytes = reference_bytes(one->type), block = one->count * bytes;
	size_t most = one->send_count > one->recv_count ? one->send_count : one->recv_count;

	one->memory[0] = allocate(world, most * bytes);
	one->send = one->recv = one->memory[0];
	if (one->kind == BCAST)
		return;
	if (one->in_place && one->kind == REDUCE_SCATTER)
		one->recv = one->send + (size_t)one->lane->rank * block;
	else if (one->in_place && one->kind == ALL_GATHER)
		one->send = one->recv + (size_t)one->lane->rank * block;
	else if (one->in_place && one->kind == GATHER && one->lane->rank == one->root)
		one->send = one->recv + (size_t)one->root * block;
	else if (one->in_place && one->kind == SCATTER && one->lane->rank == one->root)
		one->recv = one->send + (size_t)one->root * block;
	else if (!one->in_place || one->kind >= ALL_TO_ALL)
		one->recv = one->memory[1] = allocate(world, one->recv_count * bytes);
}

static double input(const struct one *one, int rank, size_t i)
{
	return reference_input(one->type, reduces(one) ? one->op : ncclSum, rank, one->tag, i);
}

static void prepare(struct world *world, struct one *one)
{
	place(world, one);
	for (size_t i = 0; i < one->send_count; i++)
		reference_store(one->type, one->send, i, input(one, one->lane->rank, i));
	if (reduces(one) && one->op == ncclNumOps) {
		unsigned char scalar[8];

		one->scale = one->type <= ncclUint64 ? 3 : 0.5;
		reference_store(one->type, scalar, 0, one->scale);
		NCCL(ncclRedOpCreatePreMulSum(&one->op, scalar, one->type, ncclScalarHostImmediate,
					      one->lane->comm));
	} else if (!reduces(one) && one->op == ncclNumOps) {
		one->op = ncclSum;
	}
}

static void call(struct world *world, struct one *one)
{
	ncclComm_t comm = one->lane->comm;
	cudaStream_t stream = one->lane->stream;

	switch (one->kind) {
	case ALL_REDUCE:
		NCCL(ncclAllReduce(one->send, one->recv, one->count, one->type, one->op, comm,
				   stream));
		break;
	case REDUCE:
		NCCL(ncclReduce(one->send, one->recv, one->count, one->type, one->op, one->root,
				comm, stream));
		break;
	case BROADCAST:
		NCCL(ncclBroadcast(one->send, one->recv, one->count, one->type, one->root, comm,
				   stream));
		break;
	case BCAST:
		NCCL(ncclBcast(one->recv, one->count, one->type, one->root, comm, stream));
		break;
	case ALL_GATHER:
		NCCL(ncclAllGather(one->send, one->recv, one->count, one->type, comm, stream));
		break;
	case REDUCE_SCATTER:
		NCCL(ncclReduceScatter(one->send, one->recv, one->count, one->type, one->op, comm,
				       stream));
		break;
	case ALL_TO_ALL:
		NCCL(ncclAlltoAll(one->send, one->recv, one->count, one->type, comm, stream));
		break;
	case GATHER:
		NCCL(ncclGather(one->send, one->recv, one->count, one->type, one->root, comm,
				stream));
		break;
	default:
		NCCL(ncclScatter(one->send, one->recv, one->count, one->type, one->root, comm,
				 stream));
	}
}

/* What element i of this rank's result has to be. */
static double want(const struct world *world, const struct one *one, size_t i)
{
	size_t block = one->count ? i / one->count : 0, rest = one->count ? i % one->count : 0;
	size_t mine = (size_t)one->lane->rank * one->count + rest;
	double inputs[64];
	size_t at = one->kind == REDUCE_SCATTER ? mine : i;

	switch (one->kind) {
	case BROADCAST:
	case BCAST:
		return input(one, one->root, i);
	case ALL_GATHER:
	case GATHER:
		return input(one, (int)block, rest);
	case ALL_TO_ALL:
		return input(one, (int)block, mine);
	case SCATTER:
		return input(one, one->root, mine);
	default:
		for (int rank = 0; rank < world->size; rank++)
			inputs[rank] = input(one, rank, at);
		return reference_reduce(one->type, one->op, one->scale, inputs, world->size);
	}
}

static void verify(struct world *world, struct one *one)
{
	bool only_root = one->kind == REDUCE || one->kind == GATHER;
	size_t bytes = reference_bytes(one->type);

	for (size_t i = 0; i < one->recv_count && (!only_root || one->lane->rank == one->root);
	     i++) {
		double got = reference_load(one->type, one->recv, i), wanted = want(world, one, i);
		char text[256];

		if (reference_equal(one->type, reduces(one) ? one->op : ncclSum, world->size, got,
				    wanted))
			continue;
		snprintf(text, sizeof(text),
			 "kind %d type %d op %d count %zu root %d in place %d: element %zu is %g, "
			 "not %g",
			 (int)one->kind, (int)one->type, (int)one->op, one->count, one->root,
			 one->in_place, i, got, wanted);
		world_fail(world, __FILE__, __LINE__, text);
	}
	/* nothing behind the buffers was touched */
	for (size_t i = 0; i < 64 && one->memory[1]; i++)
		CHECK((unsigned char)one->memory[1][one->recv_count * bytes + i] == 0xa5);
	if (one->scale != 0)
		NCCL(ncclRedOpDestroy(one->op, one->lane->comm));
	for (int i = 0; i < 2; i++)
		CUDA(cudaFree(one->memory[i]));
}

/* The world, and the same ranks the other way round. */
static void make_lanes(struct world *world, struct lane *lanes)
{
	lanes[0] = (struct lane){world->comm, world->stream, world->rank};
	lanes[1].rank = world->size - 1 - world->rank;
	NCCL(ncclCommSplit(world->comm, 0, -world->rank, &lanes[1].comm, NULL));
	CUDA(cudaStreamCreateWithFlags(&lanes[1].stream, cudaStreamNonBlocking));
}

static void wait_for(struct world *world, const struct lane *lanes)
{
	CUDA(cudaStreamSynchronize(lanes[0].stream));
	CUDA(cudaStreamSynchronize(lanes[1].stream));
}

static void drop_lanes(struct world *world, const struct lane *lanes)
{
	NCCL(ncclCommDestroy(lanes[1].comm));
	CUDA(cudaStreamDestroy(lanes[1].stream));
}

static int run_random(struct world *world)
{
	uint64_t random = world->seed;
	int rounds = *(const int *)world->arg;
	struct lane lanes[2];

	make_lanes(world, lanes);
	for (int round = 0; round < rounds; round++) {
		struct one ones[GROUP];
		int count = (int)world_random(&random, 3) ? 1 : GROUP;

		for (int i = 0; i < count; i++) {
			choose(world, lanes, &random, &ones[i]);
			prepare(world, &ones[i]);
		}
		if (count > 1)
			NCCL(ncclGroupStart());
		for (int i = 0; i < count; i++)
			call(world, &ones[i]);
		if (count > 1)
			NCCL(ncclGroupEnd());
		wait_for(world, lanes);
		for (int i = 0; i < count; i++)
			verify(world, &ones[i]);
	}
	drop_lanes(world, lanes);
	return 0;
}

static void test_random(void **state)
{
	const char *given = getenv("FAKE_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 10) : 1;

	(void)state;
	for (int size = 2; size <= 16; size++) {
		int rounds = size <= 5 ? 60 : 25;

		assert_int_equal(world_run(size, seed + (uint64_t)size, run_random, &rounds), 0);
	}
}

/* Every type with every operation, once with each kind that reduces. */
static int run_every(struct world *world)
{
	static const enum kind kinds[] = {ALL_REDUCE, REDUCE, REDUCE_SCATTER};
	struct lane lanes[2];

	make_lanes(world, lanes);
	for (int i = 0; i < 3 * ncclNumTypes * (ncclNumOps + 1); i++) {
		int type = i / 3 % ncclNumTypes, op = i / 3 / ncclNumTypes;
		struct one one = {.lane = &lanes[i % 2],
				  .kind = kinds[i % 3],
				  .count = 77,
				  .type = (ncclDataType_t)type,
				  .op = (ncclRedOp_t)op,
				  .root = world->size - 1,
				  .tag = type + op,
				  .send_count = 77,
				  .recv_count = 77};

		if (one.kind == REDUCE_SCATTER)
			one.send_count *= (size_t)world->size;
		prepare(world, &one);
		call(world, &one);
		wait_for(world, lanes);
		verify(world, &one);
	}
	drop_lanes(world, lanes);
	return 0;
}

static void test_every_type_and_operation(void **state)
{
	(void)state;
	for (int size = 2; size <= 16; size++)
		assert_int_equal(world_run(size, 1, run_every, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_type_and_operation),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
