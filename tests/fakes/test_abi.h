/* SPDX-License-Identifier: Apache-2.0 */
/* What must be the same in our declarations and in the vendor's: compiled with either. */
#ifndef FAKE_TEST_ABI_H
#define FAKE_TEST_ABI_H

#include <stddef.h>

struct abi_fact {
	const char *text;
	long value;
};

#define FACT(text) {#text, (long)(text)},

/* clang-format off */
#define ABI_FACTS                                     \
	FACT(sizeof(ncclUniqueId))                     \
	FACT(sizeof(ncclResult_t))                     \
	FACT(sizeof(ncclRedOp_t))                      \
	FACT(sizeof(ncclDataType_t))                   \
	FACT(sizeof(ncclConfig_t))                     \
	FACT(sizeof(ncclSimInfo_t))                    \
	FACT(offsetof(ncclConfig_t, magic))            \
	FACT(offsetof(ncclConfig_t, version))          \
	FACT(offsetof(ncclConfig_t, blocking))         \
	FACT(offsetof(ncclConfig_t, maxCTAs))          \
	FACT(offsetof(ncclConfig_t, netName))          \
	FACT(offsetof(ncclConfig_t, splitShare))       \
	FACT(offsetof(ncclConfig_t, trafficClass))     \
	FACT(offsetof(ncclConfig_t, commName))         \
	FACT(offsetof(ncclConfig_t, CTAPolicy))        \
	FACT(offsetof(ncclConfig_t, shrinkShare))      \
	FACT(offsetof(ncclConfig_t, nvlinkCentricSched)) \
	FACT(offsetof(ncclSimInfo_t, estimatedTime))   \
	FACT(ncclUnhandledCudaError)                   \
	FACT(ncclInvalidArgument)                      \
	FACT(ncclInvalidUsage)                         \
	FACT(ncclRemoteError)                          \
	FACT(ncclInProgress)                           \
	FACT(ncclNumResults)                           \
	FACT(ncclProd)                                 \
	FACT(ncclMax)                                  \
	FACT(ncclMin)                                  \
	FACT(ncclAvg)                                  \
	FACT(ncclNumOps)                               \
	FACT(ncclMaxRedOp)                             \
	FACT(ncclUint8)                                \
	FACT(ncclInt32)                                \
	FACT(ncclUint32)                               \
	FACT(ncclInt64)                                \
	FACT(ncclUint64)                               \
	FACT(ncclFloat16)                              \
	FACT(ncclFloat32)                              \
	FACT(ncclFloat64)                              \
	FACT(ncclBfloat16)                             \
	FACT(ncclFloat8e4m3)                           \
	FACT(ncclFloat8e5m2)                           \
	FACT(ncclNumTypes)                             \
	FACT(ncclScalarHostImmediate)                  \
	FACT(NCCL_SPLIT_NOCOLOR)                       \
	FACT(NCCL_SHRINK_ABORT)                        \
	FACT(sizeof(cudaError_t))                      \
	FACT(cudaErrorMemoryAllocation)                \
	FACT(cudaErrorInvalidDevice)                   \
	FACT(cudaErrorInvalidResourceHandle)           \
	FACT(cudaErrorNotReady)                        \
	FACT(cudaErrorIllegalAddress)                  \
	FACT(cudaErrorLaunchFailure)                   \
	FACT(cudaErrorNotSupported)                    \
	FACT(cudaErrorStreamCaptureUnsupported)        \
	FACT(cudaErrorStreamCaptureInvalidated)        \
	FACT(cudaErrorStreamCaptureUnmatched)          \
	FACT(cudaErrorStreamCaptureUnjoined)           \
	FACT(cudaErrorStreamCaptureIsolation)          \
	FACT(cudaErrorCapturedEvent)                   \
	FACT(cudaErrorStreamCaptureWrongThread)        \
	FACT(cudaStreamCaptureModeRelaxed)             \
	FACT(cudaStreamCaptureStatusInvalidated)       \
	FACT(cudaMemcpyDefault)                        \
	FACT(cudaStreamNonBlocking)                    \
	FACT(cudaEventDisableTiming)                   \
	FACT(cudaErrorGraphExecUpdateFailure)         \
	FACT(cudaGraphExecUpdateErrorTopologyChanged) \
	FACT(sizeof(cudaGraphExecUpdateResultInfo)) \
	FACT(sizeof(dim3))
/* clang-format on */

/* test_abi_own.c */
extern const struct abi_fact abi_own[];
extern const int abi_own_count;

#endif
