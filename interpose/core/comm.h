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
#include <stdint.h>

#include "trace_record.h"

#define NSPY_COMMS_MAX 4096u /* known at once; the oldest gone ones make room */

struct nspy_comm {
	struct nspy_comm_rec rec; /* as last written to the trace */
	/* The application serialises calls on one communicator, so these need no atomic adds. */
	_Atomic uint64_t coll_seq;
	_Atomic uint64_t capture_seq;
	_Atomic uint32_t capture_epoch;
	_Atomic int async_state; /* last state seen by ncclCommGetAsyncError, -1 = none */
	_Atomic uint32_t *p2p;   /* calls sent to each peer, then received from each; or NULL */
	uint32_t p2p_ranks;      /* peers that p2p has room for */
	uint32_t children[6];    /* by enum nspy_comm_origin */
	uint32_t pending_serial; /* thread whose group will complete its creation, 0 = none */
	bool used;
};

/* Memory for the registry; called while recording starts, and again in a forked child. */
bool nspy_comm_start(void);

/* The communicator of a handle, or NULL. No lock, no system call. */
struct nspy_comm *nspy_comm_find(const void *handle);

/* As above, but one never seen before is registered as NSPY_COMM_FOUND (cold). */
struct nspy_comm *nspy_comm_find_or_note(const void *handle);

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
/* The handle is about to become invalid. */
void nspy_comm_unbind(struct nspy_comm *comm);

/* Creation has succeeded: asks NCCL for size and rank where they are not known, writes the record.
 */
void nspy_comm_ready(struct nspy_comm *comm);

/* Writes the record as it stands now, with more flags set. */
void nspy_comm_update(struct nspy_comm *comm, uint8_t more_flags);

/* Marks all communicators created in the group of thread `serial` as ready or failed. */
void nspy_comm_group_done(uint32_t serial, bool ok);

/* n-th child of that origin on this parent, counted from 1. */
uint32_t nspy_comm_next_child(struct nspy_comm *parent, enum nspy_comm_origin origin);

/* Next ordinal of a send to (or receive from) a peer; 0 if there is no counter for it. */
uint64_t nspy_comm_next_p2p(struct nspy_comm *comm, int peer, bool send);

/* Copies the records of all communicators in use or recently gone; returns their number. */
size_t nspy_comm_snapshot(struct nspy_comm_rec *out, size_t capacity);

/* 64-bit hash of bytes, the same on every host. */
uint64_t nspy_hash(const void *data, size_t bytes, uint64_t seed);

#endif
