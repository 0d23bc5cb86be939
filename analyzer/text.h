/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turning facts into words. Everything that comes out of a trace passes through nspy_clean before
 * it reaches a terminal: traces may hold whatever a crashed job left behind.
 * context: any thread; returned strings are owned by the caller.
 */
#ifndef NSPY_TEXT_H
#define NSPY_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "util.h"

/*
 * Replaces control characters, escapes and bytes that are not UTF-8 in place; C1 controls and
 * direction marks hidden in UTF-8 too.
 */
void nspy_clean(char *text);

/* "2h14m", "31.0 s", "412 ms", "8 us" */
void nspy_add_duration(struct nspy_str *s, uint64_t ns);
/* Wall clock, UTC: "2026-12-02 14:02:11.482" or only the time of day. */
void nspy_add_time(struct nspy_str *s, uint64_t real_ns);
void nspy_add_clock(struct nspy_str *s, uint64_t real_ns);
/* "18.3 PB", decimal prefixes; "2.0 GiB", binary ones. */
void nspy_add_bytes(struct nspy_str *s, double bytes);
void nspy_add_bytes_binary(struct nspy_str *s, uint64_t bytes);
/* "41.2 M", "812" */
void nspy_add_count(struct nspy_str *s, uint64_t count);

/* Sorted, distinct numbers as "0-167,169-511". */
void nspy_add_ranges(struct nspy_str *s, const int64_t *numbers, size_t count);
/* Sorts the array and drops duplicates; returns the new count. */
size_t nspy_sort_unique(int64_t *numbers, size_t count);

/* Host names as Slurm writes lists: "ip-10-0-3-[7,9],gpu[01-04]". names is reordered. */
void nspy_add_hostlist(struct nspy_str *s, const char **names, size_t count);

#endif
