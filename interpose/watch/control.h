/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of ncclspy-ctl (trace_control.h). The watcher of every rank looks into the node's
 * control file in shared memory about once a second; the writer of the node's speaker brings
 * commands there from the job's directory, every NCCLSPY_BOARD_S seconds. A file counts only if it
 * belongs to the job's user and nobody else can write it.
 */
#ifndef NSPY_WATCH_CONTROL_H
#define NSPY_WATCH_CONTROL_H

#include "pages.h"

/* Forgets all. context: the thread that starts recording. */
void nspy_control_start(void);

/* --- watcher thread --- */

/* Takes up what is new, and fills the control fields of own. */
void nspy_control_look(const struct nspy_local *local, struct nspy_status *own);
/* Limit for a hang in seconds: of a command, else NCCLSPY_HANG_S. */
uint64_t nspy_control_hang_s(void);

/* --- writer thread --- */

void nspy_control_work(uint64_t now_ns);

#endif
