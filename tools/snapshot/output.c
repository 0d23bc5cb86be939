/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <time.h>

#include "snapshot.h"

static const char *const status_names[] = {
	[SNAP_OK] = "OK",
	[SNAP_INFO] = "INFO",
	[SNAP_CONCERN] = "CONCERN",
};
static const char *const kind_names[] = {
	[SNAP_STABLE] = "stable",
	[SNAP_MEASURED] = "measured",
	[SNAP_IDENTITY] = "identity",
};

/* Pages of the findings, to point at. */
static const struct {
	const char *id, *file;
	int section;
} pages[] = {
#define NSPY_FINDING(id, priority, title, file, section, ...) {#id, file, section},
#include "findings.def"
#undef NSPY_FINDING
};

void snap_time(char *buf, size_t bytes)
{
	time_t now = time(NULL);
	struct tm tm;

	if (!gmtime_r(&now, &tm) || !strftime(buf, bytes, "%Y-%m-%dT%H:%M:%SZ", &tm))
		buf[0] = '\0';
}

static void print_pointer(const char *id, FILE *out)
{
	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		const char *a = pages[i].id, *b = id;

		while (*a && *a == *b)
			a++, b++;
		if (*a == *b)
			fprintf(out, " -> %s: references/%s section %d (ncclspy explain %s)", id,
				pages[i].file, pages[i].section, id);
	}
}

void snap_print(const struct snap *s, FILE *out)
{
	const char *host = snap_get(s, "host.name");
	char when[32];
	size_t concerns = 0;

	snap_time(when, sizeof(when));
	fprintf(out, "ncclspy-snapshot " NSPY_VERSION "  %s  %s  scope: %s\n", host ? host : "?",
		when, s->container ? "container" : "host");
	for (int status = SNAP_CONCERN; status >= SNAP_OK; status--) {
		for (size_t i = 0; i < s->check_count; i++) {
			const struct snap_check *check = &s->checks[i];

			if ((int)check->status != status)
				continue;
			concerns += check->status == SNAP_CONCERN;
			fprintf(out, "[%s] %s", status_names[check->status], check->text);
			if (check->status == SNAP_CONCERN && check->finding)
				print_pointer(check->finding, out);
			fputc('\n', out);
		}
	}
	for (size_t i = 0; i < s->missing.count; i++)
		fprintf(out, "[INFO] not available: %s\n", s->missing.name[i]);
	fprintf(out, "%zu concern%s, %zu things not available", concerns, concerns == 1 ? "" : "s",
		s->missing.count);
	if (!concerns)
		fputs("; no concern is no clean bill of health", out);
	fputc('\n', out);
}

int snap_print_json(const struct snap *s, FILE *out)
{
	cJSON *document = cJSON_CreateObject(), *facts, *list;
	const char *host = snap_get(s, "host.name");
	char when[32], *text;

	snap_time(when, sizeof(when));
	cJSON_AddStringToObject(document, "schema", SNAP_SCHEMA);
	cJSON_AddStringToObject(document, "version", NSPY_VERSION);
	cJSON_AddStringToObject(document, "host", host ? host : "?");
	cJSON_AddStringToObject(document, "time", when);
	cJSON_AddStringToObject(document, "scope", s->container ? "container" : "host");
	facts = cJSON_AddObjectToObject(document, "facts");
	for (size_t kind = 0; kind < sizeof(kind_names) / sizeof(kind_names[0]); kind++) {
		cJSON *group = cJSON_AddObjectToObject(facts, kind_names[kind]);

		for (size_t i = 0; i < s->fact_count; i++) {
			if (s->facts[i].kind == (enum snap_kind)kind)
				cJSON_AddStringToObject(group, s->facts[i].key, s->facts[i].value);
		}
	}
	list = cJSON_AddArrayToObject(document, "checks");
	for (size_t i = 0; i < s->check_count; i++) {
		cJSON *check = cJSON_CreateObject();

		cJSON_AddStringToObject(check, "status", status_names[s->checks[i].status]);
		if (s->checks[i].finding)
			cJSON_AddStringToObject(check, "finding", s->checks[i].finding);
		cJSON_AddStringToObject(check, "text", s->checks[i].text);
		cJSON_AddItemToArray(list, check);
	}
	list = cJSON_AddArrayToObject(document, "not_available");
	for (size_t i = 0; i < s->missing.count; i++)
		cJSON_AddItemToArray(list, cJSON_CreateString(s->missing.name[i]));
	text = cJSON_Print(document);
	cJSON_Delete(document);
	if (!text)
		return -ENOMEM;
	fprintf(out, "%s\n", text);
	cJSON_free(text);
	return 0;
}
