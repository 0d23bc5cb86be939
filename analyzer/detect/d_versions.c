/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VERSION_MISMATCH
 *
 * Question: do all ranks run the same NCCL library?
 * Evidence: what ncclGetVersion of the mapped library answered, and its build id. Environment
 *   variables such as NCCL_VERSION are no evidence: base images set them for a library that the
 *   framework does not use.
 * Threshold: none. Another version is P0: NCCL 2.23.4 and later refuse to start, older ones hang or
 *   corrupt. The same version from another build is P1 and only probable.
 * Known false positives: builds that differ in nothing that matters (re-linked by a packager).
 */
#include <stdlib.h>
#include <string.h>

#include "detect.h"
#include "who.h"

struct group {
	const char *value;
	struct nspy_procs procs;
};

struct groups {
	struct group *items;
	size_t count, capacity;
};

static int compare_groups(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	return x->procs.count > y->procs.count ? -1 : x->procs.count < y->procs.count;
}

static void group_by(const struct nspy_case *c, const char *key, struct groups *groups)
{
	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		const char *value = nspy_proc_fact(c->attempt->procs[i], key);
		size_t g = 0;

		if (!value || !*value)
			continue;
		while (g < groups->count && strcmp(groups->items[g].value, value) != 0)
			g++;
		if (g == groups->count) {
			groups->items = nspy_grow(groups->items, groups->count, &groups->capacity,
						  sizeof(*groups->items));
			groups->items[groups->count++] = (struct group){.value = value};
		}
		nspy_procs_add(&groups->items[g].procs, c->attempt->procs[i]);
	}
	if (groups->count)
		qsort(groups->items, groups->count, sizeof(*groups->items), compare_groups);
}

static void groups_done(struct groups *groups)
{
	for (size_t i = 0; i < groups->count; i++)
		free(groups->items[i].procs.items);
	free(groups->items);
}

static void add_value(struct nspy_str *s, const char *value, bool version)
{
	if (version)
		nspy_add_nccl_version(s, value);
	else
		nspy_str_addf(s, "build %.12s", value);
}

static void report(const struct nspy_case *c, struct nspy_findings *out,
		   const struct groups *groups, bool version)
{
	struct nspy_finding *finding = nspy_findings_add(out, NSPY_FINDING_VERSION_MISMATCH);
	const struct group *most = &groups->items[0], *odd = &groups->items[1];
	bool tie = most->procs.count == odd->procs.count;
	struct nspy_str s = {0};

	nspy_add_procs(&s, odd->procs.items, odd->procs.count);
	nspy_str_add(&s, version ? " runs NCCL "
				 : " runs the same version of NCCL from another "
				   "build: ");
	add_value(&s, odd->value, version);
	nspy_str_addf(&s, " where %zu others run ", most->procs.count);
	add_value(&s, most->value, version);
	finding->summary = nspy_str_take(&s);
	nspy_str_add(&s, version ? "NCCL versions differ: " : "NCCL builds differ: ");
	nspy_add_procs_short(&s, odd->procs.items, odd->procs.count);
	nspy_str_add(&s, tie ? " against as many others" : " against all others");
	finding->cause = nspy_str_take(&s);
	finding->when_ns = c->attempt->start_ns;
	if (!version) {
		finding->priority = 1;
		finding->confidence = NSPY_PROBABLE;
	}
	for (size_t g = 0; g < groups->count && g < 6; g++) {
		const struct group *group = &groups->items[g];
		const char *path = nspy_proc_fact(group->procs.items[0], "nccl.path");

		for (size_t i = 0; g > 0 && !tie && i < group->procs.count; i++)
			nspy_finding_blame(finding, group->procs.items[i]);
		add_value(&s, group->value, version);
		nspy_str_add(&s, ": ");
		nspy_add_procs(&s, group->procs.items, group->procs.count);
		nspy_str_addf(&s, ", e.g. %s", path ? path : "path not known");
		nspy_texts_add(&finding->details, nspy_str_take(&s));
	}
}

void nspy_detect_versions(const struct nspy_case *c, struct nspy_findings *out)
{
	struct groups versions = {0}, builds = {0};

	group_by(c, "nccl.version", &versions);
	if (versions.count > 1) {
		report(c, out, &versions, true);
	} else {
		group_by(c, "nccl.build_id", &builds);
		if (builds.count > 1)
			report(c, out, &builds, false);
	}
	groups_done(&versions);
	groups_done(&builds);
}
