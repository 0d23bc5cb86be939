/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of a process as slices on tracks of its threads, and its operations once more on tracks
 * of their communicators and streams, where arrows join them to those of other ranks.
 *
 * A call is recorded when it returns, so those made inside another one come before it. They are
 * held back until it has come: what is written is in order and nested, whatever the trace holds.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "timeline.h"
#include "who.h"

#define HELD_MAX    16384u /* calls held back of a thread */
#define STRANDS_MAX 1024u  /* tracks of communicators and streams of a process */
#define DEPTH_MAX   64u

/* A call on the aligned clock; rec.fn is a model id. */
struct held {
	struct nspy_rec rec;
	size_t order; /* as recorded */
};

struct thread {
	uint32_t serial;
	uint64_t next_index; /* records seen */
	uint64_t track, last_ns;
	struct held *held;
	size_t count, capacity;
};

/* Operations of a thread on one communicator and stream. */
struct strand {
	const struct nspy_member *member;
	uint64_t stream;
	uint32_t thread;
	uint64_t track, last_ns;
};

struct nspy_strands {
	struct nspy_timeline *t;
	const struct nspy_proc *proc;
	uint64_t track;
	struct thread *threads;
	size_t thread_count, thread_capacity;
	struct strand *strands;
	size_t strand_count, strand_capacity;
};

struct nspy_strands *nspy_strands_new(struct nspy_timeline *t, const struct nspy_proc *proc)
{
	struct nspy_strands *s = nspy_xcalloc(1, sizeof(*s));

	s->t = t;
	s->proc = proc;
	s->track = t->process_tracks[proc->index];
	return s;
}

static struct thread *thread_of(struct nspy_strands *s, uint32_t serial)
{
	for (size_t i = s->thread_count; i-- > 0;) {
		if (s->threads[i].serial == serial)
			return &s->threads[i];
	}
	if (s->thread_count == NSPY_THREADS_MAX)
		return NULL;
	s->threads =
		nspy_grow(s->threads, s->thread_count, &s->thread_capacity, sizeof(*s->threads));
	s->threads[s->thread_count] = (struct thread){.serial = serial};
	return &s->threads[s->thread_count++];
}

static struct strand *strand_of(struct nspy_strands *s, const struct nspy_member *member,
				uint64_t stream, uint32_t thread)
{
	struct nspy_str name = {0};
	struct strand *strand;

	for (size_t i = s->strand_count; i-- > 0;) {
		strand = &s->strands[i];
		if (strand->member == member && strand->stream == stream &&
		    strand->thread == thread)
			return strand;
	}
	if (s->strand_count == STRANDS_MAX)
		return NULL;
	s->strands =
		nspy_grow(s->strands, s->strand_count, &s->strand_capacity, sizeof(*s->strands));
	strand = &s->strands[s->strand_count++];
	*strand = (struct strand){.member = member, .stream = stream, .thread = thread};
	nspy_add_comm(&name, member->comm);
	nspy_str_addf(&name, " rank %" PRId32 ", stream 0x%" PRIx64 ", thread %" PRIu32,
		      member->rec.rank, stream, thread);
	strand->track = nspy_perfetto_track(&s->t->perfetto, s->track, name.text,
					    "host: when operations were queued, not when they ran");
	nspy_str_done(&name);
	return strand;
}

static const struct nspy_member *member_of(const struct nspy_proc *proc, const struct nspy_rec *rec)
{
	const struct nspy_member *member =
		rec->comm < proc->member_count ? proc->members[rec->comm] : NULL;

	return member && member->comm ? member : NULL;
}

static bool is_op(const struct nspy_fn *fn)
{
	return fn->klass == NSPY_CLASS_COLL || fn->klass == NSPY_CLASS_SEND ||
	       fn->klass == NSPY_CLASS_RECV;
}

/* The same on all ranks of a collective, and on both ends of a message. */
static uint64_t flow_of(const struct nspy_member *member, const struct nspy_fn *fn,
			const struct nspy_rec *rec)
{
	uint64_t way = UINT64_MAX, flow;

	if (!rec->seq || (rec->flags & (NSPY_CALL_CAPTURED | NSPY_CALL_NOSEQ)))
		return 0;
	if (fn->klass == NSPY_CLASS_SEND)
		way = (uint64_t)(uint32_t)member->rec.rank << 32 | (uint32_t)rec->peer;
	else if (fn->klass == NSPY_CLASS_RECV)
		way = (uint64_t)(uint32_t)rec->peer << 32 | (uint32_t)member->rec.rank;
	flow = nspy_mix(nspy_mix(member->comm->key ^ nspy_mix(way)) + rec->seq);
	return flow ? flow : 1;
}

