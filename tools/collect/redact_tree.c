/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redact.h"

/* Members whose values are free text of users or hold whole manifests: never needed. */
static const char *const dropped[] = {
	"managedFields", "data",        "stringData", "binaryData",      "command",
	"args",          "httpHeaders", "exec",       "LifeCycleConfig", "UserData",
};
/* Annotations that say something about a node or a job and hold no secret. */
static const char *const annotations[] = {
	"batch.kubernetes.io/", "sagemaker.amazonaws.com/", "k8s.v1.cni.cncf.io/networks",
	"scheduling.k8s.io/",   "kueue.x-k8s.io/",
};

static bool is_dropped(const char *name)
{
	for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++) {
		if (strcmp(name, dropped[i]) == 0)
			return true;
	}
	return false;
}

static bool annotation_allowed(const char *name)
{
	for (size_t i = 0; i < sizeof(annotations) / sizeof(annotations[0]); i++) {
		if (strncmp(name, annotations[i], strlen(annotations[i])) == 0)
			return true;
	}
	return false;
}

static int set_text(cJSON *item, const char *text)
{
	return cJSON_SetValuestring(item, text) ? 0 : -ENOMEM;
}

/* All text of a value goes, its shape stays. */
static int remove_all(cJSON *item)
{
	int rc = 0;

	if (cJSON_IsString(item))
		return set_text(item, REDACT_REMOVED);
	for (cJSON *child = item->child; child && rc == 0; child = child->next)
		rc = remove_all(child);
	return rc;
}

static int clean_string(cJSON *item)
{
	char *clean = NULL, *line, *save = NULL, *copy;
	size_t bytes = 0;
	int rc = 0;

	if (!strchr(item->valuestring, '\n')) {
		clean = redact_line(item->valuestring);
		rc = clean ? set_text(item, clean) : -ENOMEM;
		free(clean);
		return rc;
	}
	copy = strdup(item->valuestring);
	for (line = copy ? strtok_r(copy, "\n", &save) : NULL; line && rc == 0;
	     line = strtok_r(NULL, "\n", &save)) {
		char *one = redact_line(line);
		char *longer = one ? realloc(clean, bytes + strlen(one) + 2) : NULL;

		if (longer) {
			clean = longer;
			bytes += (size_t)sprintf(clean + bytes, "%s\n", one);
		} else {
			rc = -ENOMEM;
		}
		free(one);
	}
	if (rc == 0)
		rc = copy ? set_text(item, clean ? clean : "") : -ENOMEM;
	free(clean);
	free(copy);
	return rc;
}

/* {"name": "NCCL_DEBUG", "value": "INFO"}: an element of env. */
static int clean_children(cJSON *item);

static int clean_variable(cJSON *object)
{
	const cJSON *name = cJSON_GetObjectItemCaseSensitive(object, "name");
	cJSON *value = cJSON_GetObjectItemCaseSensitive(object, "value");

	if (!cJSON_IsString(value))
		return clean_children(object);
	if (!cJSON_IsString(name) ||
	    !redact_variable_allowed(name->valuestring, strlen(name->valuestring)))
		return set_text(value, REDACT_REMOVED);
	return clean_string(value);
}

static int clean_member(cJSON *item);

static int clean_children(cJSON *item)
{
	int rc = 0;

	for (cJSON *child = item->child; child && rc == 0; child = child->next)
		rc = clean_member(child);
	return rc;
}

static int clean_annotations(cJSON *object)
{
	int rc = 0;

	for (cJSON *child = object->child; child && rc == 0; child = child->next)
		rc = child->string && annotation_allowed(child->string) ? clean_member(child)
									: remove_all(child);
	return rc;
}

static int clean_env(cJSON *array)
{
	int rc = 0;

	for (cJSON *child = array->child; child && rc == 0; child = child->next)
		rc = cJSON_IsObject(child) ? clean_variable(child) : remove_all(child);
	return rc;
}

static int clean_member(cJSON *item)
{
	const char *name = item->string;

	if (name && is_dropped(name))
		return remove_all(item);
	if (name && strcmp(name, "annotations") == 0)
		return clean_annotations(item);
	if (name && strcmp(name, "env") == 0)
		return clean_env(item);
	/* Groups of objects such as "tokenExpirationSeconds" hold numbers; only text can tell. */
	if (name && redact_name_is_secret(name, strlen(name)))
		return remove_all(item);
	return cJSON_IsString(item) ? clean_string(item) : clean_children(item);
}

int redact_tree(struct cJSON *tree)
{
	return clean_member(tree);
}
