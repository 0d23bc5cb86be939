/* SPDX-License-Identifier: Apache-2.0 */
/* For builds without libunwind: the states of the threads have to do. */
#include "read.h"

bool unwind_begin(pid_t pid)
{
	(void)pid;
	return false;
}

void unwind_add(const struct snapshot *snapshot, struct text *out)
{
	(void)snapshot;
	(void)out;
}

void unwind_end(void)
{
}
