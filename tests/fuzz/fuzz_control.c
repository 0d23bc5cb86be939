/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A control file, with a checksum that fits where the input has none, so that what lies behind it
 * is reached. Asserted: what is taken is bounded, in order and clean, and comes back from its own
 * text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "fuzz.h"
#include "trace_control.h"

static void check(const char *data, size_t bytes)
{
	static struct nspy_control first, second;
	char out[NSPY_CONTROL_BYTES_MAX];
	long n;

	if (nspy_control_decode(data, bytes, &first) < 0)
		return;
	FUZZ_ASSERT(first.count <= NSPY_CONTROL_COMMANDS);
	for (uint32_t i = 0; i < first.count; i++) {
		const struct nspy_command *command = &first.at[i];

		FUZZ_ASSERT(i == 0 || command->id > first.at[i - 1].id);
		FUZZ_ASSERT(command->verb < NSPY_CONTROL_VERBS);
		for (const char *c = command->text; *c; c++)
			FUZZ_ASSERT((unsigned char)*c >= 0x20 && *c != 0x7f);
		if (command->verb == NSPY_CONTROL_THRESHOLD)
			FUZZ_ASSERT(command->value >= 1 &&
				    command->value <= NSPY_CONTROL_THRESHOLD_S);
	}
	n = nspy_control_encode(&first, out, sizeof(out));
	FUZZ_ASSERT(n > 0 && nspy_control_decode(out, (size_t)n, &second) == 0);
	FUZZ_ASSERT(second.count == first.count && strcmp(second.job_dir, first.job_dir) == 0);
	FUZZ_ASSERT(memcmp(first.at, second.at, first.count * sizeof(first.at[0])) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static char text[NSPY_CONTROL_BYTES_MAX];
	int n;

	check((const char *)data, bytes);
	if (bytes + 32 > sizeof(text))
		return 0;
	memcpy(text, data, bytes);
	n = snprintf(text + bytes, 32, "sum %016llx\n", (unsigned long long)XXH64(data, bytes, 0));
	check(text, bytes + (size_t)n);
	return 0;
}
