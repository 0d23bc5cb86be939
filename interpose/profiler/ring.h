/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From NCCL's callbacks to the writer thread. A callback copies what it was told into a ring and is
 * done; what belongs to what is worked out later, by one thread. Rings are few and shared by
 * threads that rarely meet; a place is taken with one compare-and-swap, nobody waits for anybody.
 * What finds no room is counted and forgotten.
 *
 * The end of an event is written into the record of its start as long as that has not been read,
 * unless more records of it may come in between. That halves what callbacks write.
 *
 * A handle that NCCL keeps for us is no pointer: it names the place of the event's start, and means
 * nothing where it is wrong, old or of another process.
 */
#ifndef NSPY_PROFILER_RING_H
#define NSPY_PROFILER_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "export.h"

#define NSPY_PROF_RINGS      8u
#define NSPY_PROF_RING_SLOTS 16384u /* 64 bytes each */

/* What a record in a ring says. */
enum nspy_raw_what {
	NSPY_RAW_START = 1, /* of an event whose handle is this place */
	NSPY_RAW_STOP = 2,  /* of the event `ref` */
	NSPY_RAW_STATE = 3, /* of the event `ref`: state, and x = bytes or GPU time */
};

/* Of an event that we keep: the kind in its handle. */
enum nspy_raw_event {
	NSPY_RAW_COLL = 1,
	NSPY_RAW_P2P = 2,
	NSPY_RAW_COPY = 3,
	NSPY_RAW_PROXY_OP = 4,
	NSPY_RAW_STEP = 5,
	NSPY_RAW_KERNEL = 6,      /* with times of the GPU: the state that tells them is its end */
	NSPY_RAW_KERNEL_HOST = 7, /* without */
	NSPY_RAW_PROXY_STEPS = 8, /* a network operation whose steps are told too */
	NSPY_RAW_EVENT_COUNT = 9
};

enum nspy_raw_flag {
	NSPY_RAW_CAPTURED = 1,
	NSPY_RAW_FOREIGN = 2, /* of another process: context and parent are not ours */
	NSPY_RAW_SENDS = 4,
};

/* Values of `end` that are no time: this event goes on (no other has the same), or it was read. */
#define NSPY_RAW_OPEN(position) (1ull << 63 | (position))
#define NSPY_RAW_READ           UINT64_MAX

struct nspy_raw {
	_Atomic uint64_t turn; /* position + 1 once the rest is there */
	uint64_t ticks;
	uint64_t ref;         /* START: the event above, 0 = none; else the event itself */
	uint64_t x;           /* sequence number; bytes; time of the GPU */
	uint64_t y;           /* count */
	_Atomic uint64_t end; /* START: when the event ended, or one of the above */
	int32_t peer;         /* or root */
	uint32_t context;     /* 0 = none */
	uint8_t what, flags;
	uint8_t state; /* START: enum nspy_raw_event */
	uint8_t func, algo, proto, datatype, channels;
};
_Static_assert(sizeof(struct nspy_raw) == 64, "one cache line");

struct nspy_raw_ring {
	_Atomic uint64_t head __attribute__((aligned(64))); /* next position to be taken */
	_Atomic uint64_t dropped;
	_Atomic uint64_t tail __attribute__((aligned(64))); /* next position to be read */
	struct nspy_raw slot[NSPY_PROF_RING_SLOTS] __attribute__((aligned(64)));
};

extern struct nspy_raw_ring *nspy_raw_rings; /* NULL before nspy_raw_start */

/* Memory for the rings, wiped in a forked child. context: any thread, cold; again and again. */
bool nspy_raw_start(void);

/*
 * A place for a record, or NULL (counted). To be filled in and given to nspy_raw_done with the
 * position. context: any thread; no lock, no system call.
 */
struct nspy_raw *nspy_raw_take(uint64_t *ret_position, unsigned int *ret_ring);

static inline void nspy_raw_done(struct nspy_raw *raw, uint64_t position)
{
	/* Pairs with the acquire of the reader. */
	atomic_store_explicit(&raw->turn, position + 1, memory_order_release);
}

/* Whether the end of such an event may stand in the record of its start. */
static inline bool nspy_raw_ends_in_place(unsigned int event)
{
	return event != NSPY_RAW_STEP && event != NSPY_RAW_PROXY_STEPS;
}

/* Writes the end of an event into the record of its start. false: that has been read, or ended. */
bool nspy_raw_end(uint64_t handle, uint64_t ticks);

/* The oldest record of a ring, or NULL; stays until nspy_raw_read. context: writer thread. */
struct nspy_raw *nspy_raw_peek(unsigned int ring);
void nspy_raw_read(unsigned int ring);
/* Records that wait, of the fullest ring. */
uint64_t nspy_raw_level(void);
uint64_t nspy_raw_dropped(void);

/* --- handles --- */

#define NSPY_HANDLE_TAG 0xC5A7ull /* no address of a user's has these high bits */
#define NSPY_HANDLE_CAPTURED                                                                       \
	((void *)(uintptr_t)(NSPY_HANDLE_TAG << 48)) /* a captured API call                        \
						      */
#define NSPY_HANDLE_POSITION ((1ull << 40) - 1)

static inline uint64_t nspy_handle_make(enum nspy_raw_event event, unsigned int ring,
					uint64_t position)
{
	return NSPY_HANDLE_TAG << 48 | (uint64_t)event << 44 | (uint64_t)ring << 40 |
	       (position & NSPY_HANDLE_POSITION);
}

/* 0: it is none of ours, or NSPY_HANDLE_CAPTURED. */
static inline unsigned int nspy_handle_event(uint64_t handle)
{
	unsigned int event = (unsigned int)(handle >> 44) & 15u;

	return handle >> 48 == NSPY_HANDLE_TAG && event < NSPY_RAW_EVENT_COUNT ? event : 0;
}

static inline unsigned int nspy_handle_ring(uint64_t handle)
{
	return (unsigned int)(handle >> 40) & (NSPY_PROF_RINGS - 1);
}

#endif
