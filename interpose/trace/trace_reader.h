/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading segment files. Nothing in a file is trusted: every length is checked before use, a
 * damaged chunk is reported with its offset and the next chunk is searched for.
 *
 * Errors (negative): -EBADMSG corrupt, -ENODATA regular end, -EPROTONOSUPPORT written by a newer
 * ncclspy, -E2BIG a limit of trace_format.h exceeded, -ENOMEM, or the errno of open/read.
 * Outputs are untouched on failure. Nothing here prints.
 * context: one reader per thread; different readers are independent.
 */
#ifndef NSPY_TRACE_READER_H
#define NSPY_TRACE_READER_H

#include <stddef.h>
#include <stdint.h>

#include "trace_record.h"

/* Header of a chunk, decoded. Times are CLOCK_MONOTONIC ns of the writing host. */
struct nspy_chunk_info {
	uint64_t offset; /* of the chunk in its file */
	uint32_t kind;   /* enum nspy_chunk_kind, or a number this version does not know */
	uint32_t flags;
	uint32_t sequence; /* n-th chunk the process wrote, from 0, over all segments */
	uint32_t segment;  /* segment number in the file name */
	uint32_t packed_bytes;
	uint32_t raw_bytes;
	uint64_t run_id;         /* random number of one recording; joins segments and live pages */
	uint64_t first_ns;       /* earliest and latest time in the chunk; for STATE and END both */
	uint64_t last_ns;        /* are the time of writing: the process was alive then */
	int64_t mono_to_real_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC when it was written */
	uint32_t thread_serial;  /* OPS: n-th thread of the process seen, from 1 */
	uint32_t records;        /* OPS: number of records */
	uint64_t first_index;    /* OPS: index of the first record among those of its thread */
};

struct nspy_reader;

/* Opens a file; -EBADMSG if it does not start like a segment. Free with nspy_reader_free. */
int nspy_reader_open(const char *path, struct nspy_reader **ret);
/* Reads from memory, which is borrowed until nspy_reader_free. */
int nspy_reader_open_memory(const void *data, size_t bytes, struct nspy_reader **ret);
/* The same; data is freed with the reader, on failure at once. */
int nspy_reader_open_owned(uint8_t *data, size_t bytes, struct nspy_reader **ret);

/*
 * Chunks that come from elsewhere than a segment file. next: as nspy_reader_next. offset: where the
 * next one is read. done: frees the context.
 */
struct nspy_chunk_source {
	int (*next)(void *context, struct nspy_chunk_info *ret_info, const uint8_t **ret_payload);
	uint64_t (*offset)(const void *context);
	void (*done)(void *context);
};
/* context passes to the reader, on failure (-ENOMEM) it is freed. */
int nspy_reader_open_source(const struct nspy_chunk_source *source, void *context,
			    struct nspy_reader **ret);
void nspy_reader_free(struct nspy_reader *reader);

/*
 * Next chunk and its decompressed payload, borrowed until the next call on this reader.
 * -ENODATA at the end. -EBADMSG: something is damaged at nspy_reader_offset(); call again to go on
 * with the next intact chunk. A file cut in the middle of its last chunk gives -EBADMSG once, then
 * -ENODATA; nspy_reader_truncated() tells that case apart.
 */
int nspy_reader_next(struct nspy_reader *reader, struct nspy_chunk_info *ret_info,
		     const uint8_t **ret_payload);
uint64_t nspy_reader_offset(const struct nspy_reader *reader);
int nspy_reader_truncated(const struct nspy_reader *reader);

/*
 * Decodes an OPS payload (or the open calls of a STATE payload: see below) into records, in the
 * order in which they were appended. capacity: NSPY_CHUNK_RECORDS_MAX is always enough.
 */
int nspy_ops_decode(const uint8_t *payload, size_t bytes, union nspy_any_rec *records,
		    size_t capacity, size_t *ret_count);

/* An open call with the thread it belongs to. */
struct nspy_open_call {
	uint32_t thread_serial;
	uint32_t tid;
	struct nspy_rec rec; /* flags has NSPY_CALL_OPEN, leave is 0 */
};

/* Decoded STATE or END payload; pointers are borrowed from the caller's buffers. */
struct nspy_state {
	uint64_t when_ns;
	uint64_t loss[NSPY_LOSS_COUNT];
	uint64_t calls; /* wrapped calls the process made so far, recorded or not */
	uint32_t threads_seen;
	size_t comm_count;
	size_t open_count;
};
#define NSPY_STATE_COMMS_MAX 4096u
#define NSPY_STATE_OPEN_MAX  2048u
int nspy_state_decode(const uint8_t *payload, size_t bytes, struct nspy_state *ret,
		      struct nspy_comm_rec *comms, size_t comm_capacity,
		      struct nspy_open_call *open_calls, size_t open_capacity);

/*
 * Walks the key/value pairs of an IDENT payload. Start with *cursor = 0. Key and value are NOT
 * terminated by NUL and are borrowed from the payload. -ENODATA after the last one.
 */
int nspy_ident_next(const uint8_t *payload, size_t bytes, size_t *cursor, const char **ret_key,
		    size_t *ret_key_bytes, const char **ret_value, size_t *ret_value_bytes);

/*
 * SCHEMA payload: lines of tab-separated fields, the first field names the line:
 *   fn <id> <name> <library> <class number> <result type>
 *   datatype <id> <name> <bytes>
 *   redop <id> <name>
 *   result <library> <code> <name>
 *   column <name> <unit>
 * Walks the lines like nspy_ident_next; fields are split by the caller. Unknown lines are skipped.
 */
int nspy_schema_next(const uint8_t *payload, size_t bytes, size_t *cursor, const char **ret_line,
		     size_t *ret_line_bytes);

#endif
