/* SPDX-License-Identifier: Apache-2.0 */
/* Whether all ranks of the job are watched: one line, within a minute of the first communicator. */
#ifndef NSPY_WATCH_ACTIVE_H
#define NSPY_WATCH_ACTIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_status.h"

struct nspy_active {
	uint32_t expected; /* ranks of the world; 0: it has not been made yet */
	uint32_t seen;
	uint32_t nodes;    /* counted when all are seen */
	char missing[200]; /* "17,93" */
};

/* Counts the ranks of the communicator that is as large as the world. Pure. */
void nspy_active_count(const struct nspy_status *pages, uint32_t count, struct nspy_active *ret);

/* Forgets that it was said. */
void nspy_active_start(void);

/*
 * Says it, once: at once when all are there, else after a minute. whole: nothing that could be
 * seen is left out. context: watcher thread of the process that speaks for the job.
 */
void nspy_active_look(const struct nspy_status *pages, uint32_t count, bool whole, uint64_t now_ns);

#endif
