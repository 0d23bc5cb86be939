/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A further source of chunks, beside calls: what lies above core/ and has something to write.
 * There is room for one of each kind.
 */
#ifndef NSPY_PART_H
#define NSPY_PART_H

#include <stdbool.h>
#include <stdint.h>

struct nspy_part {
	/*
	 * Gathers what is new; writes it with nspy_segment_write if it is worth a chunk, or if this
	 * is the last time. false: the disk refused it. context: writer thread.
	 */
	bool (*tick)(uint64_t now_ns, bool last);
	/* How soon the next tick should come at the latest. NULL = no hurry. context: as above. */
	uint64_t (*period_ns)(void);
};

enum nspy_part_kind { NSPY_PART_FABRIC = 0, NSPY_PART_PROFILER = 1, NSPY_PART_COUNT = 2 };

/* Set once, by whoever has something to write; NULL before. */
extern const struct nspy_part *nspy_parts[NSPY_PART_COUNT];

#endif
