/* SPDX-License-Identifier: Apache-2.0 */
/* Life of communicators: split, shrink, nonblocking, abort, revoke, several in a process. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "test_world.h"

static void nap(int ms)
{
	struct timespec time = {ms / 1000, (ms % 1000) * 1000000L};

	nanosleep(&time, NULL);
}

/* A sum over the communicator tells whether it has the members it should. */
static int sum_of(struct world *world, ncclComm_t comm, int mine)
{
	int *data;

	CUDA(cudaMalloc((void **)&data, sizeof(int)));
	*data = mine;
	NCCL(ncclAllReduce(data, data, 1, ncclInt32, ncclSum, comm, world->stream));
	CUDA(cudaStreamSynchronize(world->stream));
	mine = *data;
	CUDA(cudaFree(data));
	return mine;
}

static ncclResult_t settle(struct world *world, ncclComm_t comm)
{
	ncclResult_t state;

	do {
		NCCL(ncclCommGetAsyncError(comm, &state));
		if (state == ncclInProgress)
			nap(1);
	} while (state == ncclInProgress);
	return state;
}

/* Two colours, reversed order; rank 4 stays out. */
static int run_split(struct world *world)
{
	int color = world->rank == 4 ? NCCL_SPLIT_NOCOLOR : world->rank % 2;
	ncclComm_t child = (ncclComm_t)1;
	int size = -1, rank = -1, want = 0, members = 0, place = 0;

	NCCL(ncclCommSplit(world->comm, color, -world->rank, &child, NULL));
	if (color == NCCL_SPLIT_NOCOLOR) {
		CHECK(child == NULL);
		return 0;
	}
	for (int i = 0; i < world->size; i++) {
		if (i == 4 || i % 2 != color)
			continue;
		members++;
		want += i + 100;
		place += i > world->rank;
	}
	NCCL(ncclCommCount(child, &size));
	NCCL(ncclCommUserRank(child, &rank));
	CHECK(size == members && rank == place);
	CHECK(sum_of(world, child, world->rank + 100) == want);
	NCCL(ncclCommDestroy(child));
	return 0;
}

static void test_split(void **state)
{
	(void)state;
	assert_int_equal(world_run(7, 1, run_split, NULL), 0);
}

/* Children of children, many at a time, and the parent still works. */
static int run_many(struct world *world)
{
	ncclComm_t children[12], grandchild;

	for (int i = 0; i < 12; i++)
		NCCL(ncclCommSplit(world->comm, 0, world->rank, &children[i], NULL));
	NCCL(ncclCommSplit(children[3], world->rank / 2, 0, &grandchild, NULL));
	for (int i = 11; i >= 0; i--)
		CHECK(sum_of(world, children[i], 1) == world->size);
	CHECK(sum_of(world, grandchild, 1) == 2);
	CHECK(sum_of(world, world->comm, 1) == world->size);
	NCCL(ncclCommDestroy(grandchild));
	for (int i = 0; i < 12; i++) {
		NCCL(ncclCommFinalize(children[i]));
		NCCL(ncclCommDestroy(children[i]));
	}
	return 0;
}

static void test_many(void **state)
{
	(void)state;
	assert_int_equal(world_run(4, 1, run_many, NULL), 0);
}

/* The first operation of a communicator makes its links: they may come in at any instant of it. */
static int run_first_links(struct world *world)
{
	ncclComm_t child;

	for (int i = 0; i < 100; i++) {
		NCCL(ncclCommSplit(world->comm, 0, world->rank, &child, NULL));
		CHECK(sum_of(world, child, 1) == world->size);
		NCCL(ncclCommDestroy(child));
	}
	return 0;
}

static void test_first_links(void **state)
{
	(void)state;
	assert_int_equal(world_run(4, 1, run_first_links, NULL), 0);
}

static int run_shrink(struct world *world)
{
	int exclude[] = {1, 3};
	ncclComm_t child;

	if (world->rank == 1 || world->rank == 3)
		return 0;
	NCCL(ncclCommShrink(world->comm, exclude, 2, &child, NULL, NCCL_SHRINK_DEFAULT));
	CHECK(sum_of(world, child, 1) == world->size - 2);
	NCCL(ncclCommDestroy(child));
	return 0;
}

