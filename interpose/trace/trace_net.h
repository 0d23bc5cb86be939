/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NET payloads: what went over the network below NCCL. A payload is a sequence of records, each
 * with its length, so that a reader skips kinds and trailing fields it does not know. Every payload
 * describes the rails and peers it speaks of and can be read alone.
 *
 * Errors (negative): -ENOBUFS no room (the payload is as it was), -ENODATA regular end, -EBADMSG
 * damaged. Texts are cut to NSPY_NET_TEXT_MAX bytes, are not terminated, and are borrowed: from the
 * caller when encoding, from the payload when decoding. Nothing allocates.
 */
#ifndef NSPY_TRACE_NET_H
#define NSPY_TRACE_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_bytes.h"

#define NSPY_NET_TEXT_MAX   255u
#define NSPY_NET_VALUES_MAX 8u
#define NSPY_NET_NONE       0xFFFFFFFFu /* no rail, no peer */
#define NSPY_NET_UNLIMITED  UINT64_MAX  /* a limit that does not limit */

enum nspy_net_kind {
	NSPY_NET_RAIL = 1,   /* a network card as a provider offers it */
	NSPY_NET_PEER = 2,   /* an address that data goes to or comes from */
	NSPY_NET_SECOND = 3, /* traffic by peer in about one second */
	NSPY_NET_EVENT = 4,  /* something that went wrong, or was asked for at the start */
	NSPY_NET_MEMORY = 5, /* memory registrations so far, of one layer */
	NSPY_NET_DEVICE = 6, /* an RDMA device of the host */
};

/* Whether a rail's traffic is seen, and if not why. */
enum nspy_net_sight {
	NSPY_NET_SEEN = 0,
	NSPY_NET_NOT_ASKED = 1, /* the provider is not in NCCLSPY_FABRIC */
	NSPY_NET_CONSTANT = 2,  /* the provider's tables are read-only */
	NSPY_NET_UNKNOWN = 3,   /* its tables are of a form we do not know, or too many */
};

enum nspy_net_counter {
	NSPY_NET_SENDS = 0,       /* messages sent, tagged or not */
	NSPY_NET_SEND_BYTES = 1,  /* */
	NSPY_NET_WRITES = 2,      /* remote writes */
	NSPY_NET_WRITE_BYTES = 3, /* */
	NSPY_NET_READS = 4,       /* remote reads */
	NSPY_NET_READ_BYTES = 5,  /* */
	NSPY_NET_RECEIVES = 6,    /* receive buffers posted */
	NSPY_NET_COMPLETIONS = 7, /* */
	NSPY_NET_ERRORS = 8,      /* completions in error */
	NSPY_NET_AGAIN = 9,       /* operations refused for now: the queue was full */
	NSPY_NET_POLLS = 10,      /* polls that found nothing */
	NSPY_NET_TIMED = 11,      /* operations timed from posting to completion */
	NSPY_NET_TIME_SUM = 12,   /* of them, ns */
	NSPY_NET_TIME_MAX = 13,   /* ns */
	NSPY_NET_COUNTER_COUNT = 14
};

enum nspy_net_peer_role {
	NSPY_NET_PEER_KNOWN = 0,
	NSPY_NET_PEER_ANY = 1,   /* which one cannot be told (receives, polls) */
	NSPY_NET_PEER_OTHER = 2, /* beyond those kept apart */
};

enum nspy_net_event_kind {
	NSPY_NET_CQ_ERROR = 1,    /* fi_cq_readerr returned an entry */
	NSPY_NET_REG_FAILED = 2,  /* memory could not be registered */
	NSPY_NET_GETINFO = 3,     /* fi_getinfo was asked for a provider, or failed */
	NSPY_NET_POST_FAILED = 4, /* an operation was refused for good */
	NSPY_NET_OPEN_FAILED = 5, /* a domain, endpoint or queue could not be made */
};

/* Layers that register memory. */
enum nspy_net_layer { NSPY_NET_LIBFABRIC = 0, NSPY_NET_VERBS = 1, NSPY_NET_LAYER_COUNT = 2 };

