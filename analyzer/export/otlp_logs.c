/* SPDX-License-Identifier: Apache-2.0 */
/* Findings as log records of OpenTelemetry: one each, the first culprit and all ranks named. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <time.h>

#include "export.h"
#include "otlp.h"
#include "util.h"

/* SeverityNumber of the logs data model. */
static void add_severity(cJSON *record, const cJSON *finding)
{
	static const struct {
		int number;
		const char *text;
	} severities[] = {{17, "ERROR"}, {13, "WARN"}, {9, "INFO"}};
	int priority = nspy_export_priority(finding);

	if (priority < 0 || priority >= (int)nspy_array_size(severities))
		priority = (int)nspy_array_size(severities) - 1;
	cJSON_AddNumberToObject(record, "severityNumber", severities[priority].number);
	cJSON_AddStringToObject(record, "severityText", severities[priority].text);
}

static void add_rank(struct nspy_str *s, const cJSON *rank)
{
	if (cJSON_IsNumber(rank))
		nspy_str_addf(s, "%s%.0f", s->bytes ? "," : "", rank->valuedouble);
}

static void add_culprits(cJSON *attributes, const cJSON *culprits)
{
	const cJSON *culprit, *rank, *first = cJSON_GetArrayItem(culprits, 0);
	struct nspy_str s = {0};

	cJSON_ArrayForEach(culprit, culprits)
	{
		const cJSON *ranks = cJSON_GetObjectItemCaseSensitive(culprit, "ranks");

		if (!ranks)
			add_rank(&s, cJSON_GetObjectItemCaseSensitive(culprit, "rank"));
		cJSON_ArrayForEach(rank, ranks) add_rank(&s, rank);
	}
	nspy_otlp_text(attributes, "ncclspy.ranks", s.bytes ? s.text : "");
	nspy_str_done(&s);
	nspy_otlp_text(attributes, "host.name", nspy_export_text(first, "node"));
	nspy_otlp_text(attributes, "host.id", nspy_export_text(first, "instance"));
	nspy_otlp_text(attributes, "k8s.pod.name", nspy_export_text(first, "pod"));
}

static void add_attributes(cJSON *attributes, const cJSON *finding)
{
	static const char *const fields[][2] = {
		{"ncclspy.finding", "id"},
		{"ncclspy.priority", "priority"},
		{"ncclspy.confidence", "confidence"},
		{"ncclspy.owner", "owner"},
		{"ncclspy.action", "action"},
		{"ncclspy.restart", "restart"},
		{"ncclspy.reference", "reference"},
		{"ncclspy.communicator", "communicator"},
		{"ncclspy.ignored", "ignored"},
	};

	for (size_t i = 0; i < nspy_array_size(fields); i++)
		nspy_otlp_text(attributes, fields[i][0], nspy_export_text(finding, fields[i][1]));
	add_culprits(attributes, cJSON_GetObjectItemCaseSensitive(finding, "culprits"));
}

static cJSON *record_of(const cJSON *finding, uint64_t now_ns)
{
	cJSON *record = cJSON_CreateObject();

	nspy_otlp_time(record, "timeUnixNano",
		       nspy_otlp_parse_time(nspy_export_text(finding, "began")));
	nspy_otlp_time(record, "observedTimeUnixNano", now_ns);
	add_severity(record, finding);
	cJSON_AddStringToObject(cJSON_AddObjectToObject(record, "body"), "stringValue",
				nspy_export_text(finding, "summary"));
	add_attributes(cJSON_AddArrayToObject(record, "attributes"), finding);
	cJSON_AddStringToObject(record, "eventName", "ncclspy.finding");
	return record;
}

char *nspy_export_otlp_logs(const cJSON *jobs)
{
	cJSON *document = cJSON_CreateObject();
	cJSON *list = cJSON_AddArrayToObject(document, "resourceLogs");
	uint64_t now_ns = (uint64_t)time(NULL) * 1000000000u;
	const cJSON *job, *finding;

	cJSON_ArrayForEach(job, jobs)
	{
		cJSON *records = nspy_otlp_resource(list, job, "scopeLogs", "logRecords");

		cJSON_ArrayForEach(finding, cJSON_GetObjectItemCaseSensitive(job, "findings"))
			cJSON_AddItemToArray(records, record_of(finding, now_ns));
	}
	return nspy_otlp_line(document);
}