static void test_shrink(void **state)
{
	(void)state;
	assert_int_equal(world_run(6, 1, run_shrink, NULL), 0);
}

/* Rank 2 dies in the middle of a collective; the others leave it behind and go on. */
static int run_shrink_after_death(struct world *world)
{
	int exclude[] = {2};
	ncclComm_t child;
	int *data;

	CHECK(sum_of(world, world->comm, 1) == world->size);
	if (world->rank == 2)
		kill(getpid(), SIGKILL);
	CUDA(cudaMalloc((void **)&data, sizeof(int)));
	NCCL(ncclAllReduce(data, data, 1, ncclInt32, ncclSum, world->comm, world->stream));
	nap(50);
	CHECK(cudaStreamQuery(world->stream) == cudaErrorNotReady);
	NCCL(ncclCommShrink(world->comm, exclude, 1, &child, NULL, NCCL_SHRINK_ABORT));
	CUDA(cudaStreamSynchronize(world->stream));
	CHECK(sum_of(world, child, 1) == world->size - 1);
	CHECK(ncclAllReduce(data, data, 1, ncclInt32, ncclSum, world->comm, world->stream) ==
	      ncclInvalidUsage);
	NCCL(ncclCommDestroy(child));
	NCCL(ncclCommAbort(world->comm));
	world->comm = NULL;
	CUDA(cudaFree(data));
	return 0;
}

/* The same without blocking: a hang is left behind. */
static int run_shrink_nonblocking(struct world *world)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	int exclude[] = {1};
	ncclComm_t comm, child;
	ncclUniqueId id;
	int *data;

	config.blocking = 0;
	world_id(world, &id);
	CHECK(ncclCommInitRankConfig(&comm, world->size, id, world->rank, &config) ==
	      ncclInProgress);
	CHECK(settle(world, comm) == ncclSuccess);
	CUDA(cudaMalloc((void **)&data, sizeof(int)));
	*data = 1;
	if (world->rank != 1) {
		ncclAllReduce(data, data, 1, ncclInt32, ncclSum, comm, world->stream);
		CHECK(settle(world, comm) == ncclSuccess);
		CHECK(ncclCommShrink(comm, exclude, 1, &child, NULL, NCCL_SHRINK_ABORT) ==
		      ncclInProgress);
		CHECK(settle(world, comm) == ncclSuccess);
		CHECK(settle(world, child) == ncclSuccess);
		CUDA(cudaStreamSynchronize(world->stream));
		*data = 1;
		ncclAllReduce(data, data, 1, ncclInt32, ncclSum, child, world->stream);
		CUDA(cudaStreamSynchronize(world->stream));
		CHECK(*data == world->size - 1);
		NCCL(ncclCommDestroy(child));
	}
	world_barrier(world);
	NCCL(ncclCommAbort(comm));
	CUDA(cudaFree(data));
	return 0;
}

static void test_shrink_after_death(void **state)
{
	(void)state;
	assert_int_equal(world_run_bare(4, 1, run_shrink_nonblocking, NULL), 0);
	assert_int_equal(world_run_dying(4, 1, run_shrink_after_death, NULL, 2), 0);
}

