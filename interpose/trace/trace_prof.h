/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PROF payloads: what NCCL told us as its profiler plugin. A payload is a sequence of records, each
 * with its length, so that a reader skips kinds and trailing fields it does not know. An operation
 * refers to a communicator that an earlier or the same payload of the recording describes; payloads
 * come in order.
 *
 * Three kinds of time that must never be mixed: of the host's call (queued), of NCCL's threads
 * telling us (host callback), and of the GPU's own clock (exact; that clock is not the host's and
 * begins anywhere).
 *
 * Errors (negative): -ENOBUFS no room (the payload is as it was), -ENODATA regular end, -EBADMSG
 * damaged. Texts are borrowed and not terminated. Nothing allocates. Source of facts: the plugin
 * headers of NCCL 2.23 to 2.30, plugins/profiler/README.md there.
 */
#ifndef NSPY_TRACE_PROF_H
#define NSPY_TRACE_PROF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_bytes.h"

#define NSPY_PROF_TEXT_BYTES_MAX 64u
#define NSPY_PROF_NONE           0xFFFFFFFFu /* no communicator */

enum nspy_prof_kind {
	NSPY_PROF_COMM = 1, /* a communicator that the plugin was started for */
	NSPY_PROF_OP = 2,   /* an operation, after everything known of it has ended */
	NSPY_PROF_WAIT = 3, /* what transfers with a peer waited for */
	NSPY_PROF_SUMS = 4, /* events so far, and what could not be used */
};

enum nspy_prof_what {
	NSPY_PROF_COLL = 1,
	NSPY_PROF_P2P = 2,
	NSPY_PROF_COPY = 3, /* a collective by copy engines: no kernel */
};

enum nspy_prof_flag {
	NSPY_PROF_CAPTURED = 1, /* called in a stream capture */
	NSPY_PROF_CUT = 2,      /* written before all of it had ended */
};

enum nspy_prof_func {
	NSPY_PROF_FUNC_UNKNOWN = 0,
	NSPY_PROF_FUNC_BROADCAST = 1,
	NSPY_PROF_FUNC_REDUCE = 2,
	NSPY_PROF_FUNC_ALL_GATHER = 3,
	NSPY_PROF_FUNC_REDUCE_SCATTER = 4,
	NSPY_PROF_FUNC_ALL_REDUCE = 5,
	NSPY_PROF_FUNC_SEND_RECV = 6,
	NSPY_PROF_FUNC_SEND = 7,
	NSPY_PROF_FUNC_RECV = 8,
	NSPY_PROF_FUNC_ALL_TO_ALL = 9,
	NSPY_PROF_FUNC_GATHER = 10,
	NSPY_PROF_FUNC_SCATTER = 11,
	NSPY_PROF_FUNC_COUNT = 12
};

enum nspy_prof_algo {
	NSPY_PROF_ALGO_UNKNOWN = 0,
	NSPY_PROF_ALGO_TREE = 1,
	NSPY_PROF_ALGO_RING = 2,
	NSPY_PROF_ALGO_COLLNET_DIRECT = 3,
	NSPY_PROF_ALGO_COLLNET_CHAIN = 4,
	NSPY_PROF_ALGO_NVLS = 5,
	NSPY_PROF_ALGO_NVLS_TREE = 6,
	NSPY_PROF_ALGO_PAT = 7,
	NSPY_PROF_ALGO_COUNT = 8
};

enum nspy_prof_proto {
	NSPY_PROF_PROTO_UNKNOWN = 0,
	NSPY_PROF_PROTO_LL = 1,
	NSPY_PROF_PROTO_LL128 = 2,
	NSPY_PROF_PROTO_SIMPLE = 3,
	NSPY_PROF_PROTO_COUNT = 4
};

/* Of the transfers of one communicator with one peer. Times are ns summed over transfers. */
enum nspy_prof_wait_counter {
	NSPY_PROF_SENDS = 0,
	NSPY_PROF_SEND_BYTES = 1,
	NSPY_PROF_SEND_GPU_WAIT = 2,  /* for this GPU to produce the data */
	NSPY_PROF_SEND_PEER_WAIT = 3, /* for the peer to have room */
	NSPY_PROF_SEND_WAIT = 4,      /* for the network to take it */
	NSPY_PROF_RECVS = 5,
	NSPY_PROF_RECV_BYTES = 6,
	NSPY_PROF_RECV_WAIT = 7,       /* for data from the peer */
	NSPY_PROF_RECV_FLUSH_WAIT = 8, /* for it to be visible to the GPU */
	NSPY_PROF_RECV_GPU_WAIT = 9,   /* for this GPU to consume it */
	NSPY_PROF_WAIT_COUNT = 10
};

