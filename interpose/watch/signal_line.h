/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one line that a signal handler prints: put together from parts that were made beforehand,
 * without anything that might allocate or lock.
 */
#ifndef NSPY_WATCH_SIGNAL_LINE_H
#define NSPY_WATCH_SIGNAL_LINE_H

#include "trace_signal.h"

/* context: as nspy_signals_start. */
void nspy_signal_line_start(void);

/*
 * Prints it, once for each process at most, if stderr takes it at once. Not with NCCLSPY_QUIET, and
 * not with NCCLSPY_LOG_FILE, whose storage may block. context: async-signal-safe.
 */
void nspy_signal_line_print(const struct nspy_signal_note *note);

#endif
