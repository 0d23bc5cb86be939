/* SPDX-License-Identifier: Apache-2.0 */
/*
 * STRAGGLER_RANK: who comes late to the collectives of each round, again and again. Each rank
 * measures its own rounds (recent.h), so that no clocks are compared: from the end of the last wait
 * to its last operation before the next. The rank that takes longest for that makes all others
 * wait. Medians over two windows, so that pauses and the beginning do not count. A pure function
 * of status pages.
 */
#ifndef NSPY_WATCH_STRAGGLER_H
#define NSPY_WATCH_STRAGGLER_H

#include "verdict.h"

/*
 * Fills *ret and returns true if one rank, or all ranks of one node, are late; or, as a note that
 * blames nobody, if rounds have become longer and nobody is late. -ENOMEM: the arena is too small.
 */
int nspy_straggler_find(const struct nspy_status *pages, uint32_t count, uint64_t now_ns,
			struct nspy_arena *arena, struct nspy_verdict *ret);

#endif
