/* SPDX-License-Identifier: Apache-2.0 */
/* Return codes and texts, as the real library gives them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "test_world.h"

static int run_without_comm(struct world *world)
{
	ncclResult_t state;
	int number = 0;

	NCCL(ncclGetVersion(&number));
	CHECK(number == 22809);
	CHECK(ncclGetVersion(NULL) == ncclInvalidArgument);
	CHECK(ncclAllReduce(&number, &number, 1, ncclInt32, ncclSum, NULL, NULL) ==
	      ncclInvalidArgument);
	CHECK(strcmp(ncclGetLastError(NULL), "AllReduce : comm argument is NULL") == 0);
	CHECK(ncclBcast(&number, 1, ncclInt32, 0, NULL, NULL) == ncclInvalidArgument);
	CHECK(strcmp(ncclGetLastError(NULL), "Broadcast : comm argument is NULL") == 0);
	CHECK(ncclCommCount(NULL, &number) == ncclInvalidArgument);
	CHECK(ncclCommUserRank(NULL, &number) == ncclInvalidArgument);
	CHECK(ncclCommCuDevice(NULL, &number) == ncclInvalidArgument);
	CHECK(ncclCommGetAsyncError(NULL, &state) == ncclInvalidArgument);
	CHECK(ncclCommRegister(NULL, &number, 4, NULL) == ncclInvalidArgument);
	CHECK(ncclCommDeregister(NULL, NULL) == ncclInvalidArgument);
	CHECK(ncclCommWindowDeregister(NULL, NULL) == ncclSuccess);
	CHECK(ncclCommDestroy(NULL) == ncclSuccess);
	CHECK(ncclCommAbort(NULL) == ncclSuccess);
	CHECK(ncclCommFinalize(NULL) == ncclSuccess);
	CHECK(ncclCommRevoke(NULL, 0) == ncclSuccess);
	CHECK(strcmp(ncclGetErrorString(ncclInProgress), "NCCL operation in progress") == 0);
	CHECK(strcmp(ncclGetErrorString((ncclResult_t)99), "unknown result code") == 0);
	return 0;
}

static int run_groups(struct world *world)
{
	ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
	int number = 0;

	CHECK(ncclGroupEnd() == ncclInvalidUsage);
	NCCL(ncclGroupStart());
	NCCL(ncclGroupStart());
	NCCL(ncclGroupEnd());
	NCCL(ncclGroupEnd());
	CHECK(ncclGroupEnd() == ncclInvalidUsage);
	/* a member's failure comes back from the end, and only from that one */
	NCCL(ncclGroupStart());
	CHECK(ncclSend(&number, 1, ncclInt32, 0, NULL, NULL) == ncclInvalidArgument);
	CHECK(ncclGroupEnd() == ncclInvalidArgument);
	NCCL(ncclGroupStart());
	NCCL(ncclGroupEnd());
	/* a simulation launches nothing; its structure has to be one */
	NCCL(ncclGroupStart());
	NCCL(ncclGroupSimulateEnd(&info));
	CHECK(info.estimatedTime == -1.0f);
	info.magic = 0;
	NCCL(ncclGroupStart());
	CHECK(ncclGroupSimulateEnd(&info) == ncclInvalidArgument);
	CHECK(ncclGroupSimulateEnd(NULL) == ncclInvalidUsage);
	return 0;
}

static int run_arguments(struct world *world)
{
	ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
	ncclComm_t comm = world->comm;
	int data[2] = {0, 0};
	ncclRedOp_t op = ncclSum;

	CHECK(ncclAllReduce(data, data, 1, (ncclDataType_t)12, ncclSum, comm, NULL) ==
	      ncclInvalidArgument);
	CHECK(strcmp(ncclGetLastError(comm), "AllReduce : invalid type 12") == 0);
	CHECK(ncclReduce(data, data, 1, ncclInt32, ncclSum, 2, comm, NULL) == ncclInvalidArgument);
	CHECK(strcmp(ncclGetLastError(comm),
		     "Reduce : invalid root 2 (root should be in the 0..2 range)") == 0);
	CHECK(ncclAllReduce(data, data, 1, ncclInt32, (ncclRedOp_t)77, comm, NULL) ==
	      ncclInvalidArgument);
	CHECK(ncclRedOpDestroy(ncclSum, comm) == ncclInvalidArgument);
	NCCL(ncclRedOpCreatePreMulSum(&op, data, ncclInt32, ncclScalarHostImmediate, comm));
	CHECK(ncclAllReduce(data, data, 1, ncclFloat32, op, comm, NULL) == ncclInvalidArgument);
	NCCL(ncclRedOpDestroy(op, comm));
	CHECK(ncclRedOpDestroy(op, comm) == ncclInvalidArgument);
	NCCL(ncclGroupStart());
	NCCL(ncclAllReduce(data, data, 1, ncclInt32, ncclSum, comm, world->stream));
	NCCL(ncclGroupSimulateEnd(&info));
	CHECK(info.estimatedTime >= 0);
	CUDA(cudaStreamQuery(world->stream));
	return 0;
}

