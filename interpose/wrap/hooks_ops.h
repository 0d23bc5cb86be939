/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of the calls a training step is made of, inline (core/hot.h says why): no lock, no
 * allocation, no system call. Included by hooks.h only.
 */
#ifndef NSPY_HOOKS_OPS_H
#define NSPY_HOOKS_OPS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture.h"
#include "comm.h"
#include "thread.h"

void nspy_count_no_seq(void);

static inline uint8_t nspy_redop_of(int op)
{
	if (op < 0 || op == (int)NSPY_REDOP_NONE)
		return NSPY_REDOP_NONE;
	return op < (int)NSPY_REDOP_USER ? (uint8_t)op : NSPY_REDOP_USER;
}

static inline void nspy_set_signature(struct nspy_rec *rec, size_t count, int datatype, int op,
				      int peer, const void *stream)
{
	rec->count = count;
	rec->datatype = datatype < 0 ? NSPY_DATATYPE_NONE : (uint8_t)datatype;
	rec->redop = nspy_redop_of(op);
	rec->peer = peer;
	rec->arg = (uint64_t)(uintptr_t)stream;
}

/* Next number of a counter that only this thread may move at this time. */
static inline uint64_t nspy_next_number(_Atomic uint64_t *counter)
{
	uint64_t n = atomic_load_explicit(counter, memory_order_relaxed) + 1;

	atomic_store_explicit(counter, n, memory_order_relaxed);
	return n;
}

/*
 * A captured operation does not run now: it gets an ordinal within the capture, and the
 * communicator's own sequence stays what all ranks agree on.
 */
uint64_t nspy_next_captured(struct nspy_rec *rec, struct nspy_comm *comm);

static inline NSPY_INLINE void nspy_put_coll(struct nspy_rec *rec, const void *handle, size_t count,
					     int datatype, int op, int root, const void *stream)
{
	struct nspy_comm *comm = nspy_comm_of(&nspy_tls, handle);

	nspy_set_signature(rec, count, datatype, op, root, stream);
	if (nspy_unlikely(!comm)) {
		rec->flags |= NSPY_CALL_NOSEQ;
		return;
	}
	rec->comm = comm->index;
	rec->seq = nspy_unlikely(nspy_is_captured(stream)) ? nspy_next_captured(rec, comm)
							   : nspy_next_number(&comm->coll_seq);
}

static inline NSPY_INLINE void nspy_put_p2p(struct nspy_rec *rec, const void *handle, size_t count,
					    int datatype, int peer, const void *stream, bool send)
{
	struct nspy_comm *comm = nspy_comm_of(&nspy_tls, handle);

	nspy_set_signature(rec, count, datatype, -1, peer, stream);
	rec->flags |= NSPY_CALL_PEER_SEQ;
	if (nspy_unlikely(!comm)) {
		rec->flags |= NSPY_CALL_NOSEQ;
		return;
	}
	rec->comm = comm->index;
	if (nspy_unlikely(nspy_is_captured(stream))) {
		rec->seq = nspy_next_captured(rec, comm);
		return;
	}
	rec->seq = nspy_comm_next_p2p(comm, peer, send);
	if (nspy_unlikely(!rec->seq)) {
		rec->flags |= NSPY_CALL_NOSEQ;
		nspy_count_no_seq();
	}
}

static inline NSPY_INLINE void nspy_put_send(struct nspy_rec *rec, const void *comm, size_t count,
					     int datatype, int peer, const void *stream)
{
	nspy_put_p2p(rec, comm, count, datatype, peer, stream, true);
}

static inline NSPY_INLINE void nspy_put_recv(struct nspy_rec *rec, const void *comm, size_t count,
					     int datatype, int peer, const void *stream)
{
	nspy_put_p2p(rec, comm, count, datatype, peer, stream, false);
}

#endif