static int run_nonblocking(struct world *world)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t comm, child;
	ncclUniqueId id;
	int *data, count;

	config.blocking = 0;
	world_id(world, &id);
	if (world->rank == 0)
		nap(100);
	CHECK(ncclCommInitRankConfig(&comm, world->size, id, world->rank, &config) ==
	      ncclInProgress);
	/* 0 is late, so the others are certainly not done */
	if (world->rank != 0)
		CHECK(ncclCommCount(comm, &count) == ncclInvalidArgument);
	CHECK(settle(world, comm) == ncclSuccess);
	if (world->rank == 0)
		nap(100);
	child = comm;
	CHECK(ncclCommSplit(comm, world->rank % 2, 0, &child, NULL) == ncclInProgress);
	/* 0 is late again; there is no handle before the child is complete */
	if (world->rank != 0)
		CHECK(__atomic_load_n(&child, __ATOMIC_ACQUIRE) == NULL);
	CHECK(settle(world, comm) == ncclSuccess);
	CHECK(settle(world, child) == ncclSuccess);
	CUDA(cudaMalloc((void **)&data, sizeof(int)));
	*data = 1;
	CHECK(ncclAllReduce(data, data, 1, ncclInt32, ncclSum, child, world->stream) ==
	      ncclInProgress);
	CHECK(settle(world, child) == ncclSuccess);
	CUDA(cudaStreamSynchronize(world->stream));
	CHECK(*data == world->size / 2);
	CHECK(ncclCommFinalize(comm) == ncclInProgress);
	CHECK(settle(world, comm) == ncclSuccess);
	NCCL(ncclCommDestroy(child));
	NCCL(ncclCommDestroy(comm));
	CUDA(cudaFree(data));
	return 0;
}

static void test_nonblocking(void **state)
{
	(void)state;
	assert_int_equal(world_run_bare(4, 1, run_nonblocking, NULL), 0);
}

/* Rank 1 does not come; abort frees the streams of the others. */
static int run_abort(struct world *world)
{
	int *data;

	CUDA(cudaMalloc((void **)&data, 1000 * sizeof(int)));
	if (world->rank != 1) {
		NCCL(ncclAllReduce(data, data, 1000, ncclInt32, ncclSum, world->comm,
				   world->stream));
		NCCL(ncclBroadcast(data, data, 10, ncclInt32, 1, world->comm, world->stream));
		nap(100);
		CHECK(cudaStreamQuery(world->stream) == cudaErrorNotReady);
	}
	NCCL(ncclCommAbort(world->comm));
	world->comm = NULL;
	CUDA(cudaStreamSynchronize(world->stream));
	CUDA(cudaFree(data));
	return 0;
}

static void test_abort_frees_hang(void **state)
{
	(void)state;
	assert_int_equal(world_run(4, 1, run_abort, NULL), 0);
}

/* A rendezvous that one rank never joins can be given up, too. */
static int run_abort_init(struct world *world)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t result;
	ncclUniqueId id;
	ncclComm_t comm;

	config.blocking = 0;
	world_id(world, &id);
	if (world->rank != 2) {
		CHECK(ncclCommInitRankConfig(&comm, world->size, id, world->rank, &config) ==
		      ncclInProgress);
		nap(100);
		NCCL(ncclCommGetAsyncError(comm, &result));
		CHECK(result == ncclInProgress);
		NCCL(ncclCommAbort(comm));
	}
	world_barrier(world);
	return 0;
}

static void test_abort_init(void **state)
{
	(void)state;
	assert_int_equal(world_run_bare(3, 1, run_abort_init, NULL), 0);
}

/* Two hosts, a death: the survivor on the other host hears of it, the one on the same does not. */
static int run_remote_death(struct world *world)
{
	ncclResult_t error = ncclSuccess;
	char host[] = "host-0";
	ncclUniqueId id;
	ncclComm_t comm;
	int *data;

	host[5] = (char)('0' + world->rank / 2);
	setenv("NCCL_HOSTID", host, 1);
	world_id(world, &id);
	NCCL(ncclCommInitRank(&comm, world->size, id, world->rank));
	CHECK(sum_of(world, comm, 1) == world->size);
	world_barrier(world);
	if (world->rank == 3)
		kill(getpid(), SIGKILL);
	CUDA(cudaMalloc((void **)&data, sizeof(int)));
	NCCL(ncclAllReduce(data, data, 1, ncclInt32, ncclSum, comm, world->stream));
	/* rank 1 is rank 3's counterpart; nobody else has a connection to it over the network */
	if (world->rank == 1) {
		while (error == ncclSuccess) {
			NCCL(ncclCommGetAsyncError(comm, &error));
			nap(1);
		}
		CHECK(error == ncclRemoteError);
		CHECK(strstr(ncclGetLastError(comm), "Connection closed by remote peer") != NULL);
	} else {
		nap(200);
		NCCL(ncclCommGetAsyncError(comm, &error));
		CHECK(world->rank != 2 || error == ncclSuccess);
	}
	CHECK(cudaStreamQuery(world->stream) == cudaErrorNotReady);
	/* an abort is a broken connection, too */
	world_gather(world, 3);
	NCCL(ncclCommAbort(comm));
	CUDA(cudaStreamSynchronize(world->stream));
	CUDA(cudaFree(data));
	return 0;
}

