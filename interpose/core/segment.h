/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segment files: a process's chunks, in at most 8 files of an eighth of its quota each. The first
 * (start-up, communicator creation) is kept; the oldest of the others makes room. Every segment
 * begins with identity, schema and a checkpoint, so that each can be read alone.
 *
 * No descriptor is kept open between writes: applications close descriptors they do not own and
 * then get our number for a file of theirs.
 *
 * context: the writer thread; may block on the file system.
 */
#ifndef NSPY_SEGMENT_H
#define NSPY_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_reader.h"

#define NSPY_SEGMENTS_MAX      8u
#define NSPY_SEGMENT_BYTES_MIN (64u << 10)
#define NSPY_RAW_BYTES_MAX     (256u << 10) /* largest payload the library writes */

/* What each new segment begins with; called with room for NSPY_RAW_BYTES_MAX bytes. */
struct nspy_segment_heads {
	long (*ident)(uint8_t *out, size_t bytes);
	long (*schema)(uint8_t *out, size_t bytes);
	long (*checkpoint)(uint8_t *out, size_t bytes);
	long (*account)(uint8_t *out, size_t bytes); /* 0: there is nothing to say */
};

/* Memory for compression; false: none, nothing can be written. */
bool nspy_segment_start(const struct nspy_segment_heads *heads, uint64_t quota_bytes);

/*
 * Appends a chunk (kind, flags, first_ns, last_ns, thread_serial, records and first_index are taken
 * from info). false: the disk refused it; nothing of it is in the file. Says so once.
 */
bool nspy_segment_write(struct nspy_chunk_info *info, const uint8_t *payload, size_t raw_bytes);

/* Makes the directories of the traces; false: they cannot be had. Says so once. */
bool nspy_segment_make_directories(void);

/* Bytes written so far, all segments. */
uint64_t nspy_segment_bytes_written(void);

#endif
