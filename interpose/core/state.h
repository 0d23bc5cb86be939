/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints, identity and the process's own account. context: writer thread. */
#ifndef NSPY_STATE_H
#define NSPY_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_live.h"

/* Memory, facts about the process, first segment. */
bool nspy_state_start(void);

/*
 * Writes a STATE chunk if calls have newly been open for long, or the heartbeat is due, or force.
 * false: the disk refused it.
 */
bool nspy_state_write_if_due(uint64_t now_ns, bool force);

/* Writes a STATE chunk with all communicators: what came before it may be missing. */
bool nspy_state_write_checkpoint(uint64_t now_ns);

/* Writes the END chunk. */
bool nspy_state_write_end(void);

/* The line at the start and the line at the end; rank 0 only. */
void nspy_state_say_start(void);
void nspy_state_say_end(void);

/*
 * Copies of a thread's open calls, outermost first, times in ticks. context: any thread; the
 * recording thread goes on meanwhile.
 */
size_t nspy_state_copy_open(const struct nspy_slot *slot, struct nspy_open_call *out, size_t room);

#endif
