/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From verdicts to what people read: each is told once, when it has held for two looks, and when
 * it is over that is told too. context: watcher thread of the process that speaks for its node.
 */
#ifndef NSPY_WATCH_EVENT_H
#define NSPY_WATCH_EVENT_H

#include "board.h"
#include "trace_control.h"
#include "verdict.h"

void nspy_event_start(void);

/*
 * Takes a verdict on these pages. told_before: the key another process of the node has told, 0 =
 * none. Fills the event fields of own.
 */
void nspy_event_take(const struct nspy_verdict *verdict, const struct nspy_status *pages,
		     uint64_t now_ns, uint64_t told_before, struct nspy_status *own);

/* Tells of something that is not wrong with the job's ranks, beside what else is going on. */
void nspy_event_tell_aside(const struct nspy_verdict *verdict, uint64_t now_ns);

/* A command of ncclspy-ctl that was taken up: a line on stderr and in events.jsonl. */
void nspy_event_command(const struct nspy_command *command);

/* What was told last and goes on, for other nodes. */
void nspy_event_digest(struct nspy_digest *ret);

/* What the leading node has told: one line, once. Fills the event fields of own. */
void nspy_event_hear(const struct nspy_digest *digest, struct nspy_status *own);

/* Whether what is going on was told by this process in full, and not heard from another node. */
bool nspy_event_in_full(const struct nspy_status *own);

/* Another process speaks now: forget what was pending. */
void nspy_event_silent(void);

#endif
