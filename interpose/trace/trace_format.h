/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constants of the ncclspy trace format, version 1. docs/TRACE_FORMAT.md is the specification; a
 * test compares its tables with this file.
 *
 * A segment file is a legal zstd stream: every chunk is one skippable frame (the chunk header)
 * followed by one ordinary zstd frame (the payload). All integers are little-endian and are read
 * and written through trace_bytes.h, never by overlaying structs.
 */
#ifndef NSPY_TRACE_FORMAT_H
#define NSPY_TRACE_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#define NSPY_TRACE_VERSION 1u

/* First eight bytes of a segment: skippable-frame magic and payload size of the chunk header. */
#define NSPY_SKIP_MAGIC         0x184D2A5Au
#define NSPY_CHUNK_MAGIC        0x4B4E48435950534EULL /* "NSPYCHNK" read as little-endian */
#define NSPY_CHUNK_HEADER_BYTES 96u /* whole skippable frame, magic and size included */

/* Limits a reader enforces before it allocates. */
#define NSPY_CHUNK_RAW_BYTES_MAX (1u << 20)
#define NSPY_CHUNK_PACKED_BYTES_MAX                                                                \
	(NSPY_CHUNK_RAW_BYTES_MAX + (NSPY_CHUNK_RAW_BYTES_MAX >> 7) + 512u)
#define NSPY_CHUNK_RECORDS_MAX   2048u
#define NSPY_CHUNK_TEMPLATES_MAX NSPY_CHUNK_RECORDS_MAX
#define NSPY_TEXT_BYTES_MAX      4096u
#define NSPY_COMM_INDEX_NONE     0xFFFFFFFFu

/* Chunk kinds. A reader skips a kind it does not know. */
enum nspy_chunk_kind {
	NSPY_CHUNK_IDENT = 1,  /* key/value facts about the process; first chunk of a segment */
	NSPY_CHUNK_SCHEMA = 2, /* names of functions, columns, results and datatypes */
	NSPY_CHUNK_STATE = 3,  /* checkpoint: communicators, calls still open, loss counters */
	NSPY_CHUNK_OPS = 4,    /* records of one thread, in the order in which they ended */
	NSPY_CHUNK_END = 5,    /* clean end of the process's recording */
	NSPY_CHUNK_NET = 6,    /* traffic, errors and registrations below NCCL: trace_net.h */
	NSPY_CHUNK_NOTE = 7,   /* the recording's account of itself: trace_note.h */
	NSPY_CHUNK_PROF = 8,   /* what NCCL told its profiler plugin: trace_prof.h */
	/* Of summaries only (docs/SUMMARY.md); all have NSPY_CHUNK_IN_SUMMARY. */
	NSPY_CHUNK_SUMMARY = 9, /* first and last chunk of a summary */
	NSPY_CHUNK_SHARED = 10, /* a payload that chunks of several files have */
	NSPY_CHUNK_FILE = 11,   /* a file of a trace, and its first chunk */
	NSPY_CHUNK_BLOCK = 12,  /* further chunks of the file before it */
	NSPY_CHUNK_BYTES = 13,  /* a piece of the file before it as it is */
};

/*
 * Chunk flags: the low 16 bits are incompatible features (a reader that does not know one must
 * refuse the file), the high 16 bits compatible ones (may be ignored).
 */
#define NSPY_CHUNK_FLAGS_INCOMPAT       0x0000FFFFu
#define NSPY_CHUNK_FLAGS_KNOWN_INCOMPAT 0x00000001u
#define NSPY_CHUNK_IN_SUMMARY           0x00000001u /* older readers must refuse summaries */

/* What a record is. */
enum nspy_rec_kind {
	NSPY_REC_NONE = 0,
	NSPY_REC_CALL = 1, /* a wrapped call: struct nspy_rec */
	NSPY_REC_COMM = 2, /* a communicator became known or went away: struct nspy_comm_rec */
	NSPY_REC_TEXT = 3, /* a piece of text: struct nspy_text_rec */
	NSPY_REC_DONE = 4, /* a collective was found over: struct nspy_done_rec */
};

/* Flags of a call record. */
enum nspy_rec_flag {
	NSPY_CALL_GROUPED = 0x01,  /* between ncclGroupStart and ncclGroupEnd of its thread */
	NSPY_CALL_CAPTURED = 0x02, /* its stream was being captured; seq is local to the capture */
	NSPY_CALL_NESTED = 0x04,   /* made from inside another wrapped call */
	NSPY_CALL_OPEN = 0x08,     /* entered, had not returned when the trace was cut */
	NSPY_CALL_NOSEQ = 0x10,    /* no sequence number could be given (seq is 0) */
	NSPY_CALL_PEER_SEQ = 0x20, /* seq counts per peer and direction, not per communicator */
};

/*
 * What a function does; the analyzer reasons in classes, never in function names, so that a trace
 * of a newer ncclspy with functions this one does not know can still be analysed.
 */
