/* SPDX-License-Identifier: Apache-2.0 */
/* Memory calls of the runtime. */
#include "runtime.h"

API cudaMalloc(void **ptr, size_t bytes)
{
	return fake_runtime_note(fake_memory_alloc(ptr, bytes, FAKE_MEMORY_DEVICE));
}

API cudaMallocManaged(void **ptr, size_t bytes, unsigned int flags)
{
	if (flags != 1 && flags != 2)
		return fake_runtime_note(cudaErrorInvalidValue);
	return fake_runtime_note(fake_memory_alloc(ptr, bytes, FAKE_MEMORY_MANAGED));
}

API cudaMallocHost(void **ptr, size_t bytes)
{
	return fake_runtime_note(fake_memory_alloc(ptr, bytes, FAKE_MEMORY_HOST));
}

API cudaHostAlloc(void **ptr, size_t bytes, unsigned int flags)
{
	if (flags > 7)
		return fake_runtime_note(cudaErrorInvalidValue);
	return fake_runtime_note(fake_memory_alloc(ptr, bytes, FAKE_MEMORY_HOST));
}

/* The memory is there at once; only freeing happens in stream order. */
STREAM_API(cudaMallocAsync, (void **ptr, size_t bytes, cudaStream_t stream), (ptr, bytes, stream))
{
	int mode = FAKE_CAPTURE_RELAXED;
	int result;

	(void)stream;
	/* allowed while capturing, unlike cudaMalloc */
	fake_capture_exchange_mode(&mode);
	result = fake_memory_alloc(ptr, bytes, FAKE_MEMORY_DEVICE);
	fake_capture_exchange_mode(&mode);
	return fake_runtime_note(result);
}

/* Waits for the device, as the real one does in effect. */
API cudaFree(void *ptr)
{
	int result = fake_capture_forbids();

	if (result == cudaSuccess && ptr)
		result = fake_device_sync();
	return fake_runtime_note(result ? result : fake_memory_free(ptr));
}

API cudaFreeHost(void *ptr)
{
	return fake_runtime_note(fake_memory_free(ptr));
}

STREAM_API(cudaFreeAsync, (void *ptr, cudaStream_t stream), (ptr, stream))
{
	return fake_runtime_note(fake_memory_free_async(ptr, as_stream(stream)));
}

API cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
	if (!free_bytes || !total_bytes)
		return fake_runtime_note(cudaErrorInvalidValue);
	fake_memory_info(free_bytes, total_bytes);
	return cudaSuccess;
}

STREAM_API(cudaMemcpyAsync,
	   (void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
	    cudaStream_t stream),
	   (to, from, bytes, kind, stream))
{
	if ((unsigned int)kind > cudaMemcpyDefault)
		return fake_runtime_note(cudaErrorInvalidValue);
	return fake_runtime_note(fake_stream_copy(as_stream(stream), to, from, bytes));
}

API cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
	int result = fake_capture_forbids();

	if (result == cudaSuccess)
		result = (int)cudaMemcpyAsync(to, from, bytes, kind, NULL);
	if (result == cudaSuccess)
		result = fake_stream_sync(NULL);
	return fake_runtime_note(result);
}

STREAM_API(cudaMemsetAsync, (void *to, int value, size_t bytes, cudaStream_t stream),
	   (to, value, bytes, stream))
{
	return fake_runtime_note(fake_stream_set(as_stream(stream), to, value, bytes));
}

API cudaMemset(void *to, int value, size_t bytes)
{
	int result = fake_capture_forbids();

	if (result == cudaSuccess)
		result = fake_stream_set(NULL, to, value, bytes);
	if (result == cudaSuccess)
		result = fake_stream_sync(NULL);
	return fake_runtime_note(result);
}
