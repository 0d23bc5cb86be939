/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How this process divides its rounds: work on the host up to the last operation of a round, then
 * waiting for it. Only own times are compared, and medians of windows kept, so that a pause or a
 * slow beginning does not count. context: watcher thread; the functions hold static state.
 */
#ifndef NSPY_WATCH_RHYTHM_H
#define NSPY_WATCH_RHYTHM_H

#include <stdbool.h>
#include <stdint.h>

#include "trace_status.h"

#define NSPY_RHYTHM_WARM_UP 20u /* rounds that are left out */
#define NSPY_RHYTHM_WINDOW  8u  /* rounds; two windows make a judgement */

void nspy_rhythm_start(void);

/* A wait (a synchronisation), or an operation, in monotonic ns; threads' calls in any order. */
void nspy_rhythm_add(uint64_t enter_ns, uint64_t leave_ns, bool wait);

/* All calls up to now have been added: works out the rounds. */
void nspy_rhythm_settle(void);

/* Fills work_ns, round_ns and best_round_ns. */
void nspy_rhythm_tell(struct nspy_status *status);

#endif
