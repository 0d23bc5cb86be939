/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole segment file. Checksums would stop every mutation at the door, so the header's is
 * repaired wherever a chunk seems to begin. Asserted: reading ends, offsets rise, and what is
 * decoded keeps to the limits.
 */
#include <errno.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "fuzz.h"
#include "trace_bytes.h"
#include "trace_reader.h"

static void repair(uint8_t *data, size_t bytes)
{
	for (size_t i = 0; i + NSPY_CHUNK_HEADER_BYTES <= bytes; i++)
		if (nspy_le32_load(data + i) == NSPY_SKIP_MAGIC &&
		    nspy_le64_load(data + i + 8) == NSPY_CHUNK_MAGIC)
			nspy_le64_store(data + i + 88, XXH64(data + i, 88, 0));
}

static void decode(const struct nspy_chunk_info *info, const uint8_t *payload)
{
	static union nspy_any_rec records[NSPY_CHUNK_RECORDS_MAX];
	static struct nspy_comm_rec comms[NSPY_STATE_COMMS_MAX];
	static struct nspy_open_call opens[NSPY_STATE_OPEN_MAX];
	struct nspy_state state;
	const char *a, *b;
	size_t count, a_bytes, b_bytes, cursor = 0;

	switch (info->kind) {
	case NSPY_CHUNK_OPS:
		if (nspy_ops_decode(payload, info->raw_bytes, records, NSPY_CHUNK_RECORDS_MAX,
				    &count) == 0)
			FUZZ_ASSERT(count <= NSPY_CHUNK_RECORDS_MAX);
		break;
	case NSPY_CHUNK_STATE:
	case NSPY_CHUNK_END:
		if (nspy_state_decode(payload, info->raw_bytes, &state, comms, NSPY_STATE_COMMS_MAX,
				      opens, NSPY_STATE_OPEN_MAX) == 0)
			FUZZ_ASSERT(state.comm_count <= NSPY_STATE_COMMS_MAX &&
				    state.open_count <= NSPY_STATE_OPEN_MAX);
		break;
	case NSPY_CHUNK_IDENT:
		while (nspy_ident_next(payload, info->raw_bytes, &cursor, &a, &a_bytes, &b,
				       &b_bytes) == 0)
			FUZZ_ASSERT(cursor <= info->raw_bytes);
		break;
	default:
		while (nspy_schema_next(payload, info->raw_bytes, &cursor, &a, &a_bytes) == 0)
			FUZZ_ASSERT(a_bytes <= info->raw_bytes);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct nspy_reader *reader;
	struct nspy_chunk_info info;
	const uint8_t *payload;
	uint8_t *copy;
	uint64_t last = 0;
	int rc;

	if (bytes > (1u << 20))
		return 0;
	copy = malloc(bytes ? bytes : 1);
	memcpy(copy, data, bytes);
	repair(copy, bytes);
	if (nspy_reader_open_memory(copy, bytes, &reader) == 0) {
		while ((rc = nspy_reader_next(reader, &info, &payload)) != -ENODATA) {
			FUZZ_ASSERT(nspy_reader_offset(reader) > last);
			last = nspy_reader_offset(reader);
			FUZZ_ASSERT(last <= bytes);
			if (rc == 0)
				decode(&info, payload);
		}
		nspy_reader_free(reader);
	}
	free(copy);
	return 0;
}
