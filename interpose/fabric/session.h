/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the network layers are looked at, and how deep the calling thread is in them: providers
 * call their own and each other's tables, and only the application's own call counts.
 * context: any thread.
 */
#ifndef NSPY_SESSION_H
#define NSPY_SESSION_H

#include <stdbool.h>

#include "shadow.h"

/*
 * On cold calls: whether this process records (with NCCLSPY_FABRIC=all it begins to, here) and
 * the tables are there. errno is kept.
 */
bool nspy_session_on(void);

/* Whether the provider ("verbs;ofi_rxm") is one of NCCLSPY_FABRIC. After nspy_session_on. */
bool nspy_session_wants(const char *provider);

/* Turned off for good by NCCLSPY=0, or could not start. */
bool nspy_session_off(void);

static inline bool nspy_outermost(void)
{
	return nspy_fabric_depth == 0;
}

#endif
