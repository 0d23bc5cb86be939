/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "seen.h"

#include <stddef.h>
#include <sys/mman.h>

#define WAYS        4u
#define EVENT_SETS  1024u
#define STREAM_SETS 64u
#define COMM_SLOTS  1024u /* of which it is kept what has been told */
#define SLOTS       512u  /* threads */
#define MERGE_TRIES 4u

#define VALID         1ULL
#define UNFIT         2ULL
#define RECORDER      4ULL
#define RECORDERS     (0xFFULL << 2)
#define GENERATION    (1ULL << 10)
#define BEING_WRITTEN UINT64_MAX

#define OP_COMM(op) ((op) >> 40)

struct cover {
	_Atomic uint64_t op;
	_Atomic uint64_t enter;
};

struct stream {
	_Atomic uintptr_t handle;
	_Atomic uint64_t ops;
	_Atomic uint64_t not_done;
	_Atomic uint64_t reserved;
	struct cover covers[NSPY_COVERS];
	struct cover last;
};

static struct seen {
	_Atomic uint32_t gaps;
	_Atomic uint32_t off;
	_Atomic uint64_t told[COMM_SLOTS];
	struct stream streams[STREAM_SETS][WAYS];
	struct nspy_seen_event events[EVENT_SETS][WAYS];
	struct nspy_seen_thread threads[SLOTS];
} * seen;

