/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "recent.h"

#include <string.h>

#include "api_ids.h"
#include "core.h"
#include "live.h"
#include "resolve.h"
#include "rhythm.h"

#define PAGES_MAX (NSPY_LIVE_BYTES / NSPY_PAGE_BYTES + NSPY_EXTRA_PAGES)
#define LAST_MAX  1024u
/* Waits of a job's beginning (compilation, first data) say nothing about its rhythm. */
#define WARM_UP_ROUNDS 20u

struct cursor {
	uint64_t generation;
	uint32_t taken;
	bool begun;
};

static struct recent {
	struct nspy_recent_op ops[NSPY_STATUS_OPS_MAX]; /* a ring */
	uint32_t first, count;
	struct nspy_recent_way ways[NSPY_STATUS_WAYS_MAX];
	uint32_t way_count, way_hint;
	struct nspy_recent_last last[LAST_MAX];
	struct nspy_recent_totals totals;
	bool work_pending; /* operations were entered since the last wait that ended */
	struct cursor cursors[PAGES_MAX];
	union nspy_any_rec batch[NSPY_PAGE_RECORDS];
	const struct nspy_clock_piece *pieces;
	uint32_t piece_count;
} * recent;

bool nspy_recent_start(void)
{
	recent = nspy_live_map_private(sizeof(*recent), 0);
	nspy_rhythm_start();
	return recent != NULL;
}

static struct nspy_recent_op *at(uint32_t i)
{
	return &recent->ops[(recent->first + i) % NSPY_STATUS_OPS_MAX];
}

/* Kept in order of entry; threads' pages are read one after the other, so sort from the end. */
static void add_op(const struct nspy_rec *rec)
{
	struct nspy_recent_op op = {
		.op =
			{
				.enter_ns = rec->enter,
				.seq = rec->seq,
				.count = rec->count,
				.stream = rec->arg,
				.peer = rec->peer,
				.comm = NSPY_STATUS_NONE,
				.name = NSPY_STATUS_NONE,
				.klass = nspy_fn_table[rec->fn].klass,
				.datatype = rec->datatype,
				.redop = rec->redop,
				.flags = rec->flags,
			},
		.comm = rec->comm,
		.fn = rec->fn,
	};
	uint32_t i;

	if (recent->count == NSPY_STATUS_OPS_MAX) {
		recent->first = (recent->first + 1) % NSPY_STATUS_OPS_MAX;
		recent->count--;
	}
	for (i = recent->count++; i && at(i - 1)->op.enter_ns > op.op.enter_ns; i--)
		*at(i) = *at(i - 1);
	*at(i) = op;
}

static struct nspy_recent_last *last_of(uint32_t comm)
{
	struct nspy_recent_last *last = &recent->last[comm % LAST_MAX];

	if (last->comm != comm || last->fn == 0)
		*last = (struct nspy_recent_last){.comm = comm, .fn = UINT16_MAX};
	return last;
}

static void note_coll(const struct nspy_rec *rec)
{
	struct nspy_recent_last *last = last_of(rec->comm);

	if (rec->seq < last->seq)
		return;
	last->fn = rec->fn;
	last->datatype = rec->datatype;
	last->redop = rec->redop;
	last->root = rec->peer;
	last->count = rec->count;
	last->seq = rec->seq;
}

static void note_way(const struct nspy_rec *rec)
{
	struct nspy_recent_way *oldest = &recent->ways[0];

	for (uint32_t n = 0; n < recent->way_count; n++) {
		uint32_t i = (recent->way_hint + n) % recent->way_count;
		struct nspy_recent_way *way = &recent->ways[i];

		if (way->comm == rec->comm && way->peer == rec->peer) {
			recent->way_hint = i;
			way->used_ns = rec->enter;
			return;
		}
		if (way->used_ns < oldest->used_ns)
			oldest = way;
	}
	if (recent->way_count < NSPY_STATUS_WAYS_MAX)
		oldest = &recent->ways[recent->way_count++];
	*oldest = (struct nspy_recent_way){rec->comm, rec->peer, rec->enter};
}

/* The host has waited: what it had put on that stream before is done. */
static void note_sync(const struct nspy_rec *rec)
{
	bool device = rec->fn == NSPY_FN_CUDA_DEVICE_SYNCHRONIZE;
	bool stream = rec->fn == NSPY_FN_CUDA_STREAM_SYNCHRONIZE ||
		      rec->fn == NSPY_FN_CUDA_STREAM_SYNCHRONIZE_PTSZ;
	uint64_t waited = rec->leave - rec->enter;

	if (recent->work_pending) {
		recent->work_pending = false;
		if (++recent->totals.rounds > WARM_UP_ROUNDS &&
		    waited > recent->totals.longest_wait_ns)
			recent->totals.longest_wait_ns = waited;
	}
	for (uint32_t i = recent->count; (device || stream) && i--;) {
		const struct nspy_recent_op *op = at(i);
		struct nspy_recent_last *last;

		if (op->op.klass != NSPY_CLASS_COLL || op->op.enter_ns > rec->enter ||
		    (stream && op->op.stream != rec->arg))
			continue;
		last = last_of(op->comm);
		if (op->op.seq > last->completed)
			last->completed = op->op.seq;
	}
}