/* Values of NSPY_NET_REG_FAILED. */
enum nspy_net_reg_value {
	NSPY_NET_REG_BYTES = 0,    /* asked for */
	NSPY_NET_REG_LIMIT = 1,    /* RLIMIT_MEMLOCK, soft */
	NSPY_NET_REG_LOCKED = 2,   /* VmLck */
	NSPY_NET_REG_PINNED = 3,   /* VmPin: what the kernel's RDMA code counts */
	NSPY_NET_REG_MAY_LOCK = 4, /* 1 = CAP_IPC_LOCK: the limit does not hold */
	NSPY_NET_REG_LIVE = 5,     /* bytes registered then, by this layer */
	NSPY_NET_REG_BEFORE = 6,   /* registrations that had succeeded */
	NSPY_NET_REG_LAYER = 7,    /* enum nspy_net_layer */
};

/* Values of NSPY_NET_CQ_ERROR. */
enum nspy_net_cq_value { NSPY_NET_CQ_FLAGS = 0, NSPY_NET_CQ_BYTES = 1 };

struct nspy_net_text {
	const char *text;
	size_t bytes;
};

struct nspy_net_rail {
	uint32_t id;
	uint32_t sight; /* enum nspy_net_sight */
	uint32_t domains;
	uint64_t speed; /* bit/s, 0 = not known */
	struct nspy_net_text provider;
	struct nspy_net_text fabric;
	struct nspy_net_text domain;  /* as the provider calls it */
	struct nspy_net_text nic;     /* the device, "" = not known */
	struct nspy_net_text address; /* of this process on it, "" = not known */
};

struct nspy_net_peer {
	uint32_t id;
	uint32_t rail;
	uint32_t role; /* enum nspy_net_peer_role */
	struct nspy_net_text address;
};

struct nspy_net_event {
	uint64_t when_ns;
	uint32_t what;    /* enum nspy_net_event_kind */
	uint32_t rail;    /* or NSPY_NET_NONE */
	uint32_t peer;    /* or NSPY_NET_NONE */
	int32_t error;    /* errno or FI_E..., positive */
	int32_t provider; /* the provider's own error number */
	uint32_t value_count;
	uint64_t values[NSPY_NET_VALUES_MAX];
	struct nspy_net_text text; /* the call, or the provider asked for */
	struct nspy_net_text more; /* the provider's words, or what was found */
};

struct nspy_net_memory {
	uint64_t when_ns;
	uint32_t layer;
	uint64_t registrations;
	uint64_t bytes;
	uint64_t live;
	uint64_t live_bytes;
	uint64_t failures;
	uint64_t no_memory;     /* failures with ENOMEM */
	uint64_t largest;       /* bytes */
	uint64_t largest_since; /* after the latest ENOMEM */
};

struct nspy_net_device {
	struct nspy_net_text name;
	struct nspy_net_text driver;
	struct nspy_net_text state; /* of its first port */
};

struct nspy_net_second {
	uint64_t when_ns; /* its end */
	uint64_t span_ns;
	uint32_t width;       /* decoding: counters a row has in this payload */
	struct nspy_get rows; /* decoding: for nspy_net_next_row */
};

struct nspy_net_row {
	uint32_t peer;
	uint64_t counter[NSPY_NET_COUNTER_COUNT];
};

struct nspy_net_record {
	uint32_t kind; /* enum nspy_net_kind, or one this version does not know */
	union {
		struct nspy_net_rail rail;
		struct nspy_net_peer peer;
		struct nspy_net_second second;
		struct nspy_net_event event;
		struct nspy_net_memory memory;
		struct nspy_net_device device;
	};
};

/* A payload under construction in the caller's buffer; begin with used = 0. */
struct nspy_net_buffer {
	uint8_t *data;
	size_t capacity;
	size_t used;
	size_t open; /* start of the SECOND record that takes rows */
};

int nspy_net_put_rail(struct nspy_net_buffer *b, const struct nspy_net_rail *rail);
int nspy_net_put_peer(struct nspy_net_buffer *b, const struct nspy_net_peer *peer);
int nspy_net_put_event(struct nspy_net_buffer *b, const struct nspy_net_event *event);
int nspy_net_put_memory(struct nspy_net_buffer *b, const struct nspy_net_memory *memory);
int nspy_net_put_device(struct nspy_net_buffer *b, const struct nspy_net_device *device);
/* A second and, directly after it, its rows. */
int nspy_net_put_second(struct nspy_net_buffer *b, const struct nspy_net_second *second);
int nspy_net_put_row(struct nspy_net_buffer *b, const struct nspy_net_row *row);

/* Walks the records of a payload; start with *cursor = 0. */
int nspy_net_next(const uint8_t *payload, size_t bytes, size_t *cursor,
		  struct nspy_net_record *ret);
int nspy_net_next_row(struct nspy_net_second *second, struct nspy_net_row *ret);

#endif
