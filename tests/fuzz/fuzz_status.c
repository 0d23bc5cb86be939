/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status pages, as another process may have left them, and what is concluded from them. The head is
 * repaired, so that damage goes deeper than the checksum.
 */
#include "compat.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "fuzz.h"
#include "odd.h"
#include "trace_bytes.h"
#include "verdict.h"

#define PAGES 3u

static void repair(uint8_t *page, size_t bytes)
{
	nspy_le64_store(page, NSPY_STATUS_MAGIC);
	nspy_le32_store(page + 8, NSPY_STATUS_VERSION);
	nspy_le32_store(page + 12, (uint32_t)bytes);
	nspy_le64_store(page + 24,
			XXH64(page + NSPY_STATUS_HEAD_BYTES, bytes - NSPY_STATUS_HEAD_BYTES,
			      nspy_le64_load(page + 16)));
}

static void conclude(struct nspy_status *pages, uint8_t bits, struct nspy_arena *arena)
{
	static struct nspy_verdict verdict;
	const struct nspy_limits limits = {
		.note_ns = 1, .hang_ns = 1, .start_ns = 1, .confirm_ns = 1};

	for (uint32_t i = 0; i < PAGES; i++) {
		pages[i].dead = bits >> (2 * i) & 1;
		pages[i].stopped = bits >> (2 * i + 1) & 1;
		pages[i].rank += (int32_t)i;
		if (pages[i].comm_count && bits & 0x80)
			pages[i].comms[0].enqueued += i;
	}
	if (nspy_verdict_find(pages, PAGES, pages[0].published_ns + 10, &limits, arena, &verdict) <
	    0)
		return;
	FUZZ_ASSERT(verdict.id <= NSPY_FOUND_NONE);
	for (uint32_t i = 0; i < verdict.culprit_count && i < NSPY_CULPRITS_MAX; i++)
		FUZZ_ASSERT(verdict.culprits[i] < PAGES);
	FUZZ_ASSERT(verdict.id == NSPY_FOUND_NONE || verdict.headline[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static uint8_t page[NSPY_STATUS_BYTES_MAX], again[NSPY_STATUS_BYTES_MAX];
	static uint64_t memory[1 << 17], scratch[1 << 19];
	struct nspy_arena arena = {(uint8_t *)memory, sizeof(memory), 0};
	struct nspy_arena room = {(uint8_t *)scratch, sizeof(scratch), 0};
	struct nspy_status pages[PAGES];
	size_t used;
	long more;

	(void)nspy_status_decode(data, bytes, &arena, &pages[0], &used);
	if (bytes < NSPY_STATUS_HEAD_BYTES || bytes > sizeof(page))
		return 0;
	memcpy(page, data, bytes);
	repair(page, bytes);
	for (uint32_t i = 0; i < PAGES; i++)
		if (nspy_status_decode(page, bytes, &arena, &pages[i], &used) < 0)
			return 0;
	FUZZ_ASSERT(used == bytes);
	/* What was read can be written, and is read as the same; pages of before get longer. */
	more = nspy_status_encode(&pages[0], NSPY_STATUS_OPS_MAX, again, sizeof(again));
	FUZZ_ASSERT(more == (long)bytes || more == (long)bytes + NSPY_STATUS_CONTROL_BYTES ||
		    more == (long)bytes + NSPY_STATUS_STACK_BYTES + NSPY_STATUS_CONTROL_BYTES ||
		    (more < 0 && bytes + NSPY_STATUS_CONTROL_BYTES > sizeof(again)));
	for (int i = 0; i < NSPY_ODD_TOPICS; i++) {
		char text[NSPY_ODD_TEXT];

		(void)nspy_odd_find(pages, PAGES, (enum nspy_odd_topic)i, text);
		FUZZ_ASSERT(strlen(text) < sizeof(text));
	}
	conclude(pages, page[bytes - 1], &room);
	return 0;
}
