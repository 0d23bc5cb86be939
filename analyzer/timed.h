/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long operations took at most, where the host saw them end: it waited for their stream (or the
 * device) right after. From the entry of the call to the end of that wait is more than the
 * operation took, never less: it may have waited for peers, or behind other work of its stream.
 * These are times of the host and are nowhere presented as times of the GPU.
 *
 * Operations alike in a row count as one burst, whose time is divided by their number. Of each
 * series (operation, size, length of the burst) a sample is kept which depends on sequence numbers
 * alone, so that all ranks keep the same operations. Times are nanoseconds.
 *
 * context: the loading thread of the process. Ownership: a member owns its series.
 */
#ifndef NSPY_TIMED_H
#define NSPY_TIMED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_reader.h"

/* Bounds on what one member of a communicator can make us keep: about 38 KiB. */
#define NSPY_TIMED_SERIES_MAX  64u
#define NSPY_TIMED_SAMPLES_MAX 32u

struct nspy_timed_sample {
	uint64_t seq; /* of the burst's last operation; of a message its ordinal */
	uint64_t ns;  /* at most, for one operation of the burst */
};

struct nspy_timed_series {
	uint64_t bytes; /* count times size of the type, as in the call */
	uint32_t burst; /* operations in a burst */
	int32_t peer;   /* root, or rank that a message came from; else NSPY_PEER_NONE */
	uint16_t fn;    /* model function id, canonical */
	bool message;   /* a receive */
	/* The stream was seen empty before, NCCL's part of it, and the wait was a real one. */
	bool alone;
	uint64_t seen; /* bursts, kept or not */
	uint64_t mask; /* of hashed sequence numbers; 0 bits are kept */
	struct nspy_timed_sample *samples;
	size_t count, capacity;
};

struct nspy_timed {
	struct nspy_timed_series *series;
	size_t count, capacity;
	uint64_t refused; /* bursts of further series */
};

struct nspy_member;

/* What the thread being read has queued since its stream was seen empty; {0} = not known. */
struct nspy_burst {
	struct nspy_member *member; /* NULL: nothing */
	uint64_t stream, bytes;
	uint64_t first_enter_ns, last_leave_ns;
	uint64_t seq;
	uint32_t ops;
	int32_t peer;
	uint16_t fn;
	bool message;
	bool empty_before;
	/* Seen empty: one stream, or all of the device. */
	bool idle, device_idle;
	uint64_t idle_stream;
};

/* Another operation; one that failed or is captured ends what is known instead. */
void nspy_timed_op(struct nspy_burst *burst, struct nspy_member *member, uint16_t fn, bool message,
		   uint64_t bytes, const struct nspy_rec *rec);
/* The host waited for a stream; device: for all of them. */
void nspy_timed_sync(struct nspy_burst *burst, const struct nspy_rec *rec, bool device);
void nspy_timed_done(struct nspy_timed *timed);

#endif
