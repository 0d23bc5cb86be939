/* SPDX-License-Identifier: Apache-2.0 */
#include "bundle.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "text.h"

#define MANIFEST "manifest.txt"
#define LOGS_MAX 4096

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

struct nspy_bundle *nspy_bundle_new(const char *path)
{
	struct nspy_bundle *b = nspy_xcalloc(1, sizeof(*b));

	b->path = nspy_xstrdup(path);
	nspy_clean(b->path);
	return b;
}

/* Three columns: status, file, why. */
static void add_step(struct nspy_bundle *b, char *line)
{
	struct nspy_bundle_step *step;
	char *file = strchr(line, '\t'), *why = file ? strchr(file + 1, '\t') : NULL;

	if (!file)
		return;
	*file++ = '\0';
	if (strcmp(line, "time") == 0) {
		b->taken_s = nspy_js_time(file);
		return;
	}
	if (!why)
		return;
	*why++ = '\0';
	b->steps = nspy_grow(b->steps, b->step_count, &b->step_capacity, sizeof(*b->steps));
	step = &b->steps[b->step_count++];
	*step = (struct nspy_bundle_step){nspy_xstrdup(line), nspy_xstrdup(file),
					  nspy_xstrdup(why)};
	nspy_clean(step->status);
	nspy_clean(step->file);
	nspy_clean(step->why);
}

static void add_manifest(struct nspy_bundle *b, const char *data, size_t bytes)
{
	char *text = nspy_xstrndup(data, bytes), *line, *save = NULL;

	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		add_step(b, line);
	free(text);
}

bool nspy_bundle_add(struct nspy_bundle *b, const char *name, const char *data, size_t bytes)
{
	struct nspy_bundle_doc doc = {0};

	if (strcmp(name, MANIFEST) == 0) {
		add_manifest(b, data, bytes);
		return true;
	}
	if (ends_with(name, ".json")) {
		doc.tree = cJSON_ParseWithLength(data, bytes);
		if (!cJSON_IsObject(doc.tree)) {
			cJSON_Delete(doc.tree);
			return false;
		}
	} else {
		doc.text = nspy_xstrndup(data, bytes);
	}
	doc.name = nspy_xstrdup(name);
	b->docs = nspy_grow(b->docs, b->doc_count, &b->doc_capacity, sizeof(*b->docs));
	b->docs[b->doc_count++] = doc;
	return true;
}

/* A log is read later, and piece by piece where it lies. */
static void add_log(struct nspy_bundle *b, struct nspy_bundle_file *file)
{
	struct nspy_bundle_log *log;

	if (b->log_count >= LOGS_MAX)
		return;
	b->logs = nspy_grow(b->logs, b->log_count, &b->log_capacity, sizeof(*b->logs));
	log = &b->logs[b->log_count++];
	*log = (struct nspy_bundle_log){.name = nspy_xstrdup(file->name)};
	if (file->path)
		log->path = nspy_xstrdup(file->path);
	log->data = file->data;
	log->bytes = file->bytes;
	file->data = NULL;
}

static void add_file(void *arg, struct nspy_bundle_file *file)
{
	struct nspy_bundle *b = arg;
	size_t bytes;
	char *text;

	if (strncmp(file->name, "logs/", 5) == 0) {
		add_log(b, file);
		return;
	}
	if (!ends_with(file->name, ".json") && !ends_with(file->name, ".txt"))
		return;
	text = nspy_bundle_file_text(file, NSPY_BUNDLE_DOC_MAX, &bytes);
	if (!text)
		nspy_texts_add(&b->problems, nspy_xasprintf("%s: cannot be read", file->name));
	else if (!nspy_bundle_add(b, file->name, text, strlen(text)))
		nspy_texts_add(&b->problems, nspy_xasprintf("%s: not a JSON object", file->name));
	free(text);
}

void nspy_bundle_read(struct nspy_bundle *b)
{
	nspy_bundle_each(b->path, &b->problems, add_file, b);
	for (size_t i = 0; i < b->problems.count; i++)
		nspy_clean(b->problems.text[i]);
}

void nspy_bundle_free(struct nspy_bundle *b)
{
	for (size_t i = 0; i < b->doc_count; i++) {
		free(b->docs[i].name);
		free(b->docs[i].text);
		cJSON_Delete(b->docs[i].tree);
	}
	for (size_t i = 0; i < b->step_count; i++) {
		free(b->steps[i].status);
		free(b->steps[i].file);
		free(b->steps[i].why);
	}
	for (size_t i = 0; i < b->log_count; i++) {
		free(b->logs[i].name);
		free(b->logs[i].path);
		free(b->logs[i].data);
	}
	free(b->logs);
	nspy_texts_free(&b->problems);
	free(b->docs);
	free(b->steps);
	free(b->path);
	free(b);
}

static const struct nspy_bundle_doc *find(const struct nspy_bundle *b, const char *name)
{
	for (size_t i = 0; i < b->doc_count; i++) {
		if (strcmp(b->docs[i].name, name) == 0)
			return &b->docs[i];
	}
	return NULL;
}

const struct cJSON *nspy_bundle_tree(const struct nspy_bundle *b, const char *name)
{
	const struct nspy_bundle_doc *doc = find(b, name);

	return doc ? doc->tree : NULL;
}

const char *nspy_bundle_text(const struct nspy_bundle *b, const char *name)
{
	const struct nspy_bundle_doc *doc = find(b, name);

	return doc ? doc->text : NULL;
}

/* The API was there and would not speak to us. */
static void judge_steps(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	static const char *const words[] = {"nauthorized",  "orbidden",         "AccessDenied",
					    "ExpiredToken", "refused",          "Unable to connect",
					    "credentials",  "must be logged in"};
	struct nspy_group g = {0};

	for (size_t i = 0; i < b->step_count; i++) {
		const struct nspy_bundle_step *step = &b->steps[i];
		bool told = false;

		if (strcmp(step->status, "failed") != 0)
			continue;
		for (size_t w = 0; w < nspy_array_size(words) && !told; w++) {
			told = strstr(step->why, words[w]) != NULL;
			if (told)
				nspy_group_add(&g, step->file, "%s", step->why);
		}
	}
	nspy_group_tell(&g, findings, NSPY_FINDING_CLUSTER_API_REFUSED, "question", NULL);
}

static void judge_nothing(struct nspy_findings *findings)
{
	struct nspy_finding *finding;

	for (size_t i = 0; i < findings->count; i++) {
		if (findings->items[i]->priority <= 1)
			return;
	}
	finding = nspy_findings_add(findings, NSPY_FINDING_UNKNOWN_CAUSE_CHECKLIST);
	finding->summary = nspy_xstrdup("nothing in the bundle explains a failure; what nobody "
					"looked at is on the list");
	finding->cause = nspy_xstrdup("not known");
}

void nspy_bundle_judge(const struct nspy_bundle *b, struct nspy_findings *findings)
{
	nspy_bundle_pods(b, findings);
	nspy_bundle_jobs(b, findings);
	nspy_bundle_k8s(b, findings);
	nspy_bundle_slurm(b, findings);
	nspy_bundle_aws(b, findings);
	nspy_bundle_hosts(b, findings);
	judge_steps(b, findings);
	judge_nothing(findings);
	nspy_findings_sort(findings);
}
