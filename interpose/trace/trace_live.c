/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading live pages. Native byte order and layout: they never leave their host (amended copies
 * made by the launcher or a sibling lie beside the segments, but are read by hosts of the same
 * architecture; the magic number tells a foreign byte order).
 */
#include "trace_live.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "trace_file.h"

struct nspy_live {
	uint8_t *data;
	size_t bytes;
	struct nspy_live_head head;
	struct nspy_clock_piece clock[NSPY_CLOCK_PIECES]; /* oldest first */
	uint32_t clock_count;
};

static bool fits(size_t offset, size_t count, size_t each, size_t bytes)
{
	return offset <= bytes && offset % 64 == 0 && count <= (bytes - offset) / each;
}

static bool layout_ok(const struct nspy_live_head *head, size_t bytes)
{
	return head->head_bytes >= sizeof(*head) && head->head_bytes <= bytes &&
	       fits(head->ident_offset, NSPY_LIVE_IDENT_BYTES, 1, bytes) &&
	       fits(head->schema_offset, NSPY_LIVE_SCHEMA_BYTES, 1, bytes) &&
	       fits(head->slot_offset, head->slot_count, sizeof(struct nspy_slot), bytes) &&
	       fits(head->page_offset, head->page_count, sizeof(struct nspy_page), bytes) &&
	       head->ident_bytes <= NSPY_LIVE_IDENT_BYTES &&
	       head->schema_bytes <= NSPY_LIVE_SCHEMA_BYTES;
}

/* The ring of clock pieces in order of age. A piece whose multiplier is absurd is left out. */
static void load_clock(struct nspy_live *live)
{
	uint32_t made = live->head.clock_count;
	uint32_t kept = made < NSPY_CLOCK_PIECES ? made : NSPY_CLOCK_PIECES;

	for (uint32_t i = made - kept; i != made; i++) {
		const struct nspy_clock_piece *p = &live->head.clock[i % NSPY_CLOCK_PIECES];

		if (p->mult)
			live->clock[live->clock_count++] = *p;
	}
}

/* data passes to the new object; it is freed on failure too. */
static int open_data(uint8_t *data, size_t bytes, struct nspy_live **ret)
{
	struct nspy_live *live;
	int rc = 0;

	live = calloc(1, sizeof(*live));
	if (!live) {
		free(data);
		return -ENOMEM;
	}
	live->data = data;
	live->bytes = bytes;
	if (bytes < sizeof(live->head)) {
		rc = -EBADMSG;
		goto fail;
	}
	memcpy(&live->head, data, sizeof(live->head));
	if (live->head.magic != NSPY_LIVE_MAGIC) {
		rc = -EBADMSG;
		goto fail;
	}
	if (live->head.version > NSPY_LIVE_VERSION) {
		rc = -EPROTONOSUPPORT;
		goto fail;
	}
	if (!layout_ok(&live->head, bytes)) {
		rc = -EBADMSG;
		goto fail;
	}
	load_clock(live);
	*ret = live;
	return 0;
fail:
	nspy_live_free(live);
	return rc;
}

int nspy_live_open_memory(const void *data, size_t bytes, struct nspy_live **ret)
{
	uint8_t *copy = malloc(bytes + 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, data, bytes);
	return open_data(copy, bytes, ret);
}

static struct nspy_slot *slot_at(const struct nspy_live *live, size_t i)
{
	return (struct nspy_slot *)(void *)(live->data + live->head.slot_offset) + i;
}

/*
 * The file of a running process changes while it is read: an open call that is not there, the same,
 * at a second look has just ended (or was caught half-written) and is dropped.
 */
static void settle_open_calls(struct nspy_live *live, const char *path)
{
	uint8_t *again;
	size_t bytes;

	if (live->head.state != NSPY_LIVE_RUNNING || nspy_file_read(path, &again, &bytes) < 0)
		return;
	for (size_t i = 0; bytes == live->bytes && i < live->head.slot_count; i++) {
		struct nspy_slot *slot = slot_at(live, i);
		const struct nspy_slot *later =
			(const struct nspy_slot *)(const void *)(again + live->head.slot_offset) +
			i;

		for (uint32_t k = 0; k < NSPY_OPEN_DEPTH_MAX; k++)
			if (k >= later->depth ||
			    memcmp(&slot->open[k], &later->open[k], sizeof(slot->open[k])) != 0)
				slot->open[k].kind = NSPY_REC_NONE;
	}
	free(again);
}

int nspy_live_open(const char *path, struct nspy_live **ret)
{
	uint8_t *data;
	size_t bytes;
	int rc = nspy_file_read(path, &data, &bytes);

	if (rc == 0)
		rc = open_data(data, bytes, ret);
	if (rc == 0)
		settle_open_calls(*ret, path);
	return rc;
}

void nspy_live_free(struct nspy_live *live)
{
	if (!live)
		return;
	free(live->data);
	free(live);
}

const uint8_t *nspy_live_image(const struct nspy_live *live, size_t *ret_bytes)
{
	*ret_bytes = live->bytes;
	return live->data;
}

