/* SPDX-License-Identifier: Apache-2.0 */
/* A line and a document: the redactor ends, and what it writes is bounded. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/collect/redact.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	cJSON *tree = cJSON_ParseWithLength((const char *)data, bytes);
	char *line = malloc(bytes + 1), *once;

	if (!line)
		return 0;
	memcpy(line, data, bytes);
	line[bytes] = '\0';
	once = redact_line(line);
	FUZZ_ASSERT(once);
	/* Each byte is kept or part of something removed: bounded growth. */
	FUZZ_ASSERT(strlen(once) <= strlen(line) * (strlen(REDACT_REMOVED) + 1));
	free(once);
	free(line);
	if (tree)
		FUZZ_ASSERT(redact_tree(tree) == 0);
	cJSON_Delete(tree);
	return 0;
}
