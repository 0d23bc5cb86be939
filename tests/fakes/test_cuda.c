/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, memory, capture and graphs of the stand-in CUDA. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "cuda_abi.h"

#define OK(call) assert_int_equal(call, cudaSuccess)

static void nap(int ms)
{
	struct timespec time = {ms / 1000, (ms % 1000) * 1000000L};

	nanosleep(&time, NULL);
}

/* What happened, in which order. */
static char journal[64];
static atomic_int journal_length;

static void note(void *arg)
{
	int n = atomic_load(&journal_length);

	journal[n] = *(const char *)arg;
	atomic_store(&journal_length, n + 1);
}

static void restart(void)
{
	memset(journal, 0, sizeof(journal));
	journal_length = 0;
}

/* A gate on a stream: nothing behind it runs until it is opened. */
static atomic_int gate_open;

static void wait_at_gate(void *arg)
{
	(void)arg;
	while (!gate_open)
		nap(1);
}

static void test_stream_is_ordered_and_asynchronous(void **state)
{
	cudaStream_t stream;

	(void)state;
	restart();
	gate_open = 0;
	OK(cudaStreamCreate(&stream));
	OK(cudaStreamQuery(stream));
	OK(cudaLaunchHostFunc(stream, wait_at_gate, NULL));
	for (int i = 0; i < 5; i++)
		OK(cudaLaunchHostFunc(stream, note, (void *)&"abcde"[i]));
	assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
	assert_int_equal(journal_length, 0);
	gate_open = 1;
	OK(cudaStreamSynchronize(stream));
	assert_string_equal(journal, "abcde");
	OK(cudaStreamQuery(stream));
	OK(cudaStreamDestroy(stream));
	assert_int_equal(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
	assert_int_equal(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
	assert_int_equal(cudaGetLastError(), cudaErrorInvalidResourceHandle);
	assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static void test_events_order_streams(void **state)
{
	cudaStream_t one, two;
	cudaEvent_t event;

	(void)state;
	restart();
	gate_open = 0;
	OK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
	OK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
	OK(cudaEventCreate(&event));
	OK(cudaEventQuery(event));
	OK(cudaLaunchHostFunc(one, wait_at_gate, NULL));
	OK(cudaLaunchHostFunc(one, note, (void *)"a"));
	OK(cudaEventRecord(event, one));
	OK(cudaStreamWaitEvent(two, event, 0));
	OK(cudaLaunchHostFunc(two, note, (void *)"b"));
	nap(20);
	assert_int_equal(journal_length, 0);
	assert_int_equal(cudaEventQuery(event), cudaErrorNotReady);
	gate_open = 1;
	OK(cudaEventSynchronize(event));
	OK(cudaStreamSynchronize(two));
	assert_string_equal(journal, "ab");
	OK(cudaEventDestroy(event));
	OK(cudaStreamDestroy(one));
	OK(cudaStreamDestroy(two));
}

static void test_elapsed_time(void **state)
{
	cudaEvent_t from, to, untimed;
	float ms = 0;

	(void)state;
	OK(cudaEventCreate(&from));
	OK(cudaEventCreate(&to));
	OK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
	assert_int_equal(cudaEventElapsedTime(&ms, from, to), cudaErrorInvalidResourceHandle);
	OK(cudaEventRecord(from, NULL));
	OK(fakeCudaCompute(NULL, 30000));
	OK(cudaEventRecord(to, NULL));
	assert_int_equal(cudaEventElapsedTime(&ms, from, to), cudaErrorNotReady);
	OK(cudaEventSynchronize(to));
	OK(cudaEventElapsedTime(&ms, from, to));
	assert_true(ms >= 30.0f);
	OK(cudaEventRecord(untimed, NULL));
	OK(cudaDeviceSynchronize());
	assert_int_equal(cudaEventElapsedTime(&ms, from, untimed), cudaErrorInvalidResourceHandle);
	OK(cudaEventDestroy(from));
	OK(cudaEventDestroy(to));
	OK(cudaEventDestroy(untimed));
}

/* The legacy stream waits for blocking streams and they for it; nonblocking ones do not. */
static void test_legacy_stream(void **state)
{
	cudaStream_t blocking, independent;

	(void)state;
	restart();
	gate_open = 0;
	OK(cudaStreamCreate(&blocking));
	OK(cudaStreamCreateWithFlags(&independent, cudaStreamNonBlocking));
	OK(cudaLaunchHostFunc(blocking, wait_at_gate, NULL));
	OK(cudaLaunchHostFunc(blocking, note, (void *)"a"));
	OK(cudaLaunchHostFunc(NULL, note, (void *)"b"));
	OK(cudaLaunchHostFunc(blocking, note, (void *)"c"));
	OK(cudaLaunchHostFunc(independent, note, (void *)"x"));
	OK(cudaStreamSynchronize(independent));
	assert_string_equal(journal, "x");
	gate_open = 1;
	OK(cudaDeviceSynchronize());
	assert_string_equal(journal, "xabc");
	OK(cudaStreamDestroy(blocking));
	OK(cudaStreamDestroy(independent));
}

static void test_memory_limit(void **state)
{
	size_t free_bytes, total, before;
	void *one = NULL, *two = NULL, *host = NULL;

	(void)state;
	OK(cudaMemGetInfo(&before, &total));
	assert_int_equal(total, 64 << 20);
	OK(cudaMalloc(&one, 40 << 20));
	assert_int_equal(cudaMalloc(&two, 40 << 20), cudaErrorMemoryAllocation);
	assert_string_equal(cudaGetErrorName(cudaGetLastError()), "cudaErrorMemoryAllocation");
	assert_null(two);
	OK(cudaMallocHost(&host, 80 << 20));
	OK(cudaMemGetInfo(&free_bytes, &total));
	assert_int_equal(free_bytes, before - (40 << 20));
	OK(cudaFree(one));
	OK(cudaMallocAsync(&two, 60 << 20, NULL));
	OK(cudaMemsetAsync(two, 1, 60 << 20, NULL));
	OK(cudaFreeAsync(two, NULL));
	OK(cudaStreamSynchronize(NULL));
	OK(cudaMemGetInfo(&free_bytes, &total));
	assert_int_equal(free_bytes, before);
	OK(cudaFreeHost(host));
	OK(cudaFree(NULL));
	assert_int_equal(cudaFree(&total), cudaErrorInvalidValue);
	/* memory is per device */
	OK(cudaSetDevice(1));
	OK(cudaMalloc(&one, 64 << 20));
	OK(cudaSetDevice(0));
	OK(cudaMalloc(&two, 64 << 20));
	OK(cudaFree(one));
	OK(cudaFree(two));
}

static void test_copies(void **state)
{
	char from[1000], *device, to[1000];

	(void)state;
	memset(from, 7, sizeof(from));
	OK(cudaMalloc((void **)&device, sizeof(from)));
	OK(cudaMemset(device, 0, sizeof(from)));
	OK(cudaMemcpy(device, from, sizeof(from), cudaMemcpyHostToDevice));
	OK(cudaMemcpyAsync(to, device, sizeof(to), cudaMemcpyDeviceToHost, NULL));
	OK(cudaStreamSynchronize(NULL));
	assert_memory_equal(from, to, sizeof(from));
	assert_int_equal(cudaMemcpy(to, device, 1, (enum cudaMemcpyKind)9), cudaErrorInvalidValue);
	OK(cudaFree(device));
}

static void test_devices(void **state)
{
	char text[32];
	int number = 0;

	(void)state;
	OK(cudaGetDeviceCount(&number));
	assert_int_equal(number, 4);
	assert_int_equal(cudaSetDevice(4), cudaErrorInvalidDevice);
	OK(cudaSetDevice(2));
	OK(cudaGetDevice(&number));
	assert_int_equal(number, 2);
	OK(cudaSetDevice(0));
	OK(cudaRuntimeGetVersion(&number));
	assert_int_equal(number, RUNTIME_VERSION);
	OK(cudaDriverGetVersion(&number));
	assert_int_equal(number, 13000);
	OK(cudaDeviceGetPCIBusId(text, sizeof(text), 1));
	assert_string_equal(text, "00000000:11:00.0");
}

static cudaGraphExec_t finish(cudaStream_t stream)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	OK(cudaStreamEndCapture(stream, &graph));
	OK(cudaGraphInstantiate(&exec, graph, 0));
	OK(cudaGraphDestroy(graph));
	return exec;
}

/* Work that is captured does not run, its replays do, in order. */
static void test_capture_and_replay(void **state)
{
	enum cudaStreamCaptureStatus status;
	cudaGraphExec_t exec;
	cudaStream_t stream;
	int value = 0, result = 0;

	(void)state;
	restart();
	OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
	OK(cudaStreamIsCapturing(stream, &status));
	assert_int_equal(status, cudaStreamCaptureStatusActive);
	OK(cudaLaunchHostFunc(stream, note, (void *)"a"));
	OK(cudaMemcpyAsync(&result, &value, sizeof(value), cudaMemcpyDefault, stream));
	OK(cudaLaunchHostFunc(stream, note, (void *)"b"));
	exec = finish(stream);
	OK(cudaStreamIsCapturing(stream, &status));
	assert_int_equal(status, cudaStreamCaptureStatusNone);
	assert_int_equal(journal_length, 0);
	for (value = 1; value <= 3; value++) {
		OK(cudaGraphLaunch(exec, stream));
		OK(cudaStreamSynchronize(stream));
		assert_int_equal(result, value);
	}
	assert_string_equal(journal, "ababab");
	OK(cudaGraphExecDestroy(exec));
	OK(cudaStreamDestroy(stream));
}

/* An executable graph takes over a graph of the same shape, and refuses another one. */
static void test_update(void **state)
{
	cudaGraphExecUpdateResultInfo info;
	cudaGraphExec_t exec = NULL;
	cudaStream_t stream;
	cudaGraph_t graphs[3];

	(void)state;
	restart();
	OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	for (int i = 0; i < 3; i++) {
		OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
		for (int n = 0; n <= i / 2; n++)
			OK(cudaLaunchHostFunc(stream, note, (void *)&"abc"[i]));
		OK(cudaStreamEndCapture(stream, &graphs[i]));
	}
	OK(cudaGraphInstantiateWithFlags(&exec, graphs[0], 0));
	OK(cudaGraphLaunch(exec, stream));
	OK(cudaGraphExecUpdate(exec, graphs[1], &info));
	assert_int_equal(info.result, cudaGraphExecUpdateSuccess);
	OK(cudaGraphLaunch(exec, stream));
	assert_int_equal(cudaGraphExecUpdate(exec, graphs[2], &info),
			 cudaErrorGraphExecUpdateFailure);
	assert_int_equal(info.result, cudaGraphExecUpdateErrorTopologyChanged);
	OK(cudaGraphLaunch(exec, stream));
	OK(cudaGraphExecDestroy(exec));
	OK(cudaStreamSynchronize(stream));
	assert_string_equal(journal, "abb");
	for (int i = 0; i < 3; i++)
		OK(cudaGraphDestroy(graphs[i]));
	OK(cudaStreamDestroy(stream));
}

/* A second stream forked off and joined again runs beside the first one. */
static void test_fork_and_join(void **state)
{
	cudaStream_t one, two;
	cudaEvent_t fork, join;
	cudaGraphExec_t exec;

	(void)state;
	restart();
	OK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
	OK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
	OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
	OK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
	OK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
	OK(cudaEventRecord(fork, one));
	OK(cudaStreamWaitEvent(two, fork, 0));
	OK(cudaLaunchHostFunc(one, wait_at_gate, NULL));
	OK(cudaLaunchHostFunc(one, note, (void *)"b"));
	OK(cudaLaunchHostFunc(two, note, (void *)"a"));
	OK(cudaEventRecord(join, two));
	OK(cudaStreamWaitEvent(one, join, 0));
	OK(cudaLaunchHostFunc(one, note, (void *)"c"));
	exec = finish(one);
	gate_open = 0;
	OK(cudaGraphLaunch(exec, one));
	while (journal_length == 0)
		nap(1);
	assert_string_equal(journal, "a");
	gate_open = 1;
	OK(cudaStreamSynchronize(one));
	assert_string_equal(journal, "abc");
	OK(cudaGraphExecDestroy(exec));
	OK(cudaEventDestroy(fork));
	OK(cudaEventDestroy(join));
	OK(cudaStreamDestroy(one));
	OK(cudaStreamDestroy(two));
}

/* What is forbidden while capturing says so and spoils the capture. */
static void test_capture_errors(void **state)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	cudaStream_t one, two;
	cudaGraph_t graph;
	cudaEvent_t event;
	void *memory;

	(void)state;
	OK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
	OK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
	OK(cudaEventCreate(&event));

	OK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
	assert_int_equal(cudaMalloc(&memory, 16), cudaErrorStreamCaptureUnsupported);
	assert_int_equal(cudaStreamEndCapture(one, &graph), cudaErrorStreamCaptureInvalidated);

	OK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
	assert_int_equal(cudaStreamSynchronize(one), cudaErrorStreamCaptureUnsupported);
	assert_int_equal(cudaStreamEndCapture(one, &graph), cudaErrorStreamCaptureInvalidated);

	/* a relaxed thread may allocate */
	OK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
	OK(cudaThreadExchangeStreamCaptureMode(&mode));
	OK(cudaMalloc(&memory, 16));
	OK(cudaThreadExchangeStreamCaptureMode(&mode));
	OK(cudaStreamEndCapture(one, &graph));
	OK(cudaGraphDestroy(graph));
	OK(cudaFree(memory));

	/* an event from outside, and a stream that is not joined */
	OK(cudaEventRecord(event, two));
	OK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
	assert_int_equal(cudaStreamWaitEvent(one, event, 0), cudaErrorStreamCaptureIsolation);
	assert_int_equal(cudaStreamEndCapture(one, &graph), cudaErrorStreamCaptureInvalidated);
	OK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
	OK(cudaEventRecord(event, one));
	OK(cudaStreamWaitEvent(two, event, 0));
	assert_int_equal(cudaStreamEndCapture(two, &graph), cudaErrorStreamCaptureUnmatched);
	assert_int_equal(cudaStreamEndCapture(one, &graph), cudaErrorStreamCaptureUnjoined);
	assert_int_equal(cudaEventQuery(event), cudaErrorCapturedEvent);
	assert_int_equal(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal),
			 cudaErrorStreamCaptureUnsupported);
	OK(cudaEventDestroy(event));
	OK(cudaStreamDestroy(one));
	OK(cudaStreamDestroy(two));
}

