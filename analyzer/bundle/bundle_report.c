/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "report.h"
#include "text.h"

static const struct nspy_finding *top_of(const struct nspy_findings *findings)
{
	for (size_t i = 0; i < findings->count; i++) {
		if (findings->items[i]->priority <= 1 && !findings->items[i]->ignored)
			return findings->items[i];
	}
	return NULL;
}

static size_t items_of(const struct nspy_bundle *b, const char *name, const char *list)
{
	return (size_t)cJSON_GetArraySize(nspy_js(nspy_bundle_tree(b, name), list));
}

static size_t snapshots_of(const struct nspy_bundle *b)
{
	size_t count = 0;

	for (size_t i = 0; i < b->doc_count; i++)
		count += strncmp(b->docs[i].name, "snapshots/", 10) == 0;
	return count;
}

static void not_seen(const struct nspy_bundle *b, struct nspy_texts *ret)
{
	nspy_texts_add(ret, nspy_xstrdup("whatever these tools do not report: events and states "
					 "say nothing of NCCL itself"));
	for (size_t i = 0; i < b->step_count; i++) {
		const struct nspy_bundle_step *step = &b->steps[i];

		if (strcmp(step->status, "ok") != 0)
			nspy_texts_add(ret, nspy_xasprintf("%.80s (%s: %.160s)", step->file,
							   step->status, step->why));
	}
	for (size_t i = 0; i < b->problems.count; i++)
		nspy_texts_add(ret, nspy_xstrdup(b->problems.text[i]));
}

static void print_head(const struct nspy_bundle *b, FILE *out)
{
	struct nspy_str s = {0};

	nspy_str_addf(&s, "bundle %s", b->path);
	if (b->taken_s) {
		nspy_str_add(&s, "  ");
		nspy_add_time(&s, b->taken_s * NSPY_NS_PER_S);
	}
	nspy_str_addf(&s,
		      "  %zu pods, %zu Kubernetes nodes, %zu HyperPod nodes, %zu snapshots, %zu "
		      "logs",
		      items_of(b, "k8s/pods.json", "items"), items_of(b, "k8s/nodes.json", "items"),
		      items_of(b, "aws/nodes.json", "ClusterNodeSummaries"), snapshots_of(b),
		      b->log_count);
	fprintf(out, "%s\n", s.text);
	nspy_str_done(&s);
}

void nspy_bundle_print(const struct nspy_bundle *b, const struct nspy_findings *findings, FILE *out,
		       bool colour)
{
	struct nspy_texts dark = {0};

	print_head(b, out);
	nspy_report_print_verdict(top_of(findings), out, colour);
	for (size_t i = 0; i < findings->count; i++)
		nspy_report_print_finding(findings->items[i], out, colour);
	not_seen(b, &dark);
	fputs("not seen: ", out);
	for (size_t i = 0; i < dark.count; i++)
		fprintf(out, "%s%s", i ? "; " : "", dark.text[i]);
	fputs("\n", out);
	nspy_texts_free(&dark);
}

static cJSON *totals_json(const struct nspy_bundle *b)
{
	static const char *const zero[] = {"ranks",        "operations", "bytes", "records",
					   "lost_records", "complete",   "cut",   "running"};
	cJSON *object = cJSON_CreateObject();

	for (size_t i = 0; i < nspy_array_size(zero); i++)
		cJSON_AddNumberToObject(object, zero[i], 0);
	cJSON_AddNumberToObject(object, "world_size", -1);
	cJSON_AddNumberToObject(object, "nodes", (double)items_of(b, "k8s/nodes.json", "items"));
	return object;
}

struct cJSON *nspy_bundle_json(const struct nspy_bundle *b, const struct nspy_findings *findings)
{
	const struct nspy_finding *top = top_of(findings);
	cJSON *object = cJSON_CreateObject(), *verdict, *list;
	struct nspy_texts dark = {0};
	struct nspy_str s = {0};

	cJSON_AddStringToObject(object, "job", "bundle");
	cJSON_AddNumberToObject(object, "attempts", 1);
	cJSON_AddNumberToObject(object, "attempt", 1);
	if (b->taken_s)
		nspy_add_time(&s, b->taken_s * NSPY_NS_PER_S);
	cJSON_AddItemToObject(object, "start", cJSON_CreateNull());
	cJSON_AddItemToObject(object, "end",
			      b->taken_s ? cJSON_CreateString(s.text) : cJSON_CreateNull());
	nspy_str_done(&s);
	cJSON_AddItemToObject(object, "totals", totals_json(b));
	verdict = cJSON_AddObjectToObject(object, "verdict");
	cJSON_AddStringToObject(verdict, "cause", top ? top->cause : "no P0 or P1 finding");
	cJSON_AddStringToObject(verdict, "page", top ? top->owner : "nobody");
	cJSON_AddStringToObject(verdict, "do", top ? top->action : "nothing");
	cJSON_AddStringToObject(verdict, "restart", top ? top->restart : "not needed");
	list = cJSON_AddArrayToObject(object, "findings");
	for (size_t i = 0; i < findings->count; i++)
		cJSON_AddItemToArray(list, nspy_report_finding_json(findings->items[i]));
	cJSON_AddItemToObject(object, "warnings", cJSON_CreateArray());
	cJSON_AddItemToObject(object, "notes", cJSON_CreateArray());
	list = cJSON_AddArrayToObject(object, "not_seen");
	not_seen(b, &dark);
	for (size_t i = 0; i < dark.count; i++)
		cJSON_AddItemToArray(list, cJSON_CreateString(dark.text[i]));
	nspy_texts_free(&dark);
	return object;
}
