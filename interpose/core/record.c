/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "record.h"

#include "clock.h"
#include "core.h"
#include "export.h"
#include "failure.h"
#include "resolve.h"
#include "thread.h"

static struct nspy_rec *enter_cold(unsigned int fn);

/*
 * NCCL calls itself through its PLT, so its inner calls reach our wrappers: only the application's
 * own call counts. CUDA calls made inside NCCL's are kept, marked as nested.
 */
static bool nested_is_noise(const struct nspy_slot *slot, unsigned int fn)
{
	return nspy_fn_table[fn].library == nspy_fn_table[slot->open[0].fn].library;
}

static inline struct nspy_rec *open_entry(struct nspy_tls *t, unsigned int fn)
{
	struct nspy_slot *slot = t->slot;
	uint32_t depth = t->depth;
	struct nspy_rec *rec;
	uint8_t flags = t->group_depth ? NSPY_CALL_GROUPED : 0;

	if (nspy_unlikely(depth)) {
		if (t->busy || nested_is_noise(slot, fn))
			return NULL;
		if (depth == NSPY_OPEN_DEPTH_MAX) {
			nspy_count_loss(NSPY_LOSS_CALLS_DEPTH, 1);
			return NULL;
		}
		flags |= NSPY_CALL_NESTED;
	}
	rec = &slot->open[depth];
	*rec = (struct nspy_rec){
		.comm = NSPY_COMM_INDEX_NONE,
		.peer = NSPY_PEER_NONE,
		.fn = (uint16_t)fn,
		.kind = NSPY_REC_CALL,
		.flags = flags,
		.datatype = NSPY_DATATYPE_NONE,
		.redop = NSPY_REDOP_NONE,
		.callno = ++t->callno,
		.group = t->group_depth ? t->groups : 0,
	};
	return rec;
}

struct nspy_rec *nspy_enter(unsigned int fn)
{
	struct nspy_tls *t = &nspy_tls;

	if (nspy_likely(t->slot && t->epoch == *nspy_epoch_word))
		return open_entry(t, fn);
	return enter_cold(fn);
}

static __attribute__((noinline, cold)) struct nspy_rec *enter_cold(unsigned int fn)
{
	struct nspy_tls *t = &nspy_tls;
	uint32_t phase = atomic_load_explicit(&nspy_core.phase, memory_order_acquire);
	bool ready;

	if (phase == NSPY_PHASE_OFF || phase == NSPY_PHASE_STOPPED || t->busy)
		return NULL;
	/* Only NCCL wakes us: a process that merely uses CUDA gets no file and no thread. */
	if (nspy_fn_table[fn].library != NSPY_LIB_NCCL &&
	    (phase != NSPY_PHASE_RECORDING || *nspy_epoch_word == 0))
		return NULL;
	t->busy = true;
	ready = nspy_start() && nspy_thread_attach();
	t->busy = false;
	return ready ? open_entry(t, fn) : NULL;
}

void nspy_commit(struct nspy_rec *rec)
{
	struct nspy_tls *t = &nspy_tls;

	rec->enter = nspy_ticks();
	/* The entry is complete before it shows; pairs with the live reader's load of depth. */
	atomic_store_explicit(&t->slot->depth, ++t->depth, memory_order_release);
}

void nspy_leave(struct nspy_rec *rec, int result)
{
	struct nspy_tls *t = &nspy_tls;
	uint64_t now = nspy_ticks();

	/* The real function forked (or our state was reset): the entry is not ours any more. */
	if (nspy_unlikely(t->epoch != *nspy_epoch_word || !t->slot || !t->depth))
		return;
	rec->leave = now;
	rec->result = (int16_t)result;
	if (nspy_likely(rec->kind == NSPY_REC_CALL)) /* a hook may have dropped it */
		nspy_thread_append((const union nspy_any_rec *)rec);
	if (nspy_unlikely(result != 0 && result != NSPY_RESULT_IN_PROGRESS))
		nspy_note_failure(rec);
	t->depth--;
	atomic_store_explicit(&t->slot->depth, t->depth, memory_order_release);
	atomic_store_explicit(&t->slot->calls,
			      atomic_load_explicit(&t->slot->calls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}
