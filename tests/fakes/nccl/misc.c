/* SPDX-License-Identifier: Apache-2.0 */
/* Versions, texts, memory, registration, windows and user reductions. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

FAKE_NCCL_API(ncclResult_t, GetVersion, (int *version))
{
	if (!version)
		return ncclInvalidArgument;
	*version = fake_fault_version(fake_thread_rank(), NCCL_VERSION_CODE);
	return ncclSuccess;
}

FAKE_NCCL_API(const char *, GetErrorString, (ncclResult_t result))
{
	switch ((int)result) {
	case ncclSuccess:
		return "no error";
	case ncclUnhandledCudaError:
		return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
	case ncclSystemError:
		return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
	case ncclInternalError:
		return "internal error - please report this issue to the NCCL developers";
	case ncclInvalidArgument:
		return "invalid argument (run with NCCL_DEBUG=WARN for details)";
	case ncclInvalidUsage:
		return "invalid usage (run with NCCL_DEBUG=WARN for details)";
	case ncclRemoteError:
		return "remote process exited or there was a network error";
	case ncclInProgress:
		return "NCCL operation in progress";
	default:
		return "unknown result code";
	}
}

FAKE_NCCL_API(const char *, GetLastError, (ncclComm_t comm))
{
	(void)comm;
	return fake_last_error();
}

void ncclResetDebugInit(void);
void pncclResetDebugInit(void);
void ncclResetDebugInitInternal(void);

/* Does nothing in current releases either. */
void ncclResetDebugInitInternal(void)
{
}

FAKE_NCCL_API(void, ResetDebugInit, (void))
{
	ncclResetDebugInitInternal();
}

static ncclResult_t cuda_result(int error)
{
	if (error == 0)
		return ncclSuccess;
	WARN("alloc.h", "Cuda failure %d '%s'", error,
	     error == cudaErrorMemoryAllocation ? "out of memory" : "error");
	return ncclUnhandledCudaError;
}

FAKE_NCCL_API(ncclResult_t, MemAlloc, (void **ptr, size_t bytes))
{
	if (!ptr || bytes == 0) {
		WARN("allocator.cc", "MemAlloc : invalid argument");
		return ncclInvalidArgument;
	}
	return cuda_result(fake_memory_alloc(ptr, bytes, FAKE_MEMORY_DEVICE));
}

FAKE_NCCL_API(ncclResult_t, MemFree, (void *ptr))
{
	return cuda_result(fake_memory_free(ptr));
}

struct registration {
	uint64_t magic;
	void *buffer;
	size_t bytes;
};
#define REGISTRATION_MAGIC 0x72656769ull

FAKE_NCCL_API(ncclResult_t, CommRegister,
	      (const ncclComm_t comm, void *buffer, size_t bytes, void **handle))
{
	ncclResult_t result = fake_comm_check(comm, "CommRegister", "comm");
	struct registration *one;

	if (result != ncclSuccess)
		return result;
	if (!handle || !buffer || bytes == 0)
		return ncclInvalidArgument;
	one = calloc(1, sizeof(*one));
	if (!one)
		return ncclSystemError;
	*one = (struct registration){REGISTRATION_MAGIC, buffer, bytes};
	*handle = one;
	return ncclSuccess;
}

FAKE_NCCL_API(ncclResult_t, CommDeregister, (const ncclComm_t comm, void *handle))
{
	ncclResult_t result = fake_comm_check(comm, "CommDeregister", "comm");
	struct registration *one = handle;

	if (result != ncclSuccess || !handle)
		return result;
	if (one->magic != REGISTRATION_MAGIC) {
		WARN("register.cc", "Deregister: Could not find handle");
		return ncclInvalidUsage;
	}
	one->magic = 0;
	free(one);
	return ncclSuccess;
}

struct window_args {
	ncclWindow_t *window;
	void *buffer;
	size_t bytes;
};