static void test_remote_death(void **state)
{
	(void)state;
	assert_int_equal(world_run_dying(4, 1, run_remote_death, NULL, 3), 0);
}

/* One process, several devices: created together, used in groups. */
static int run_init_all(struct world *world)
{
	ncclComm_t comms[4];
	cudaStream_t streams[4];
	int *data[4], device;

	NCCL(ncclCommInitAll(comms, 4, NULL));
	NCCL(ncclGroupStart());
	for (int i = 0; i < 4; i++) {
		NCCL(ncclCommCuDevice(comms[i], &device));
		CHECK(device == i);
		CUDA(cudaSetDevice(i));
		CUDA(cudaStreamCreate(&streams[i]));
		CUDA(cudaMalloc((void **)&data[i], sizeof(int)));
		*data[i] = 1 << i;
		NCCL(ncclAllReduce(data[i], data[i], 1, ncclInt32, ncclSum, comms[i], streams[i]));
	}
	NCCL(ncclGroupEnd());
	for (int i = 0; i < 4; i++) {
		CUDA(cudaStreamSynchronize(streams[i]));
		CHECK(*data[i] == 15);
	}
	NCCL(ncclGroupStart());
	for (int i = 0; i < 4; i++)
		NCCL(ncclCommDestroy(comms[i]));
	NCCL(ncclGroupEnd());
	return 0;
}

static void test_init_all(void **state)
{
	(void)state;
	assert_int_equal(world_run_bare(1, 1, run_init_all, NULL), 0);
}

/* Several ids, the same on all ranks. */
static int run_scalable(struct world *world)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId ids[2];
	ncclComm_t comm;
	int rank = -1;

	config.commName = "scaled";
	for (int i = 0; i < 2; i++)
		world_id(world, &ids[i]);
	NCCL(ncclCommInitRankScalable(&comm, world->size, world->rank, 2, ids, &config));
	NCCL(ncclCommUserRank(comm, &rank));
	CHECK(rank == world->rank);
	CHECK(sum_of(world, comm, 1) == world->size);
	NCCL(ncclCommDestroy(comm));
	return 0;
}

static void test_scalable(void **state)
{
	(void)state;
	assert_int_equal(world_run_bare(4, 1, run_scalable, NULL), 0);
}

/* Windows and registrations: collective and local. */
static int run_windows(struct world *world)
{
	ncclWindow_t window = NULL;
	void *memory, *handle = NULL;

	NCCL(ncclMemAlloc(&memory, 8192));
	NCCL(ncclCommRegister(world->comm, memory, 8192, &handle));
	NCCL(ncclCommWindowRegister(world->comm, memory, 8192, &window, 1));
	CHECK(handle != NULL && window != NULL);
	NCCL(ncclCommWindowDeregister(world->comm, window));
	NCCL(ncclCommDeregister(world->comm, handle));
	NCCL(ncclMemFree(memory));
	return 0;
}

static void test_windows(void **state)
{
	(void)state;
	assert_int_equal(world_run(3, 1, run_windows, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split),       cmocka_unit_test(test_many),
		cmocka_unit_test(test_shrink),      cmocka_unit_test(test_shrink_after_death),
		cmocka_unit_test(test_nonblocking), cmocka_unit_test(test_abort_frees_hang),
		cmocka_unit_test(test_abort_init),  cmocka_unit_test(test_remote_death),
		cmocka_unit_test(test_init_all),    cmocka_unit_test(test_scalable),
		cmocka_unit_test(test_windows),     cmocka_unit_test(test_first_links),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
