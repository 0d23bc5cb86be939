/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An OPS payload. Asserted: what decodes can be encoded again and then decodes to the same records
 * (a second encoding may choose other templates, the records are what counts).
 */
#include <string.h>

#include "fuzz.h"
#include "trace_encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static union nspy_any_rec first[NSPY_CHUNK_RECORDS_MAX], second[NSPY_CHUNK_RECORDS_MAX];
	static uint8_t *payload;
	static void *scratch;
	size_t room = nspy_ops_bound(NSPY_CHUNK_RECORDS_MAX), count, again;
	long encoded;

	if (!payload) {
		payload = malloc(room);
		scratch = malloc(nspy_ops_scratch_bytes());
	}
	if (nspy_ops_decode(data, bytes, first, NSPY_CHUNK_RECORDS_MAX, &count) != 0)
		return 0;
	/* Times that wrap around cannot come from a clock: a closed call then looks open. */
	for (size_t i = 0; i < count; i++)
		if (first[i].call.kind == NSPY_REC_CALL && !first[i].call.leave &&
		    !(first[i].call.flags & NSPY_CALL_OPEN))
			return 0;
	encoded = nspy_ops_encode(first, count, scratch, payload, room);
	FUZZ_ASSERT(encoded > 0);
	FUZZ_ASSERT(nspy_ops_decode(payload, (size_t)encoded, second, NSPY_CHUNK_RECORDS_MAX,
				    &again) == 0);
	FUZZ_ASSERT(again == count);
	FUZZ_ASSERT(memcmp(first, second, count * sizeof(first[0])) == 0);
	return 0;
}
