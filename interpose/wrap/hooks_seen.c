/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of events and waits: what the application finds done tells the end of collectives (seen.h).
 * No lock, no allocation, no system call, no call of CUDA but the question about captures. The
 * calls themselves are too frequent to be kept; a record is written for what they tell.
 */
#include "compat.h"

#include "hooks.h"

#include "capture.h"
#include "clock.h"
#include "comm.h"
#include "record.h"
#include "seen.h"

#define NOT_READY    600 /* cudaErrorNotReady */
#define INTERPROCESS 4u  /* cudaEventInterprocess */

static struct nspy_seen_thread *begin(const struct nspy_rec *rec)
{
	struct nspy_seen_thread *s = nspy_tls.seen;

	if (!s)
		return NULL;
	s->callno = rec->callno;
	s->gaps = nspy_seen_gaps();
	s->event[0] = s->event[1] = NULL;
	return s;
}

/* NULL if something came in between: a signal handler's calls, or calls that were not seen. */
static struct nspy_seen_thread *again(const struct nspy_rec *rec)
{
	struct nspy_seen_thread *s = nspy_tls.seen;

	return s && s->callno == rec->callno && s->gaps == nspy_seen_gaps() ? s : NULL;
}

/* An application may ask a million times a second; only a failure is worth a record. */
static void drop(struct nspy_rec *rec, int result)
{
	if (result == 0 || result == NOT_READY)
		rec->kind = NSPY_REC_NONE;
}

/* --- collectives --- */

void nspy_got_queued(struct nspy_rec *rec, int result)
{
	struct nspy_seen_thread *s = nspy_tls.seen;
	uint64_t op;

	if (!s || !rec->seq || (rec->flags & (NSPY_CALL_CAPTURED | NSPY_CALL_NOSEQ)) ||
	    (result != 0 && result != NSPY_RESULT_IN_PROGRESS))
		return;
	op = nspy_seen_op(rec->comm, rec->seq);
	for (uint32_t i = 0; i < NSPY_SEEN_PENDING; i++) {
		if (s->pending[i].op && s->pending[i].stream != rec->arg)
			continue;
		s->pending[i].stream = rec->arg;
		s->pending[i].op = op;
		s->pending[i].enter = rec->enter;
		s->pending[i].ops++;
		s->pending[i].unsure = result != 0 || nspy_tls.group_depth;
		return;
	}
}

static void forget(struct nspy_seen_thread *s, uint32_t i)
{
	s->pending[i].op = 0;
	s->pending[i].ops = 0;
}

/* A group has ended, or a communicator says that it has done what it was asked. */
void nspy_seen_settled(uint32_t comm, int result)
{
	struct nspy_seen_thread *s = nspy_tls.seen;

	for (uint32_t i = 0; s && i < NSPY_SEEN_PENDING; i++) {
		if (!s->pending[i].op || !s->pending[i].unsure)
			continue;
		if (comm != NSPY_COMM_INDEX_NONE && s->pending[i].op >> 40 != comm)
			continue;
		if (result == 0)
			s->pending[i].unsure = false;
		else if (result != NSPY_RESULT_IN_PROGRESS)
			forget(s, i);
	}
}

/* What this thread has surely put on its streams. */
static void publish(struct nspy_seen_thread *s)
{
	for (uint32_t i = 0; i < NSPY_SEEN_PENDING; i++) {
		if (!s->pending[i].op || s->pending[i].unsure)
			continue;
		nspy_seen_queued(s->pending[i].stream, s->pending[i].op, s->pending[i].enter,
				 s->pending[i].ops);
		forget(s, i);
	}
}

/* --- telling --- */

static void tell(const struct nspy_rec *rec, uint64_t op, struct nspy_done_rec *done)
{
	done->kind = NSPY_REC_DONE;
	done->fn = rec->fn;
	done->callno = rec->callno;
	done->comm = (uint32_t)(op >> 40);
	done->seq = op & ((1ULL << 40) - 1);
	nspy_thread_append(&nspy_tls, (const union nspy_any_rec *)done);
}

