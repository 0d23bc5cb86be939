/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A further source of chunks, beside calls: what lies above core/ and has something to write.
 * There is room for one.
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
};

/* Set once, by whoever has something to write; NULL before. */
extern const struct nspy_part *nspy_part;

#endif
