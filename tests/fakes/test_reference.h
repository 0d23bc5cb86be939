/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions done the simple way, to compare with. Shares no code with the stand-in. */
#ifndef FAKE_TEST_REFERENCE_H
#define FAKE_TEST_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "nccl_abi.h"

size_t reference_bytes(ncclDataType_t type);
void reference_store(ncclDataType_t type, void *at, size_t i, double value);
double reference_load(ncclDataType_t type, const void *at, size_t i);
/* What a rank puts in: such that results are exact in the type, except for averages. */
double reference_input(ncclDataType_t type, ncclRedOp_t op, int rank, int tag, size_t i);
/* scale: that of a user operation (op >= ncclNumOps). */
double reference_reduce(ncclDataType_t type, ncclRedOp_t op, double scale, const double *inputs,
			int count);
/* Exactly, or as nearly as averages allow. */
bool reference_equal(ncclDataType_t type, ncclRedOp_t op, int ranks, double got, double wanted);

#endif