enum nspy_fn_class {
	NSPY_CLASS_QUERY = 0, /* local, immediate */
	NSPY_CLASS_COLL = 1,  /* collective on a stream; seq counts per communicator */
	NSPY_CLASS_SEND = 2,  /* point to point; seq counts per (communicator, peer, send) */
	NSPY_CLASS_RECV = 3,  /* point to point; seq counts per (communicator, peer, receive) */
	NSPY_CLASS_GROUP_START = 4,
	NSPY_CLASS_GROUP_END = 5,
	NSPY_CLASS_COMM_INIT = 6, /* rendezvous that creates communicators; may block */
	NSPY_CLASS_COMM_FINALIZE = 7,
	NSPY_CLASS_COMM_DESTROY = 8,
	NSPY_CLASS_COMM_ABORT = 9,  /* abort and revoke */
	NSPY_CLASS_COMM_STATE = 10, /* asynchronous error query, suspend, resume */
	NSPY_CLASS_REGISTER = 11,   /* buffers, windows, pinned host memory */
	NSPY_CLASS_RMA = 12,        /* put, signal, wait for signal */
	NSPY_CLASS_MEM_ALLOC = 13,  /* device memory; count is bytes, arg the address obtained */
	NSPY_CLASS_MEM_FREE = 14,   /* arg is the address */
	NSPY_CLASS_SYNC = 15,       /* the host waits for the device; arg is stream or event */
	NSPY_CLASS_CAPTURE = 16,    /* stream capture begins or ends; arg is the stream */
	NSPY_CLASS_GRAPH = 17,      /* graph instantiate, launch, destroy; arg is the graph */
	NSPY_CLASS_OTHER = 18,
	NSPY_CLASS_COUNT
};

/* Calls that may not return until the rank's peers have come. */
static inline bool nspy_class_waits(unsigned int klass)
{
	switch (klass) {
	case NSPY_CLASS_COLL:
	case NSPY_CLASS_SEND:
	case NSPY_CLASS_RECV:
	case NSPY_CLASS_GROUP_END:
	case NSPY_CLASS_COMM_INIT:
	case NSPY_CLASS_COMM_FINALIZE:
	case NSPY_CLASS_COMM_DESTROY:
	case NSPY_CLASS_RMA:
	case NSPY_CLASS_SYNC:
		return true;
	default:
		return false;
	}
}

/* How a communicator came to be. */
enum nspy_comm_origin {
	NSPY_COMM_INIT_RANK = 1, /* ncclCommInitRank, ...Config, ...Scalable */
	NSPY_COMM_INIT_ALL = 2,
	NSPY_COMM_SPLIT = 3,
	NSPY_COMM_SHRINK = 4,
	NSPY_COMM_GROW = 5,
	NSPY_COMM_FOUND = 6, /* used, but its creation was not seen */
};

/* Flags of a communicator record. */
enum nspy_comm_flag {
	NSPY_COMM_NONBLOCKING = 0x01, /* blocking = 0, or an ncclInProgress was seen */
	NSPY_COMM_READY = 0x02,       /* creation is known to have succeeded */
	NSPY_COMM_GONE = 0x04,        /* destroyed or aborted */
	NSPY_COMM_STARTED = 0x08,     /* rank has entered the creating call (written before it) */
	NSPY_COMM_FAILED = 0x10,      /* creation failed */
};

/* Topics of a text record. */
enum nspy_text_topic {
	NSPY_TEXT_LAST_ERROR = 1, /* ncclGetLastError after the failing call with the same callno */
	NSPY_TEXT_FACT = 2,       /* "key=value": a fact learnt after start, as in IDENT */
	NSPY_TEXT_NOTE = 3,       /* free text of ncclspy about its own recording */
};

/* Loss counters of a STATE or END chunk, in this order. */
enum nspy_loss {
	NSPY_LOSS_RECORDS_NO_PAGE = 0, /* records dropped: no free page (burst) */
	NSPY_LOSS_RECORDS_NO_SLOT = 1, /* records dropped: too many threads at once */
	NSPY_LOSS_RECORDS_WRITE = 2,   /* records dropped: the disk refused them */
	NSPY_LOSS_RECORDS_RING = 3,    /* records in segments removed to keep the disk quota */
	NSPY_LOSS_COMMS = 4,           /* communicators beyond the table */
	NSPY_LOSS_CALLS_DEPTH = 5,     /* calls nested deeper than the open-call stack */
	NSPY_LOSS_SEQ = 6,             /* p2p calls without ordinal: counter memory exhausted */
	NSPY_LOSS_COUNT
};

/* Reduction operators above this are created by the user (ncclRedOpCreatePreMulSum). */
#define NSPY_REDOP_USER    5u
#define NSPY_REDOP_NONE    255u
#define NSPY_DATATYPE_NONE 255u
#define NSPY_PEER_NONE     (-1)

/* Live pages (trace_live.h). */
#define NSPY_LIVE_MAGIC   0x4556494C5950534EULL /* "NSPYLIVE" */
#define NSPY_LIVE_VERSION 1u

#endif
