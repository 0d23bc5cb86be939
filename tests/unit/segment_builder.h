/* SPDX-License-Identifier: Apache-2.0 */
/* A small segment with a chunk of every kind, for tests that read and damage it. */
#ifndef NSPY_SEGMENT_BUILDER_H
#define NSPY_SEGMENT_BUILDER_H

#include <stddef.h>
#include <stdint.h>

#include "trace_encode.h"

#define SEGMENT_RUN_ID     0x1122334455667788ULL
#define SEGMENT_RECORDS    30
#define SEGMENT_CHUNKS_MAX 8

struct segment {
	uint8_t *data;
	size_t bytes;
	int chunks;
	size_t ends[SEGMENT_CHUNKS_MAX]; /* offset behind each chunk */
};

struct segment *segment_build(void);
void segment_free(struct segment *segment);

#endif
