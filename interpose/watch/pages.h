/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status pages in node-local shared memory: publishing our own, reading those of the job's other
 * processes on this node. tmpfs and /proc only: nothing here can wait for storage.
 * context: watcher thread.
 */
#ifndef NSPY_WATCH_PAGES_H
#define NSPY_WATCH_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_status.h"

#define NSPY_LOCAL_PAGES_MAX 128u /* processes of a job on a node that are looked at */

/* The job's pages on this node, our own among them, as of one look. */
struct nspy_local {
	struct nspy_status pages[NSPY_LOCAL_PAGES_MAX];
	uint32_t count;
	uint32_t own;     /* which is ours; count if it is not there */
	uint32_t bad;     /* torn or damaged ones */
	uint32_t speaker; /* the lowest live rank; count if there is none */
};

/* Forgets what a forked child has inherited. context: the thread that starts recording. */
void nspy_pages_forget(void);

/* Makes our file; false: no shared memory for us (nothing is published then). */
bool nspy_pages_start(void);

/* "ncclspy.<uid>.<job hash>.": how the names of all files of the job begin. context: any thread. */
void nspy_pages_prefix(char *ret, size_t bytes);

void nspy_pages_publish(const struct nspy_status *status);

/*
 * Reads all pages of the job on this node. A process that is gone is marked dead, one that does
 * not run stopped; fresh_ns is how old the page of a live process may be before it counts as not
 * able to speak.
 */
const struct nspy_local *nspy_pages_read(uint64_t now_ns, uint64_t fresh_ns);

/* The process ends: says so in the page, async-signal-safe. context: exiting thread. */
void nspy_pages_say_exit(int exit_code);

/* A signal that may end the process, in its note behind the page. context: a signal handler. */
void nspy_pages_say_signal(const struct nspy_signal_note *note);

/* Removes our file, and those of the dead if nobody of the job lives here any more. */
void nspy_pages_remove(void);

#endif
