/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recording's account of itself: holes, commands that were carried out, what it has cost. Goes
 * into NOTE chunks (trace_note.h). context: writer thread, unless said otherwise.
 */
#ifndef NSPY_ACCOUNT_H
#define NSPY_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_control.h"

void nspy_account_start(void);

/* Records that were not kept, on purpose. */
void nspy_account_hole(uint64_t from_ns, uint64_t until_ns, uint64_t records);
void nspy_account_command(const struct nspy_command *command, uint64_t now_ns);

/*
 * Measures what a recorded call costs, on memory of its own: a call after a pause, and one right
 * after another. No wrapper is slowed by it. At most once a second.
 */
void nspy_account_sample(uint64_t now_ns);

/* CPU time of the calling thread so far. context: watcher thread. */
void nspy_account_watcher(void);

/* CPU time of the watcher and the writer, ns. */
uint64_t nspy_account_thread_ns(void);

/* Whether there is something to say of what the recording did not keep or was told. */
bool nspy_account_matters(void);
/* The payload; its bytes, or -1. */
long nspy_account_encode(uint8_t *out, size_t bytes);
/* Writes a NOTE chunk. false: the disk refused it. */
bool nspy_account_write(void);

#endif
