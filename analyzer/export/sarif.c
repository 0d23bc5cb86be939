/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SARIF 2.1.0. There is no source file to point at: ranks and nodes are logical locations. A rule
 * is an entry of the catalogue of findings.
 */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "export.h"
#include "finding.h"

static const char *level_of(const cJSON *finding)
{
	int priority = nspy_export_priority(finding);

	return priority == 0 ? "error" : priority == 1 ? "warning" : "note";
}

static void add_message(cJSON *object, const char *name, const char *text)
{
	cJSON_AddStringToObject(cJSON_AddObjectToObject(object, name), "text", text);
}

static cJSON *rule(const struct nspy_catalog *entry)
{
	cJSON *object = cJSON_CreateObject();
	char *where = nspy_xasprintf("%s. See references/%s § %d (ncclspy explain %s).",
				     entry->action, entry->file, entry->section, entry->id);

	cJSON_AddStringToObject(object, "id", entry->id);
	add_message(object, "shortDescription", entry->title);
	add_message(object, "help", where);
	free(where);
	return object;
}

/* The place of an id among the rules, which are added as they are met. */
static int rule_index(cJSON *rules, const char *id, int *places)
{
	int entry = nspy_catalog_find(id);

	if (entry < 0)
		return -1;
	if (!places[entry]) {
		cJSON_AddItemToArray(rules, rule(&nspy_catalog[entry]));
		places[entry] = cJSON_GetArraySize(rules);
	}
	return places[entry] - 1;
}

static cJSON *location(const cJSON *job, const cJSON *culprit)
{
	cJSON *object = cJSON_CreateObject(), *logical = cJSON_CreateObject();
	const cJSON *rank = cJSON_GetObjectItemCaseSensitive(culprit, "rank");
	struct nspy_str s = {0};

	if (cJSON_IsNumber(rank))
		nspy_str_addf(&s, "rank %.0f", rank->valuedouble);
	else
		nspy_str_add(&s, "process");
	cJSON_AddStringToObject(logical, "name", s.text);
	nspy_str_done(&s);
	nspy_str_addf(&s, "%s/%s", nspy_export_text(job, "job"), nspy_export_text(culprit, "node"));
	if (cJSON_IsNumber(rank))
		nspy_str_addf(&s, "/rank %.0f", rank->valuedouble);
	cJSON_AddStringToObject(logical, "fullyQualifiedName", s.text);
	nspy_str_done(&s);
	cJSON_AddStringToObject(logical, "kind", "process");
	cJSON_AddItemToArray(cJSON_AddArrayToObject(object, "logicalLocations"), logical);
	return object;
}

static char *message_of(const cJSON *finding)
{
	const cJSON *line;
	struct nspy_str s = {0};

	nspy_str_add(&s, nspy_export_text(finding, "summary"));
	cJSON_ArrayForEach(line, cJSON_GetObjectItemCaseSensitive(finding, "details"))
		nspy_str_addf(&s, "\n%s", line->valuestring ? line->valuestring : "");
	return nspy_str_take(&s);
}

static cJSON *result(const cJSON *job, const cJSON *finding, int index)
{
	cJSON *object = cJSON_CreateObject(), *locations, *properties;
	const cJSON *culprits = cJSON_GetObjectItemCaseSensitive(finding, "culprits"), *culprit;
	const cJSON *ignored = cJSON_GetObjectItemCaseSensitive(finding, "ignored");
	char *message = message_of(finding);

	cJSON_AddStringToObject(object, "ruleId", nspy_export_text(finding, "id"));
	if (index >= 0)
		cJSON_AddNumberToObject(object, "ruleIndex", index);
	cJSON_AddStringToObject(object, "level", level_of(finding));
	add_message(object, "message", message);
	locations = cJSON_AddArrayToObject(object, "locations");
	cJSON_ArrayForEach(culprit, culprits)
		cJSON_AddItemToArray(locations, location(job, culprit));
	if (ignored) {
		cJSON *suppression = cJSON_CreateObject();

		cJSON_AddStringToObject(suppression, "kind", "external");
		cJSON_AddStringToObject(suppression, "justification",
					nspy_export_text(finding, "ignored"));
		cJSON_AddItemToArray(cJSON_AddArrayToObject(object, "suppressions"), suppression);
	}
	properties = cJSON_AddObjectToObject(object, "properties");
	cJSON_AddStringToObject(properties, "job", nspy_export_text(job, "job"));
	cJSON_AddStringToObject(properties, "priority", nspy_export_text(finding, "priority"));
	cJSON_AddStringToObject(properties, "confidence", nspy_export_text(finding, "confidence"));
	cJSON_AddStringToObject(properties, "owner", nspy_export_text(finding, "owner"));
	free(message);
	return object;
}

char *nspy_export_sarif(const cJSON *jobs)
{
	int places[NSPY_FINDING_COUNT] = {0};
	cJSON *document = cJSON_CreateObject(), *run = cJSON_CreateObject();
	cJSON *driver, *rules, *results;
	const cJSON *job, *finding;
	char *text, *copy;

	cJSON_AddStringToObject(document, "$schema",
				"https://json.schemastore.org/sarif-2.1.0.json");
	cJSON_AddStringToObject(document, "version", "2.1.0");
	cJSON_AddItemToArray(cJSON_AddArrayToObject(document, "runs"), run);
	driver = cJSON_AddObjectToObject(cJSON_AddObjectToObject(run, "tool"), "driver");
	cJSON_AddStringToObject(driver, "name", "ncclspy");
	cJSON_AddStringToObject(driver, "semanticVersion", NSPY_VERSION);
	rules = cJSON_AddArrayToObject(driver, "rules");
	results = cJSON_AddArrayToObject(run, "results");
	cJSON_ArrayForEach(job, jobs)
	{
		cJSON_ArrayForEach(finding, cJSON_GetObjectItemCaseSensitive(job, "findings"))
		{
			int index = rule_index(rules, nspy_export_text(finding, "id"), places);

			cJSON_AddItemToArray(results, result(job, finding, index));
		}
	}
	text = cJSON_Print(document);
	cJSON_Delete(document);
	copy = nspy_xasprintf("%s\n", text ? text : "");
	cJSON_free(text);
	return copy;
}
