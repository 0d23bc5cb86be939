/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "drain.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "account.h"
#include "clock.h"
#include "core.h"
#include "segment.h"
#include "trace_encode.h"

/* Records a chunk holds at most: 64 KiB of them, and the encoder's bound fits the buffer. */
#define BATCH_RECORDS 1020u
#define PAGES_MAX     (NSPY_LIVE_BYTES / NSPY_PAGE_BYTES + NSPY_EXTRA_PAGES)

static struct buffers {
	union nspy_any_rec batch[BATCH_RECORDS];
	uint8_t payload[NSPY_RAW_BYTES_MAX];
	struct nspy_page *pages[PAGES_MAX];
	uint8_t scratch[];
} * buf;

bool nspy_drain_start(void)
{
	size_t bytes = sizeof(*buf) + nspy_ops_scratch_bytes();
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	buf = p == MAP_FAILED ? NULL : p;
	return buf != NULL;
}

/* Pairs with the release store of nspy_thread_append. */
static uint32_t pending_of(const struct nspy_page *page)
{
	return atomic_load_explicit(&page->committed, memory_order_acquire) -
	       atomic_load_explicit(&page->drained, memory_order_relaxed);
}

static uint32_t state_of(const struct nspy_page *page)
{
	return atomic_load_explicit(&page->state, memory_order_acquire);
}

void nspy_drain_level(struct nspy_drain_level *ret)
{
	*ret = (struct nspy_drain_level){.live_pages = nspy_core.head->page_count};
	for (uint32_t i = 0; i < nspy_page_total(); i++) {
		const struct nspy_page *page = nspy_page_at(i);

		if (state_of(page) == NSPY_PAGE_FREE)
			continue;
		ret->pages_in_use++;
		ret->pending += pending_of(page);
	}
}

static int by_thread_and_age(const void *a, const void *b)
{
	const struct nspy_page *x = *(struct nspy_page *const *)a;
	const struct nspy_page *y = *(struct nspy_page *const *)b;

	if (x->serial != y->serial)
		return x->serial < y->serial ? -1 : 1;
	return x->generation < y->generation ? -1 : 1;
}

static int by_age(const void *a, const void *b)
{
	const struct nspy_page *x = *(struct nspy_page *const *)a;
	const struct nspy_page *y = *(struct nspy_page *const *)b;

	return x->generation < y->generation ? -1 : 1;
}

/* Insertion sort: libc's qsort may allocate, and the pages are few and nearly in order. */
static void sort_pages(struct nspy_page **pages, uint32_t count,
		       int (*compare)(const void *, const void *))
{
	for (uint32_t i = 1; i < count; i++) {
		struct nspy_page *page = pages[i];
		uint32_t k = i;

		for (; k && compare(&page, &pages[k - 1]) < 0; k--)
			pages[k] = pages[k - 1];
		pages[k] = page;
	}
}

static uint32_t collect_pages(bool full_only, bool live_only)
{
	uint32_t total = live_only ? nspy_core.head->page_count : nspy_page_total();
	uint32_t count = 0;

	for (uint32_t i = 0; i < total; i++) {
		struct nspy_page *page = nspy_page_at(i);
		uint32_t state = state_of(page);

		if (state == NSPY_PAGE_FULL ||
		    (!full_only && state == NSPY_PAGE_OWNED && pending_of(page)))
			buf->pages[count++] = page;
	}
	return count;
}

/* All of it is safe (or given up) and its thread has moved on: free for the next. */
static void release_if_done(struct nspy_page *page)
{
	if (state_of(page) != NSPY_PAGE_FULL || pending_of(page))
		return;
	atomic_store_explicit(&page->committed, 0, memory_order_relaxed);
	atomic_store_explicit(&page->drained, 0, memory_order_relaxed);
	/* Pairs with the acquire of the thread that takes the page. */
	atomic_store_explicit(&page->state, NSPY_PAGE_FREE, memory_order_release);
}

