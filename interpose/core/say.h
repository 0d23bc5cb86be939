/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few lines ncclspy prints on the job's stderr. Callers queue; the watcher prints, each
 * line with one write of at most PIPE_BUF bytes, and never waits: a line that stderr does not take
 * at once is dropped and counted.
 */
#ifndef NSPY_SAY_H
#define NSPY_SAY_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#define NSPY_UTC_BYTES 21u

enum nspy_say_tag {
	NSPY_SAY_INFO,
	NSPY_SAY_WARN,
	NSPY_SAY_FAIL,
};

/* Queues a line (cut to 400 bytes). context: any thread; no malloc, no lock, no system call. */
void nspy_say(enum nspy_say_tag tag, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Prints several lines as one write, now; with NCCLSPY_LOG_FILE queues them. false: dropped (and
 * counted), stderr did not take it. context: watcher thread.
 */
bool nspy_say_block(enum nspy_say_tag tag, const char *const *texts, size_t count);

/* "2026-12-02T14:57:54Z". context: async-signal-safe. */
void nspy_say_utc(time_t now, char ret[NSPY_UTC_BYTES]);

/* Text for a JSON string: quotes and backslashes escaped, control characters as blanks. */
void nspy_say_json(const char *text, char *ret, size_t bytes);

/* Lines that could not be had out so far. */
uint32_t nspy_say_dropped(void);

/* Prints what is queued. context: watcher thread; writer thread if there is no watcher. */
void nspy_say_flush(void);

#endif
