/* SPDX-License-Identifier: Apache-2.0 */
/* The live pages of a process that died: what the segments do not hold yet. */
#include <stdlib.h>
#include <string.h>

#include "trace_live.h"
#include "tracegen.h"

static size_t align64(size_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

static void fill_slot(const struct nspy_tg_rank *rank, struct nspy_slot *slot)
{
	slot->state = NSPY_SLOT_USED;
	slot->tid = 4242;
	slot->serial = 1;
	slot->next_index = rank->count;
	slot->calls = rank->callno;
	slot->lost = rank->lost;
	if (!rank->has_open)
		return;
	slot->open[0] = rank->open;
	slot->open[0].flags &= (uint8_t)~NSPY_CALL_OPEN;
	slot->depth = 1;
}

/* Pages in an order that is not the order of time, as leasing from a pool gives. */
static void fill_pages(const struct nspy_tg_rank *rank, struct nspy_page *pages, size_t count)
{
	size_t at = rank->drained;

	for (size_t i = 0; i < count; i++) {
		struct nspy_page *page = &pages[count - 1 - i];
		size_t n = rank->count - at;

		if (n > NSPY_PAGE_RECORDS)
			n = NSPY_PAGE_RECORDS;
		page->state = i + 1 < count ? NSPY_PAGE_FULL : NSPY_PAGE_OWNED;
		page->serial = 1;
		page->tid = 4242;
		page->first_index = at;
		page->generation = i;
		memcpy(page->rec, rank->records + at, n * sizeof(page->rec[0]));
		page->committed = (uint32_t)n;
		at += n;
	}
}

void *nspy_tg_live_image(const struct nspy_tg *tg, const struct nspy_tg_rank *rank,
			 const uint8_t *ident, size_t ident_bytes, const char *schema,
			 uint64_t run_id, size_t *ret_bytes)
{
	size_t page_count = (rank->count - rank->drained) / NSPY_PAGE_RECORDS + 1;
	size_t slots = NSPY_LIVE_HEAD_BYTES + NSPY_LIVE_IDENT_BYTES + NSPY_LIVE_SCHEMA_BYTES;
	size_t pages = align64(slots + sizeof(struct nspy_slot));
	size_t bytes = pages + page_count * sizeof(struct nspy_page);
	uint8_t *image = aligned_alloc(64, align64(bytes));
	struct nspy_live_head *head = (struct nspy_live_head *)image;

	memset(image, 0, align64(bytes));
	head->magic = NSPY_LIVE_MAGIC;
	head->version = NSPY_LIVE_VERSION;
	head->head_bytes = NSPY_LIVE_HEAD_BYTES;
	head->file_bytes = bytes;
	head->run_id = run_id;
	head->pid = 1000u + (uint32_t)rank->rank;
	head->clock_source = NSPY_CLOCK_MONOTONIC;
	head->ident_offset = NSPY_LIVE_HEAD_BYTES;
	head->schema_offset = NSPY_LIVE_HEAD_BYTES + NSPY_LIVE_IDENT_BYTES;
	head->slot_offset = (uint32_t)slots;
	head->slot_count = 1;
	head->page_offset = (uint32_t)pages;
	head->page_count = (uint32_t)page_count;
	head->state = NSPY_LIVE_RUNNING;
	head->heartbeat_ticks = rank->exit_ns;
	head->clock_count = 1;
	head->clock[0] = (struct nspy_clock_piece){
		.mult = 1ULL << 32,
		.mono_to_real_ns = nspy_tg_offset(tg, rank),
	};
	if (rank->crash.number)
		nspy_signal_note_write(&head->crash, &rank->crash);
	if (rank->noted_term) {
		const struct nspy_signal_note term = {.when_ns = rank->noted_term, .number = 15};

		nspy_signal_note_write(&head->term, &term);
	}
	memcpy(image + head->ident_offset, ident, ident_bytes);
	head->ident_bytes = (uint32_t)ident_bytes;
	memcpy(image + head->schema_offset, schema, strlen(schema));
	head->schema_bytes = (uint32_t)strlen(schema);
	fill_slot(rank, (struct nspy_slot *)(image + slots));
	fill_pages(rank, (struct nspy_page *)(image + pages), page_count);
	*ret_bytes = bytes;
	return image;
}
