/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live pages: the memory, shared with nobody but a reader after the fact, into which the recorder
 * writes. One file per recording on a tmpfs, fully reserved before it is mapped, so that a store
 * can never fault for want of space. It survives SIGKILL of its process; whoever comes first (the
 * launcher, a sibling rank, or the analyzer on the same host) reads it.
 *
 * Layout: head | ident text | schema text | thread slots | pages. The head says where each begins.
 * A process without usable tmpfs keeps the same structures in private memory.
 *
 * Committing. Slot and page counters are stored with release order after what they publish; the
 * reader pairs them with acquire loads. A record below page.committed is complete.
 */
#ifndef NSPY_TRACE_LIVE_H
#define NSPY_TRACE_LIVE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_note.h"
#include "trace_reader.h"
#include "trace_record.h"
#include "trace_signal.h"

#define NSPY_LIVE_HEAD_BYTES   4096u
#define NSPY_LIVE_IDENT_BYTES  16384u
#define NSPY_LIVE_SCHEMA_BYTES 16384u
#define NSPY_OPEN_DEPTH_MAX    8u
#define NSPY_CLOCK_PIECES      4u
#define NSPY_PAGE_BYTES        8192u
#define NSPY_PAGE_RECORDS      127u /* (8192 - 64) / 64 */

enum nspy_clock_source {
	NSPY_CLOCK_MONOTONIC = 0, /* ticks are CLOCK_MONOTONIC ns already */
	NSPY_CLOCK_TSC = 1,       /* x86 time-stamp counter */
	NSPY_CLOCK_CNTVCT = 2,    /* aarch64 virtual counter */
};

/*
 * One piece of the tick -> ns conversion: ns = base_ns + ((ticks - base_ticks) * mult >> 32).
 * mult is ns per tick in 32.32 fixed point. Pieces join without a jump unless epoch differs.
 */
struct nspy_clock_piece {
	uint64_t base_ticks;
	uint64_t base_ns;
	uint64_t mult;
	int64_t mono_to_real_ns;
	uint64_t epoch;
};

enum nspy_live_state {
	NSPY_LIVE_RUNNING = 1,
	NSPY_LIVE_ENDED = 2,
	NSPY_LIVE_EXITED = 3, /* _exit was called: see exit_code; nothing was flushed */
};

struct nspy_live_head {
	uint64_t magic;
	uint32_t version;
	uint32_t head_bytes;
	uint64_t file_bytes;
	uint64_t run_id;
	uint32_t pid;
	uint32_t clock_source; /* enum nspy_clock_source */
	uint32_t ident_offset;
	uint32_t schema_offset;
	_Atomic uint32_t ident_bytes; /* committed bytes */
	_Atomic uint32_t schema_bytes;
	uint32_t slot_offset;
	uint32_t slot_count;
	uint32_t page_offset;
	uint32_t page_count;
	_Atomic uint32_t state;           /* enum nspy_live_state */
	_Atomic uint32_t clock_version;   /* odd while the pieces change */
	_Atomic uint64_t heartbeat_ticks; /* last time the writer thread was alive */
	_Atomic uint64_t loss[NSPY_LOSS_COUNT];
	_Atomic uint32_t clock_count; /* pieces ever made; piece i lies at i % NSPY_CLOCK_PIECES */
	_Atomic int32_t exit_code;    /* argument of _exit when state is EXITED */
	struct nspy_clock_piece clock[NSPY_CLOCK_PIECES];
	/* What is kept of the records, as in a NOTE chunk (trace_note.h); 0 in older files. */
	_Atomic uint32_t mode; /* enum nspy_mode */
	_Atomic uint64_t mode_since_ns;
	_Atomic uint64_t hole_from_ns; /* the latest hole */
	_Atomic uint64_t hole_until_ns;
	_Atomic uint64_t hole_records;
	/* Signals, if their handlers were asked for; no note in older files. */
	struct nspy_signal_note crash; /* the latest that tells of a fault */
	struct nspy_signal_note term;  /* the first that asked the process to end */
};

enum nspy_slot_state {
	NSPY_SLOT_FREE = 0,
	NSPY_SLOT_USED = 1,
	NSPY_SLOT_ORPHAN = 2,  /* its thread has ended; the next thread may continue it */
	NSPY_SLOT_CLOSING = 3, /* the writer is about to free it */
};

/*
 * State of one thread, or of several one after the other: a new thread continues the slot of one
 * that has ended, so that threads which come and go do not each use up a page. The open-call stack
 * holds the calls it is in, outermost first; entry i is valid if i < depth. An entry is complete
 * before depth is raised (release). An outer call can end only after the inner ones.
 */
