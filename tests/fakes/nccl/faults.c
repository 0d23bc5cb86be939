/* SPDX-License-Identifier: Apache-2.0 */
/* The faults of NSPY_FAKE that happen inside the library. */
#include "internal.h"

#define MANY 8

ncclResult_t fake_call_fault(const struct ncclComm *comm, enum fake_op op, struct fake_task *task)
{
	struct fake_fault due[MANY];
	struct fake_occurrence event = {
		.op = op, .rank = comm->world_rank, .comm = comm->name, .in_library = true};
	int count = fake_fault_due(&event, due, MANY);

	for (int i = 0; i < count; i++) {
		if (due[i].act == FAKE_ACT_FAIL) {
			WARN("faults.cc", "%s : failure asked for by NSPY_FAKE", fake_op_name(op));
			return (ncclResult_t)due[i].arg;
		}
		if (due[i].act == FAKE_ACT_HANG_INSIDE) {
			for (;;)
				fake_sleep_ns(3600ull * 1000000000u);
		}
		if (!task)
			continue;
		if (due[i].act == FAKE_ACT_LATE)
			task->late_ns = (uint64_t)due[i].arg;
		else if (due[i].act == FAKE_ACT_SLOW)
			task->slow_ns = (uint64_t)due[i].arg;
		else if (due[i].act == FAKE_ACT_STALL)
			task->stall = true;
		else if (due[i].act == FAKE_ACT_ASYNCERR)
			task->async_error = (int)due[i].arg;
		else if (due[i].act == FAKE_ACT_GPUFAULT)
			task->gpu_fault = (int)due[i].arg;
	}
	return ncclSuccess;
}