enum nspy_prof_sum {
	NSPY_PROF_SUM_STARTED = 0,   /* events */
	NSPY_PROF_SUM_STOPPED = 1,   /* */
	NSPY_PROF_SUM_STATES = 2,    /* state changes */
	NSPY_PROF_SUM_OPS = 3,       /* operations written */
	NSPY_PROF_SUM_CUT = 4,       /* of these, before all of it had ended */
	NSPY_PROF_SUM_DROPPED = 5,   /* events for which there was no room */
	NSPY_PROF_SUM_UNMATCHED = 6, /* a handle or parent that is not, or not any more, known */
	NSPY_PROF_SUM_FOREIGN = 7,   /* network operations done for another process */
	NSPY_PROF_SUM_BAD_TIME = 8,  /* GPU times of 0, or that end before they begin */
	NSPY_PROF_SUM_COUNT = 9
};

struct nspy_prof_text {
	const char *text;
	size_t bytes;
};

struct nspy_prof_comm {
	uint32_t id;
	uint32_t comm; /* index of the communicator in the recording, or NSPY_COMM_INDEX_NONE */
	uint64_t when_ns;
	uint64_t hash;               /* NCCL's own, the same on all ranks; 0 = not known (yet) */
	uint32_t api;                /* version of the interface, 1 to 6 */
	uint32_t mask;               /* kinds of event asked for */
	int32_t nranks, rank, nodes; /* -1 = not known */
	struct nspy_prof_text name;
};

struct nspy_prof_op {
	uint32_t comm; /* id of a nspy_prof_comm */
	uint32_t what;
	uint32_t flags;
	uint32_t func, algo, proto;
	uint32_t datatype; /* ncclDataType_t, or NSPY_DATATYPE_NONE */
	uint32_t channels; /* 0 = not known */
	int32_t peer;      /* or root; -1 = none */
	uint64_t seq;      /* NCCL's count, per communicator and function */
	uint64_t count;
	uint64_t start_ns;  /* host: began to be enqueued */
	uint64_t queued_ns; /* host: how long that took */
	/* Host callback: network operations of NCCL's proxy thread, as offsets from start_ns. */
	uint32_t proxies;
	uint64_t proxy_first_ns, proxy_last_ns;
	/* Host callback: the kernel's channels, as NCCL's thread saw them. */
	uint32_t kernels; /* channels that have ended */
	uint64_t kernel_first_ns, kernel_last_ns;
	/* Exact: from the first channel's start to the last one's end, on the GPU's clock. */
	uint32_t gpu_kernels; /* channels with both times */
	uint64_t gpu_ns;
	uint64_t gpu_start_ns; /* when the first one started, on that clock; 0 = not known */
};

struct nspy_prof_wait {
	uint32_t comm;
	int32_t peer;
	uint64_t when_ns; /* the end of the span */
	uint64_t span_ns;
	uint64_t counter[NSPY_PROF_WAIT_COUNT];
};

struct nspy_prof_sums {
	uint64_t when_ns;
	uint64_t counter[NSPY_PROF_SUM_COUNT];
};

struct nspy_prof_record {
	uint32_t kind; /* enum nspy_prof_kind, or one this version does not know */
	union {
		struct nspy_prof_comm comm;
		struct nspy_prof_op op;
		struct nspy_prof_wait wait;
		struct nspy_prof_sums sums;
	};
};

/* A payload under construction in the caller's buffer; begin with used = 0. */
struct nspy_prof_buffer {
	uint8_t *data;
	size_t capacity;
	size_t used;
};

int nspy_prof_put_comm(struct nspy_prof_buffer *b, const struct nspy_prof_comm *comm);
int nspy_prof_put_op(struct nspy_prof_buffer *b, const struct nspy_prof_op *op);
int nspy_prof_put_wait(struct nspy_prof_buffer *b, const struct nspy_prof_wait *wait);
int nspy_prof_put_sums(struct nspy_prof_buffer *b, const struct nspy_prof_sums *sums);

/* Walks the records of a payload; start with *cursor = 0. */
int nspy_prof_next(const uint8_t *payload, size_t bytes, size_t *cursor,
		   struct nspy_prof_record *ret);

/*
 * Whether gpu_ns is the operation's whole duration: every channel has both times. Else it is that
 * of a part, and no duration of the operation.
 */
static inline bool nspy_prof_is_exact(const struct nspy_prof_op *op)
{
	return op->gpu_kernels && op->channels && op->gpu_kernels >= op->channels;
}

#endif