static void describe(const struct nspy_strands *s, const struct nspy_rec *rec,
		     struct nspy_perfetto_event *event)
{
	if (rec->seq)
		nspy_perfetto_arg(event, NSPY_ARG_SEQ, (int64_t)rec->seq);
	if (rec->peer != NSPY_PEER_NONE)
		nspy_perfetto_arg(event, NSPY_ARG_PEER, rec->peer);
	if (rec->datatype != NSPY_DATATYPE_NONE)
		nspy_perfetto_arg(event, NSPY_ARG_BYTES,
				  (int64_t)(rec->count * s->proc->type_bytes[rec->datatype]));
	if (rec->flags & NSPY_CALL_OPEN)
		nspy_perfetto_arg(event, NSPY_ARG_OPEN, 1);
	else if (rec->result)
		nspy_perfetto_arg(event, NSPY_ARG_RESULT, rec->result);
	if (rec->flags & NSPY_CALL_CAPTURED)
		nspy_perfetto_arg(event, NSPY_ARG_CAPTURED, 1);
}

static void put_op(struct nspy_strands *s, uint32_t thread, const struct nspy_fn *fn,
		   const struct nspy_rec *rec, uint64_t begin_ns, uint64_t end_ns)
{
	const struct nspy_member *member = member_of(s->proc, rec);
	struct nspy_perfetto_event event = {
		.type = NSPY_PERFETTO_BEGIN, .category = NSPY_CATEGORY_OPERATION, .fn = rec->fn};
	struct strand *strand;

	if (!member || !is_op(fn))
		return;
	strand = strand_of(s, member, rec->arg, thread);
	if (!strand) {
		s->t->perfetto.left_out++;
		return;
	}
	event.track = strand->track;
	event.when_ns = begin_ns > strand->last_ns ? begin_ns : strand->last_ns;
	end_ns = end_ns > event.when_ns ? end_ns : event.when_ns;
	event.flow = flow_of(member, fn, rec);
	describe(s, rec, &event);
	if (!nspy_perfetto_put(&s->t->perfetto, &event))
		return;
	nspy_perfetto_end(&s->t->perfetto, strand->track, end_ns);
	strand->last_ns = end_ns;
}

/* --- nesting --- */

static int by_enter(const void *a, const void *b)
{
	const struct held *x = a, *y = b;

	if (x->rec.enter != y->rec.enter)
		return x->rec.enter < y->rec.enter ? -1 : 1;
	if (x->rec.leave != y->rec.leave)
		return x->rec.leave > y->rec.leave ? -1 : 1;
	return x->order > y->order ? -1 : 1; /* the outer one returned later */
}

struct stack {
	uint64_t end_ns[DEPTH_MAX];
	size_t depth;
};

static void pop_until(struct nspy_strands *s, struct thread *thread, struct stack *stack,
		      uint64_t ns)
{
	while (stack->depth && stack->end_ns[stack->depth - 1] <= ns) {
		thread->last_ns = stack->end_ns[--stack->depth];
		nspy_perfetto_end(&s->t->perfetto, thread->track, thread->last_ns);
	}
}

