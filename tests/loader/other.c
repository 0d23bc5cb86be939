/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another tool that is preloaded and wraps a few NCCL functions, in the way everybody does: the
 * next one by RTLD_NEXT, which works only if nobody stands between its call of dlsym and the
 * loader. It wraps malloc too, whose look-ups come before anything else in the process.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "session.h"

typedef int all_reduce_fn(const void *send, void *receive, size_t count, int datatype, int op,
			  void *comm, void *stream);
typedef int init_rank_fn(void **comm, int nranks, struct session_id id, int rank);
typedef void *realloc_fn(void *old, size_t bytes);

all_reduce_fn ncclAllReduce;
init_rank_fn ncclCommInitRank;

static unsigned long reduced, opened, resized;

int ncclAllReduce(const void *send, void *receive, size_t count, int datatype, int op, void *comm,
		  void *stream)
{
	static all_reduce_fn *next;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "ncclAllReduce");
	reduced++;
	return next ? next(send, receive, count, datatype, op, comm, stream) : -1;
}

int ncclCommInitRank(void **comm, int nranks, struct session_id id, int rank)
{
	static init_rank_fn *next;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "ncclCommInitRank");
	opened++;
	return next ? next(comm, nranks, id, rank) : -1;
}

void *realloc(void *old, size_t bytes)
{
	static realloc_fn *next;

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "realloc");
	__atomic_fetch_add(&resized, 1, __ATOMIC_RELAXED);
	return next ? next(old, bytes) : NULL;
}

static __attribute__((constructor)) void begin(void)
{
	void *block = realloc(NULL, 16);

	free(realloc(block, 32));
}

static __attribute__((destructor)) void end(void)
{
	(void)printf("other: %lu reduced, %lu opened, resized %s\n", reduced, opened,
		     resized >= 2 ? "yes" : "no");
}
