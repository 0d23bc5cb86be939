/* SPDX-License-Identifier: Apache-2.0 */
/* A line that NCCL writes. Asserted: a value is there, printable and within its place. */
#include <string.h>

#include "fuzz.h"
#include "nccl_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char value[NSPY_NCCL_WORD_BYTES];
	enum nspy_nccl_fact fact = NSPY_NCCL_FACTS;
	char *text;

	if (bytes > 4096)
		return 0;
	text = malloc(bytes + 1);
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	if (nspy_nccl_line(text, &fact, value)) {
		FUZZ_ASSERT(fact < NSPY_NCCL_FACTS);
		FUZZ_ASSERT(memchr(value, '\0', sizeof(value)) != NULL);
		FUZZ_ASSERT(value[0] != '\0');
		for (const char *c = value; *c; c++)
			FUZZ_ASSERT(*c >= 0x20 && *c < 0x7f);
	}
	free(text);
	return 0;
}
