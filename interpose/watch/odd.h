/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that run something else than the others, from status pages: VERSION_MISMATCH, STACK_DRIFT,
 * MIXED_HARDWARE. The analyzer says more about it; these lines come while the job starts.
 */
#ifndef NSPY_WATCH_ODD_H
#define NSPY_WATCH_ODD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_status.h"

#define NSPY_ODD_TEXT 280u

enum nspy_odd_topic {
	NSPY_ODD_NCCL,     /* another version of NCCL */
	NSPY_ODD_BUILD,    /* the same from another build */
	NSPY_ODD_SETTINGS, /* settings that must agree */
	NSPY_ODD_SOFTWARE, /* CUDA runtime, driver, libfabric, plugin */
	NSPY_ODD_HARDWARE, /* GPU, kind of machine */
	NSPY_ODD_TOPICS
};

/*
 * Whether living ranks differ in it; ret: who has what, at most NSPY_ODD_TEXT bytes. What most have
 * is the usual; if no value has a majority, nobody is called odd. What is not known differs from
 * nothing. Pure.
 */
bool nspy_odd_find(const struct nspy_status *pages, uint32_t count, enum nspy_odd_topic topic,
		   char ret[NSPY_ODD_TEXT]);

/* Forgets what was said. */
void nspy_odd_start(void);

/* Says what holds, once each: another version at once, the rest if it holds for two looks. context:
 * watcher thread of who speaks for the job. */
void nspy_odd_look(const struct nspy_status *pages, uint32_t count);

#endif
