/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The callbacks' common part: an event of any version becomes a record in a ring. Everything but
 * nspy_prof_begin runs on NCCL's threads between its own work: no lock, no allocation, no system
 * call, errno untouched. Whatever NCCL passes may be NULL, stale or another process's.
 */
#ifndef NSPY_PROFILER_NOTE_H
#define NSPY_PROFILER_NOTE_H

#include <stdint.h>

#include "context.h"

/* What a version says of a communicator when it starts the plugin; -1 and NULL = nothing. */
struct nspy_prof_start {
	unsigned int api;
	uint64_t hash;
	const char *name;
	int nodes, nranks, rank;
};

/* A context and the mask to ask for, or NULL and 0: nothing is recorded. context: cold. */
struct nspy_prof_context *nspy_prof_begin(const struct nspy_prof_start *start, int *ret_mask);
void nspy_prof_end(struct nspy_prof_context *context);

/*
 * An event has begun. context: as NCCL gave it. The handle to give out, or NULL if the event is
 * none that we keep.
 */
typedef void *nspy_prof_note_start(const void *context, uint64_t parent, const void *descr);
extern nspy_prof_note_start *const nspy_prof_note_starts[]; /* by version */

void nspy_prof_note_stop(uint64_t handle);
/* args: of the version, or NULL. */
void nspy_prof_note_state(unsigned int api, uint64_t handle, int state, const void *args);

/* Kinds whose events NCCL delivers if any of the mask's are wanted, by bit of the kind. */
uint32_t nspy_prof_needs(uint32_t type);

#endif