void nspy_seen_start(void)
{
	struct seen *area;

	if (seen) /* inherited from a parent, and wiped */
		return;
	area = mmap(NULL, sizeof(*area), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		return;
	if (madvise(area, sizeof(*area), MADV_WIPEONFORK) < 0) {
		munmap(area, sizeof(*area));
		return;
	}
	seen = area;
}

struct nspy_seen_thread *nspy_seen_thread_at(uint32_t i)
{
	if (!seen || i >= SLOTS)
		return NULL;
	seen->threads[i] = (struct nspy_seen_thread){0};
	return &seen->threads[i];
}

void nspy_seen_gap(void)
{
	if (seen)
		atomic_fetch_add_explicit(&seen->gaps, 1, memory_order_relaxed);
}

uint32_t nspy_seen_gaps(void)
{
	return atomic_load_explicit(&seen->gaps, memory_order_relaxed);
}

void nspy_seen_give_up(void)
{
	if (seen)
		atomic_store(&seen->off, 1);
}

static uint32_t hash(uintptr_t handle)
{
	return (uint32_t)(((uint64_t)handle >> 4) * 0x9E3779B97F4A7C15ULL >> 40);
}

/* --- streams --- */

static struct stream *stream_of(uint64_t handle, bool make)
{
	struct stream *set;

	if (!seen || handle <= 2 || atomic_load_explicit(&seen->off, memory_order_relaxed))
		return NULL;
	set = seen->streams[hash((uintptr_t)handle) % STREAM_SETS];
	for (uint32_t i = 0; i < WAYS; i++)
		if (atomic_load_explicit(&set[i].handle, memory_order_acquire) == handle)
			return &set[i];
	for (uint32_t i = 0; make && i < WAYS; i++) {
		uintptr_t none = 0;

		/* Two threads may both make it: what one of them notes is then lost. */
		if (atomic_compare_exchange_strong(&set[i].handle, &none, (uintptr_t)handle) ||
		    none == handle)
			return &set[i];
	}
	return NULL;
}

/* A later collective of the same communicator takes the place of an earlier one, never back. */
static bool raise_cover(struct cover *cover, uint64_t old, uint64_t op, uint64_t enter)
{
	if (!atomic_compare_exchange_strong(&cover->op, &old, BEING_WRITTEN))
		return false;
	atomic_store_explicit(&cover->enter, enter, memory_order_relaxed);
	atomic_store_explicit(&cover->op, op, memory_order_release);
	return true;
}

static bool is_told(uint64_t op)
{
	return atomic_load_explicit(&seen->told[OP_COMM(op) % COMM_SLOTS], memory_order_relaxed) >=
	       op;
}

/* Which place to take: the same communicator's, an empty one, or one that is over anyway. */
static struct cover *choose(struct stream *stream, uint64_t op, uint64_t *ret_old)
{
	struct cover *free_one = NULL;

	for (uint32_t i = 0; i < NSPY_COVERS; i++) {
		uint64_t old = atomic_load_explicit(&stream->covers[i].op, memory_order_acquire);

		if (old != BEING_WRITTEN && old && OP_COMM(old) == OP_COMM(op)) {
			*ret_old = old;
			return &stream->covers[i];
		}
		if (!free_one && old != BEING_WRITTEN && (!old || is_told(old))) {
			*ret_old = old;
			free_one = &stream->covers[i];
		}
	}
	return free_one;
}

static void merge(struct stream *stream, uint64_t op, uint64_t enter)
{
	for (uint32_t i = 0; op && i < MERGE_TRIES; i++) {
		uint64_t old = 0;
		struct cover *cover = choose(stream, op, &old);

		if (!cover || (old && OP_COMM(old) == OP_COMM(op) && old >= op) ||
		    raise_cover(cover, old, op, enter))
			return;
	}
}

void nspy_seen_queued(uint64_t handle, uint64_t op, uint64_t enter, uint32_t ops)
{
	struct stream *stream = stream_of(handle, true);
	uint64_t old;

	if (!stream)
		return;
	merge(stream, op, enter);
	old = atomic_load_explicit(&stream->last.op, memory_order_relaxed);
	if (old != BEING_WRITTEN)
		(void)raise_cover(&stream->last, old, op, enter);
	atomic_fetch_add_explicit(&stream->ops, ops, memory_order_relaxed);
}

static void read_cover(const struct cover *cover, uint64_t *ret_op, uint64_t *ret_enter)
{
	uint64_t op = atomic_load_explicit(&cover->op, memory_order_acquire);

	*ret_enter = atomic_load_explicit(&cover->enter, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	if (op == BEING_WRITTEN || op != atomic_load_explicit(&cover->op, memory_order_relaxed))
		op = 0;
	*ret_op = op;
}

void nspy_seen_tail(uint64_t handle, struct nspy_mark *ret)
{
	const struct stream *stream = stream_of(handle, false);

	*ret = (struct nspy_mark){.stream = handle};
	if (!stream)
		return;
	for (uint32_t i = 0; i < NSPY_COVERS; i++)
		read_cover(&stream->covers[i], &ret->covers.op[i], &ret->covers.enter[i]);
	read_cover(&stream->last, &ret->last_op, &ret->last_enter);
	ret->ops = atomic_load_explicit(&stream->ops, memory_order_relaxed);
}

void nspy_seen_follow(uint64_t handle, const struct nspy_covers *covers)
{
	struct stream *stream = NULL;

	for (uint32_t i = 0; i < NSPY_COVERS; i++) {
		if (!covers->op[i] || is_told(covers->op[i]))
			continue;
		if (!stream)
			stream = stream_of(handle, true);
		if (!stream)
			return;
		merge(stream, covers->op[i], covers->enter[i]);
	}
}

void nspy_seen_stream_gone(uint64_t handle)
{
	struct stream *set;

	if (!seen || handle <= 2)
		return;
	set = seen->streams[hash((uintptr_t)handle) % STREAM_SETS];
	for (uint32_t i = 0; i < WAYS; i++) {
		if (atomic_load_explicit(&set[i].handle, memory_order_acquire) != handle)
			continue;
		for (uint32_t k = 0; k < NSPY_COVERS; k++)
			atomic_store(&set[i].covers[k].op, 0);
		atomic_store(&set[i].last.op, 0);
		atomic_store(&set[i].not_done, 0);
		atomic_store(&set[i].handle, 0);
	}
}

void nspy_seen_stream_not_done(uint64_t handle, uint64_t when)
{
	struct stream *stream = stream_of(handle, false);

	if (stream)
		atomic_store_explicit(&stream->not_done, when, memory_order_relaxed);
}

uint64_t nspy_seen_stream_asked(uint64_t handle)
{
	const struct stream *stream = stream_of(handle, false);

	return stream ? atomic_load_explicit(&stream->not_done, memory_order_relaxed) : 0;
}

/* --- events --- */

static struct nspy_seen_event *event_set(const void *event)
{
	return seen->events[hash((uintptr_t)event) % EVENT_SETS];
}

/* Two threads may have made an entry each, so that either would miss what the other notes. */
static void distrust_doubles(struct nspy_seen_event *set, uintptr_t handle)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < WAYS; i++)
		count += atomic_load(&set[i].handle) == handle;
	for (uint32_t i = 0; count > 1 && i < WAYS; i++)
		if (atomic_load(&set[i].handle) == handle)
			atomic_fetch_or(&set[i].state, UNFIT);
}

