/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives: rings, random graphs of them in groups, to oneself, large ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "test_world.h"

static int value(int from, int to, int number, size_t i)
{
	return from * 1000003 + to * 1009 + number * 31 + (int)(i % 8191);
}

static int *allocate(struct world *world, size_t count)
{
	void *memory;

	CUDA(cudaMalloc(&memory, count * sizeof(int) + 1));
	return memory;
}

/* Each to its neighbour, not grouped: even ranks send first, as programs without groups must. */
static int run_ring(struct world *world)
{
	size_t count = *(const size_t *)world->arg;
	int to = (world->rank + 1) % world->size;
	int from = (world->rank - 1 + world->size) % world->size;
	int *out = allocate(world, count), *in = allocate(world, count);

	for (size_t i = 0; i < count; i++)
		out[i] = value(world->rank, to, 0, i);
	if (world->rank % 2)
		NCCL(ncclRecv(in, count, ncclInt32, from, world->comm, world->stream));
	NCCL(ncclSend(out, count, ncclInt32, to, world->comm, world->stream));
	if (world->rank % 2 == 0)
		NCCL(ncclRecv(in, count, ncclInt32, from, world->comm, world->stream));
	CUDA(cudaStreamSynchronize(world->stream));
	for (size_t i = 0; i < count; i++)
		CHECK(in[i] == value(from, world->rank, 0, i));
	CUDA(cudaFree(out));
	CUDA(cudaFree(in));
	return 0;
}

static void test_ring(void **state)
{
	size_t counts[] = {1, 1000, 3000000};

	(void)state;
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(world_run(4, 1, run_ring, &counts[i]), 0);
}

struct message {
	int from, to, number;
	size_t count;
	int *data;
};

/*
 * All ranks draw the same messages; each posts its own ones in one group, receives in an order of
 * its own but, per peer, in the order of the sends.
 */
static int run_graph(struct world *world)
{
	uint64_t random = world->seed;

	for (int round = 0; round < 10; round++) {
		struct message messages[40];
		int count = 1 + (int)world_random(&random, 39);
		bool receives_first = world_random(&random, 2) == (uint64_t)(world->rank % 2);

		for (int n = 0; n < count; n++) {
			struct message *one = &messages[n];

			one->from = (int)world_random(&random, (uint64_t)world->size);
			one->to = (int)world_random(&random, (uint64_t)world->size);
			one->number = n;
			one->count =
				world_random(&random, 3) ? world_random(&random, 2000) : 200000;
			one->data = allocate(world, 2 * one->count);
			for (size_t i = 0; i < one->count; i++)
				one->data[i] = value(one->from, one->to, n, i);
		}
		NCCL(ncclGroupStart());
		for (int pass = 0; pass < 2; pass++) {
			for (int n = 0; n < count; n++) {
				struct message *one = &messages[n];

				if ((pass == 0) == receives_first && one->to == world->rank)
					NCCL(ncclRecv(one->data + one->count, one->count, ncclInt32,
						      one->from, world->comm, world->stream));
				if ((pass == 0) != receives_first && one->from == world->rank)
					NCCL(ncclSend(one->data, one->count, ncclInt32, one->to,
						      world->comm, world->stream));
			}
		}
		NCCL(ncclGroupEnd());
		CUDA(cudaStreamSynchronize(world->stream));
		for (int n = 0; n < count; n++) {
			struct message *one = &messages[n];

			for (size_t i = 0; one->to == world->rank && i < one->count; i++)
				CHECK(one->data[one->count + i] == value(one->from, one->to, n, i));
			CUDA(cudaFree(one->data));
		}
	}
	return 0;
}

static void test_random_graphs(void **state)
{
	static const int sizes[] = {2, 3, 7, 16};

	(void)state;
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(world_run(sizes[i], 10 + i, run_graph, NULL), 0);
}

/* One exchange does not wait for another one: 0 and 1 finish although 2 comes late. */
static int run_independent(struct world *world)
{
	int out = world->rank, in[2] = {-1, -1};
	struct timespec late = {0, 200000000};
	int peer = 1 - world->rank;

	if (world->rank == 2) {
		nanosleep(&late, NULL);
		NCCL(ncclSend(&out, 1, ncclInt32, 0, world->comm, world->stream));
		CUDA(cudaStreamSynchronize(world->stream));
		return 0;
	}
	NCCL(ncclGroupStart());
	if (world->rank == 0)
		NCCL(ncclRecv(&in[1], 1, ncclInt32, 2, world->comm, world->stream));
	NCCL(ncclSend(&out, 1, ncclInt32, peer, world->comm, world->stream));
	NCCL(ncclRecv(&in[0], 1, ncclInt32, peer, world->comm, world->stream));
	NCCL(ncclGroupEnd());
	CUDA(cudaStreamSynchronize(world->stream));
	CHECK(in[0] == peer);
	CHECK(world->rank != 0 || in[1] == 2);
	return 0;
}

static void test_independent(void **state)
{
	(void)state;
	assert_int_equal(world_run(3, 1, run_independent, NULL), 0);
}

/* Messages to oneself need both halves in one group. */
static int run_self(struct world *world)
{
	int out[3] = {7, 8, 9}, in[3] = {0, 0, 0};

	NCCL(ncclGroupStart());
	NCCL(ncclSend(out, 2, ncclInt32, world->rank, world->comm, world->stream));
	NCCL(ncclSend(out + 2, 1, ncclInt32, world->rank, world->comm, world->stream));
	NCCL(ncclRecv(in, 2, ncclInt32, world->rank, world->comm, world->stream));
	NCCL(ncclRecv(in + 2, 1, ncclInt32, world->rank, world->comm, world->stream));
	NCCL(ncclGroupEnd());
	CUDA(cudaStreamSynchronize(world->stream));
	CHECK(memcmp(in, out, sizeof(in)) == 0);
	CHECK(ncclSend(out, 1, ncclInt32, world->rank, world->comm, world->stream) ==
	      ncclInvalidUsage);
	return 0;
}

static void test_self(void **state)
{
	(void)state;
	assert_int_equal(world_run(2, 1, run_self, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ring),
		cmocka_unit_test(test_random_graphs),
		cmocka_unit_test(test_independent),
		cmocka_unit_test(test_self),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
