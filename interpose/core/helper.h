/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ncclspy-probe, started beside the process: see interpose/probe/probe.c for why. How it is
 * started: spawn.h. It reports through a file.
 *
 * context: writer thread.
 */
#ifndef NSPY_HELPER_H
#define NSPY_HELPER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Starts the program of that name that lies beside the library; arguments end with NULL. Where
 * orphans come to this process, as pid 1 or as a subreaper, only if it is to adopt them. Whether it
 * was started.
 */
bool nspy_helper_spawn(const char *name, char *const arguments[], bool adopt);

/*
 * Starts ncclspy-probe for a plugin that was asked for (NULL: none) and a GPU (NULL: none). Does
 * nothing where orphans come to this process, i.e. as pid 1 or as a subreaper, or where the
 * helper is not installed beside the library.
 */
void nspy_helper_start(const char *plugin, const char *gpu, uint64_t now_ns);

/* Takes over what it found as facts, when it is done or late. Returns whether there was some. */
bool nspy_helper_poll(uint64_t now_ns);

/* Removes its file. */
void nspy_helper_end(void);

#endif