/* All ranks have to come, as with the real one. */
static ncclResult_t run_window(struct fake_job *job)
{
	struct window_args *args = job->args;
	struct ncclComm *comm = job->comm;
	struct fake_team team = {
		.comm = comm, .kind = FAKE_KIND_BOOT, .size = comm->nranks, .me = comm->rank};
	struct registration *one = calloc(1, sizeof(*one));
	char *present = calloc(1, (size_t)comm->nranks);

	if (!one || !present)
		abort();
	if (fake_tree_all_gather(&team, present, 1) != 0) {
		free(one);
		free(present);
		return ncclRemoteError;
	}
	free(present);
	*one = (struct registration){REGISTRATION_MAGIC, args->buffer, args->bytes};
	*args->window = (ncclWindow_t)one;
	return ncclSuccess;
}

FAKE_NCCL_API(ncclResult_t, CommWindowRegister,
	      (ncclComm_t comm, void *buffer, size_t bytes, ncclWindow_t *window, int flags))
{
	ncclResult_t result = fake_comm_check(comm, "CommWindowRegister", "comm");
	struct window_args *args;
	struct fake_job *job;

	if (result == ncclSuccess)
		result = fake_comm_ready(comm, "ncclCommWindowRegister");
	if (result == ncclSuccess && (!buffer || !window || bytes == 0 || (flags & ~1)))
		result = ncclInvalidArgument;
	if (result != ncclSuccess)
		return fake_group_note(result);
	args = calloc(1, sizeof(*args));
	job = calloc(1, sizeof(*job));
	if (!args || !job)
		abort();
	*args = (struct window_args){window, buffer, bytes};
	*job = (struct fake_job){.comm = comm, .run = run_window, .args = args};
	return fake_group_add_job(job);
}

FAKE_NCCL_API(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t window))
{
	if (!window)
		return ncclSuccess;
	return pncclCommDeregister(comm, window);
}

FAKE_NCCL_API(ncclResult_t, RedOpCreatePreMulSum,
	      (ncclRedOp_t * op, void *scalar, ncclDataType_t datatype,
	       ncclScalarResidence_t residence, ncclComm_t comm))
{
	ncclResult_t result = fake_comm_check(comm, "ncclRedOpCreatePreMulSum", "comm");
	struct fake_redop *redops;
	int i = 0;

	if (result != ncclSuccess)
		return result;
	if (!op || !scalar || fake_datatype_bytes(datatype) == 0)
		return ncclInvalidArgument;
	while (i < comm->redop_count && comm->redops[i].user)
		i++;
	if (i == comm->redop_count) {
		redops = realloc(comm->redops, ((size_t)i + 1) * sizeof(*redops));
		if (!redops)
			return ncclSystemError;
		comm->redops = redops;
		comm->redop_count++;
	}
	comm->redops[i] = (struct fake_redop){.user = true,
					      .datatype = datatype,
					      .device_scalar = residence == ncclScalarDevice,
					      .scalar_ptr = scalar};
	if (residence == ncclScalarHostImmediate)
		memcpy(comm->redops[i].scalar, scalar, fake_datatype_bytes(datatype));
	*op = (ncclRedOp_t)(ncclNumOps + i);
	return ncclSuccess;
}

FAKE_NCCL_API(ncclResult_t, RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm))
{
	int i = (int)op - ncclNumOps;

	if (op >= ncclSum && i < 0) {
		WARN("enqueue.cc", "ncclRedOpDestroy : operator is a NCCL builtin.");
		return ncclInvalidArgument;
	}
	if (op < ncclSum) {
		WARN("enqueue.cc", "ncclRedOpDestroy :  operator is garbage.");
		return ncclInvalidArgument;
	}
	if (!comm) {
		WARN("enqueue.cc", "ncclRedOpDestroy : invalid communicator passed.");
		return ncclInvalidArgument;
	}
	if (i >= comm->redop_count || !comm->redops[i].user) {
		WARN("enqueue.cc", "ncclRedOpDestroy : operator unknown to this communicator.");
		return ncclInvalidArgument;
	}
	comm->redops[i].user = false;
	return ncclSuccess;
}
