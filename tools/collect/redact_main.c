/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redact.h"

#define INPUT_MAX (512u << 20)

static int fail(const char *what)
{
	fprintf(stderr, "ncclspy-redact: %s\n", what);
	return 1;
}

/* A private key spans lines. */
static bool key_begins(const char *line)
{
	return strstr(line, "-----BEGIN ") && strstr(line, "PRIVATE KEY-----");
}

static bool key_ends(const char *line)
{
	return strstr(line, "-----END ") != NULL;
}

static int redact_text(void)
{
	char *line = NULL, *clean;
	size_t capacity = 0;
	bool in_key = false;
	ssize_t bytes;

	while ((bytes = getline(&line, &capacity, stdin)) >= 0) {
		if (strlen(line) < (size_t)bytes) {
			free(line);
			return fail("binary data in text"); /* nothing behind it was looked at */
		}
		if (bytes && line[bytes - 1] == '\n')
			line[bytes - 1] = '\0';
		if (in_key) {
			in_key = !key_ends(line);
			continue;
		}
		if (key_begins(line)) {
			in_key = !key_ends(line);
			puts(REDACT_REMOVED);
			continue;
		}
		clean = redact_line(line);
		if (!clean) {
			free(line);
			return fail("out of memory");
		}
		puts(clean);
		free(clean);
	}
	free(line);
	return ferror(stdin) || fflush(stdout) ? fail(strerror(errno)) : 0;
}

static char *read_input(void)
{
	size_t capacity = 1 << 16, have = 0, got;
	char *text = malloc(capacity), *larger;

	while (text && (got = fread(text + have, 1, capacity - have - 1, stdin)) > 0) {
		have += got;
		if (have + 1 < capacity)
			continue;
		capacity *= 2;
		larger = capacity <= INPUT_MAX ? realloc(text, capacity) : NULL;
		if (!larger)
			free(text);
		text = larger;
	}
	if (text)
		text[have] = '\0';
	return text;
}

static int redact_json(void)
{
	char *input = read_input(), *output = NULL;
	cJSON *tree = input ? cJSON_Parse(input) : NULL;

	free(input);
	if (!tree)
		return fail("not a JSON document, or too large");
	if (redact_tree(tree) == 0)
		output = cJSON_PrintUnformatted(tree);
	cJSON_Delete(tree);
	if (!output)
		return fail("out of memory");
	puts(output);
	cJSON_free(output);
	return fflush(stdout) ? fail(strerror(errno)) : 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "json") == 0)
		return redact_json();
	if (argc == 2 && strcmp(argv[1], "text") == 0)
		return redact_text();
	fputs("Usage: ncclspy-redact json|text <INPUT >OUTPUT\n"
	      "\n"
	      "Takes secrets out of a document of a cluster's API, or out of lines of text. Used "
	      "by\n"
	      "ncclspy-collect. Exit status: 0 done, 1 the input is not of that kind, 2 usage.\n",
	      argc == 2 && strcmp(argv[1], "--help") == 0 ? stdout : stderr);
	return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
}
