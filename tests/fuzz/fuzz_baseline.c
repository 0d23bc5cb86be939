/* SPDX-License-Identifier: Apache-2.0 */
/* A baseline file of unknown origin, compared with itself: refused in one line, or judged. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compare/compare.h"
#include "fuzz.h"

static void compare(const struct nspy_runs *runs)
{
	struct nspy_comparison c;
	cJSON *document;
	FILE *nowhere = fopen("/dev/null", "w");

	nspy_compare(runs, runs, &NSPY_COMPARE_DEFAULTS, &c);
	for (size_t i = 0; i < c.findings.count; i++)
		FUZZ_ASSERT(c.findings.items[i]->summary && c.findings.items[i]->cause);
	for (size_t i = 0; i < c.row_count; i++) {
		FUZZ_ASSERT(isnan(c.rows[i].p) || (c.rows[i].p >= 0 && c.rows[i].p <= 1));
		/* The same runs differ in nothing. */
		FUZZ_ASSERT(c.rows[i].verdict != NSPY_CHANGE_WORSE);
	}
	if (nowhere) {
		nspy_compare_print(&c, nowhere, false);
		(void)fclose(nowhere);
	}
	document = nspy_compare_json(&c);
	FUZZ_ASSERT(document);
	cJSON_Delete(document);
	nspy_comparison_done(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct nspy_runs runs = {0};
	char error[160] = "";
	int rc = nspy_runs_parse((const char *)data, bytes, &runs, error, sizeof(error));

	FUZZ_ASSERT((rc < 0) == (error[0] != '\0'));
	FUZZ_ASSERT((rc == 0) == (runs.count > 0));
	FUZZ_ASSERT(!strchr(error, '\n'));
	if (rc == 0)
		compare(&runs);
	nspy_runs_done(&runs);
	return 0;
}
