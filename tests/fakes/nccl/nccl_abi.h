/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations of NCCL 2.28's host interface, written from the published interface so that nothing
 * here needs a vendor's header. tests/fakes/test_abi_vendor.c compares them with the real header
 * wherever one is installed: with FAKE_TYPES_FROM_VENDOR the types come from there and a differing
 * prototype does not compile.
 *
 * Names are the vendor's, since they are the interface.
 */
#ifndef FAKE_NCCL_ABI_H
#define FAKE_NCCL_ABI_H

#include <limits.h>
#include <stddef.h>

#include "cuda_abi.h"

#ifndef FAKE_TYPES_FROM_VENDOR

#ifndef NCCL_VERSION_CODE /* a second copy of the library has another one */
#define NCCL_VERSION_CODE 22809
#endif
#define NCCL_UNIQUE_ID_BYTES  128
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_SPLIT_NOCOLOR    (-1)
#define NCCL_SHRINK_DEFAULT   0x00
#define NCCL_SHRINK_ABORT     0x01

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;

typedef struct {
	char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclSystemError = 2,
	ncclInternalError = 3,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclRemoteError = 6,
	ncclInProgress = 7,
	ncclNumResults = 8,
} ncclResult_t;

typedef enum {
	ncclSum = 0,
	ncclProd = 1,
	ncclMax = 2,
	ncclMin = 3,
	ncclAvg = 4,
	ncclNumOps = 5,
	ncclMaxRedOp = 0x7fffffff,
} ncclRedOp_t;

typedef enum {
	ncclInt8 = 0,
	ncclUint8 = 1,
	ncclInt32 = 2,
	ncclUint32 = 3,
	ncclInt64 = 4,
	ncclUint64 = 5,
	ncclFloat16 = 6,
	ncclFloat32 = 7,
	ncclFloat64 = 8,
	ncclBfloat16 = 9,
	ncclFloat8e4m3 = 10,
	ncclFloat8e5m2 = 11,
	ncclNumTypes = 12,
} ncclDataType_t;

typedef enum {
	ncclScalarDevice = 0,
	ncclScalarHostImmediate = 1,
} ncclScalarResidence_t;

typedef struct ncclConfig_v22800 {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int blocking;
	int cgaClusterSize;
	int minCTAs;
	int maxCTAs;
	const char *netName;
	int splitShare;
	int trafficClass;
	const char *commName;
	int collnetEnable;
	int CTAPolicy;
	int shrinkShare;
	int nvlsCTAs;
	int nChannelsPerNetPeer;
	int nvlinkCentricSched;
} ncclConfig_t;

#define NCCL_CONFIG_MAGIC 0xcafebeefu
#define NCCL_CONFIG_INITIALIZER                                                                    \
	{                                                                                          \
		.size = sizeof(ncclConfig_t), .magic = NCCL_CONFIG_MAGIC,                          \
		.version = NCCL_VERSION_CODE, .blocking = NCCL_CONFIG_UNDEF_INT,                   \
		.cgaClusterSize = NCCL_CONFIG_UNDEF_INT, .minCTAs = NCCL_CONFIG_UNDEF_INT,         \
		.maxCTAs = NCCL_CONFIG_UNDEF_INT, .splitShare = NCCL_CONFIG_UNDEF_INT,             \
		.trafficClass = NCCL_CONFIG_UNDEF_INT, .collnetEnable = NCCL_CONFIG_UNDEF_INT,     \
		.CTAPolicy = NCCL_CONFIG_UNDEF_INT, .shrinkShare = NCCL_CONFIG_UNDEF_INT,          \
		.nvlsCTAs = NCCL_CONFIG_UNDEF_INT, .nChannelsPerNetPeer = NCCL_CONFIG_UNDEF_INT,   \
		.nvlinkCentricSched = NCCL_CONFIG_UNDEF_INT                                        \
	}

typedef struct ncclSimInfo_v22200 {
	size_t size;
	unsigned int magic;
	unsigned int version;
	float estimatedTime;
} ncclSimInfo_t;

#define NCCL_SIM_INFO_MAGIC 0x74685283u
#define NCCL_SIM_INFO_INITIALIZER                                                                  \
	{                                                                                          \
		.size = sizeof(ncclSimInfo_t), .magic = NCCL_SIM_INFO_MAGIC,                       \
		.version = NCCL_VERSION_CODE, .estimatedTime = -1.0f                               \
	}

#endif

/* Every function exists twice: ncclX (weak) and pncclX. */
#define FAKE_NCCL_DECLARE(result, name, params)                                                    \
	result nccl##name params;                                                                  \
	result pnccl##name params

/* clang-format off */
FAKE_NCCL_DECLARE(ncclResult_t, GetVersion, (int *version));
FAKE_NCCL_DECLARE(ncclResult_t, GetUniqueId, (ncclUniqueId *id));
FAKE_NCCL_DECLARE(const char *, GetErrorString, (ncclResult_t result));
FAKE_NCCL_DECLARE(const char *, GetLastError, (ncclComm_t comm));

FAKE_NCCL_DECLARE(ncclResult_t, CommInitRank,
		  (ncclComm_t *comm, int nranks, ncclUniqueId id, int rank));