static void tell_covers(const struct nspy_rec *rec, const struct nspy_covers *covers,
			uint64_t not_done)
{
	for (uint32_t i = 0; i < NSPY_COVERS; i++) {
		struct nspy_done_rec done = {
			.when = nspy_ticks(),
			.began = covers->enter[i],
			.not_done = not_done > covers->enter[i] ? not_done : 0,
		};

		if (covers->op[i] && nspy_seen_is_news(covers->op[i]))
			tell(rec, covers->op[i], &done);
	}
}

/* --- streams --- */

void nspy_put_stream_asked(struct nspy_rec *rec, const void *stream)
{
	struct nspy_seen_thread *s = begin(rec);

	rec->arg = (uint64_t)(uintptr_t)stream;
	if (!s)
		return;
	publish(s);
	nspy_seen_tail(rec->arg, &s->mark);
	s->not_done = nspy_seen_stream_asked(rec->arg);
}

void nspy_got_stream_done(struct nspy_rec *rec, int result)
{
	struct nspy_seen_thread *s = again(rec);

	if (s && result == 0)
		tell_covers(rec, &s->mark.covers, s->not_done);
}

void nspy_got_stream_answer(struct nspy_rec *rec, int result)
{
	nspy_got_stream_done(rec, result);
	if (result == NOT_READY && again(rec))
		nspy_seen_stream_not_done(rec->arg, rec->enter);
	drop(rec, result);
}

void nspy_put_stream_gone(struct nspy_rec *rec, const void *stream)
{
	struct nspy_seen_thread *s = nspy_tls.seen;

	rec->arg = (uint64_t)(uintptr_t)stream;
	nspy_seen_stream_gone(rec->arg);
	for (uint32_t i = 0; s && i < NSPY_SEEN_PENDING; i++)
		if (s->pending[i].stream == rec->arg)
			forget(s, i);
}

void nspy_got_stream_made(struct nspy_rec *rec, int result, void *const *stream)
{
	if (result == 0 && stream)
		nspy_seen_stream_gone((uint64_t)(uintptr_t)*stream);
	drop(rec, result);
}

void nspy_got_not_kept(struct nspy_rec *rec, int result)
{
	drop(rec, result);
}

/* --- events --- */

void nspy_put_event_record(struct nspy_rec *rec, const void *event, const void *stream)
{
	struct nspy_seen_thread *s = begin(rec);
	const struct nspy_page *page = nspy_tls.page;

	rec->arg = (uint64_t)(uintptr_t)event;
	if (!s)
		return;
	if (nspy_is_captured(stream)) { /* whoever launches the graph records it, again and again */
		nspy_seen_event_unfit(event);
		return;
	}
	publish(s);
	nspy_seen_tail((uint64_t)(uintptr_t)stream, &s->mark);
	s->mark.call = (uint64_t)nspy_tls.slot->serial << 32 | rec->callno;
	if (page && nspy_tls.page_used) {
		const struct nspy_rec *last = &page->rec[nspy_tls.page_used - 1].call;

		if (last->kind == NSPY_REC_CALL && last->callno == rec->callno - 1)
			s->mark.before = last->leave;
	}
	s->event[0] = nspy_seen_event_find(event, true);
	if (s->event[0])
		s->state[0] = nspy_seen_record_begin(s->event[0]);
}

void nspy_got_event_record(struct nspy_rec *rec, int result)
{
	struct nspy_seen_thread *s = nspy_tls.seen;

	drop(rec, result);
	if (!s || s->callno != rec->callno || !s->event[0])
		return;
	s->mark.enter = rec->enter;
	s->mark.leave = nspy_ticks();
	nspy_seen_record_end(s->event[0], s->state[0],
			     result == 0 && s->gaps == nspy_seen_gaps() ? &s->mark : NULL);
}

static void look_at(struct nspy_seen_thread *s, uint32_t i, const void *event)
{
	s->event[i] = nspy_seen_event_find(event, false);
	s->state[i] = s->event[i] ? nspy_seen_event_state(s->event[i]) : 0;
}

void nspy_put_event_asked(struct nspy_rec *rec, const void *event)
{
	struct nspy_seen_thread *s = begin(rec);

	rec->arg = (uint64_t)(uintptr_t)event;
	if (s)
		look_at(s, 0, event);
}

