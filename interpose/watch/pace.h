/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When nodes should hear of each other sooner although nobody hangs: rounds have just become
 * longer. All ranks wait for the one that is late, so every node sees that at the same time,
 * without knowing who it is, and posts and reads more often until it can be known. Pure functions
 * of a node's pages.
 */
#ifndef NSPY_WATCH_PACE_H
#define NSPY_WATCH_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "trace_status.h"

struct nspy_pace {
	uint64_t usual_ns;     /* of a round, 0 = not known yet */
	uint64_t deviation_ns; /* what rounds differ from that anyway */
	uint64_t learn_ns;     /* not before */
	uint64_t hurry_until_ns, rest_until_ns;
};

/* Whether it is time to hurry; for at most half of the time, however restless the job is. */
bool nspy_pace_hurry(struct nspy_pace *pace, const struct nspy_status *pages, uint32_t count,
		     uint64_t now_ns);

#endif
