/* SPDX-License-Identifier: Apache-2.0 */
#include "export.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

const char *nspy_export_text(const cJSON *object, const char *name)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));

	return text ? text : "";
}

int nspy_export_priority(const cJSON *finding)
{
	const char *priority = nspy_export_text(finding, "priority");

	return priority[0] == 'P' && priority[1] ? priority[1] - '0' : 2;
}

/* In the order of NSPY_EXPORT_OPTIONS. */
static const struct {
	size_t offset; /* of its file in struct nspy_exports */
	char *(*make)(const cJSON *jobs);
} forms[] = {
	{offsetof(struct nspy_exports, sarif), nspy_export_sarif},
	{offsetof(struct nspy_exports, junit), nspy_export_junit},
	{offsetof(struct nspy_exports, csv), nspy_export_csv},
	{offsetof(struct nspy_exports, otlp_logs), nspy_export_otlp_logs},
	{offsetof(struct nspy_exports, otlp_metrics), nspy_export_otlp_metrics},
	{offsetof(struct nspy_exports, html), NULL}, /* made elsewhere, from more than findings */
};

static const char *file_of(const struct nspy_exports *exports, size_t form)
{
	return *(const char *const *)((const char *)exports + forms[form].offset);
}

bool nspy_exports_take(struct nspy_exports *exports, int opt, const char *value)
{
	if (opt < NSPY_OPT_EXPORT || opt >= NSPY_OPT_EXPORT + (int)nspy_array_size(forms))
		return false;
	*(const char **)((char *)exports + forms[opt - NSPY_OPT_EXPORT].offset) = value;
	return true;
}

static bool is_stdout(const char *path)
{
	return path && strcmp(path, "-") == 0;
}

bool nspy_exports_to_stdout(const struct nspy_exports *exports)
{
	for (size_t i = 0; i < nspy_array_size(forms); i++) {
		if (is_stdout(file_of(exports, i)))
			return true;
	}
	return false;
}

bool nspy_exports_any(const struct nspy_exports *exports)
{
	for (size_t i = 0; i < nspy_array_size(forms); i++) {
		if (file_of(exports, i))
			return true;
	}
	return false;
}

bool nspy_exports_apart(const struct nspy_exports *exports, bool json)
{
	for (size_t i = 0; i < nspy_array_size(forms); i++) {
		const char *file = file_of(exports, i);
		bool taken = is_stdout(file) && json;

		for (size_t k = 0; file && k < i; k++)
			taken |= file_of(exports, k) && strcmp(file_of(exports, k), file) == 0;
		if (taken) {
			fprintf(stderr, "ncclspy-analyze: two forms for %s\n",
				is_stdout(file) ? "standard output" : file);
			return false;
		}
	}
	return true;
}

bool nspy_exports_file(const char *path, char *text)
{
	FILE *out = is_stdout(path) ? stdout : fopen(path, "we");
	bool ok = out && fputs(text, out) >= 0;

	if (out)
		ok = (out == stdout ? fflush(out) : fclose(out)) == 0 && ok;
	if (!ok)
		fprintf(stderr, "ncclspy-analyze: %s: %s\n", path, strerror(errno));
	free(text);
	return ok;
}

bool nspy_exports_write(const struct nspy_exports *exports, const cJSON *jobs)
{
	bool ok = true;

	for (size_t i = 0; i < nspy_array_size(forms); i++) {
		if (file_of(exports, i) && forms[i].make)
			ok = nspy_exports_file(file_of(exports, i), forms[i].make(jobs)) && ok;
	}
	return ok;
}
