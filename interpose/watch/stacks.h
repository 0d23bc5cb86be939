/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks at a hang: once something was told of the job, each process has its own read by
 * ncclspy-stack-helper, from outside, into <job>/<node>/<run id>.stacks; the process that told it
 * says where the culprit stands. Never after a mere death: there the survivors only wait.
 */
#ifndef NSPY_WATCH_STACKS_H
#define NSPY_WATCH_STACKS_H

#include "pages.h"

void nspy_stacks_start(void);

/* Has anybody of the node told something new? context: watcher thread. */
void nspy_stacks_look(const struct nspy_local *local, const struct nspy_status *own);

/* Has our own stacks read, whatever goes on. context: watcher thread. */
void nspy_stacks_ask(uint32_t caller_tid);

/*
 * We have told finding id and blame this page: say where it stands when its stacks are there, and
 * have them read if it is stopped and cannot do so itself. context: watcher thread.
 */
void nspy_stacks_blame(const char *id, const struct nspy_status *page);

/* Starts helpers, reads their files. context: writer thread. */
void nspy_stacks_work(uint64_t now_ns);

#endif
