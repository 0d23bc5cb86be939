/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives in captured graphs: many replays, a second stream, plain calls in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "test_world.h"

#define COUNT   300
#define REPLAYS 1000

static cudaGraphExec_t finish(struct world *world)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CUDA(cudaStreamEndCapture(world->stream, &graph));
	CUDA(cudaGraphInstantiate(&exec, graph, 0));
	CUDA(cudaGraphDestroy(graph));
	return exec;
}

/* Sum, then the next rank's sum: every replay multiplies by the number of ranks. */
static int run_replays(struct world *world)
{
	int to = (world->rank + 1) % world->size;
	int from = (world->rank - 1 + world->size) % world->size;
	uint32_t *data, *other, want = 1;
	cudaGraphExec_t exec;

	CUDA(cudaMalloc((void **)&data, COUNT * sizeof(*data)));
	CUDA(cudaMalloc((void **)&other, COUNT * sizeof(*other)));
	for (int i = 0; i < COUNT; i++)
		data[i] = (uint32_t)(i + 1);
	CUDA(cudaStreamBeginCapture(world->stream, cudaStreamCaptureModeThreadLocal));
	NCCL(ncclAllReduce(data, data, COUNT, ncclUint32, ncclSum, world->comm, world->stream));
	NCCL(ncclGroupStart());
	NCCL(ncclSend(data, COUNT, ncclUint32, to, world->comm, world->stream));
	NCCL(ncclRecv(other, COUNT, ncclUint32, from, world->comm, world->stream));
	NCCL(ncclGroupEnd());
	exec = finish(world);
	CHECK(data[1] == 2);
	for (int n = 1; n <= REPLAYS; n++) {
		CUDA(cudaGraphLaunch(exec, world->stream));
		want *= (uint32_t)world->size;
		/* now and then an ordinary call on the same communicator */
		if (n % 100 == 0) {
			NCCL(ncclAllReduce(data, data, COUNT, ncclUint32, ncclMax, world->comm,
					   world->stream));
			CUDA(cudaStreamSynchronize(world->stream));
			for (int i = 0; i < COUNT; i++)
				CHECK(data[i] == want * (uint32_t)(i + 1) && other[i] == data[i]);
		}
	}
	CUDA(cudaStreamSynchronize(world->stream));
	CUDA(cudaGraphExecDestroy(exec));
	CUDA(cudaFree(data));
	CUDA(cudaFree(other));
	return 0;
}

static void test_replays(void **state)
{
	(void)state;
	assert_int_equal(world_run(2, 1, run_replays, NULL), 0);
	assert_int_equal(world_run(5, 1, run_replays, NULL), 0);
}

/* As frameworks do: NCCL has a stream of its own, which joins the capture through events. */
static int run_side_stream(struct world *world)
{
	cudaEvent_t ready, done;
	cudaGraphExec_t exec;
	cudaStream_t side;
	int *data, *copy, want = 3;

	CUDA(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
	CUDA(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
	CUDA(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
	CUDA(cudaMalloc((void **)&data, sizeof(int)));
	CUDA(cudaMalloc((void **)&copy, sizeof(int)));
	*copy = 3;
	CUDA(cudaStreamBeginCapture(world->stream, cudaStreamCaptureModeGlobal));
	CUDA(cudaMemcpyAsync(data, copy, sizeof(int), cudaMemcpyDefault, world->stream));
	CUDA(cudaEventRecord(ready, world->stream));
	CUDA(cudaStreamWaitEvent(side, ready, 0));
	NCCL(ncclAllReduce(data, data, 1, ncclInt32, ncclSum, world->comm, side));
	CUDA(cudaEventRecord(done, side));
	CUDA(cudaStreamWaitEvent(world->stream, done, 0));
	CUDA(cudaMemcpyAsync(copy, data, sizeof(int), cudaMemcpyDefault, world->stream));
	exec = finish(world);
	for (int n = 0; n < 10; n++) {
		CUDA(cudaGraphLaunch(exec, world->stream));
		CUDA(cudaStreamSynchronize(world->stream));
		want *= world->size;
		CHECK(*copy == want);
	}
	CUDA(cudaGraphExecDestroy(exec));
	CUDA(cudaEventDestroy(ready));
	CUDA(cudaEventDestroy(done));
	CUDA(cudaStreamDestroy(side));
	CUDA(cudaFree(data));
	CUDA(cudaFree(copy));
	return 0;
}

static void test_side_stream(void **state)
{
	(void)state;
	assert_int_equal(world_run(3, 1, run_side_stream, NULL), 0);
}

/* A group must not be half captured. */
static int run_mixed(struct world *world)
{
	cudaStream_t other;
	cudaGraph_t graph;
	int data[2] = {0, 0};

	CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	CUDA(cudaStreamBeginCapture(world->stream, cudaStreamCaptureModeGlobal));
	NCCL(ncclGroupStart());
	NCCL(ncclAllReduce(data, data, 1, ncclInt32, ncclSum, world->comm, world->stream));
	NCCL(ncclAllReduce(data + 1, data + 1, 1, ncclInt32, ncclSum, world->comm, other));
	CHECK(ncclGroupEnd() == ncclInvalidUsage);
	CUDA(cudaStreamEndCapture(world->stream, &graph));
	CUDA(cudaGraphDestroy(graph));
	CUDA(cudaStreamDestroy(other));
	return 0;
}

static void test_mixed(void **state)
{
	(void)state;
	assert_int_equal(world_run(2, 1, run_mixed, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replays),
		cmocka_unit_test(test_side_stream),
		cmocka_unit_test(test_mixed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