struct nspy_seen_event *nspy_seen_event_find(const void *event, bool make)
{
	uintptr_t handle = (uintptr_t)event;
	struct nspy_seen_event *set;

	if (!seen || !handle || atomic_load_explicit(&seen->off, memory_order_relaxed))
		return NULL;
	set = event_set(event);
	for (uint32_t i = 0; i < WAYS; i++)
		if (atomic_load_explicit(&set[i].handle, memory_order_acquire) == handle)
			return &set[i];
	for (uint32_t i = 0; make && i < WAYS; i++) {
		uintptr_t none = 0;

		if (!atomic_compare_exchange_strong(&set[i].handle, &none, handle) &&
		    none != handle)
			continue;
		distrust_doubles(set, handle);
		return &set[i];
	}
	return NULL;
}

void nspy_seen_event_gone(const void *event)
{
	struct nspy_seen_event *set;

	if (!seen || !event)
		return;
	set = event_set(event);
	for (uint32_t i = 0; i < WAYS; i++) {
		uint64_t state;

		if (atomic_load_explicit(&set[i].handle, memory_order_acquire) != (uintptr_t)event)
			continue;
		state = atomic_load(&set[i].state);
		while (!atomic_compare_exchange_weak(&set[i].state, &state,
						     (state | 1023) + 1)) /* next generation */
			;
		atomic_store(&set[i].handle, 0);
	}
}

void nspy_seen_event_unfit(const void *event)
{
	struct nspy_seen_event *entry = nspy_seen_event_find(event, true);

	if (entry)
		atomic_fetch_or(&entry->state, UNFIT);
	else if (event)
		nspy_seen_give_up();
}

uint64_t nspy_seen_record_begin(struct nspy_seen_event *event)
{
	uint64_t state = atomic_load(&event->state), next;

	do {
		next = ((state & ~VALID) + GENERATION) + RECORDER;
		if ((state & RECORDERS) == RECORDERS) { /* no room to count: believe nothing */
			atomic_fetch_or(&event->state, UNFIT);
			return 0;
		}
	} while (!atomic_compare_exchange_weak(&event->state, &state, next));
	return next;
}

void nspy_seen_record_end(struct nspy_seen_event *event, uint64_t state,
			  const struct nspy_mark *mark)
{
	const uint64_t *words = (const uint64_t *)(const void *)mark;
	uint64_t now = atomic_load(&event->state);

	if (!state)
		return;
	/* Alone since we began, so nobody else writes the mark, or reads it. */
	if (mark && now == state && (state & RECORDERS) == RECORDER && !(state & UNFIT)) {
		for (size_t i = 0; i < NSPY_MARK_WORDS; i++)
			atomic_store_explicit(&event->mark[i], words[i], memory_order_relaxed);
		atomic_store_explicit(&event->not_done, 0, memory_order_relaxed);
		if (atomic_compare_exchange_strong(&event->state, &now, (state - RECORDER) | VALID))
			return;
	}
	do {
		if (!(now & RECORDERS)) /* destroyed meanwhile */
			return;
	} while (!atomic_compare_exchange_weak(&event->state, &now, now - RECORDER));
}

uint64_t nspy_seen_event_state(const struct nspy_seen_event *event)
{
	uint64_t state = atomic_load(&event->state);

	return (state & (VALID | UNFIT | RECORDERS)) == VALID ? state : 0;
}

bool nspy_seen_event_mark(const struct nspy_seen_event *event, uint64_t state,
			  struct nspy_mark *ret)
{
	uint64_t *words = (uint64_t *)(void *)ret;

	if (!state || atomic_load(&event->state) != state)
		return false;
	for (size_t i = 0; i < NSPY_MARK_WORDS; i++)
		words[i] = atomic_load_explicit(&event->mark[i], memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load(&event->state) == state;
}

bool nspy_seen_is_news(uint64_t op)
{
	_Atomic uint64_t *told = &seen->told[OP_COMM(op) % COMM_SLOTS];
	uint64_t old = atomic_load_explicit(told, memory_order_relaxed);

	do {
		if (old >= op)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(told, &old, op, memory_order_relaxed,
							memory_order_relaxed));
	return true;
}
