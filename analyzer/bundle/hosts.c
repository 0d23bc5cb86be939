/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of hosts: their concerns, and where they differ. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"

#define SCHEMA "ncclspy.snapshot/1"

static const cJSON *snapshot(const struct nspy_bundle_doc *doc)
{
	const char *schema = nspy_js_text(doc->tree, "schema");

	return strncmp(doc->name, "snapshots/", 10) == 0 && schema && strcmp(schema, SCHEMA) == 0
		       ? doc->tree
		       : NULL;
}

static void judge_concerns(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	struct nspy_group *groups = nspy_xcalloc(NSPY_FINDING_COUNT, sizeof(*groups));

	for (size_t i = 0; i < b->doc_count; i++) {
		const cJSON *shot = snapshot(&b->docs[i]), *check;
		const char *host = nspy_js_text(shot, "host");

		cJSON_ArrayForEach(check, nspy_js(shot, "checks"))
		{
			const char *status = nspy_js_text(check, "status");
			const char *finding = nspy_js_text(check, "finding");
			const char *text = nspy_js_text(check, "text");
			int id = finding ? nspy_catalog_find(finding) : -1;

			if (id >= 0 && status && strcmp(status, "CONCERN") == 0)
				nspy_group_add(&groups[id], host ? host : "?", "%.200s",
					       text ? text : "");
		}
	}
	for (int id = 0; id < NSPY_FINDING_COUNT; id++)
		nspy_group_tell(&groups[id], findings, (enum nspy_finding_id)id, "concern", NULL);
	free(groups);
}

/* A value that a minority has; a fact that all hosts but one lack is theirs to differ in. */
static void judge_fact(const struct nspy_bundle *b, struct nspy_group *g, const char *key)
{
	size_t best = 0, hosts = 0;
	const char *usual = NULL;

	for (size_t i = 0; i < b->doc_count; i++) {
		const cJSON *facts = nspy_js(snapshot(&b->docs[i]), "facts>stable");
		const cJSON *item = cJSON_GetObjectItemCaseSensitive(facts, key);
		size_t same = 0;

		hosts += facts != NULL;
		for (size_t k = 0; cJSON_IsString(item) && k < b->doc_count; k++) {
			const cJSON *other = cJSON_GetObjectItemCaseSensitive(
				nspy_js(snapshot(&b->docs[k]), "facts>stable"), key);

			same += cJSON_IsString(other) &&
				strcmp(other->valuestring, item->valuestring) == 0;
		}
		if (same > best) {
			best = same;
			usual = item->valuestring;
		}
	}
	/* Without a majority nobody is the odd one. */
	for (size_t i = 0; best * 2 > hosts && best < hosts && i < b->doc_count; i++) {
		const cJSON *shot = snapshot(&b->docs[i]);
		const cJSON *item =
			cJSON_GetObjectItemCaseSensitive(nspy_js(shot, "facts>stable"), key);
		const char *host = nspy_js_text(shot, "host");

		if (shot && !(cJSON_IsString(item) && strcmp(item->valuestring, usual) == 0))
			nspy_group_add(g, host ? host : "?",
				       "%.80s: %.100s, %zu others have %.100s", key,
				       cJSON_IsString(item) ? item->valuestring : "(not there)",
				       best, usual);
	}
}

static bool seen_before(const struct nspy_bundle *b, size_t index, const char *key)
{
	for (size_t i = 0; i < index; i++) {
		if (cJSON_GetObjectItemCaseSensitive(nspy_js(snapshot(&b->docs[i]), "facts>stable"),
						     key))
			return true;
	}
	return false;
}

/* here.json is where ncclspy-collect ran, perhaps a login node: not compared. */
static bool compared(const struct nspy_bundle_doc *doc)
{
	return snapshot(doc) && strcmp(doc->name, "snapshots/here.json") != 0;
}

void nspy_bundle_hosts(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	struct nspy_bundle nodes = {.taken_s = b->taken_s};
	struct nspy_group g = {0};

	judge_concerns(b, findings);
	nodes.docs = nspy_xcalloc(b->doc_count + 1, sizeof(*nodes.docs));
	for (size_t i = 0; i < b->doc_count; i++) {
		if (compared(&b->docs[i]))
			nodes.docs[nodes.doc_count++] = b->docs[i];
	}
	for (size_t i = 0; i < nodes.doc_count; i++) {
		const cJSON *fact = nspy_js(nodes.docs[i].tree, "facts>stable"), *one;

		cJSON_ArrayForEach(one, fact)
		{
			if (one->string && !seen_before(&nodes, i, one->string))
				judge_fact(&nodes, &g, one->string);
		}
	}
	free(nodes.docs);
	nspy_group_tell(&g, findings, NSPY_FINDING_STACK_DRIFT, "difference", NULL);
}
