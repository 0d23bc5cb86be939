/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records as they lie in memory: 64 bytes each, one cache line. The recorder stores them in live
 * pages with times in clock ticks; the writer and the live reader convert them to CLOCK_MONOTONIC
 * nanoseconds, and everything that comes out of the trace library carries nanoseconds.
 */
#ifndef NSPY_TRACE_RECORD_H
#define NSPY_TRACE_RECORD_H

#include <stdint.h>

#include "trace_format.h"

#define NSPY_REC_BYTES 64u

struct nspy_rec {
	uint64_t enter;   /* when the call was entered */
	uint64_t leave;   /* when it returned; 0 while it is open */
	uint64_t count;   /* elements (collective, p2p), bytes (memory), else 0 */
	uint64_t arg;     /* stream, event, graph or address; see enum nspy_fn_class */
	uint64_t seq;     /* from 1; see the class; 0 = has none */
	uint32_t comm;    /* process-local communicator index, NSPY_COMM_INDEX_NONE = none */
	int32_t peer;     /* root or peer, NSPY_PEER_NONE = none */
	uint16_t fn;      /* function id of the trace's schema */
	uint8_t kind;     /* enum nspy_rec_kind */
	uint8_t flags;    /* enum nspy_rec_flag */
	uint8_t datatype; /* ncclDataType_t, NSPY_DATATYPE_NONE = none */
	uint8_t redop;    /* ncclRedOp_t, NSPY_REDOP_USER, NSPY_REDOP_NONE */
	int16_t result;   /* return code of the call as the library defines it */
	uint32_t callno;  /* counts the calls of its thread in order of entry (wraps) */
	uint32_t group;   /* counts the outermost groups of its thread, 0 = not in a group */
};

/*
 * A communicator. The key is the same on all its ranks without asking them: it is a hash of the
 * unique id (or of parent key, origin, ordinal and colour), nranks and the occurrence number. The
 * record is written again when more becomes known; a later one replaces an earlier one of the same
 * comm index.
 */
struct nspy_comm_rec {
	uint64_t when;
	uint64_t key;
	uint64_t parent_key; /* 0 = root communicator */
	uint64_t handle;     /* ncclComm_t as a number; reused by the library over time */
	uint64_t id_hash;    /* hash of the unique id, 0 for children */
	uint32_t comm;       /* index that call records use */
	int32_t nranks;      /* -1 = not known (yet) */
	uint16_t origin;     /* enum nspy_comm_origin */
	uint8_t kind;
	uint8_t flags;    /* enum nspy_comm_flag */
	int32_t color;    /* split colour, 0 otherwise */
	int32_t rank;     /* this process's rank in it, -1 = not known (yet) */
	uint32_t ordinal; /* occurrence of the same id, or n-th child of the parent, from 1 */
};

#define NSPY_TEXT_PIECE_BYTES 40u

/* Text longer than a piece continues in the following text records of its thread (flags = 1). */
struct nspy_text_rec {
	uint64_t when;
	char text[NSPY_TEXT_PIECE_BYTES];
	uint16_t topic; /* enum nspy_text_topic */
	uint8_t kind;
	uint8_t flags; /* 1 = continued in the next text record */
	uint8_t bytes; /* used bytes of text */
	uint8_t reserved[3];
	uint32_t callno; /* call it belongs to, 0 = none */
	uint32_t comm;
};

/*
 * The application found out that a collective is over (core/seen.h). Its event, or its wait, stood
 * behind the collective on the GPU, so `when` is at or after the end. `not_done` is the latest time
 * at which the same place was asked and was not done: the collective was not over then either, if
 * the application had put nothing between it and that place. gpu_ns is cudaEventElapsedTime between
 * two events of the application that enclose this collective; gap is how much time the host had in
 * between for putting other work there. gpu_ns is 0 if that was not asked.
 */
struct nspy_done_rec {
	uint64_t when;     /* found out */
	uint64_t began;    /* the collective's call was entered */
	uint64_t not_done; /* 0 = not known */
	uint64_t gpu_ns;
	uint64_t seq;
	uint32_t comm;
	uint32_t gap; /* while in memory in ticks, else ns; at most 2^32-1 */
	uint16_t fn;  /* function that found out */
	uint8_t kind;
	uint8_t flags;
	uint32_t reserved;
	uint32_t callno; /* of that function's call */
	uint32_t reserved2;
};

_Static_assert(sizeof(struct nspy_done_rec) == NSPY_REC_BYTES, "one cache line");
_Static_assert(sizeof(struct nspy_rec) == NSPY_REC_BYTES, "one cache line");
_Static_assert(sizeof(struct nspy_comm_rec) == NSPY_REC_BYTES, "one cache line");
_Static_assert(sizeof(struct nspy_text_rec) == NSPY_REC_BYTES, "one cache line");
_Static_assert(__builtin_offsetof(struct nspy_rec, kind) == 50 &&
		       __builtin_offsetof(struct nspy_comm_rec, kind) == 50 &&
		       __builtin_offsetof(struct nspy_text_rec, kind) == 50 &&
		       __builtin_offsetof(struct nspy_done_rec, kind) == 50,
	       "the kind is found without knowing the kind");

union nspy_any_rec {
	struct nspy_rec call;
	struct nspy_comm_rec comm;
	struct nspy_text_rec text;
	struct nspy_done_rec done;
};

#endif
