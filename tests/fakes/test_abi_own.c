/* SPDX-License-Identifier: Apache-2.0 */
/* The facts as our declarations have them. */
#include "nccl_abi.h"

#include "test_abi.h"

const struct abi_fact abi_own[] = {ABI_FACTS};
const int abi_own_count = sizeof(abi_own) / sizeof(abi_own[0]);
