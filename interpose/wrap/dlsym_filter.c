/* SPDX-License-Identifier: Apache-2.0 */
/* What every look-up of the process passes through: compiled apart, see core/symbols.h. */
/* No loop may become a call of strlen or memset. clang does not do that to freestanding code. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

#include "dlsym.h"

#include <stdbool.h>
#include <stddef.h>

static bool begins(const char *name, const char *with)
{
	while (*with && *name == *with) {
		name++;
		with++;
	}
	return !*with;
}

void *nspy_dlsym_filter(void *handle, const char *name, const char *version, const void *caller)
{
	/* The first letter decides for nearly all. */
	if (name &&
	    ((*name == 'n' && begins(name, "nccl")) || (*name == 'p' && begins(name, "pnccl")) ||
	     (*name == 'c' && (begins(name, "cuda") || begins(name, "cuGetProcAddress") ||
			       begins(name, "cuMem"))) ||
	     (*name == 'i' && begins(name, "ibv_")) || (*name == 'f' && begins(name, "fi_")) ||
	     (*name == 'm' && begins(name, "mlx5dv_"))))
		return nspy_dlsym_answer(handle, name, version, caller);
	return NSPY_DLSYM_PASS;
}