static int run_init_arguments(struct world *world)
{
	ncclConfig_t config = {.size = sizeof(config)};
	ncclComm_t comm = NULL;
	ncclUniqueId id;

	memset(&id, 0, sizeof(id));
	CHECK(ncclCommInitRank(&comm, 2, id, 2) == ncclInvalidArgument);
	CHECK(strcmp(ncclGetLastError(NULL), "Invalid rank requested : 2/2") == 0);
	CHECK(ncclCommInitRank(NULL, 2, id, 0) == ncclInvalidArgument);
	CHECK(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInvalidArgument);
	CHECK(ncclCommInitRankScalable(&comm, 2, 0, 3, &id, NULL) == ncclInvalidArgument);
	CHECK(ncclGetUniqueId(NULL) == ncclInvalidArgument);
	return 0;
}

/* Both ranks on one device. */
static int run_duplicate_device(struct world *world)
{
	ncclUniqueId id;
	ncclComm_t comm = NULL;

	CUDA(cudaSetDevice(0));
	world_id(world, &id);
	CHECK(ncclCommInitRank(&comm, world->size, id, world->rank) == ncclInvalidUsage);
	CHECK(strncmp(ncclGetLastError(NULL), "Duplicate GPU detected", 22) == 0);
	CHECK(comm == NULL);
	return 0;
}

/* The ranks do not agree how many they are: the root gives up and they hear of it. */
static int run_size_mismatch(struct world *world)
{
	ncclUniqueId id;
	ncclComm_t comm = NULL;

	world_id(world, &id);
	CHECK(ncclCommInitRank(&comm, world->size + world->rank, id, world->rank) ==
	      ncclRemoteError);
	world_barrier(world);
	return 0;
}

/* Nobody listens where the id points; two attempts are enough. */
static int run_no_root(struct world *world)
{
	ncclUniqueId id;
	ncclComm_t comm = NULL;

	setenv("NCCL_COMM_ID", "127.0.0.1:9", 1);
	setenv("NCCL_SOCKET_RETRY_CNT", "1", 1);
	setenv("NCCL_SOCKET_RETRY_SLEEP_MSEC", "10", 1);
	NCCL(ncclGetUniqueId(&id));
	CHECK(ncclCommInitRank(&comm, 2, id, 1) == ncclRemoteError);
	CHECK(strstr(ncclGetLastError(NULL), "127.0.0.1<9>") != NULL);
	return 0;
}

/* With an address given for all, no id has to be passed around. */
static int run_comm_id(struct world *world)
{
	int *data, port = 20000 + (int)(world->seed % 12000);
	ncclUniqueId id;
	ncclComm_t comm;
	char text[64];

	snprintf(text, sizeof(text), "127.0.0.1:%d", port);
	setenv("NCCL_COMM_ID", text, 1);
	NCCL(ncclGetUniqueId(&id));
	NCCL(ncclCommInitRank(&comm, world->size, id, world->rank));
	CUDA(cudaMalloc((void **)&data, sizeof(int)));
	*data = 1;
	NCCL(ncclAllReduce(data, data, 1, ncclInt32, ncclSum, comm, world->stream));
	CUDA(cudaStreamSynchronize(world->stream));
	CHECK(*data == world->size);
	NCCL(ncclCommDestroy(comm));
	CUDA(cudaFree(data));
	return 0;
}

static int run_no_interface(struct world *world)
{
	ncclUniqueId id;

	setenv("NCCL_SOCKET_IFNAME", "nope", 1);
	CHECK(ncclGetUniqueId(&id) == ncclInvalidUsage);
	CHECK(strcmp(ncclGetLastError(NULL), "Bootstrap : no socket interface found") == 0);
	return 0;
}

static int run_bad_comm_id(struct world *world)
{
	ncclUniqueId id;

	setenv("NCCL_COMM_ID", "nonsense", 1);
	CHECK(ncclGetUniqueId(&id) == ncclInvalidArgument);
	return 0;
}

static void alone(world_fn fn)
{
	assert_int_equal(world_run_bare(1, 1, fn, NULL), 0);
}

static void test_without_comm(void **state)
{
	(void)state;
	alone(run_without_comm);
}

static void test_groups(void **state)
{
	(void)state;
	alone(run_groups);
}

static void test_arguments(void **state)
{
	(void)state;
	assert_int_equal(world_run(2, 1, run_arguments, NULL), 0);
}

static void test_init(void **state)
{
	(void)state;
	alone(run_init_arguments);
	assert_int_equal(world_run_bare(2, 1, run_duplicate_device, NULL), 0);
	assert_int_equal(world_run_bare(2, 1, run_size_mismatch, NULL), 0);
}

static void test_bootstrap(void **state)
{
	(void)state;
	alone(run_no_root);
	alone(run_no_interface);
	alone(run_bad_comm_id);
	assert_int_equal(world_run_bare(3, (uint64_t)getpid(), run_comm_id, NULL), 0);
}

/* Without a GPU the real library, preloaded, gets only as far as the first two. */
int main(void)
{
	const struct CMUnitTest real[] = {
		cmocka_unit_test(test_without_comm),
		cmocka_unit_test(test_groups),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_comm), cmocka_unit_test(test_groups),
		cmocka_unit_test(test_arguments),    cmocka_unit_test(test_init),
		cmocka_unit_test(test_bootstrap),
	};

	if (getenv("FAKE_TEST_REAL_NCCL"))
		return cmocka_run_group_tests(real, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
