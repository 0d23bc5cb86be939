/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JUnit XML, in the strict form of Apache Ant that all readers take: a suite a job, a case a
 * finding. P0 and P1 are failures, what is known and accepted is skipped, P2 passes with its text
 * in the output of the suite. A job without findings has one case that passed.
 */
#include <cjson/cJSON.h>
#include <string.h>

#include "export.h"
#include "util.h"

static void add_escaped(struct nspy_str *s, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '&':
			nspy_str_add(s, "&amp;");
			break;
		case '<':
			nspy_str_add(s, "&lt;");
			break;
		case '>':
			nspy_str_add(s, "&gt;");
			break;
		case '"':
			nspy_str_add(s, "&quot;");
			break;
		case '\n':
			nspy_str_add(s, "\n");
			break;
		default:
			/* XML 1.0 has no other control characters. */
			nspy_str_addn(s, (unsigned char)*text < 0x20 ? "?" : text, 1);
		}
	}
}

static void add_attribute(struct nspy_str *s, const char *name, const char *value)
{
	nspy_str_addf(s, " %s=\"", name);
	add_escaped(s, value);
	nspy_str_add(s, "\"");
}

static bool ignored(const cJSON *finding)
{
	return cJSON_HasObjectItem(finding, "ignored");
}

static bool failed(const cJSON *finding)
{
	return !ignored(finding) && nspy_export_priority(finding) <= 1;
}

static void add_details(struct nspy_str *s, const cJSON *finding)
{
	const cJSON *line;

	add_escaped(s, nspy_export_text(finding, "summary"));
	cJSON_ArrayForEach(line, cJSON_GetObjectItemCaseSensitive(finding, "details"))
	{
		nspy_str_add(s, "\n");
		add_escaped(s, line->valuestring ? line->valuestring : "");
	}
	nspy_str_add(s, "\ndo: ");
	add_escaped(s, nspy_export_text(finding, "action"));
	nspy_str_add(s, "\n");
	add_escaped(s, nspy_export_text(finding, "reference"));
}

static void add_case(struct nspy_str *s, const char *job, const cJSON *finding)
{
	nspy_str_add(s, "    <testcase");
	add_attribute(s, "name", nspy_export_text(finding, "id"));
	add_attribute(s, "classname", job);
	nspy_str_add(s, " time=\"0\">");
	if (failed(finding)) {
		nspy_str_add(s, "<failure");
		add_attribute(s, "type", nspy_export_text(finding, "priority"));
		add_attribute(s, "message", nspy_export_text(finding, "cause"));
		nspy_str_add(s, ">");
		add_details(s, finding);
		nspy_str_add(s, "</failure>");
	} else if (ignored(finding)) {
		nspy_str_add(s, "<skipped");
		add_attribute(s, "message", nspy_export_text(finding, "ignored"));
		nspy_str_add(s, "/>");
	}
	nspy_str_add(s, "</testcase>\n");
}

/* "2026-12-01T10:00:00" of "2026-12-01 10:00:00.821"; readers want some time. */
static void add_timestamp(struct nspy_str *s, const cJSON *job)
{
	const char *start = nspy_export_text(job, "start");

	if (strlen(start) < 19)
		start = "1970-01-01 00:00:00";
	nspy_str_addf(s, " timestamp=\"%.10sT%.8s\"", start, start + 11);
}

static void add_suite(struct nspy_str *s, const cJSON *job, int id)
{
	const cJSON *findings = cJSON_GetObjectItemCaseSensitive(job, "findings"), *finding;
	const char *name = nspy_export_text(job, "job");
	int count = cJSON_GetArraySize(findings), bad = 0, skipped = 0;

	cJSON_ArrayForEach(finding, findings)
	{
		bad += failed(finding);
		skipped += ignored(finding);
	}
	nspy_str_add(s, "  <testsuite package=\"ncclspy\" hostname=\"localhost\"");
	add_attribute(s, "name", *name ? name : "ncclspy");
	add_timestamp(s, job);
	nspy_str_addf(s,
		      " id=\"%d\" tests=\"%d\" failures=\"%d\" errors=\"0\" skipped=\"%d\" "
		      "time=\"0\">\n    <properties/>\n",
		      id, count ? count : 1, bad, skipped);
	cJSON_ArrayForEach(finding, findings) add_case(s, name, finding);
	if (!count) {
		nspy_str_add(s, "    <testcase name=\"no finding\"");
		add_attribute(s, "classname", name);
		nspy_str_add(s, " time=\"0\"/>\n");
	}
	nspy_str_add(s, "    <system-out>");
	cJSON_ArrayForEach(finding, findings)
	{
		if (failed(finding) || ignored(finding))
			continue;
		add_escaped(s, nspy_export_text(finding, "id"));
		nspy_str_add(s, ": ");
		add_details(s, finding);
		nspy_str_add(s, "\n");
	}
	nspy_str_add(s, "</system-out>\n    <system-err/>\n  </testsuite>\n");
}

char *nspy_export_junit(const cJSON *jobs)
{
	struct nspy_str s = {0};
	const cJSON *job;
	int id = 0;

	nspy_str_add(&s, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
	cJSON_ArrayForEach(job, jobs) add_suite(&s, job, id++);
	nspy_str_add(&s, "</testsuites>\n");
	return nspy_str_take(&s);
}
