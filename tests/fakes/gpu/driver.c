/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver interface, as far as tools and the workload ask for it. The _v2 names and the _ptsz
 * forms (a NULL stream means the thread's own) are those that the real library exports.
 */
#include <stdio.h>

#include "cuda_abi.h"
#include "gpu.h"

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;

struct cu_uuid {
	char bytes[16];
};

static struct fake_stream *per_thread(struct fake_stream *stream)
{
	return stream ? stream : FAKE_STREAM_PER_THREAD;
}

#define API FAKE_EXPORT CUresult
#define STREAM_API(name, params, args)                                                             \
	API name params;                                                                           \
	API name##_ptsz params;                                                                    \
	API name##_ptsz params                                                                     \
	{                                                                                          \
		stream = per_thread(stream);                                                       \
		return name args;                                                                  \
	}                                                                                          \
	API name params

API cuInit(unsigned int flags);
API cuInit(unsigned int flags)
{
	if (flags != 0)
		return cudaErrorInvalidValue;
	return fake_gpu_count() == 0 ? cudaErrorNoDevice : cudaSuccess;
}

API cuDriverGetVersion(int *version);
API cuDriverGetVersion(int *version)
{
	if (!version)
		return cudaErrorInvalidValue;
	*version = fake_gpu_driver_version();
	return cudaSuccess;
}

API cuDeviceGetCount(int *count);
API cuDeviceGetCount(int *count)
{
	if (!count)
		return cudaErrorInvalidValue;
	*count = fake_gpu_count();
	return cudaSuccess;
}

API cuDeviceGet(CUdevice *device, int ordinal);
API cuDeviceGet(CUdevice *device, int ordinal)
{
	if (!device)
		return cudaErrorInvalidValue;
	if (ordinal < 0 || ordinal >= fake_gpu_count())
		return cudaErrorInvalidDevice;
	*device = ordinal;
	return cudaSuccess;
}

static bool is_device(CUdevice device)
{
	return device >= 0 && device < fake_gpu_count();
}

API cuDeviceGetName(char *name, int bytes, CUdevice device);
API cuDeviceGetName(char *name, int bytes, CUdevice device)
{
	if (!name || bytes <= 0)
		return cudaErrorInvalidValue;
	if (!is_device(device))
		return cudaErrorInvalidDevice;
	snprintf(name, (size_t)bytes, "Stand-in GPU");
	return cudaSuccess;
}

API cuDeviceGetUuid(struct cu_uuid *uuid, CUdevice device);
API cuDeviceGetUuid(struct cu_uuid *uuid, CUdevice device)
{
	if (!uuid)
		return cudaErrorInvalidValue;
	if (!is_device(device))
		return cudaErrorInvalidDevice;
	fake_gpu_uuid(device, (unsigned char *)uuid->bytes);
	return cudaSuccess;
}

API cuDeviceGetUuid_v2(struct cu_uuid *uuid, CUdevice device);
API cuDeviceGetUuid_v2(struct cu_uuid *uuid, CUdevice device)
{
	return cuDeviceGetUuid(uuid, device);
}

API cuDeviceGetPCIBusId(char *text, int bytes, CUdevice device);
API cuDeviceGetPCIBusId(char *text, int bytes, CUdevice device)
{
	if (!text || bytes <= 0)
		return cudaErrorInvalidValue;
	if (!is_device(device))
		return cudaErrorInvalidDevice;
	fake_gpu_bus_id(device, text, (size_t)bytes);
	return cudaSuccess;
}

API cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
API cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	if (!bytes)
		return cudaErrorInvalidValue;
	if (!is_device(device))
		return cudaErrorInvalidDevice;
	*bytes = (size_t)fake_gpu_memory_bytes();
	return cudaSuccess;
}

API cuCtxGetDevice(CUdevice *device);
API cuCtxGetDevice(CUdevice *device)
{
	if (!device)
		return cudaErrorInvalidValue;
	*device = fake_gpu_current();
	return cudaSuccess;
}

API cuCtxSynchronize(void);
API cuCtxSynchronize(void)
{
	int result = fake_capture_forbids();

	return result ? result : fake_device_sync();
}

API cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes);
API cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes)
{
	void *memory = NULL;
	int result = bytes ? fake_memory_alloc(&memory, bytes, FAKE_MEMORY_DEVICE)
			   : cudaErrorInvalidValue;

	if (result == cudaSuccess && ptr)
		*ptr = (CUdeviceptr)(uintptr_t)memory;
	return result;
}

API cuMemFree_v2(CUdeviceptr ptr);
API cuMemFree_v2(CUdeviceptr ptr)
{
	return fake_memory_free((void *)(uintptr_t)ptr);
}

API cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
API cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	if (!free_bytes || !total_bytes)
		return cudaErrorInvalidValue;
	fake_memory_info(free_bytes, total_bytes);
	return cudaSuccess;
}

API cuStreamCreate(struct fake_stream **stream, unsigned int flags);
API cuStreamCreate(struct fake_stream **stream, unsigned int flags)
{
	return fake_stream_create(stream, flags, 0);
}

API cuStreamDestroy_v2(struct fake_stream *stream);
API cuStreamDestroy_v2(struct fake_stream *stream)
{
	return fake_stream_destroy(stream);
}

STREAM_API(cuStreamSynchronize, (struct fake_stream * stream), (stream))
{
	return fake_stream_sync(stream);
}

STREAM_API(cuStreamQuery, (struct fake_stream * stream), (stream))
{
	return fake_stream_query(stream);
}

STREAM_API(cuStreamIsCapturing, (struct fake_stream * stream, int *status), (stream, status))
{
	return fake_capture_status(stream, status, NULL, NULL);
}

STREAM_API(cuStreamWaitEvent,
	   (struct fake_stream * stream, struct fake_event *event, unsigned int flags),
	   (stream, event, flags))
{
	(void)flags;
	return fake_stream_wait_event(stream, event);
}

STREAM_API(cuLaunchHostFunc, (struct fake_stream * stream, void (*func)(void *), void *arg),
	   (stream, func, arg))
{
	return fake_stream_host_func(stream, func, arg);
}

API cuEventCreate(struct fake_event **event, unsigned int flags);
API cuEventCreate(struct fake_event **event, unsigned int flags)
{
	return fake_event_create(event, flags);
}

API cuEventDestroy_v2(struct fake_event *event);
API cuEventDestroy_v2(struct fake_event *event)
{
	return fake_event_destroy(event);
}

STREAM_API(cuEventRecord, (struct fake_event * event, struct fake_stream *stream), (event, stream))
{
	return fake_event_record(event, stream);
}

API cuEventQuery(struct fake_event *event);
API cuEventQuery(struct fake_event *event)
{
	int result = fake_capture_forbids();

	return result ? result : fake_event_query(event);
}

API cuEventSynchronize(struct fake_event *event);
API cuEventSynchronize(struct fake_event *event)
{
	int result = fake_capture_forbids();

	return result ? result : fake_event_sync(event);
}

API cuEventElapsedTime(float *ms, struct fake_event *from, struct fake_event *to);
API cuEventElapsedTime(float *ms, struct fake_event *from, struct fake_event *to)
{
	return fake_event_elapsed(ms, from, to);
}

API cuThreadExchangeStreamCaptureMode(int *mode);
API cuThreadExchangeStreamCaptureMode(int *mode)
{
	return fake_capture_exchange_mode(mode);
}