FAKE_NCCL_DECLARE(ncclResult_t, CommInitRankConfig,
		  (ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config));
FAKE_NCCL_DECLARE(ncclResult_t, CommInitRankScalable,
		  (ncclComm_t *comm, int nranks, int rank, int id_count, ncclUniqueId *ids,
		   ncclConfig_t *config));
FAKE_NCCL_DECLARE(ncclResult_t, CommInitAll, (ncclComm_t *comms, int count, const int *devices));
FAKE_NCCL_DECLARE(ncclResult_t, CommFinalize, (ncclComm_t comm));
FAKE_NCCL_DECLARE(ncclResult_t, CommDestroy, (ncclComm_t comm));
FAKE_NCCL_DECLARE(ncclResult_t, CommAbort, (ncclComm_t comm));
FAKE_NCCL_DECLARE(ncclResult_t, CommRevoke, (ncclComm_t comm, int flags));
FAKE_NCCL_DECLARE(ncclResult_t, CommSplit,
		  (ncclComm_t comm, int color, int key, ncclComm_t *child, ncclConfig_t *config));
FAKE_NCCL_DECLARE(ncclResult_t, CommShrink,
		  (ncclComm_t comm, int *exclude, int exclude_count, ncclComm_t *child,
		   ncclConfig_t *config, int flags));
FAKE_NCCL_DECLARE(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t *error));
FAKE_NCCL_DECLARE(ncclResult_t, CommCount, (const ncclComm_t comm, int *count));
FAKE_NCCL_DECLARE(ncclResult_t, CommCuDevice, (const ncclComm_t comm, int *device));
FAKE_NCCL_DECLARE(ncclResult_t, CommUserRank, (const ncclComm_t comm, int *rank));
FAKE_NCCL_DECLARE(ncclResult_t, CommRegister,
		  (const ncclComm_t comm, void *buffer, size_t bytes, void **handle));
FAKE_NCCL_DECLARE(ncclResult_t, CommDeregister, (const ncclComm_t comm, void *handle));
FAKE_NCCL_DECLARE(ncclResult_t, CommWindowRegister,
		  (ncclComm_t comm, void *buffer, size_t bytes, ncclWindow_t *window, int flags));
FAKE_NCCL_DECLARE(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t window));
FAKE_NCCL_DECLARE(ncclResult_t, MemAlloc, (void **ptr, size_t bytes));
FAKE_NCCL_DECLARE(ncclResult_t, MemFree, (void *ptr));

FAKE_NCCL_DECLARE(ncclResult_t, RedOpCreatePreMulSum,
		  (ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
		   ncclScalarResidence_t residence, ncclComm_t comm));
FAKE_NCCL_DECLARE(ncclResult_t, RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm));

FAKE_NCCL_DECLARE(ncclResult_t, AllReduce,
		  (const void *send, void *recv, size_t count, ncclDataType_t datatype,
		   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream));
FAKE_NCCL_DECLARE(ncclResult_t, Reduce,
		  (const void *send, void *recv, size_t count, ncclDataType_t datatype,
		   ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream));
FAKE_NCCL_DECLARE(ncclResult_t, Broadcast,
		  (const void *send, void *recv, size_t count, ncclDataType_t datatype, int root,
		   ncclComm_t comm, cudaStream_t stream));
FAKE_NCCL_DECLARE(ncclResult_t, Bcast,
		  (void *buffer, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
		   cudaStream_t stream));
FAKE_NCCL_DECLARE(ncclResult_t, ReduceScatter,
		  (const void *send, void *recv, size_t count, ncclDataType_t datatype,
		   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream));
FAKE_NCCL_DECLARE(ncclResult_t, AllGather,
		  (const void *send, void *recv, size_t count, ncclDataType_t datatype,
		   ncclComm_t comm, cudaStream_t stream));
FAKE_NCCL_DECLARE(ncclResult_t, AlltoAll,
		  (const void *send, void *recv, size_t count, ncclDataType_t datatype,
		   ncclComm_t comm, cudaStream_t stream));
FAKE_NCCL_DECLARE(ncclResult_t, Gather,
		  (const void *send, void *recv, size_t count, ncclDataType_t datatype, int root,
		   ncclComm_t comm, cudaStream_t stream));
FAKE_NCCL_DECLARE(ncclResult_t, Scatter,
		  (const void *send, void *recv, size_t count, ncclDataType_t datatype, int root,
		   ncclComm_t comm, cudaStream_t stream));
FAKE_NCCL_DECLARE(ncclResult_t, Send,
		  (const void *send, size_t count, ncclDataType_t datatype, int peer,
		   ncclComm_t comm, cudaStream_t stream));
FAKE_NCCL_DECLARE(ncclResult_t, Recv,
		  (void *recv, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
		   cudaStream_t stream));

FAKE_NCCL_DECLARE(ncclResult_t, GroupStart, (void));
FAKE_NCCL_DECLARE(ncclResult_t, GroupEnd, (void));
FAKE_NCCL_DECLARE(ncclResult_t, GroupSimulateEnd, (ncclSimInfo_t *info));
/* clang-format on */

#endif
