/* SPDX-License-Identifier: Apache-2.0 */
#include "verify.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "finding.h"
#include "text.h"

#define FILE_BYTES_MAX (64u << 20)

/* "COLLECTIVE_HANG rank 3 on node a": what makes two findings the same. */
static char *name_of(const cJSON *finding)
{
	const char *id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(finding, "id"));
	const cJSON *culprits = cJSON_GetObjectItemCaseSensitive(finding, "culprits");
	const cJSON *culprit;
	struct nspy_str s = {0};

	nspy_str_add(&s, id ? id : "?");
	cJSON_ArrayForEach(culprit, culprits)
	{
		const cJSON *rank = cJSON_GetObjectItemCaseSensitive(culprit, "rank");
		const char *node =
			cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(culprit, "node"));

		if (cJSON_IsNumber(rank))
			nspy_str_addf(&s, ", rank %.0f", cJSON_GetNumberValue(rank));
		else
			nspy_str_add(&s, ", a process");
		nspy_str_addf(&s, " on %s", node ? node : "?");
	}
	nspy_clean(s.text);
	return nspy_str_take(&s);
}

static void list_names(const cJSON *jobs, struct nspy_texts *names)
{
	const cJSON *job, *finding;

	cJSON_ArrayForEach(job, jobs)
	{
		cJSON_ArrayForEach(finding, cJSON_GetObjectItemCaseSensitive(job, "findings"))
			nspy_texts_add(names, name_of(finding));
	}
}

static bool has(const struct nspy_texts *names, const char *name)
{
	for (size_t i = 0; i < names->count; i++) {
		if (strcmp(names->text[i], name) == 0)
			return true;
	}
	return false;
}

static void names_done(struct nspy_texts *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->text[i]);
	free(names->text);
}

int nspy_verify(const char *path, const cJSON *jobs, FILE *out)
{
	char *text = nspy_read_text(path, FILE_BYTES_MAX);
	cJSON *old = text ? cJSON_Parse(text) : NULL;
	const char *schema = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(old, "schema"));
	struct nspy_texts before = {0}, now = {0};
	bool usable = schema && strncmp(schema, "ncclspy.report/", 15) == 0;

	if (usable) {
		list_names(cJSON_GetObjectItemCaseSensitive(old, "jobs"), &before);
		list_names(jobs, &now);
		for (size_t i = 0; i < before.count; i++)
			fprintf(out, "[%s] %s\n", has(&now, before.text[i]) ? "REMAINS" : "GONE",
				before.text[i]);
		for (size_t i = 0; i < now.count; i++) {
			if (!has(&before, now.text[i]))
				fprintf(out, "[NEW] %s\n", now.text[i]);
		}
	} else {
		fprintf(stderr, "ncclspy-analyze: %s: not a report of 'report --json'\n", path);
	}
	names_done(&before);
	names_done(&now);
	cJSON_Delete(old);
	free(text);
	return usable ? NSPY_EXIT_OK : NSPY_EXIT_USAGE;
}