void nspy_got_event_done(struct nspy_rec *rec, int result)
{
	struct nspy_seen_thread *s = again(rec);
	uint64_t not_done;

	if (!s || result != 0 || !s->event[0])
		return;
	not_done = atomic_load_explicit(&s->event[0]->not_done, memory_order_relaxed);
	if (nspy_seen_event_mark(s->event[0], s->state[0], &s->mark))
		tell_covers(rec, &s->mark.covers, not_done);
}

void nspy_got_event_answer(struct nspy_rec *rec, int result)
{
	struct nspy_seen_thread *s = again(rec);

	nspy_got_event_done(rec, result);
	if (s && result == NOT_READY && s->event[0] && s->state[0] &&
	    nspy_seen_event_state(s->event[0]) == s->state[0])
		atomic_store_explicit(&s->event[0]->not_done, rec->enter, memory_order_relaxed);
	drop(rec, result);
}

void nspy_put_event_waited(struct nspy_rec *rec, const void *stream, const void *event)
{
	struct nspy_seen_thread *s = begin(rec);

	rec->arg = (uint64_t)(uintptr_t)event;
	if (!s)
		return;
	publish(s);
	if (!nspy_is_captured(stream))
		look_at(s, 0, event);
	s->mark.stream = (uint64_t)(uintptr_t)stream;
}

void nspy_got_event_waited(struct nspy_rec *rec, int result)
{
	struct nspy_seen_thread *s = again(rec);
	uint64_t stream = s ? s->mark.stream : 0;

	drop(rec, result);
	if (s && result == 0 && s->event[0] &&
	    nspy_seen_event_mark(s->event[0], s->state[0], &s->mark))
		nspy_seen_follow(stream, &s->mark.covers);
}

void nspy_put_event_gone(struct nspy_rec *rec, const void *event)
{
	rec->arg = (uint64_t)(uintptr_t)event;
	nspy_seen_event_gone(event);
}

void nspy_put_event_unfit(struct nspy_rec *rec, const void *event)
{
	rec->arg = (uint64_t)(uintptr_t)event;
	nspy_seen_event_unfit(event);
}

void nspy_got_event_made(struct nspy_rec *rec, int result, void *const *event, unsigned int flags)
{
	drop(rec, result);
	if (result != 0 || !event)
		return;
	nspy_seen_event_gone(*event); /* destroyed where we did not see it */
	if (flags & INTERPROCESS)
		nspy_seen_event_unfit(*event);
}

void nspy_put_event_pair(struct nspy_rec *rec, const void *from, const void *to)
{
	struct nspy_seen_thread *s = begin(rec);

	rec->arg = (uint64_t)(uintptr_t)to;
	if (!s)
		return;
	look_at(s, 0, from);
	look_at(s, 1, to);
}

/*
 * One collective lies between the two events and nothing else that we see: the thread recorded the
 * first, made the call (perhaps in a group of its own), and recorded the second.
 */
static bool encloses(const struct nspy_mark *from, const struct nspy_mark *to)
{
	uint64_t calls = to->call - from->call;

	return from->stream == to->stream && from->stream > 2 && to->ops - from->ops == 1 &&
	       to->last_op && to->last_op != from->last_op && to->before &&
	       (calls == 2 || calls == 4) && to->last_enter > from->leave && to->enter > to->before;
}

void nspy_got_elapsed(struct nspy_rec *rec, int result, const float *ms)
{
	struct nspy_seen_thread *s = again(rec);
	struct nspy_mark from;

	drop(rec, result);
	if (!s || result != 0 || !ms || !(*ms >= 0) || !s->event[0] || !s->event[1] ||
	    !nspy_seen_event_mark(s->event[0], s->state[0], &from) ||
	    !nspy_seen_event_mark(s->event[1], s->state[1], &s->mark))
		return;
	if (encloses(&from, &s->mark)) {
		struct nspy_done_rec done = {
			.when = nspy_ticks(),
			.began = s->mark.last_enter,
			.gpu_ns = (uint64_t)((double)*ms * 1e6 + 0.5),
		};
		uint64_t gap = s->mark.last_enter - from.leave + s->mark.enter - s->mark.before;

		done.gap = gap < UINT32_MAX ? (uint32_t)gap : UINT32_MAX;
		tell(rec, s->mark.last_op, &done);
	}
	tell_covers(rec, &s->mark.covers, 0);
}
