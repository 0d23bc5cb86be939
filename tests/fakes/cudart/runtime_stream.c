/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events and launches of the runtime. */
#include "runtime.h"

API cudaStreamCreate(cudaStream_t *stream)
{
	return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

API cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
	return cudaStreamCreateWithPriority(stream, flags, 0);
}

API cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
	return fake_runtime_note(
		fake_stream_create((struct fake_stream **)stream, flags, priority));
}

API cudaStreamDestroy(cudaStream_t stream)
{
	return fake_runtime_note(fake_stream_destroy(as_stream(stream)));
}

STREAM_API(cudaStreamSynchronize, (cudaStream_t stream), (stream))
{
	return fake_runtime_note(fake_stream_sync(as_stream(stream)));
}

STREAM_API(cudaStreamQuery, (cudaStream_t stream), (stream))
{
	return fake_runtime_note(fake_stream_query(as_stream(stream)));
}

STREAM_API(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
	   (stream, event, flags))
{
	if (flags > 1)
		return fake_runtime_note(cudaErrorInvalidValue);
	return fake_runtime_note(fake_stream_wait_event(as_stream(stream), as_event(event)));
}

/* Handle of a stream, looked up; the values of NULL and friends are those of the legacy stream. */
static const struct fake_stream *look_up(cudaStream_t stream)
{
	const struct fake_stream *found;

	pthread_mutex_lock(&fake_gpu_lock);
	found = fake_stream_find(as_stream(stream));
	pthread_mutex_unlock(&fake_gpu_lock);
	return found;
}

STREAM_API(cudaStreamGetFlags, (cudaStream_t stream, unsigned int *flags), (stream, flags))
{
	const struct fake_stream *found = look_up(stream);

	if (!found)
		return fake_runtime_note(cudaErrorInvalidResourceHandle);
	*flags = found->flags;
	return cudaSuccess;
}

STREAM_API(cudaStreamGetPriority, (cudaStream_t stream, int *priority), (stream, priority))
{
	const struct fake_stream *found = look_up(stream);

	if (!found)
		return fake_runtime_note(cudaErrorInvalidResourceHandle);
	*priority = found->priority;
	return cudaSuccess;
}

STREAM_API(cudaStreamGetId, (cudaStream_t stream, unsigned long long *id), (stream, id))
{
	const struct fake_stream *found = look_up(stream);

	if (!found)
		return fake_runtime_note(cudaErrorInvalidResourceHandle);
	*id = found->id;
	return cudaSuccess;
}

API cudaEventCreate(cudaEvent_t *event)
{
	return cudaEventCreateWithFlags(event, cudaEventDefault);
}

API cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
	return fake_runtime_note(fake_event_create((struct fake_event **)event, flags));
}

API cudaEventDestroy(cudaEvent_t event)
{
	return fake_runtime_note(fake_event_destroy(as_event(event)));
}

STREAM_API(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream))
{
	return fake_runtime_note(fake_event_record(as_event(event), as_stream(stream)));
}

STREAM_API(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
	   (event, stream, flags))
{
	if (flags > 1)
		return fake_runtime_note(cudaErrorInvalidValue);
	return fake_runtime_note(fake_event_record(as_event(event), as_stream(stream)));
}

API cudaEventQuery(cudaEvent_t event)
{
	int result = fake_capture_forbids();

	return fake_runtime_note(result ? result : fake_event_query(as_event(event)));
}

API cudaEventSynchronize(cudaEvent_t event)
{
	int result = fake_capture_forbids();

	return fake_runtime_note(result ? result : fake_event_sync(as_event(event)));
}

API cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
	return fake_runtime_note(fake_event_elapsed(ms, as_event(from), as_event(to)));
}

/* There is no device code to run: a kernel takes NSPY_FAKE_KERNEL_US and does nothing. */
STREAM_API(cudaLaunchKernel,
	   (const void *func, dim3 grid, dim3 block, void **args, size_t shared,
	    cudaStream_t stream),
	   (func, grid, block, args, shared, stream))
{
	(void)args;
	(void)shared;
	if (!func || grid.x * grid.y * grid.z == 0 || block.x * block.y * block.z == 0)
		return fake_runtime_note(cudaErrorInvalidValue);
	return fake_runtime_note(fake_stream_compute(as_stream(stream), fake_gpu_kernel_ns()));
}

STREAM_API(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t func, void *arg),
	   (stream, func, arg))
{
	return fake_runtime_note(fake_stream_host_func(as_stream(stream), func, arg));
}

API fakeCudaCompute(cudaStream_t stream, unsigned long usec)
{
	return fake_runtime_note(fake_stream_compute(as_stream(stream), usec * 1000ull));
}
