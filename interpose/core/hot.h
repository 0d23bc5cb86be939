/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every recorded call touches, packed: when a call comes after seconds of computing, nothing
 * is in the caches any more, and each further cache line or page costs a memory access. The words
 * below and the communicators' counters therefore share pages, and the code that uses them is
 * inline in the wrappers (record.h, hooks_ops.h).
 *
 * The whole area is wiped to zero in a forked child, even after a raw clone (MADV_WIPEONFORK): a
 * thread's recorder state is valid only while it carries the same, non-zero epoch.
 */
#ifndef NSPY_HOT_H
#define NSPY_HOT_H

#include <stdatomic.h>
#include <stdint.h>

#include "trace_live.h"

#define NSPY_COMMS_MAX 4096u /* known at once; the oldest gone ones make room */

/* Counters of one communicator; the application serialises calls on it, so no atomic adds. */
struct nspy_comm {
	_Atomic uint64_t coll_seq;
	_Atomic uint64_t capture_seq;
	_Atomic uint32_t *p2p; /* calls sent to each peer, then received from each; or NULL */
	uint32_t p2p_ranks;    /* peers that p2p has room for */
	uint32_t index;        /* what records call it */
	_Atomic uint32_t capture_epoch;
	_Atomic int32_t async_state; /* last seen by ncclCommGetAsyncError, -1 = none */
	uint64_t reserved[3];
};
_Static_assert(sizeof(struct nspy_comm) == 64, "one cache line");

#define NSPY_HOT_LIBRARIES 2u

/* Calls from these addresses all go to one copy of the library (resolve.h); 0 bytes = ask. */
struct nspy_direct {
	uintptr_t begin;
	uintptr_t bytes;
};

struct nspy_hot {
	uint32_t epoch;                /* 0 = nothing is recorded */
	uint32_t clock_source;         /* enum nspy_clock_source */
	_Atomic uint32_t captures;     /* stream captures begun so far */
	_Atomic uint32_t comm_version; /* changes whenever a handle stops being valid */
	struct nspy_direct direct[NSPY_HOT_LIBRARIES];
	_Atomic uint64_t graph_launches; /* replays entered so far, by any thread */
	uint64_t reserved[1];
	struct nspy_comm comms[NSPY_COMMS_MAX];
};

/* Before recording starts this is an area of zeroes. */
extern struct nspy_hot *nspy_hot;

#endif
