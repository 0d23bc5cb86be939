/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host side of the device interface. There is no device code here, so device communicators
 * and the requirements for them are refused; teams, which are plain arithmetic, work.
 */
#include "internal.h"

struct fake_device_team {
	int nranks, rank, stride;
};

struct ncclDevCommRequirements;
struct ncclDevComm;
struct fake_handle;

#define DEVICE_API(result, name, params)                                                           \
	result nccl##name params;                                                                  \
	result pnccl##name params;                                                                 \
	FAKE_NCCL_API(result, name, params)

static ncclResult_t refuse(const char *what)
{
	WARN("dev_runtime.cc", "%s : not supported by the stand-in", what);
	return ncclInvalidUsage;
}

DEVICE_API(ncclResult_t, DevCommCreate,
	   (ncclComm_t comm, const struct ncclDevCommRequirements *wanted,
	    struct ncclDevComm *device_comm))
{
	ncclResult_t result = fake_comm_check(comm, "DevCommCreate", "comm");

	(void)wanted;
	(void)device_comm;
	return result == ncclSuccess ? refuse("DevCommCreate") : result;
}

DEVICE_API(ncclResult_t, DevCommDestroy, (ncclComm_t comm, const struct ncclDevComm *device_comm))
{
	(void)comm;
	return device_comm ? refuse("DevCommDestroy") : ncclSuccess;
}

DEVICE_API(struct fake_device_team, TeamWorld, (ncclComm_t comm))
{
	return (struct fake_device_team){comm->nranks, comm->rank, 1};
}

/* Only oneself is within reach of loads and stores. */
DEVICE_API(struct fake_device_team, TeamLsa, (ncclComm_t comm))
{
	(void)comm;
	return (struct fake_device_team){1, 0, 1};
}

DEVICE_API(struct fake_device_team, TeamRail, (ncclComm_t comm))
{
	return (struct fake_device_team){comm->nranks, comm->rank, 1};
}

DEVICE_API(int, TeamRankToWorld, (ncclComm_t comm, struct fake_device_team team, int rank))
{
	return comm->rank + (rank - team.rank) * team.stride;
}

DEVICE_API(int, TeamRankToLsa, (ncclComm_t comm, struct fake_device_team team, int rank))
{
	(void)comm;
	return (rank - team.rank) * team.stride;
}

DEVICE_API(ncclResult_t, LsaBarrierCreateRequirement,
	   (struct fake_device_team team, int count, struct fake_handle *handle,
	    struct fake_handle *wanted))
{
	(void)team;
	(void)count;
	(void)handle;
	(void)wanted;
	return refuse("LsaBarrierCreateRequirement");
}

DEVICE_API(ncclResult_t, GinBarrierCreateRequirement,
	   (ncclComm_t comm, struct fake_device_team team, int count, struct fake_handle *handle,
	    struct fake_handle *wanted))
{
	(void)comm;
	(void)team;
	(void)count;
	(void)handle;
	(void)wanted;
	return refuse("GinBarrierCreateRequirement");
}

DEVICE_API(int, LLA2ACalcSlots, (int max_elements, int max_element_bytes))
{
	return max_elements * ((max_element_bytes + 7) / 8);
}

DEVICE_API(ncclResult_t, LLA2ACreateRequirement,
	   (int blocks, int slots, struct fake_handle *handle, struct fake_handle *wanted))
{
	(void)blocks;
	(void)slots;
	(void)handle;
	(void)wanted;
	return refuse("LLA2ACreateRequirement");
}
