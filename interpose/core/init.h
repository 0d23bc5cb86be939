/* SPDX-License-Identifier: Apache-2.0 */
/* Beginning and end of recording, and what a fork does to it. nspy_start is in core.h. */
#ifndef NSPY_INIT_H
#define NSPY_INIT_H

#include <limits.h>

#define NSPY_STATUS_AS_NOTED INT_MIN /* the status that exit() was given, if it was called */

/*
 * The process ends with that status: recording stops, what is pending is written if the disk is
 * quick. A no-op in a child that only shares the parent's memory. context: async-signal-safe.
 */
void nspy_stop(int status);

#endif
