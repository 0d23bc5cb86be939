/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings from the facts of single processes: TCP_FALLBACK, NET_PLUGIN_LOAD_FAILED, MEMLOCK_LOW,
 * ENV_HARMFUL and the others of interpose/rules.
 *
 * Question: what is wrong with the machine, the settings or the libraries of a rank, whatever the
 *   others do?
 * Evidence: recorded facts. The rules are those that the recorder applied while the job ran, here
 *   with better knowledge of whether the job spans nodes: traces of several nodes are there.
 * Thresholds and false positives: docs/DETECTORS.md, per rule.
 * Names: the ranks concerned, unless all are concerned alike.
 */
#include <stdlib.h>
#include <string.h>

#include "detect.h"
#include "rules.h"
#include "text.h"
#include "who.h"

#define TOLD_MAX 6u

struct group {
	struct nspy_rule_hit hit; /* of the first process with this text */
	struct nspy_procs procs;
};

struct groups {
	struct group *items;
	size_t count, capacity;
	const struct nspy_proc *proc; /* being looked at */
};

static const char *get(const void *context, const char *key)
{
	const char *value = nspy_proc_fact(context, key);

	return value && *value ? value : NULL;
}

static enum nspy_rule_span span_of(const struct nspy_case *c, const struct nspy_rule_facts *facts)
{
	const struct nspy_attempt *attempt = c->attempt;

	for (size_t i = 1; i < attempt->proc_count; i++) {
		if (strcmp(nspy_proc_host(attempt->procs[i]), nspy_proc_host(attempt->procs[0])) !=
		    0)
			return NSPY_SPAN_NODES;
	}
	if (attempt->world_size > 0 && (int64_t)attempt->proc_count >= attempt->world_size)
		return NSPY_SPAN_ONE_NODE;
	return nspy_rules_span(facts);
}

static void take(const struct nspy_rule_hit *hit, void *context)
{
	struct groups *groups = context;
	size_t g = 0;

	while (g < groups->count && (strcmp(groups->items[g].hit.id, hit->id) != 0 ||
				     strcmp(groups->items[g].hit.text, hit->text) != 0))
		g++;
	if (g == groups->count) {
		groups->items = nspy_grow(groups->items, groups->count, &groups->capacity,
					  sizeof(*groups->items));
		groups->items[groups->count++] = (struct group){.hit = *hit};
	}
	nspy_procs_add(&groups->items[g].procs, groups->proc);
}

static void tell_group(struct nspy_finding *finding, const struct group *group)
{
	struct nspy_str s = {0};

	nspy_str_addf(&s, "%s: on ", group->hit.text);
	nspy_add_procs(&s, group->procs.items, group->procs.count);
	nspy_texts_add(&finding->details, nspy_str_take(&s));
}

/* All groups of one id become one finding; the largest gives its words. */
static void report(const struct nspy_case *c, struct nspy_findings *out,
		   const struct groups *groups, const char *id)
{
	const struct group *most = NULL;
	struct nspy_finding *finding;
	struct nspy_str s = {0};
	size_t different = 0, concerned = 0;
	bool all, seen = false;

	finding = nspy_findings_add(out, (enum nspy_finding_id)nspy_catalog_find(id));
	finding->priority = 2;
	for (size_t g = 0; g < groups->count; g++) {
		const struct group *group = &groups->items[g];

		if (strcmp(group->hit.id, id) != 0)
			continue;
		if (group->hit.priority < finding->priority)
			finding->priority = group->hit.priority;
		seen |= !group->hit.probable;
		if (!most || group->procs.count > most->procs.count)
			most = group;
		concerned += group->procs.count;
		if (different++ < TOLD_MAX)
			tell_group(finding, group);
	}
	/* What one has seen is what the others had to conclude. */
	if (!seen)
		finding->confidence = NSPY_PROBABLE;
	all = concerned == c->attempt->proc_count && concerned > 1;
	for (size_t g = 0; g < groups->count && !all; g++) {
		for (size_t i = 0; i < groups->items[g].procs.count; i++) {
			if (strcmp(groups->items[g].hit.id, id) == 0)
				nspy_finding_blame(finding, groups->items[g].procs.items[i]);
		}
	}
	if (all) {
		nspy_str_addf(&s, "all %zu ranks", concerned);
	} else {
		nspy_add_procs(&s, finding->culprits, finding->culprit_count);
	}
	nspy_str_addf(&s, ": %s", most->hit.text);
	if (different > 1)
		nspy_str_addf(&s, " (and %zu more)", different - 1);
	finding->summary = nspy_str_take(&s);
	nspy_str_addf(&s, "%s (", nspy_catalog[finding->id].title);
	if (all)
		nspy_str_add(&s, "all ranks");
	else
		nspy_add_procs_short(&s, finding->culprits, finding->culprit_count);
	nspy_str_add(&s, ")");
	finding->cause = nspy_str_take(&s);
	finding->when_ns = c->attempt->start_ns;
}

void nspy_detect_facts(const struct nspy_case *c, struct nspy_findings *out)
{
	struct groups groups = {0};

	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		struct nspy_rule_facts facts = {.get = get, .context = c->attempt->procs[i]};

		facts.span = span_of(c, &facts);
		groups.proc = c->attempt->procs[i];
		nspy_rules_run(&facts, take, &groups);
	}
	for (size_t g = 0; g < groups.count; g++) {
		int id = nspy_catalog_find(groups.items[g].hit.id);

		if (id >= 0 && !nspy_findings_get(out, (enum nspy_finding_id)id))
			report(c, out, &groups, groups.items[g].hit.id);
	}
	for (size_t g = 0; g < groups.count; g++)
		free(groups.items[g].procs.items);
	free(groups.items);
}
