/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watcher: one thread per recording process, all signals blocked, started with the recording.
 * About once a second it publishes the process's status page and reads those of its node; the
 * lowest live rank of the node speaks: it judges the pages and prints. Touches tmpfs and /proc
 * only; what belongs into files goes through the outbox, which the writer thread empties.
 */
#ifndef NSPY_WATCH_H
#define NSPY_WATCH_H

#include "verdict.h"

/* Limits from the environment. */
struct nspy_limits nspy_watch_limits(void);

#endif
