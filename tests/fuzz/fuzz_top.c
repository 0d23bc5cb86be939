/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ncclspy-top on a file of the board and on events.jsonl, as anybody may have written them. The
 * first page's head is repaired, so that damage goes deeper than the checksum.
 */
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "fuzz.h"
#include "top.h"
#include "trace_bytes.h"

static void repair(uint8_t *page, size_t bytes)
{
	nspy_le64_store(page, NSPY_STATUS_MAGIC);
	nspy_le32_store(page + 8, NSPY_STATUS_VERSION);
	nspy_le32_store(page + 12, (uint32_t)bytes);
	nspy_le64_store(page + 24,
			XXH64(page + NSPY_STATUS_HEAD_BYTES, bytes - NSPY_STATUS_HEAD_BYTES,
			      nspy_le64_load(page + 16)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static uint8_t pages[3 * NSPY_STATUS_BYTES_MAX];
	struct top_snapshot snap = {.now_real_ns = 1764687474000000000ull};
	struct top_lines lines = {0};

	top_take_events(&snap, (const char *)data, bytes);
	FUZZ_ASSERT(snap.event_count <= TOP_EVENTS_MAX);
	if (bytes >= NSPY_STATUS_HEAD_BYTES && bytes <= NSPY_STATUS_BYTES_MAX) {
		for (size_t i = 0; i < 3; i++)
			memcpy(pages + i * bytes, data, bytes);
		repair(pages, bytes);
		memcpy(pages + bytes, pages, bytes);
		FUZZ_ASSERT(top_take_pages(&snap, pages, 3 * bytes, false) == 0);
	}
	FUZZ_ASSERT(top_measure(&snap) == 0);
	for (int sort = 0; sort < TOP_SORTS; sort++) {
		top_sort(&snap, (enum top_sort)sort);
		FUZZ_ASSERT(top_text(&snap, (enum top_sort)sort, 10, &lines) == 0);
		for (size_t i = 0; i < lines.count; i++)
			for (const char *c = lines.at[i].text; *c; c++)
				FUZZ_ASSERT(*c >= 0x20 && *c < 0x7f);
	}
	free(lines.at);
	top_free(&snap);
	return 0;
}
