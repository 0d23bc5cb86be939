/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that holds several ranks, each driven by threads of its own, is judged as so many
 * processes: its parts. A part has the communicators of its rank, and the waits, stalls, errors and
 * aborts of the threads that use them; what belongs to the process as a whole (identity, exit,
 * files) it shares. Ranks that one thread drives together stay one process: whoever waits for one
 * of them waits for that thread.
 */
#ifndef NSPY_PARTS_H
#define NSPY_PARTS_H

#include "model.h"

/* After loading, before joining. The parts are appended to model->procs. */
void nspy_parts_make(struct nspy_model *model);
/* Takes the parts away again; whoever holds one must not use it any more. */
void nspy_parts_drop(struct nspy_model *model);

#endif