struct nspy_slot {
	_Atomic uint32_t state;
	uint32_t tid;
	uint32_t serial; /* n-th slot begun in the process, from 1 */
	_Atomic uint32_t depth;
	_Atomic uint64_t next_index; /* records appended so far */
	_Atomic uint64_t calls;      /* calls entered so far */
	_Atomic uint64_t lost;       /* records it could not append */
	uint32_t page;               /* number of its page + 1, 0 = none */
	uint32_t groups;             /* outermost groups begun so far */
	uint64_t reserved[2];
	struct nspy_rec open[NSPY_OPEN_DEPTH_MAX];
};
_Static_assert(sizeof(struct nspy_slot) == 64 + 512, "slots keep records on cache lines");

enum nspy_page_state {
	NSPY_PAGE_FREE = 0,
	NSPY_PAGE_OWNED = 1, /* its thread appends */
	NSPY_PAGE_FULL = 2,  /* its thread has moved on; free once drained */
};

struct nspy_page {
	_Atomic uint32_t state;
	uint32_t serial; /* thread that owns it */
	uint32_t tid;
	_Atomic uint32_t committed; /* complete records */
	_Atomic uint32_t drained;   /* records that are safe in a segment */
	uint32_t reserved;
	uint64_t first_index; /* index of record 0 among the thread's records */
	uint64_t generation;  /* orders the pages of one thread */
	uint64_t pad[3];
	union nspy_any_rec rec[NSPY_PAGE_RECORDS];
};
_Static_assert(sizeof(struct nspy_page) == NSPY_PAGE_BYTES, "page size");

/* Ticks to CLOCK_MONOTONIC ns with the newest piece that began at or before ticks. */
/* Turns the times of a record in memory into nanoseconds. */
void nspy_rec_to_ns(const struct nspy_clock_piece *pieces, uint32_t count, union nspy_any_rec *rec);
uint64_t nspy_clock_to_ns(const struct nspy_clock_piece *pieces, uint32_t count, uint64_t ticks);

/* A live file as a reader sees it: a private copy, checked. */
struct nspy_live;

/*
 * Reads a live file. -EBADMSG if it is none or its offsets do not fit; -EPROTONOSUPPORT if newer.
 * The file may belong to a running process: what is read is then a consistent prefix per thread.
 */
int nspy_live_open(const char *path, struct nspy_live **ret);
int nspy_live_open_memory(const void *data, size_t bytes, struct nspy_live **ret);
void nspy_live_free(struct nspy_live *live);
/* What was read, as a file could hold it; borrowed until nspy_live_free. */
const uint8_t *nspy_live_image(const struct nspy_live *live, size_t *ret_bytes);

struct nspy_live_info {
	uint64_t run_id;
	uint32_t pid;
	uint32_t state; /* enum nspy_live_state */
	int32_t exit_code;
	uint64_t heartbeat_ns;
	int64_t mono_to_real_ns;
	uint64_t loss[NSPY_LOSS_COUNT];
	uint64_t calls;
	struct nspy_note_mode mode;
	struct nspy_note_hole hole;          /* the latest one; records 0 = none */
	struct nspy_signal_note crash, term; /* number 0 = none */
};
void nspy_live_info(const struct nspy_live *live, struct nspy_live_info *ret);

/* Payloads in the form of IDENT and SCHEMA chunks; borrowed until nspy_live_free. */
const uint8_t *nspy_live_ident(const struct nspy_live *live, size_t *ret_bytes);
const uint8_t *nspy_live_schema(const struct nspy_live *live, size_t *ret_bytes);

/*
 * Page number i (0 <= i < nspy_live_page_count) as records with ns times; *ret_count is 0 for an
 * empty page. Records whose index is below what the segments already hold must be skipped by the
 * caller (index of record k = *ret_first_index + k).
 */
size_t nspy_live_page_count(const struct nspy_live *live);
int nspy_live_page(const struct nspy_live *live, size_t i, uint32_t *ret_serial,
		   uint64_t *ret_first_index, union nspy_any_rec *records, size_t capacity,
		   size_t *ret_count);

/*
 * Calls that were open, all threads. A call whose completed record was already appended (the
 * process was killed between the two stores) is left out.
 */
int nspy_live_open_calls(const struct nspy_live *live, struct nspy_open_call *calls,
			 size_t capacity, size_t *ret_count);

#endif