void nspy_live_info(const struct nspy_live *live, struct nspy_live_info *ret)
{
	const struct nspy_live_head *head = &live->head;

	*ret = (struct nspy_live_info){
		.run_id = head->run_id,
		.pid = head->pid,
		.state = head->state,
		.exit_code = head->exit_code,
		.heartbeat_ns =
			nspy_clock_to_ns(live->clock, live->clock_count, head->heartbeat_ticks),
	};
	ret->mode = (struct nspy_note_mode){head->mode, head->mode_since_ns};
	ret->hole = (struct nspy_note_hole){head->hole_from_ns, head->hole_until_ns,
					    head->hole_records};
	(void)nspy_signal_note_read(&head->crash, &ret->crash);
	(void)nspy_signal_note_read(&head->term, &ret->term);
	if (live->clock_count)
		ret->mono_to_real_ns = live->clock[live->clock_count - 1].mono_to_real_ns;
	for (int i = 0; i < NSPY_LOSS_COUNT; i++)
		ret->loss[i] = head->loss[i];
	for (size_t i = 0; i < head->slot_count; i++) {
		ret->loss[NSPY_LOSS_RECORDS_NO_PAGE] += slot_at(live, i)->lost;
		ret->calls += slot_at(live, i)->calls;
	}
}

const uint8_t *nspy_live_ident(const struct nspy_live *live, size_t *ret_bytes)
{
	*ret_bytes = live->head.ident_bytes;
	return live->data + live->head.ident_offset;
}

const uint8_t *nspy_live_schema(const struct nspy_live *live, size_t *ret_bytes)
{
	*ret_bytes = live->head.schema_bytes;
	return live->data + live->head.schema_offset;
}

size_t nspy_live_page_count(const struct nspy_live *live)
{
	return live->head.page_count;
}

static const struct nspy_page *page_at(const struct nspy_live *live, size_t i)
{
	return (const struct nspy_page *)(const void *)(live->data + live->head.page_offset) + i;
}

static void to_ns(const struct nspy_live *live, union nspy_any_rec *rec)
{
	nspy_rec_to_ns(live->clock, live->clock_count, rec);
	if (rec->call.kind == NSPY_REC_TEXT && rec->text.bytes > NSPY_TEXT_PIECE_BYTES)
		rec->text.bytes = NSPY_TEXT_PIECE_BYTES;
}

int nspy_live_page(const struct nspy_live *live, size_t i, uint32_t *ret_serial,
		   uint64_t *ret_first_index, union nspy_any_rec *records, size_t capacity,
		   size_t *ret_count)
{
	const struct nspy_page *page;
	size_t count;

	if (i >= live->head.page_count)
		return -EINVAL;
	page = page_at(live, i);
	count = page->state == NSPY_PAGE_FREE ? 0 : page->committed;
	if (count > NSPY_PAGE_RECORDS)
		return -EBADMSG;
	if (count > capacity)
		return -E2BIG;
	for (size_t k = 0; k < count; k++) {
		records[k] = page->rec[k];
		to_ns(live, &records[k]);
	}
	*ret_serial = page->serial;
	*ret_first_index = page->first_index;
	*ret_count = count;
	return 0;
}

/* Whether the completed record of this open entry is in a page already. */
static bool already_appended(const struct nspy_live *live, const struct nspy_slot *slot,
			     const struct nspy_rec *open)
{
	for (size_t i = 0; i < live->head.page_count; i++) {
		const struct nspy_page *page = page_at(live, i);
		uint32_t count = page->committed;

		if (page->state == NSPY_PAGE_FREE || page->serial != slot->serial ||
		    count > NSPY_PAGE_RECORDS)
			continue;
		for (uint32_t k = 0; k < count; k++)
			if (page->rec[k].call.kind == NSPY_REC_CALL &&
			    page->rec[k].call.callno == open->callno &&
			    page->rec[k].call.enter == open->enter)
				return true;
	}
	return false;
}

int nspy_live_open_calls(const struct nspy_live *live, struct nspy_open_call *calls,
			 size_t capacity, size_t *ret_count)
{
	size_t count = 0;

	for (size_t i = 0; i < live->head.slot_count; i++) {
		const struct nspy_slot *slot = slot_at(live, i);
		uint32_t depth = slot->depth;

		if (slot->state == NSPY_SLOT_FREE)
			continue;
		for (uint32_t k = 0; k < depth && k < NSPY_OPEN_DEPTH_MAX; k++) {
			union nspy_any_rec rec = {.call = slot->open[k]};

			if (rec.call.kind != NSPY_REC_CALL ||
			    already_appended(live, slot, &rec.call))
				continue;
			if (count == capacity)
				return -E2BIG;
			rec.call.leave = 0;
			rec.call.flags |= NSPY_CALL_OPEN;
			to_ns(live, &rec);
			calls[count++] = (struct nspy_open_call){slot->serial, slot->tid, rec.call};
		}
	}
	*ret_count = count;
	return 0;
}
