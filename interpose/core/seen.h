/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the application's own events and waits tell about the end of its collectives. Nothing is
 * asked of CUDA: an event that the application records behind a collective, and later finds done,
 * shows that the collective is over.
 *
 * A cover says: what stands at this place (a stream's tail, an event) runs only after collective
 * `seq` of communicator `comm`. Covers travel from streams to events (record) and from events to
 * streams (wait). A claim is never made in doubt: an event that is recorded by two threads at once,
 * again meanwhile, in a capture, by a graph or by another process, says nothing.
 *
 * Tables of fixed size, atomics, no lock and no system call: what does not fit is not observed. The
 * area is wiped in a forked child, like hot.h.
 *
 * context: the application's threads, inside its calls. Times are ticks.
 */
#ifndef NSPY_SEEN_H
#define NSPY_SEEN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "trace_record.h"

#define NSPY_COVERS       4u /* communicators that one place can follow */
#define NSPY_SEEN_PENDING 4u /* streams that one thread fills in one group */

struct nspy_covers {
	uint64_t op[NSPY_COVERS];    /* communicator << 40 | sequence number, 0 = none */
	uint64_t enter[NSPY_COVERS]; /* when that collective was called */
};

/* A place on a stream, where an event was recorded. */
struct nspy_mark {
	struct nspy_covers covers;
	uint64_t stream;
	uint64_t ops;    /* collectives put on the stream so far */
	uint64_t call;   /* serial of the thread << 32 | number of its call */
	uint64_t enter;  /* of the call that recorded it */
	uint64_t leave;  /* about */
	uint64_t before; /* when the thread's call before that one returned, 0 = not known */
	uint64_t last_op;
	uint64_t last_enter;
};
#define NSPY_MARK_WORDS (sizeof(struct nspy_mark) / sizeof(uint64_t))

/* state: bit 0 the mark is valid, bit 1 never to be believed, bits 2-9 recorders, then generation
 */
struct nspy_seen_event {
	_Atomic uintptr_t handle;
	_Atomic uint64_t state;
	_Atomic uint64_t not_done; /* latest time it was asked and was not done, of this mark */
	_Atomic uint64_t mark[NSPY_MARK_WORDS];
};

/* Between the hooks before and after a call. */
struct nspy_seen_thread {
	struct {
		uint64_t stream;
		uint64_t op, enter;
		uint32_t ops;
		bool unsure; /* in a group, or queued by a thread of NCCL's */
	} pending[NSPY_SEEN_PENDING];
	uint32_t callno; /* whose the rest is */
	uint32_t gaps;   /* of the process, calls that were not seen, at the beginning */
	struct nspy_seen_event *event[2];
	uint64_t state[2];
	uint64_t not_done;
	struct nspy_mark mark;
};

/* Makes the area; without it nothing is observed. Cold. */
void nspy_seen_start(void);
/* A thread takes slot i. */
struct nspy_seen_thread *nspy_seen_thread_at(uint32_t i);
/* A call of CUDA's passed unrecorded: what it did is not known. */
void nspy_seen_gap(void);
uint32_t nspy_seen_gaps(void);
/* An event could not be marked as unfit: nothing is observed from now on. */
void nspy_seen_give_up(void);

/* Streams. The handles 0 to 2 mean different streams in different threads: never observed. */
void nspy_seen_queued(uint64_t stream, uint64_t op, uint64_t enter, uint32_t ops);
void nspy_seen_tail(uint64_t stream, struct nspy_mark *ret);
void nspy_seen_follow(uint64_t stream, const struct nspy_covers *covers);
void nspy_seen_stream_gone(uint64_t stream);
void nspy_seen_stream_not_done(uint64_t stream, uint64_t when);
uint64_t nspy_seen_stream_asked(uint64_t stream);

/* Events. NULL: not observed. */
struct nspy_seen_event *nspy_seen_event_find(const void *event, bool make);
void nspy_seen_event_gone(const void *event);
/* It is never believed again, until it is destroyed. */
void nspy_seen_event_unfit(const void *event);
/* Before and after an event is recorded; mark NULL: it says nothing. */
uint64_t nspy_seen_record_begin(struct nspy_seen_event *event);
void nspy_seen_record_end(struct nspy_seen_event *event, uint64_t state,
			  const struct nspy_mark *mark);
/* The state to come back with, 0 if the event says nothing now. */
uint64_t nspy_seen_event_state(const struct nspy_seen_event *event);
/* The mark, if the event is still in that state. */
bool nspy_seen_event_mark(const struct nspy_seen_event *event, uint64_t state,
			  struct nspy_mark *ret);

/* True for one caller only, and if nobody has told of this or a later one of its communicator. */
bool nspy_seen_is_news(uint64_t op);

static inline uint64_t nspy_seen_op(uint32_t comm, uint64_t seq)
{
	return comm < 1u << 23 && seq < 1ULL << 40 ? (uint64_t)comm << 40 | seq : 0;
}

#endif
