/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The communicators of this process: from NCCL's handle to an index, a key that is the same on all
 * ranks, and counters. Looking a handle up is lock-free; creating and removing takes a lock that is
 * never held across a call of NCCL's. NCCL's own structure is never read.
 */
#ifndef NSPY_COMM_H
#define NSPY_COMM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "thread.h"
#include "trace_record.h"

/* Memory for the registry; called while recording starts, and again in a forked child. */
bool nspy_comm_start(void);

/* The record as it stands. context: the thread that creates or ends the communicator. */
const struct nspy_comm_rec *nspy_comm_rec(const struct nspy_comm *comm);

/* The communicator of a handle, or NULL. No lock, no system call. */
struct nspy_comm *nspy_comm_find(const void *handle);

/*
 * As above through the thread's memory of the last one; one never seen before is registered as
 * NSPY_COMM_FOUND.
 */
struct nspy_comm *nspy_comm_find_or_note(const void *handle);

/*
 * As nspy_comm_find; a handle not seen before is that of a child whose creation was begun and whose
 * handle is awaited. NULL if there is none.
 */
struct nspy_comm *nspy_comm_find_or_adopt(const void *handle);

static inline struct nspy_comm *nspy_comm_of(struct nspy_tls *t, const void *handle)
{
	if (nspy_likely(t->last_handle == handle && handle &&
			t->comm_version == atomic_load_explicit(&nspy_hot->comm_version,
								memory_order_acquire)))
		return t->last_comm;
	return nspy_comm_find_or_note(handle);
}

/*
 * A new communicator, given what is known so far (key, nranks, rank, origin, ...; comm, ordinal and
 * kind are set here). rec->ordinal counts earlier ones of the same id, nranks and rank if id_hash
 * is set. Writes the record to the trace. NULL if the table is full (counted).
 */
struct nspy_comm *nspy_comm_new(const struct nspy_comm_rec *rec);

/* The communicator with that index, or NULL. Cold. */
struct nspy_comm *nspy_comm_by_index(uint32_t index);

/* The handle is known now. */
void nspy_comm_bind(struct nspy_comm *comm, const void *handle);
/*
 * The handle will be written to *place by the library: at the end of the group, or by a thread of
 * its own when the creation is complete (init.cc: "*newcomm should be NCCL_COMM_NULL until comm
 * split fully complete"). The place is the application's, and is never read but through the kernel
 * or inside the call that fills it.
 */
void nspy_comm_await(struct nspy_comm *comm, void *const *place);
/* The parent's state has become ncclSuccess: so its children are complete. */
void nspy_comm_children_ready(const struct nspy_comm *parent);
/* The copy of NCCL that a communicator lives in; NSPY_NO_COPY if the handle is not known. */
unsigned int nspy_comm_copy(const void *handle);
/* The handle is about to become invalid. */
void nspy_comm_unbind(struct nspy_comm *comm);

/* Creation has succeeded: asks NCCL for size and rank where they are not known, writes the record.
 */
void nspy_comm_ready(struct nspy_comm *comm);

/* Writes the record as it stands now, with more flags set. */
void nspy_comm_update(struct nspy_comm *comm, uint8_t more_flags);

/* Its creation is completed by the end of the group that thread `serial` is in. */
void nspy_comm_defer(struct nspy_comm *comm, uint32_t serial);

/* This rank took part in the creation and is not a member. */
void nspy_comm_not_member(struct nspy_comm *comm);

/*
 * The group of thread `serial` has ended with this: the communicators created in it are ready, have
 * failed, or (NSPY_RESULT_IN_PROGRESS) are still being made.
 */
void nspy_comm_group_done(uint32_t serial, int result);

/* n-th child of that origin on this parent, counted from 1. */
uint32_t nspy_comm_next_child(struct nspy_comm *parent, enum nspy_comm_origin origin);

/* Next ordinal of a send to (or receive from) a peer; 0 if there is no counter for it. */
static inline uint64_t nspy_comm_next_p2p(struct nspy_comm *comm, int peer, bool send)
{
	_Atomic uint32_t *counter;
	uint32_t n;

	if (nspy_unlikely(!comm->p2p || peer < 0 || (uint32_t)peer >= comm->p2p_ranks))
		return 0;
	counter = &comm->p2p[send ? (uint32_t)peer : comm->p2p_ranks + (uint32_t)peer];
	n = atomic_load_explicit(counter, memory_order_relaxed) + 1;
	atomic_store_explicit(counter, n, memory_order_relaxed);
	return n;
}

/* Copies the records of all communicators in use or recently gone; returns their number. */
size_t nspy_comm_snapshot(struct nspy_comm_rec *out, size_t capacity);

/* Where a communicator that is not gone stands. */
struct nspy_comm_progress {
	struct nspy_comm_rec rec; /* when: in ticks, of its last change; 0 = not known */
	uint64_t enqueued;        /* collectives entered */
	uint64_t captured;        /* collectives of the latest capture */
	int32_t async_state;      /* as in struct nspy_comm */
};

/* Those that are neither gone nor failed. context: watcher thread. */
size_t nspy_comm_progress(struct nspy_comm_progress *out, size_t capacity);

/* Sends to and receives from a peer so far; false if there are no such counters. */
bool nspy_comm_p2p_counts(uint32_t index, int peer, uint32_t *ret_sent, uint32_t *ret_received);

/* 64-bit hash of bytes, the same on every host. */
uint64_t nspy_hash(const void *data, size_t bytes, uint64_t seed);

#endif