static void take_call(const struct nspy_rec *rec, uint32_t tid)
{
	unsigned int klass = rec->fn < nspy_fn_count ? nspy_fn_table[rec->fn].klass : 0;
	bool has_comm = rec->comm != NSPY_COMM_INDEX_NONE;

	if (rec->leave >= recent->totals.last_leave_ns) {
		recent->totals.last_leave_ns = rec->leave;
		recent->totals.last_tid = tid;
	}
	if (klass == NSPY_CLASS_SYNC && rec->result == 0) {
		note_sync(rec);
		nspy_rhythm_add(rec->enter, rec->leave, true);
	}
	if (rec->fn == NSPY_FN_CUDA_GRAPH_LAUNCH || rec->fn == NSPY_FN_CUDA_GRAPH_LAUNCH_PTSZ) {
		nspy_rhythm_add(rec->enter, rec->leave, false);
		recent->work_pending = true;
	}
	/* What is captured does not run now. */
	if (!has_comm || (rec->flags & (NSPY_CALL_CAPTURED | NSPY_CALL_NOSEQ)) || rec->result != 0)
		return;
	if (klass != NSPY_CLASS_COLL && klass != NSPY_CLASS_SEND && klass != NSPY_CLASS_RECV)
		return;
	recent->work_pending = true;
	nspy_rhythm_add(rec->enter, rec->leave, false);
	add_op(rec);
	if (klass == NSPY_CLASS_COLL)
		note_coll(rec);
	else
		note_way(rec);
}

/*
 * Copies what a page has beyond the cursor; 0 if it was freed or taken by another thread meanwhile.
 * The writer sets committed to 0 before a page is free; its next owner commits with release order
 * after it has given the page a new generation. Hidden from ThreadSanitizer: a copy that was
 * disturbed is thrown away.
 */
__attribute__((no_sanitize("thread"))) static uint32_t copy_page(const struct nspy_page *page,
								 struct cursor *cursor,
								 uint32_t *ret_tid)
{
	uint32_t state = atomic_load_explicit(&page->state, memory_order_acquire);
	uint32_t committed = atomic_load_explicit(&page->committed, memory_order_acquire);
	const volatile struct nspy_page *now = page;
	uint64_t generation = now->generation;
	uint32_t n;

	if (state == NSPY_PAGE_FREE || !committed)
		return 0;
	if (!cursor->begun || cursor->generation != generation)
		*cursor = (struct cursor){.generation = generation, .begun = true};
	if (committed <= cursor->taken || committed > NSPY_PAGE_RECORDS)
		return 0;
	n = committed - cursor->taken;
	for (uint32_t i = 0; i < n; i++) {
		const volatile uint64_t *from =
			(const volatile uint64_t *)&page->rec[cursor->taken + i];
		uint64_t *to = (uint64_t *)&recent->batch[i];

		for (uint32_t k = 0; k < NSPY_REC_BYTES / sizeof(*to); k++)
			to[k] = from[k];
	}
	*ret_tid = now->tid;
	nspy_load_barrier();
	if (atomic_load_explicit(&page->state, memory_order_acquire) == NSPY_PAGE_FREE ||
	    now->generation != generation ||
	    atomic_load_explicit(&page->committed, memory_order_acquire) < committed)
		return 0;
	cursor->taken = committed;
	return n;
}

void nspy_recent_read(const struct nspy_clock_piece *pieces, uint32_t piece_count)
{
	for (uint32_t i = 0; i < nspy_page_total() && i < PAGES_MAX; i++) {
		uint32_t tid = 0;
		uint32_t n = copy_page(nspy_page_at(i), &recent->cursors[i], &tid);

		for (uint32_t k = 0; k < n; k++) {
			struct nspy_rec *rec = &recent->batch[k].call;

			if (rec->kind != NSPY_REC_CALL)
				continue;
			rec->enter = nspy_clock_to_ns(pieces, piece_count, rec->enter);
			rec->leave = nspy_clock_to_ns(pieces, piece_count, rec->leave);
			take_call(rec, tid);
		}
	}
	nspy_rhythm_settle();
}

uint32_t nspy_recent_count(void)
{
	return recent->count;
}

const struct nspy_recent_op *nspy_recent_op(uint32_t i)
{
	return at(i);
}

uint32_t nspy_recent_way_count(void)
{
	return recent->way_count;
}

const struct nspy_recent_way *nspy_recent_way(uint32_t i)
{
	return &recent->ways[i];
}

void nspy_recent_last(uint32_t comm, struct nspy_recent_last *ret)
{
	const struct nspy_recent_last *last = &recent->last[comm % LAST_MAX];

	if (last->comm == comm && last->fn)
		*ret = *last;
}

const struct nspy_recent_totals *nspy_recent_totals(void)
{
	return &recent->totals;
}
