/* SPDX-License-Identifier: Apache-2.0 */
#include "otlp.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "export.h"
#include "util.h"

static cJSON *add_attribute(cJSON *attributes, const char *key)
{
	cJSON *attribute = cJSON_CreateObject();

	cJSON_AddStringToObject(attribute, "key", key);
	cJSON_AddItemToArray(attributes, attribute);
	return cJSON_AddObjectToObject(attribute, "value");
}

static void add_integer(cJSON *object, const char *name, int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	cJSON_AddStringToObject(object, name, text);
}

void nspy_otlp_text(cJSON *attributes, const char *key, const char *text)
{
	if (*text)
		cJSON_AddStringToObject(add_attribute(attributes, key), "stringValue", text);
}

void nspy_otlp_integer(cJSON *attributes, const char *key, int64_t value)
{
	add_integer(add_attribute(attributes, key), "intValue", value);
}

void nspy_otlp_time(cJSON *object, const char *name, uint64_t unix_ns)
{
	if (unix_ns)
		add_integer(object, name, (int64_t)unix_ns);
}

uint64_t nspy_otlp_parse_time(const char *text)
{
	struct tm tm = {0};
	const char *fraction = strptime(text, "%Y-%m-%d %H:%M:%S", &tm);
	time_t seconds;

	if (!fraction || *fraction != '.')
		return 0;
	seconds = timegm(&tm);
	return seconds > 0 ? (uint64_t)seconds * 1000000000u +
				     strtoul(fraction + 1, NULL, 10) * UINT64_C(1000000)
			   : 0;
}

cJSON *nspy_otlp_resource(cJSON *list, const cJSON *job, const char *scopes, const char *items)
{
	cJSON *entry = cJSON_CreateObject(), *scope_entry = cJSON_CreateObject(), *scope;
	cJSON *attributes =
		cJSON_AddArrayToObject(cJSON_AddObjectToObject(entry, "resource"), "attributes");
	const cJSON *attempt = cJSON_GetObjectItemCaseSensitive(job, "attempt");

	nspy_otlp_text(attributes, "service.name", "ncclspy");
	nspy_otlp_text(attributes, "ncclspy.job", nspy_export_text(job, "job"));
	if (cJSON_IsNumber(attempt))
		nspy_otlp_integer(attributes, "ncclspy.attempt", (int64_t)attempt->valuedouble);
	scope = cJSON_AddObjectToObject(scope_entry, "scope");
	cJSON_AddStringToObject(scope, "name", "ncclspy-analyze");
	cJSON_AddStringToObject(scope, "version", NSPY_VERSION);
	cJSON_AddItemToArray(cJSON_AddArrayToObject(entry, scopes), scope_entry);
	cJSON_AddItemToArray(list, entry);
	return cJSON_AddArrayToObject(scope_entry, items);
}

char *nspy_otlp_line(cJSON *document)
{
	char *text = cJSON_PrintUnformatted(document);
	char *copy = nspy_xasprintf("%s\n", text ? text : "");

	cJSON_free(text);
	cJSON_Delete(document);
	return copy;
}
