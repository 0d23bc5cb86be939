/* SPDX-License-Identifier: Apache-2.0 */
#include "export.h"

#include <cjson/cJSON.h>
#include <errno.h>
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

bool nspy_exports_take(struct nspy_exports *exports, int opt, const char *value)
{
	const char **const files[] = {&exports->sarif, &exports->junit, &exports->csv};

	if (opt < NSPY_OPT_EXPORT || opt >= NSPY_OPT_EXPORT + (int)nspy_array_size(files))
		return false;
	*files[opt - NSPY_OPT_EXPORT] = value;
	return true;
}

static bool is_stdout(const char *path)
{
	return path && strcmp(path, "-") == 0;
}

bool nspy_exports_to_stdout(const struct nspy_exports *exports)
{
	return is_stdout(exports->sarif) || is_stdout(exports->junit) || is_stdout(exports->csv);
}

static bool write_one(const char *path, char *text)
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

	if (exports->sarif)
		ok = write_one(exports->sarif, nspy_export_sarif(jobs)) && ok;
	if (exports->junit)
		ok = write_one(exports->junit, nspy_export_junit(jobs)) && ok;
	if (exports->csv)
		ok = write_one(exports->csv, nspy_export_csv(jobs)) && ok;
	return ok;
}
