/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL starts the plugin for: one context for each communicator. The pointer that NCCL keeps
 * is a number with a mark, so that one of another process or of the past is seen as such.
 */
#ifndef NSPY_PROFILER_CONTEXT_H
#define NSPY_PROFILER_CONTEXT_H

#include <stdatomic.h>
#include <stdint.h>

#define NSPY_PROF_CONTEXTS   1024u
#define NSPY_PROF_NAME_BYTES 64u

enum nspy_prof_context_state {
	NSPY_PROF_CONTEXT_FREE = 0,
	NSPY_PROF_CONTEXT_FILLING = 1,
	NSPY_PROF_CONTEXT_OPEN = 2,
	NSPY_PROF_CONTEXT_ENDED = 3, /* the writer has still to write what is left of it */
};

struct nspy_prof_context {
	_Atomic uint32_t state;
	_Atomic uint32_t id;   /* changes with each use of the place; never 0 */
	_Atomic uint64_t hash; /* NCCL's; 0 = not known yet (versions 1 to 3) */
	void *theirs;          /* context of the user's plugin, if one is wrapped */
	uint32_t api;
	uint32_t ours_mask, their_mask;
	int32_t nranks, rank, nodes; /* -1 = not known */
	uint64_t ticks;
	char name[NSPY_PROF_NAME_BYTES];
	/* Of the writer: */
	uint32_t joined; /* index of the communicator + 1 */
};

extern struct nspy_prof_context nspy_prof_contexts[NSPY_PROF_CONTEXTS];

#define NSPY_CONTEXT_TAG 0xC5A6ull

static inline void *nspy_prof_context_pointer(const struct nspy_prof_context *context)
{
	return (void *)(uintptr_t)(NSPY_CONTEXT_TAG << 48 |
				   atomic_load_explicit(&context->id, memory_order_relaxed));
}

/* The open context of a pointer that NCCL gives us, or NULL. */
static inline struct nspy_prof_context *nspy_prof_context_of(const void *pointer)
{
	uint64_t value = (uintptr_t)pointer;
	struct nspy_prof_context *context =
		&nspy_prof_contexts[(uint32_t)value % NSPY_PROF_CONTEXTS];

	if (value >> 32 != NSPY_CONTEXT_TAG << 16 ||
	    atomic_load_explicit(&context->state, memory_order_acquire) != NSPY_PROF_CONTEXT_OPEN ||
	    atomic_load_explicit(&context->id, memory_order_relaxed) != (uint32_t)value)
		return NULL;
	return context;
}

/* A free place in state FILLING with a new id; NULL if there is none. context: any thread, cold. */
struct nspy_prof_context *nspy_prof_context_take(void);

#endif
