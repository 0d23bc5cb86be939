/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the rings to PROF chunks. The writer thread puts operations together from the events of
 * several threads, in the order of their times: an operation is written once all that began below
 * it has ended and nothing more has come for two seconds (at once when all channels of its kernel
 * are known to have ended). States of network steps become sums for each peer.
 */
#ifndef NSPY_PROFILER_GATHER_H
#define NSPY_PROFILER_GATHER_H

#include <stdbool.h>

/* Registers with the writer thread. context: any thread, again and again. */
bool nspy_prof_gather_start(void);

#endif
