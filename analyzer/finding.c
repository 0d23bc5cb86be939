/* SPDX-License-Identifier: Apache-2.0 */
#include "finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct nspy_catalog nspy_catalog[NSPY_FINDING_COUNT] = {
#define NSPY_FINDING(name, p, what, page, n, who, again, todo)                                     \
	[NSPY_FINDING_##name] = {                                                                  \
		.id = #name,                                                                       \
		.priority = (p),                                                                   \
		.section = (n),                                                                    \
		.title = (what),                                                                   \
		.file = (page),                                                                    \
		.owner = (who),                                                                    \
		.restart = (again),                                                                \
		.action = (todo),                                                                  \
	},
#include "findings.def"
#undef NSPY_FINDING
};

int nspy_catalog_find(const char *id)
{
	for (int i = 0; i < NSPY_FINDING_COUNT; i++) {
		if (strcasecmp(nspy_catalog[i].id, id) == 0)
			return i;
	}
	return -1;
}

struct nspy_finding *nspy_findings_add(struct nspy_findings *list, enum nspy_finding_id id)
{
	struct nspy_finding *finding = nspy_xcalloc(1, sizeof(*finding));

	finding->id = id;
	finding->priority = nspy_catalog[id].priority;
	finding->owner = nspy_catalog[id].owner;
	finding->restart = nspy_catalog[id].restart;
	finding->action = nspy_catalog[id].action;
	finding->order = (int)id; /* the catalogue lists causes before effects */
	list->items =
		nspy_grow(list->items, list->count, &list->capacity, sizeof(struct nspy_finding *));
	list->items[list->count++] = finding;
	return finding;
}

static int compare_findings(const void *a, const void *b)
{
	const struct nspy_finding *x = *(struct nspy_finding *const *)a;
	const struct nspy_finding *y = *(struct nspy_finding *const *)b;

	if (x->priority != y->priority)
		return x->priority < y->priority ? -1 : 1;
	if (x->order != y->order)
		return x->order < y->order ? -1 : 1;
	return x->when_ns < y->when_ns ? -1 : x->when_ns > y->when_ns;
}

void nspy_findings_sort(struct nspy_findings *list)
{
	if (list->count)
		qsort(list->items, list->count, sizeof(struct nspy_finding *), compare_findings);
}

static void texts_done(struct nspy_texts *texts)
{
	for (size_t i = 0; i < texts->count; i++)
		free(texts->text[i]);
	free(texts->text);
}

static void finding_free(struct nspy_finding *finding)
{
	if (!finding)
		return;
	free(finding->summary);
	free(finding->cause);
	free(finding->ignored);
	free(finding->culprits);
	free(finding->evidence);
	free(finding->next);
	free(finding->where);
	texts_done(&finding->not_seen);
	texts_done(&finding->details);
	texts_done(&finding->commands);
	texts_done(&finding->consequences);
	free(finding);
}

void nspy_findings_drop(struct nspy_findings *list, enum nspy_finding_id id)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i]->id == id)
			finding_free(list->items[i]); /* NULL: moved to another list */
		else
			list->items[kept++] = list->items[i];
	}
	list->count = kept;
}

void nspy_findings_done(struct nspy_findings *list)
{
	for (size_t i = 0; i < list->count; i++)
		finding_free(list->items[i]);
	free(list->items);
	*list = (struct nspy_findings){0};
}

struct nspy_finding *nspy_findings_get(const struct nspy_findings *list, enum nspy_finding_id id)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i]->id == id)
			return list->items[i];
	}
	return NULL;
}

bool nspy_finding_blames(const struct nspy_finding *finding, const struct nspy_proc *proc)
{
	for (size_t i = 0; i < finding->culprit_count; i++) {
		if (finding->culprits[i] == proc)
			return true;
	}
	return false;
}

void nspy_finding_evidence(struct nspy_finding *finding, const struct nspy_comm *comm, uint64_t seq,
			   const struct nspy_proc *proc)
{
	for (size_t i = 0; i < finding->evidence_count; i++) {
		const struct nspy_evidence *known = &finding->evidence[i];

		if (known->comm == comm && known->seq == seq && known->proc == proc)
			return;
	}
	finding->evidence = nspy_grow(finding->evidence, finding->evidence_count,
				      &finding->evidence_capacity, sizeof(*finding->evidence));
	finding->evidence[finding->evidence_count++] = (struct nspy_evidence){comm, seq, proc};
}

void nspy_finding_blame(struct nspy_finding *finding, const struct nspy_proc *proc)
{
	if (nspy_finding_blames(finding, proc))
		return;
	finding->culprits = nspy_grow(finding->culprits, finding->culprit_count,
				      &finding->culprit_capacity, sizeof(struct nspy_proc *));
	finding->culprits[finding->culprit_count++] = proc;
}

void nspy_texts_add(struct nspy_texts *texts, char *text)
{
	texts->text = nspy_grow(texts->text, texts->count, &texts->capacity, sizeof(char *));
	texts->text[texts->count++] = text;
}

void nspy_finding_detail(struct nspy_finding *finding, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) >= 0)
		nspy_texts_add(&finding->details, text);
	va_end(args);
}

const char *nspy_confidence_name(enum nspy_confidence confidence)
{
	switch (confidence) {
	case NSPY_CERTAIN:
		return "certain";
	case NSPY_PROBABLE:
		return "probable";
	default:
		return "weak";
	}
}
