/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the watcher wants in files. The watcher puts and never waits; the writer thread takes and
 * may block in the file system. A full outbox drops the newest, counted.
 */
#ifndef NSPY_WATCH_OUTBOX_H
#define NSPY_WATCH_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>

#define NSPY_OUTBOX_LINE_MAX 3072u

void nspy_outbox_start(void);

/* A line for events.jsonl in the job's directory, with its newline. context: watcher thread. */
bool nspy_outbox_put(const char *line, size_t bytes);

/* Appends what has come to events.jsonl. context: writer thread. */
void nspy_outbox_write(void);

#endif
