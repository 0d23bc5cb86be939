/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables that NCCL finds with NCCL_PROFILER_PLUGIN=STATIC_PLUGIN (we are preloaded) or with our
 * path in it (we are a plain plugin). Nothing that we return makes NCCL behave differently: every
 * callback reports success, whatever it was given.
 */
#include "compat.h"

#include <errno.h>
#include <stddef.h>

#include "export.h"
#include "note.h"
#include "profiler_abi.h"

static int begin(void **context, int *mask, const struct nspy_prof_start *start)
{
	struct nspy_prof_context *ours;
	int unused;

	ours = context ? nspy_prof_begin(start, mask ? mask : &unused) : NULL;
	if (mask && !context)
		*mask = 0;
	if (ours)
		atomic_store_explicit(&ours->state, NSPY_PROF_CONTEXT_OPEN, memory_order_release);
	if (context)
		*context = ours ? nspy_prof_context_pointer(ours) : NULL;
	return 0;
}

static int end(void *context)
{
	struct nspy_prof_context *ours = nspy_prof_context_of(context);

	if (ours)
		nspy_prof_end(ours);
	return 0;
}

static int stop(void *handle)
{
	nspy_prof_note_stop((uintptr_t)handle);
	return 0;
}

#define START(n)                                                                                   \
	static int start_##n(void *context, void **handle, void *descr)                            \
	{                                                                                          \
		if (!handle)                                                                       \
			return 0;                                                                  \
		*handle = NULL;                                                                    \
		if (descr)                                                                         \
			*handle = nspy_prof_note_starts[n](                                        \
				context, (uintptr_t)((struct nspy_descr_v##n *)descr)->parent,     \
				descr);                                                            \
		return 0;                                                                          \
	}                                                                                          \
	static int state_##n(void *handle, int state, void *args)                                  \
	{                                                                                          \
		nspy_prof_note_state(n, (uintptr_t)handle, state, args);                           \
		return 0;                                                                          \
	}

#define INIT_V1(n)                                                                                 \
	static int init_##n(void **context, int *mask)                                             \
	{                                                                                          \
		return begin(context, mask,                                                        \
			     &(struct nspy_prof_start){                                            \
				     .api = (n), .nodes = -1, .nranks = -1, .rank = -1});          \
	}

#define INIT_V5(n)                                                                                 \
	static int init_##n(void **context, uint64_t hash, int *mask, const char *name, int nodes, \
			    int nranks, int rank, void *log)                                       \
	{                                                                                          \
		(void)log;                                                                         \
		return begin(context, mask,                                                        \
			     &(struct nspy_prof_start){                                            \
				     .api = (n),                                                   \
				     .hash = hash,                                                 \
				     .name = name,                                                 \
				     .nodes = nodes,                                               \
				     .nranks = nranks,                                             \
				     .rank = rank,                                                 \
			     });                                                                   \
	}

static int init_4(void **context, int *mask, const char *name, uint64_t hash, int nodes, int nranks,
		  int rank, void *log)
{
	(void)log;
	return begin(context, mask,
		     &(struct nspy_prof_start){
			     .api = 4,
			     .hash = hash,
			     .name = name,
			     .nodes = nodes,
			     .nranks = nranks,
			     .rank = rank,
		     });
}

INIT_V1(1)
INIT_V1(2)
INIT_V1(3)
INIT_V5(5)
INIT_V5(6)
START(1)
START(2)
START(3)
START(4)
START(5)
START(6)

#define TABLE(n, init_version)                                                                     \
	NSPY_EXPORT extern const struct nspy_profiler_table ncclProfiler_v##n;                     \
	const struct nspy_profiler_table ncclProfiler_v##n = {                                     \
		.name = "ncclspy",                                                                 \
		.init_version = init_##n,                                                          \
		.start = start_##n,                                                                \
		.stop = stop,                                                                      \
		.state = state_##n,                                                                \
		.finalize = end,                                                                   \
	}

TABLE(1, init_v1);
TABLE(2, init_v1);
TABLE(3, init_v1);
TABLE(4, init_v4);
TABLE(5, init_v5);
TABLE(6, init_v5);
