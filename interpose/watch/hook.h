/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCLSPY_ON_EVENT: a shell command for whoever wants to be told. It is started detached, once for
 * each event that this process tells of, at most every ten seconds, and never waited for.
 */
#ifndef NSPY_WATCH_HOOK_H
#define NSPY_WATCH_HOOK_H

#include <stddef.h>

void nspy_hook_start(void);

/* An event as a line of JSON; dropped if four wait already. context: watcher thread. */
void nspy_hook_put(const char *line, size_t bytes);

/* Starts the command for the next event, if it is time. context: writer thread. */
void nspy_hook_work(void);

#endif
