/* SPDX-License-Identifier: Apache-2.0 */
/* Errors, versions and devices of the runtime. */
#include "runtime.h"

#include <stdio.h>

static __thread cudaError_t last_error;

static const struct {
	int error;
	const char *name, *text;
} errors[] = {
	{cudaSuccess, "cudaSuccess", "no error"},
	{cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
	{cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
	{cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
	{cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
	{cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
	{cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle",
	 "invalid resource handle"},
	{cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
	{cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
	 "an illegal memory access was encountered"},
	{cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
	{cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
	{cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
	 "operation not permitted when stream is capturing"},
	{cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
	 "operation failed due to a previous error during capture"},
	{cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
	 "capture was not ended in the same stream as it began"},
	{cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
	 "capturing stream has unjoined work"},
	{cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
	 "dependency created on uncaptured work in another stream"},
	{cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
	 "operation not permitted on an event last recorded in a capturing stream"},
	{cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
	 "attempt to terminate a thread-local capture sequence from another thread"},
};
#define ERRORS (sizeof(errors) / sizeof(errors[0]))

cudaError_t fake_runtime_note(int result)
{
	if (result != cudaSuccess && result != cudaErrorNotReady)
		last_error = (cudaError_t)result;
	return (cudaError_t)result;
}

API cudaGetLastError(void)
{
	cudaError_t error = last_error;

	last_error = cudaSuccess;
	return error;
}

API cudaPeekAtLastError(void)
{
	return last_error;
}

FAKE_EXPORT const char *cudaGetErrorName(cudaError_t error)
{
	for (size_t i = 0; i < ERRORS; i++) {
		if (errors[i].error == (int)error)
			return errors[i].name;
	}
	return "unrecognized error code";
}

FAKE_EXPORT const char *cudaGetErrorString(cudaError_t error)
{
	for (size_t i = 0; i < ERRORS; i++) {
		if (errors[i].error == (int)error)
			return errors[i].text;
	}
	return "unrecognized error code";
}

/* As the real one: no driver is version 0, not an error. */
API cudaDriverGetVersion(int *version)
{
	if (!version)
		return fake_runtime_note(cudaErrorInvalidValue);
	*version = fake_gpu_driver_version();
	return cudaSuccess;
}

API cudaRuntimeGetVersion(int *version)
{
	if (!version)
		return fake_runtime_note(cudaErrorInvalidValue);
	*version = FAKE_CUDART_VERSION;
	return cudaSuccess;
}

API cudaGetDeviceCount(int *count)
{
	if (!count)
		return fake_runtime_note(cudaErrorInvalidValue);
	*count = fake_gpu_count();
	return fake_runtime_note(*count ? cudaSuccess : cudaErrorNoDevice);
}

API cudaGetDevice(int *device)
{
	if (!device)
		return fake_runtime_note(cudaErrorInvalidValue);
	if (fake_gpu_count() == 0)
		return fake_runtime_note(cudaErrorNoDevice);
	*device = fake_gpu_current();
	return cudaSuccess;
}

API cudaSetDevice(int device)
{
	return fake_runtime_note(fake_gpu_select(device));
}

API cudaDeviceSynchronize(void)
{
	int result = fake_capture_forbids();

	return fake_runtime_note(result ? result : fake_device_sync());
}

API cudaDeviceReset(void)
{
	return cudaDeviceSynchronize();
}

API cudaDeviceGetPCIBusId(char *text, int bytes, int device)
{
	if (!text || bytes <= 0)
		return fake_runtime_note(cudaErrorInvalidValue);
	if (device < 0 || device >= fake_gpu_count())
		return fake_runtime_note(cudaErrorInvalidDevice);
	fake_gpu_bus_id(device, text, (size_t)bytes);
	return cudaSuccess;
}

/* For programs that run several ranks in one process, a thread each. */
FAKE_EXPORT void fakeSetThreadRank(int rank)
{
	fake_set_thread_rank(rank);
}
