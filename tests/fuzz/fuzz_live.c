/* SPDX-License-Identifier: Apache-2.0 */
/* A live page file: anything may stand in it. */
#include "fuzz.h"
#include "trace_live.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct nspy_open_call opens[NSPY_STATE_OPEN_MAX];
	union nspy_any_rec records[NSPY_PAGE_RECORDS];
	struct nspy_live_info info;
	struct nspy_live *live;
	const uint8_t *text;
	const char *a, *b;
	size_t count, text_bytes, a_bytes, b_bytes, cursor = 0;
	uint32_t serial;
	uint64_t first;

	if (bytes > (1u << 20) || nspy_live_open_memory(data, bytes, &live) != 0)
		return 0;
	nspy_live_info(live, &info);
	text = nspy_live_ident(live, &text_bytes);
	while (nspy_ident_next(text, text_bytes, &cursor, &a, &a_bytes, &b, &b_bytes) == 0)
		FUZZ_ASSERT(cursor <= text_bytes);
	text = nspy_live_schema(live, &text_bytes);
	for (cursor = 0; nspy_schema_next(text, text_bytes, &cursor, &a, &a_bytes) == 0;)
		FUZZ_ASSERT(a_bytes <= text_bytes);
	if (nspy_live_open_calls(live, opens, NSPY_STATE_OPEN_MAX, &count) == 0)
		FUZZ_ASSERT(count <= NSPY_STATE_OPEN_MAX);
	for (size_t i = 0; i < nspy_live_page_count(live); i++)
		if (nspy_live_page(live, i, &serial, &first, records, NSPY_PAGE_RECORDS, &count) ==
		    0)
			FUZZ_ASSERT(count <= NSPY_PAGE_RECORDS);
	nspy_live_free(live);
	return 0;
}
