/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user has a profiler plugin of his own: NCCL gets a table of the same version that passes
 * everything on to it and listens. The plugin sees the events it asked for and no others, its own
 * contexts and handles, and what it returns is returned.
 */
#ifndef NSPY_PROFILER_CHAIN_H
#define NSPY_PROFILER_CHAIN_H

#include <stdbool.h>

/* Of "ncclProfiler_v<number>"; 0 if it is anything else, or no version that we know. */
unsigned int nspy_profiler_version(const char *name);

/*
 * version: as above; table: what the look-up found. The table to give out, or NULL if the plugin's
 * own is the right one: it is ours, nothing is recorded, or another one of that version is wrapped
 * already. context: any thread; cold.
 */
void *nspy_profiler_table(unsigned int version, void *table);

#endif