struct batch {
	uint32_t serial;
	uint32_t count;
	uint64_t first_index;
	uint32_t first_page, last_page; /* of buf->pages */
	uint32_t last_drained;          /* new value of drained in last_page */
};

static void time_span(const union nspy_any_rec *records, uint32_t count, uint64_t *ret_first,
		      uint64_t *ret_last)
{
	*ret_first = UINT64_MAX;
	*ret_last = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t begin = records[i].call.enter;
		uint64_t end =
			records[i].call.kind == NSPY_REC_CALL ? records[i].call.leave : begin;

		if (begin < *ret_first)
			*ret_first = begin;
		if (end > *ret_last)
			*ret_last = end;
	}
}

static bool write_batch(const struct batch *b)
{
	struct nspy_clock_piece pieces[NSPY_CLOCK_PIECES];
	uint32_t piece_count = nspy_clock_pieces(nspy_core.head, pieces);
	struct nspy_chunk_info info = {
		.kind = NSPY_CHUNK_OPS,
		.thread_serial = b->serial,
		.records = b->count,
		.first_index = b->first_index,
	};
	long bytes;

	for (uint32_t i = 0; i < b->count; i++)
		nspy_rec_to_ns(pieces, piece_count, &buf->batch[i]);
	time_span(buf->batch, b->count, &info.first_ns, &info.last_ns);
	bytes = nspy_ops_encode(buf->batch, b->count, buf->scratch, buf->payload,
				sizeof(buf->payload));
	if (bytes < 0 || !nspy_segment_write(&info, buf->payload, (size_t)bytes))
		return false;
	for (uint32_t i = b->first_page; i <= b->last_page; i++) {
		struct nspy_page *page = buf->pages[i];
		uint32_t drained = i == b->last_page ? b->last_drained
						     : atomic_load_explicit(&page->committed,
									    memory_order_acquire);

		atomic_store_explicit(&page->drained, drained, memory_order_release);
		release_if_done(page);
	}
	return true;
}

/* Adds records of page i from `from` on, as many as fit; returns the index behind the last. */
static uint32_t fill(struct batch *b, uint32_t i, uint32_t from, uint32_t committed)
{
	const struct nspy_page *page = buf->pages[i];
	uint32_t room = BATCH_RECORDS - b->count;
	uint32_t n = committed - from < room ? committed - from : room;

	memcpy(&buf->batch[b->count], &page->rec[from], n * sizeof(page->rec[0]));
	b->count += n;
	b->last_page = i;
	b->last_drained = from + n;
	return from + n;
}

bool nspy_drain_pages(void)
{
	uint32_t count = collect_pages(false, false);
	struct batch b = {0};

	sort_pages(buf->pages, count, by_thread_and_age);
	for (uint32_t i = 0; i < count; i++) {
		struct nspy_page *page = buf->pages[i];
		uint32_t committed = atomic_load_explicit(&page->committed, memory_order_acquire);
		uint32_t from = atomic_load_explicit(&page->drained, memory_order_relaxed);

		while (from < committed) {
			/* A chunk holds one thread and no gap. */
			if (b.count && (b.serial != page->serial || b.count == BATCH_RECORDS ||
					b.first_index + b.count != page->first_index + from)) {
				if (!write_batch(&b))
					return false;
				b.count = 0;
			}
			if (!b.count)
				b = (struct batch){.serial = page->serial,
						   .first_index = page->first_index + from,
						   .first_page = i};
			from = fill(&b, i, from, committed);
		}
		release_if_done(page); /* full and empty already */
	}
	return !b.count || write_batch(&b);
}

static void give_up(struct nspy_page *page)
{
	atomic_store_explicit(&page->drained,
			      atomic_load_explicit(&page->committed, memory_order_acquire),
			      memory_order_release);
	release_if_done(page);
}