static void put_call(struct nspy_strands *s, struct thread *thread, struct stack *stack,
		     const struct nspy_rec *rec)
{
	const struct nspy_fn *fn = nspy_model_get_fn(s->t->model, rec->fn);
	const struct nspy_member *member = member_of(s->proc, rec);
	uint64_t begin_ns = rec->enter, end_ns = rec->leave;
	struct nspy_perfetto_event event = {
		.type = NSPY_PERFETTO_BEGIN,
		.category = fn->spent == NSPY_SPENT_WAITING ? NSPY_CATEGORY_WAIT
			    : fn->spent == NSPY_SPENT_NCCL  ? NSPY_CATEGORY_NCCL
							    : NSPY_CATEGORY_HOST,
		.fn = rec->fn,
	};
	struct nspy_str name = {0};

	pop_until(s, thread, stack, begin_ns);
	if (begin_ns < thread->last_ns)
		begin_ns = thread->last_ns;
	if (stack->depth && end_ns > stack->end_ns[stack->depth - 1])
		end_ns = stack->end_ns[stack->depth - 1];
	if (end_ns < begin_ns)
		end_ns = begin_ns;
	s->t->perfetto.moved += begin_ns != rec->enter || end_ns != rec->leave;
	if (!thread->track) {
		nspy_str_addf(&name, "thread %" PRIu32, thread->serial);
		thread->track = nspy_perfetto_track(&s->t->perfetto, s->track, name.text,
						    "host: calls and waits");
		nspy_str_done(&name);
	}
	if (stack->depth == DEPTH_MAX) {
		s->t->perfetto.left_out++;
		return;
	}
	event.track = thread->track;
	event.when_ns = begin_ns;
	describe(s, rec, &event);
	if (member) {
		nspy_add_comm(&name, member->comm);
		nspy_perfetto_text(&event, NSPY_ARG_COMM, name.text);
	}
	if (nspy_perfetto_put(&s->t->perfetto, &event)) {
		s->t->calls++;
		thread->last_ns = begin_ns;
		stack->end_ns[stack->depth++] = end_ns;
	}
	nspy_str_done(&name);
	if (!(rec->flags & NSPY_CALL_NESTED))
		put_op(s, thread->serial, fn, rec, begin_ns, end_ns);
}

static void put_held(struct nspy_strands *s, struct thread *thread, size_t count)
{
	struct stack stack = {.depth = 0};

	if (count)
		qsort(thread->held, count, sizeof(*thread->held), by_enter);
	for (size_t i = 0; i < count; i++)
		put_call(s, thread, &stack, &thread->held[i].rec);
	pop_until(s, thread, &stack, UINT64_MAX);
	for (size_t i = count; i < thread->count; i++)
		thread->held[i - count] = thread->held[i];
	thread->count -= count;
}

static void hold(struct nspy_strands *s, struct thread *thread, const struct nspy_rec *rec)
{
	const struct nspy_member *member = member_of(s->proc, rec);

	if (!nspy_timeline_has_time(s->t, rec->enter, rec->leave) ||
	    (s->t->choice.comm && member && !nspy_timeline_has_comm(s->t, member->comm)))
		return;
	thread->held =
		nspy_grow(thread->held, thread->count, &thread->capacity, sizeof(*thread->held));
	thread->held[thread->count] = (struct held){*rec, thread->count};
	thread->count++;
}

void nspy_strands_take(struct nspy_strands *s, uint32_t serial, uint64_t first_index,
		       const union nspy_any_rec *records, size_t count)
{
	struct thread *thread = thread_of(s, serial);
	size_t whole = 0;

	if (!thread)
		return;
	for (size_t i = 0; i < count; i++) {
		struct nspy_rec rec = records[i].call;

		/* Live pages repeat what segments hold; what is open is added at the end. */
		if (first_index + i < thread->next_index || rec.kind != NSPY_REC_CALL ||
		    rec.leave == 0)
			continue;
		rec.fn = rec.fn < s->proc->fn_map_count ? s->proc->fn_map[rec.fn] : 0;
		rec.enter = nspy_proc_when(s->proc, rec.enter);
		rec.leave = nspy_proc_when(s->proc, rec.leave);
		hold(s, thread, &rec);
	}
	if (first_index + count > thread->next_index)
		thread->next_index = first_index + count;
	for (size_t i = 0; i < thread->count; i++) {
		if (!(thread->held[i].rec.flags & NSPY_CALL_NESTED))
			whole = i + 1;
	}
	put_held(s, thread, thread->count > HELD_MAX ? thread->count : whole);
}

static void add_waits(struct nspy_strands *s, const struct nspy_proc *proc)
{
	for (size_t i = 0; i < proc->wait_count; i++) {
		struct nspy_rec rec = proc->waits[i].rec;
		struct thread *thread = thread_of(s, proc->waits[i].thread);

		rec.leave = proc->end_ns > rec.enter ? proc->end_ns : rec.enter;
		rec.flags |= NSPY_CALL_OPEN;
		if (thread)
			hold(s, thread, &rec);
	}
}

void nspy_strands_finish(struct nspy_strands *s)
{
	add_waits(s, s->proc);
	for (size_t i = 0; i < s->thread_count; i++) {
		put_held(s, &s->threads[i], s->threads[i].count);
		free(s->threads[i].held);
	}
	free(s->threads);
	free(s->strands);
	free(s);
}