/* The _ptsz forms and the driver's own names are there and mean the same streams. */
static void test_other_names(void **state)
{
	int (*is_capturing)(cudaStream_t, int *) =
		(int (*)(cudaStream_t, int *))dlsym(RTLD_DEFAULT, "cuStreamIsCapturing");
	int (*sync_ptsz)(cudaStream_t) =
		(int (*)(cudaStream_t))dlsym(RTLD_DEFAULT, "cudaStreamSynchronize_ptsz");
	int (*launch_ptsz)(cudaStream_t, cudaHostFn_t, void *) =
		(int (*)(cudaStream_t, cudaHostFn_t, void *))dlsym(RTLD_DEFAULT,
								   "cudaLaunchHostFunc_ptsz");
	cudaStream_t stream;
	cudaGraph_t graph;
	int status = -1;

	(void)state;
	assert_non_null(is_capturing);
	assert_non_null(sync_ptsz);
	assert_non_null(launch_ptsz);
	OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	assert_int_equal(is_capturing(stream, &status), 0);
	assert_int_equal(status, cudaStreamCaptureStatusActive);
	OK(cudaStreamEndCapture(stream, &graph));
	OK(cudaGraphDestroy(graph));
	OK(cudaStreamDestroy(stream));
	restart();
	assert_int_equal(launch_ptsz(NULL, note, (void *)"p"), 0);
	assert_int_equal(sync_ptsz(NULL), 0);
	assert_string_equal(journal, "p");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stream_is_ordered_and_asynchronous),
		cmocka_unit_test(test_events_order_streams),
		cmocka_unit_test(test_elapsed_time),
		cmocka_unit_test(test_legacy_stream),
		cmocka_unit_test(test_memory_limit),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_capture_and_replay),
		cmocka_unit_test(test_update),
		cmocka_unit_test(test_fork_and_join),
		cmocka_unit_test(test_capture_errors),
		cmocka_unit_test(test_other_names),
	};

	setenv("NSPY_FAKE_GPUS", "4", 1);
	setenv("NSPY_FAKE_MEMORY", "64M", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
