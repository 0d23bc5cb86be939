/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of records (enum nspy_mode), from NCCLSPY_MODE and changed while the job runs.
 * Wrappers record in every mode alike, so that ranks go on counting the same operations and nothing
 * is added to a call; only the writer keeps or drops. What is dropped is accounted for as a hole.
 *
 * The watcher passes commands on, and asks for what is in memory when something has happened; the
 * writer carries out, and may block in a file system meanwhile.
 */
#ifndef NSPY_MODE_H
#define NSPY_MODE_H

#include <stdbool.h>
#include <stdint.h>

#include "trace_control.h"
#include "trace_note.h"

/* Takes NCCLSPY_MODE. context: the thread that starts recording. */
void nspy_mode_start(void);

/* context: any thread. */
enum nspy_mode nspy_mode_now(void);

/* --- watcher thread --- */

/* false: the writer has too many to do already; offer it again. */
bool nspy_mode_put(const struct nspy_command *command);
/* The last command that the writer has carried out, 0 = none. */
uint64_t nspy_mode_done(void);
/* Something has happened: what is in memory belongs into files. */
void nspy_mode_ask_dump(void);

/* --- writer thread --- */

/* The next command, to be confirmed when it is carried out; NULL: none. */
const struct nspy_command *nspy_mode_next(void);
void nspy_mode_confirm(void);
/* Whether what is in memory was asked for since the last time. */
bool nspy_mode_take_dump(void);
void nspy_mode_set(enum nspy_mode mode, uint64_t now_ns);

#endif
