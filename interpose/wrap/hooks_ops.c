/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks of the calls a training step is made of: no lock, no allocation, no system call. */
#include "compat.h"

#include "hooks.h"

#include <stdatomic.h>

#include "capture.h"
#include "comm.h"
#include "core.h"
#include "export.h"
#include "thread.h"

static inline uint8_t redop_of(int op)
{
	if (op < 0)
		return NSPY_REDOP_NONE;
	return op < (int)NSPY_REDOP_USER ? (uint8_t)op : NSPY_REDOP_USER;
}

static inline void set_signature(struct nspy_rec *rec, size_t count, int datatype, int op, int peer,
				 const void *stream)
{
	rec->count = count;
	rec->datatype = datatype < 0 ? NSPY_DATATYPE_NONE : (uint8_t)datatype;
	rec->redop = redop_of(op);
	rec->peer = peer;
	rec->arg = (uint64_t)(uintptr_t)stream;
}

/* Next number of a counter that only this thread may move at this time. */
static inline uint64_t next(_Atomic uint64_t *counter)
{
	uint64_t n = atomic_load_explicit(counter, memory_order_relaxed) + 1;

	atomic_store_explicit(counter, n, memory_order_relaxed);
	return n;
}

/*
 * A captured operation does not run now: it gets an ordinal within the capture, and the
 * communicator's own sequence stays what all ranks agree on.
 */
static uint64_t next_captured(struct nspy_rec *rec, struct nspy_comm *comm)
{
	uint32_t epoch = nspy_capture_epoch();

	rec->flags |= NSPY_CALL_CAPTURED;
	if (atomic_load_explicit(&comm->capture_epoch, memory_order_relaxed) != epoch) {
		atomic_store_explicit(&comm->capture_epoch, epoch, memory_order_relaxed);
		atomic_store_explicit(&comm->capture_seq, 0, memory_order_relaxed);
	}
	return next(&comm->capture_seq);
}

void nspy_put_coll(struct nspy_rec *rec, const void *handle, size_t count, int datatype, int op,
		   int root, const void *stream)
{
	struct nspy_comm *comm = nspy_comm_find_or_note(handle);

	set_signature(rec, count, datatype, op, root, stream);
	if (nspy_unlikely(!comm)) {
		rec->flags |= NSPY_CALL_NOSEQ;
		return;
	}
	rec->comm = comm->rec.comm;
	rec->seq = nspy_unlikely(nspy_is_captured(stream)) ? next_captured(rec, comm)
							   : next(&comm->coll_seq);
}

static void put_p2p(struct nspy_rec *rec, const void *handle, size_t count, int datatype, int peer,
		    const void *stream, bool send)
{
	struct nspy_comm *comm = nspy_comm_find_or_note(handle);

	set_signature(rec, count, datatype, -1, peer, stream);
	rec->flags |= NSPY_CALL_PEER_SEQ;
	if (nspy_unlikely(!comm)) {
		rec->flags |= NSPY_CALL_NOSEQ;
		return;
	}
	rec->comm = comm->rec.comm;
	if (nspy_unlikely(nspy_is_captured(stream))) {
		rec->seq = next_captured(rec, comm);
		return;
	}
	rec->seq = nspy_comm_next_p2p(comm, peer, send);
	if (nspy_unlikely(!rec->seq)) {
		rec->flags |= NSPY_CALL_NOSEQ;
		nspy_count_loss(NSPY_LOSS_SEQ, 1);
	}
}

void nspy_put_send(struct nspy_rec *rec, const void *comm, size_t count, int datatype, int peer,
		   const void *stream)
{
	put_p2p(rec, comm, count, datatype, peer, stream, true);
}

void nspy_put_recv(struct nspy_rec *rec, const void *comm, size_t count, int datatype, int peer,
		   const void *stream)
{
	put_p2p(rec, comm, count, datatype, peer, stream, false);
}

void nspy_put_rma(struct nspy_rec *rec, const void *handle, size_t count, int datatype, int peer,
		  const void *stream)
{
	nspy_put_comm(rec, handle);
	set_signature(rec, count, datatype, -1, peer, stream);
}

void nspy_put_comm(struct nspy_rec *rec, const void *handle)
{
	const struct nspy_comm *comm = handle ? nspy_comm_find(handle) : NULL;

	if (comm)
		rec->comm = comm->rec.comm;
}

void nspy_put_comm_bytes(struct nspy_rec *rec, const void *handle, size_t bytes)
{
	nspy_put_comm(rec, handle);
	rec->count = bytes;
}

void nspy_put_group_start(struct nspy_rec *rec)
{
	(void)rec; /* counted when the library has accepted it */
}

void nspy_put_group_end(struct nspy_rec *rec)
{
	(void)rec; /* entered as a member of its group */
}

void nspy_got_group_start(struct nspy_rec *rec, int result)
{
	struct nspy_tls *t = &nspy_tls;

	if (result != 0)
		return;
	if (t->group_depth++ == 0)
		t->groups++;
	rec->group = t->groups;
}

void nspy_got_group_end(struct nspy_rec *rec, int result)
{
	struct nspy_tls *t = &nspy_tls;

	(void)rec;
	/* NCCL's own depth may drift from ours after errors: never below zero. */
	if (t->group_depth && --t->group_depth == 0 && t->pending_comms) {
		t->pending_comms = 0;
		if (result != NSPY_RESULT_IN_PROGRESS)
			nspy_comm_group_done(t->slot->serial, result == 0);
	}
}

void nspy_put_bytes(struct nspy_rec *rec, size_t bytes)
{
	rec->count = bytes;
}

void nspy_got_address(struct nspy_rec *rec, int result, void *const *address)
{
	if (result == 0 && address)
		rec->arg = (uint64_t)(uintptr_t)*address;
}

void nspy_put_arg(struct nspy_rec *rec, const void *arg)
{
	rec->arg = (uint64_t)(uintptr_t)arg;
}

void nspy_got_mem_info(struct nspy_rec *rec, int result, const size_t *free_bytes,
		       const size_t *total_bytes)
{
	if (result != 0)
		return;
	if (free_bytes)
		rec->count = *free_bytes;
	if (total_bytes)
		rec->arg = *total_bytes;
}

void nspy_got_capture_begin(struct nspy_rec *rec, int result, const void *stream)
{
	(void)rec;
	(void)stream;
	if (result == 0)
		nspy_capture_begun();
}
