/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks that are short but not on the path of every collective: no lock, no system call. */
#include "compat.h"

#include "hooks.h"

#include "call_failures.h"
#include "capture.h"
#include "comm.h"
#include "core.h"

void nspy_count_no_seq(void)
{
	nspy_count_loss(NSPY_LOSS_SEQ, 1);
}

void nspy_put_rma(struct nspy_rec *rec, const void *handle, size_t count, int datatype, int peer,
		  const void *stream)
{
	nspy_put_comm(rec, handle);
	nspy_set_signature(rec, count, datatype, -1, peer, stream);
}

void nspy_put_comm(struct nspy_rec *rec, const void *handle)
{
	const struct nspy_comm *comm = nspy_comm_find_or_adopt(handle);

	if (comm)
		rec->comm = comm->index;
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
	if (!t->group_depth || --t->group_depth)
		return;
	nspy_seen_settled(NSPY_COMM_INDEX_NONE, result);
	if (t->pending_comms) {
		t->pending_comms = 0;
		nspy_comm_group_done(t->slot->serial, result);
	}
}

void nspy_put_bytes(struct nspy_rec *rec, size_t bytes)
{
	rec->count = bytes;
}

void nspy_got_address(struct nspy_rec *rec, int result, void *const *address)
{
	if (result != 0)
		return;
	if (address)
		rec->arg = (uint64_t)(uintptr_t)*address;
	nspy_memory_obtained(rec);
}

void nspy_put_arg(struct nspy_rec *rec, const void *arg)
{
	rec->arg = (uint64_t)(uintptr_t)arg;
}

void nspy_put_graph_launch(struct nspy_rec *rec)
{
	(void)rec;
	atomic_fetch_add_explicit(&nspy_hot->graph_launches, 1, memory_order_relaxed);
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

uint64_t nspy_next_captured(struct nspy_rec *rec, struct nspy_comm *comm)
{
	uint32_t epoch = atomic_load_explicit(&nspy_hot->captures, memory_order_relaxed);

	rec->flags |= NSPY_CALL_CAPTURED;
	if (atomic_load_explicit(&comm->capture_epoch, memory_order_relaxed) != epoch) {
		atomic_store_explicit(&comm->capture_epoch, epoch, memory_order_relaxed);
		atomic_store_explicit(&comm->capture_seq, 0, memory_order_relaxed);
	}
	return nspy_next_number(&comm->capture_seq);
}