void nspy_drain_drop_oldest(void)
{
	uint32_t count = collect_pages(true, true);
	struct nspy_drain_level level;

	sort_pages(buf->pages, count, by_age);
	nspy_drain_level(&level);
	for (uint32_t i = 0; i < count && level.pages_in_use > level.live_pages / 2; i++) {
		nspy_count_loss(NSPY_LOSS_RECORDS_WRITE, pending_of(buf->pages[i]));
		give_up(buf->pages[i]);
		level.pages_in_use--;
	}
}

/* Its pending records are a hole from now on. */
static void forget(struct nspy_page *page)
{
	struct nspy_clock_piece pieces[NSPY_CLOCK_PIECES];
	uint32_t piece_count = nspy_clock_pieces(nspy_core.head, pieces);
	uint32_t from = atomic_load_explicit(&page->drained, memory_order_relaxed);
	uint32_t count = pending_of(page);
	uint64_t first_ns, last_ns;

	if (count) {
		memcpy(buf->batch, &page->rec[from], count * sizeof(page->rec[0]));
		for (uint32_t i = 0; i < count; i++)
			nspy_rec_to_ns(pieces, piece_count, &buf->batch[i]);
		time_span(buf->batch, count, &first_ns, &last_ns);
		nspy_account_hole(first_ns, last_ns, count);
	}
	atomic_store_explicit(&page->drained, from + count, memory_order_release);
	release_if_done(page);
}

void nspy_drain_forget_oldest(void)
{
	uint32_t count = collect_pages(true, false);
	struct nspy_drain_level level;

	sort_pages(buf->pages, count, by_age);
	nspy_drain_level(&level);
	for (uint32_t i = 0; i < count && level.pages_in_use > level.live_pages / 2; i++) {
		forget(buf->pages[i]);
		level.pages_in_use--;
	}
}

void nspy_drain_forget_all(void)
{
	uint32_t count = collect_pages(false, false);

	sort_pages(buf->pages, count, by_age);
	for (uint32_t i = 0; i < count; i++)
		forget(buf->pages[i]);
}

static bool has_pending(uint32_t serial)
{
	for (uint32_t i = 0; i < nspy_page_total(); i++) {
		const struct nspy_page *page = nspy_page_at(i);

		/* A page just taken says whose it is only once something is committed to it. */
		if (state_of(page) != NSPY_PAGE_FREE && pending_of(page) && page->serial == serial)
			return true;
	}
	return false;
}

static void close_slot(struct nspy_slot *slot)
{
	if (slot->page) {
		struct nspy_page *page = nspy_page_at(slot->page - 1);

		atomic_store_explicit(&page->state, NSPY_PAGE_FULL, memory_order_release);
		release_if_done(page);
		slot->page = 0;
	}
	atomic_fetch_add_explicit(&nspy_core.calls_of_gone_threads,
				  atomic_load_explicit(&slot->calls, memory_order_relaxed),
				  memory_order_relaxed);
	nspy_count_loss(NSPY_LOSS_RECORDS_NO_PAGE,
			atomic_load_explicit(&slot->lost, memory_order_relaxed));
	atomic_store_explicit(&slot->calls, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->lost, 0, memory_order_relaxed);
}

void nspy_drain_free_slots(void)
{
	for (uint32_t i = 0; i < nspy_slot_total(); i++) {
		struct nspy_slot *slot = nspy_slot_at(i);
		uint32_t expected = NSPY_SLOT_ORPHAN;

		if (atomic_load_explicit(&slot->state, memory_order_acquire) != NSPY_SLOT_ORPHAN ||
		    has_pending(slot->serial))
			continue;
		/* A new thread may take it over at this very moment: one of us gets it. */
		if (!atomic_compare_exchange_strong_explicit(
			    &slot->state, &expected, NSPY_SLOT_CLOSING, memory_order_acquire,
			    memory_order_relaxed))
			continue;
		if (!has_pending(slot->serial)) {
			close_slot(slot);
			atomic_store_explicit(&slot->state, NSPY_SLOT_FREE, memory_order_release);
		} else {
			atomic_store_explicit(&slot->state, NSPY_SLOT_ORPHAN, memory_order_release);
		}
	}
}
