/* SPDX-License-Identifier: Apache-2.0 */
/* RFC 4180, with a header. One row a culprit; a finding that blames nobody has one row. */
#include <cjson/cJSON.h>
#include <string.h>

#include "export.h"
#include "util.h"

/*
 * Spreadsheets take what begins with one of these for a formula; names of hosts and jobs come from
 * others, so it is made a text.
 */
static bool is_formula(const char *text)
{
	return *text && strchr("=+-@\t\r", *text);
}

static void add_field(struct nspy_str *s, const char *text, bool last)
{
	nspy_str_add(s, "\"");
	if (is_formula(text))
		nspy_str_add(s, "'");
	for (; *text; text++) {
		if (*text == '"')
			nspy_str_add(s, "\"");
		nspy_str_addn(s, text, 1);
	}
	nspy_str_add(s, last ? "\"\r\n" : "\",");
}

static void add_number(struct nspy_str *s, const cJSON *number)
{
	if (number && cJSON_IsNumber(number))
		nspy_str_addf(s, "%.0f", number->valuedouble);
	nspy_str_add(s, ",");
}

static void add_row(struct nspy_str *s, const cJSON *job, const cJSON *finding,
		    const cJSON *culprit, const cJSON *rank)
{
	add_field(s, nspy_export_text(job, "job"), false);
	add_number(s, cJSON_GetObjectItemCaseSensitive(job, "attempt"));
	add_field(s, nspy_export_text(finding, "id"), false);
	add_field(s, nspy_export_text(finding, "priority"), false);
	add_field(s, nspy_export_text(finding, "confidence"), false);
	add_number(s, rank);
	add_field(s, nspy_export_text(culprit, "node"), false);
	add_number(s, cJSON_GetObjectItemCaseSensitive(culprit, "pid"));
	add_field(s, nspy_export_text(finding, "began"), false);
	add_field(s, nspy_export_text(finding, "owner"), false);
	add_field(s, nspy_export_text(finding, "summary"), false);
	add_field(s, nspy_export_text(finding, "action"), false);
	add_field(s, nspy_export_text(finding, "reference"), false);
	add_field(s, nspy_export_text(finding, "ignored"), true);
}

static void add_finding(struct nspy_str *s, const cJSON *job, const cJSON *finding)
{
	const cJSON *culprits = cJSON_GetObjectItemCaseSensitive(finding, "culprits");
	const cJSON *culprit, *rank;

	if (cJSON_GetArraySize(culprits) == 0)
		add_row(s, job, finding, NULL, NULL);
	cJSON_ArrayForEach(culprit, culprits)
	{
		const cJSON *ranks = cJSON_GetObjectItemCaseSensitive(culprit, "ranks");

		if (!ranks)
			add_row(s, job, finding, culprit,
				cJSON_GetObjectItemCaseSensitive(culprit, "rank"));
		cJSON_ArrayForEach(rank, ranks) add_row(s, job, finding, culprit, rank);
	}
}

char *nspy_export_csv(const cJSON *jobs)
{
	const cJSON *job, *finding;
	struct nspy_str s = {0};

	nspy_str_add(&s,
		     "job,attempt,id,priority,confidence,rank,node,pid,began,owner,summary,action,"
		     "reference,ignored\r\n");
	cJSON_ArrayForEach(job, jobs)
	{
		cJSON_ArrayForEach(finding, cJSON_GetObjectItemCaseSensitive(job, "findings"))
			add_finding(&s, job, finding);
	}
	return nspy_str_take(&s);
}
