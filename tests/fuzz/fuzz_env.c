/* SPDX-License-Identifier: Apache-2.0 */
/* The environment: "NAME=value" lines. Asserted: numbers stay in range, texts are terminated. */
#include <stdbool.h>
#include <string.h>

#include "env.h"
#include "fuzz.h"

static void set_lines(char *text)
{
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char *equals = strchr(line, '=');

		if (!equals || equals == line)
			continue;
		*equals = '\0';
		setenv(line, equals + 1, 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct nspy_env env;
	char *text;
	size_t cursor = 0;
	const char *pair;

	if (bytes > 4096)
		return 0;
	clearenv();
	text = malloc(bytes + 1);
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	set_lines(text);
	nspy_env_read(&env);
	FUZZ_ASSERT(env.NCCLSPY_DISK >= 1 && env.NCCLSPY_DISK <= 65536);
	FUZZ_ASSERT(memchr(env.NCCLSPY_DIR, '\0', sizeof(env.NCCLSPY_DIR)) != NULL);
	FUZZ_ASSERT(memchr(env.bad, '\0', sizeof(env.bad)) != NULL);
	while ((pair = nspy_env_next_allowed(&cursor)) != NULL)
		FUZZ_ASSERT(strncmp(pair, "LD_", 3) != 0 && strncmp(pair, "AWS_", 4) != 0);
	free(text);
	return 0;
}
