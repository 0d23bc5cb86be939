/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder, as wrappers see it. A wrapper does
 *
 *	struct nspy_rec *rec = nspy_enter(NSPY_FN_...);
 *	if (!rec)
 *		return real(...);            not recording, too deep, or a forked child at rest
 *	nspy_put_...(rec, ...);              fill in what is known
 *	nspy_commit(rec);                    time it and publish it: evidence before the call
 *	result = real(...);
 *	nspy_got_...(rec, result, ...);
 *	nspy_leave(rec, result);             append the complete record
 *
 * Inline, so that a wrapper's whole path lies in a few adjacent lines of code (see hot.h).
 * context: any thread; no malloc, no lock, no system call, errno untouched (the first call of a
 * thread and of the process set things up and are cold).
 */
#ifndef NSPY_RECORD_H
#define NSPY_RECORD_H

#include "clock.h"
#include "thread.h"
#include "trace_record.h"

/* The uncommon ways through nspy_enter and nspy_leave. */
struct nspy_rec *nspy_enter_cold(unsigned int fn);
bool nspy_enter_nested(struct nspy_tls *t, unsigned int fn, uint8_t *flags);
void nspy_note_failure(const struct nspy_rec *rec);

static inline NSPY_INLINE struct nspy_rec *nspy_open_entry(struct nspy_tls *t, unsigned int fn)
{
	struct nspy_rec *rec = &t->slot->open[t->depth & (NSPY_OPEN_DEPTH_MAX - 1)];
	uint8_t flags = t->group_depth ? NSPY_CALL_GROUPED : 0;

	if (nspy_unlikely(t->depth) && !nspy_enter_nested(t, fn, &flags))
		return NULL;
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

static inline NSPY_INLINE struct nspy_rec *nspy_enter(unsigned int fn)
{
	struct nspy_tls *t = &nspy_tls;

	if (nspy_likely(t->slot && t->epoch == nspy_hot->epoch))
		return nspy_open_entry(t, fn);
	return nspy_enter_cold(fn);
}

static inline void nspy_commit(struct nspy_rec *rec)
{
	struct nspy_tls *t = &nspy_tls;

	rec->enter = nspy_ticks();
	/* The entry is complete before it shows; pairs with the live reader's load of depth. */
	atomic_store_explicit(&t->slot->depth, ++t->depth, memory_order_release);
}

static inline void nspy_leave(struct nspy_rec *rec, int result)
{
	struct nspy_tls *t = &nspy_tls;
	uint64_t now = nspy_ticks();

	/* The real function forked, or recording has stopped: the entry is not ours any more. */
	if (nspy_unlikely(t->epoch != nspy_hot->epoch || !t->slot || !t->depth))
		return;
	rec->leave = now;
	rec->result = (int16_t)result;
	if (nspy_likely(rec->kind == NSPY_REC_CALL)) /* a hook may have dropped it */
		nspy_thread_append(t, (const union nspy_any_rec *)rec);
	if (nspy_unlikely(result != 0 && result != NSPY_RESULT_IN_PROGRESS))
		nspy_note_failure(rec);
	t->depth--;
	atomic_store_explicit(&t->slot->depth, t->depth, memory_order_release);
	atomic_store_explicit(&t->slot->calls, t->callno, memory_order_relaxed);
}

#endif
