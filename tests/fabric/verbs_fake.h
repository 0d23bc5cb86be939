/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for the part of libibverbs and libmlx5 that ncclspy wraps. It prints its arguments and
 * fails as told by the environment: NSPY_FAKE_VERBS="BYTES:ERRNO" makes every registration of at
 * least BYTES fail with ERRNO, and queues of at least BYTES entries.
 */
#ifndef NSPY_VERBS_FAKE_H
#define NSPY_VERBS_FAKE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* struct ibv_mr of IBVERBS_1.1 */
struct fake_mr {
	void *context;
	void *pd;
	void *addr;
	size_t length;
	uint32_t handle, lkey, rkey;
};

/* Leaves an errno even when it succeeds: callers must get exactly that. */
static inline int fake_refuses(size_t bytes)
{
	const char *text = getenv("NSPY_FAKE_VERBS");
	char *end = NULL;
	size_t from = text ? strtoull(text, &end, 10) : SIZE_MAX;

	errno = 4711;
	if (!text || bytes < from)
		return 0;
	errno = atoi(end + 1);
	return 1;
}

static inline void *fake_mr(void *pd, void *addr, size_t length)
{
	struct fake_mr *mr;

	if (fake_refuses(length))
		return NULL;
	mr = calloc(1, sizeof(*mr));
	mr->pd = pd;
	mr->addr = addr;
	mr->length = length;
	errno = 4711;
	return mr;
}

#endif
