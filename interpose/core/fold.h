/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What many ranks of a node would say is said by one of them. The first to have it claims the words
 * (digits do not count) in a small file beside the job's live pages and speaks; the others add to
 * its count and are silent, and the first tells a moment later how many they were. After half a
 * minute the words are free again. Without shared memory, without the watcher, which tidies up,
 * and with a log file of our own everybody speaks.
 * context: writer thread.
 */
#ifndef NSPY_FOLD_H
#define NSPY_FOLD_H

#include <stdbool.h>
#include <stdint.h>

#define NSPY_FOLD_SUFFIX ".told"

/* Forgets claims: a new recording begins. context: before the writer thread starts. */
void nspy_fold_start(void);

/* Whether to say it; id is a constant. */
bool nspy_fold_claim(const char *id, const char *text, uint64_t now_ns);

/* Tells how many others had what we have said, when it is time; last: the recording ends. */
void nspy_fold_tell(uint64_t now_ns, bool last);

#endif
