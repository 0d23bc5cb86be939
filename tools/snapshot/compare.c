/* SPDX-License-Identifier: Apache-2.0 */
/* Drift: facts that should be the same on all nodes, and where they are not. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot.h"

#define FILE_MAX (16u << 20)
#define NONE     "(not there)"

struct node {
	char *host;
	cJSON *document;
	const cJSON *facts;
};

struct drift {
	const char *key;
	const char *usual; /* value of most nodes; the first one's if there is no majority */
	size_t usual_count;
};

static const char *value_of(const struct node *node, const char *key)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(node->facts, key);

	return cJSON_IsString(item) ? item->valuestring : NONE;
}

static bool load(struct node *node, const char *path)
{
	char *text = snap_read_all(path, FILE_MAX);
	const cJSON *host, *schema;

	if (!text) {
		fprintf(stderr, "ncclspy-snapshot: %s: cannot be read\n", path);
		return false;
	}
	node->document = cJSON_Parse(text);
	free(text);
	schema = cJSON_GetObjectItemCaseSensitive(node->document, "schema");
	host = cJSON_GetObjectItemCaseSensitive(node->document, "host");
	node->facts = cJSON_GetObjectItemCaseSensitive(
		cJSON_GetObjectItemCaseSensitive(node->document, "facts"), "stable");
	if (!cJSON_IsString(schema) || strcmp(schema->valuestring, SNAP_SCHEMA) != 0 ||
	    !cJSON_IsString(host) || !cJSON_IsObject(node->facts)) {
		fprintf(stderr, "ncclspy-snapshot: %s: not a snapshot (%s)\n", path, SNAP_SCHEMA);
		cJSON_Delete(node->document);
		return false;
	}
	node->host = snap_strdup(host->valuestring);
	for (char *p = node->host; *p; p++) {
		if (*p < ' ' || *p > '~')
			*p = '?';
	}
	return true;
}

/* The most frequent value; false if all have the same. */
static bool judge(const struct node *nodes, size_t count, const char *key, struct drift *ret)
{
	*ret = (struct drift){.key = key, .usual = NONE};
	for (size_t i = 0; i < count; i++) {
		const char *value = value_of(&nodes[i], key);
		size_t same = 0;

		for (size_t k = 0; k < count; k++)
			same += strcmp(value_of(&nodes[k], key), value) == 0;
		if (same > ret->usual_count) {
			ret->usual = value;
			ret->usual_count = same;
		}
	}
	return ret->usual_count < count;
}

static void print_clean(const char *text)
{
	for (; *text; text++)
		putchar(*text < ' ' || *text > '~' ? '?' : *text);
}

static void show_text(const struct node *nodes, size_t count, const struct drift *drift)
{
	fputs("[CONCERN] ", stdout);
	print_clean(drift->key);
	fputs(": ", stdout);
	print_clean(drift->usual);
	printf(" on %zu of %zu nodes", drift->usual_count, count);
	for (size_t i = 0; i < count; i++) {
		const char *value = value_of(&nodes[i], drift->key);

		if (strcmp(value, drift->usual) == 0)
			continue;
		printf("; %s: ", nodes[i].host);
		print_clean(value);
	}
	putchar('\n');
}

static cJSON *drift_json(const struct node *nodes, size_t count, const struct drift *drift)
{
	cJSON *object = cJSON_CreateObject(), *others;

	cJSON_AddStringToObject(object, "key", drift->key);
	cJSON_AddStringToObject(object, "usual", drift->usual);
	cJSON_AddNumberToObject(object, "usual_nodes", (double)drift->usual_count);
	others = cJSON_AddObjectToObject(object, "others");
	for (size_t i = 0; i < count; i++) {
		const char *value = value_of(&nodes[i], drift->key);

		if (strcmp(value, drift->usual) != 0)
			cJSON_AddStringToObject(others, nodes[i].host, value);
	}
	return object;
}

static bool seen_before(const struct node *nodes, size_t index, const char *key)
{
	for (size_t i = 0; i < index; i++) {
		if (cJSON_GetObjectItemCaseSensitive(nodes[i].facts, key))
			return true;
	}
	return false;
}

static size_t show(const struct node *nodes, size_t count, bool json)
{
	cJSON *document = cJSON_CreateObject();
	cJSON *list = cJSON_AddArrayToObject(document, "drift");
	size_t found = 0, facts = 0;
	char *text;

	cJSON_AddStringToObject(document, "schema", "ncclspy.snapshot-compare/1");
	cJSON_AddNumberToObject(document, "nodes", (double)count);
	for (size_t i = 0; i < count; i++) {
		for (const cJSON *fact = nodes[i].facts->child; fact; fact = fact->next) {
			struct drift drift;

			if (seen_before(nodes, i, fact->string))
				continue;
			facts++;
			if (!judge(nodes, count, fact->string, &drift))
				continue;
			found++;
			cJSON_AddItemToArray(list, drift_json(nodes, count, &drift));
			if (!json)
				show_text(nodes, count, &drift);
		}
	}
	text = json ? cJSON_Print(document) : NULL;
	if (text)
		puts(text);
	else if (!found)
		printf("[OK] %zu nodes agree in all %zu facts\n", count, facts);
	else
		printf("%zu of %zu facts differ -> STACK_DRIFT (ncclspy explain STACK_DRIFT)\n",
		       found, facts);
	cJSON_free(text);
	cJSON_Delete(document);
	return found;
}

int snap_compare(char **paths, size_t count, bool json)
{
	struct node *nodes = calloc(count, sizeof(*nodes));
	size_t loaded = 0, found = 0;
	int rc = 3;

	if (!nodes)
		return 4;
	while (loaded < count && load(&nodes[loaded], paths[loaded]))
		loaded++;
	if (loaded == count) {
		found = show(nodes, count, json);
		rc = found ? 1 : 0;
	}
	for (size_t i = 0; i < loaded; i++) {
		cJSON_Delete(nodes[i].document);
		free(nodes[i].host);
	}
	free(nodes);
	return rc;
}
