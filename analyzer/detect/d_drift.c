/* SPDX-License-Identifier: Apache-2.0 */
/*
 * STACK_DRIFT
 *
 * Question: do ranks run with different settings or software?
 * Evidence: recorded environment variables that change how NCCL and libfabric work, CUDA runtime
 * and driver versions, plugin, libfabric and NIC firmware versions, version of ncclspy. The value
 * most ranks have is taken for the usual one. A variable that only some have counts as different.
 * Threshold: none. P1 if settings differ that must agree (sizes, algorithms, transports), else P2.
 * Known false positives: settings that are meant to differ per node. Names of interfaces and
 * devices, files for debugging, and identities are therefore not compared.
 */
#include <stdlib.h>
#include <string.h>

#include "detect.h"
#include "rules.h"
#include "who.h"

#define TOLD_MAX 8u

static const char *const versions[] = {
	"cudart.version",     "cuda.driver",   "libfabric.version",
	"net_plugin.version", "rdma.firmware", "ncclspy.version",
};

static bool is_version(const char *key)
{
	for (size_t i = 0; i < nspy_array_size(versions); i++) {
		if (strcmp(key, versions[i]) == 0)
			return true;
	}
	return false;
}

struct value {
	const char *text; /* NULL = not set */
	struct nspy_procs procs;
};

struct key {
	const char *name;
	bool setting;
	struct value *values;
	size_t count, capacity;
};

static int compare_values(const void *a, const void *b)
{
	const struct value *x = a, *y = b;

	return x->procs.count > y->procs.count ? -1 : x->procs.count < y->procs.count;
}

static bool equal(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static void collect_values(const struct nspy_case *c, struct key *key)
{
	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		const char *text = nspy_proc_fact(c->attempt->procs[i], key->name);
		size_t v = 0;

		/* A version that could not be asked for is not another one. */
		if (!text && !key->setting)
			continue;
		while (v < key->count && !equal(key->values[v].text, text))
			v++;
		if (v == key->count) {
			key->values = nspy_grow(key->values, key->count, &key->capacity,
						sizeof(*key->values));
			key->values[key->count++] = (struct value){.text = text};
		}
		nspy_procs_add(&key->values[v].procs, c->attempt->procs[i]);
	}
	if (key->count)
		qsort(key->values, key->count, sizeof(*key->values), compare_values);
}

static void key_done(struct key *key)
{
	for (size_t v = 0; v < key->count; v++)
		free(key->values[v].procs.items);
	free(key->values);
}

static void add_value(struct nspy_str *s, const struct value *value)
{
	if (value->text)
		nspy_str_addf(s, "'%s'", value->text);
	else
		nspy_str_add(s, "not set");
}

static void tell_key(struct nspy_finding *finding, const struct key *key)
{
	const char *name = strncmp(key->name, "env.", 4) == 0 ? key->name + 4 : key->name;
	bool tie = key->values[0].procs.count == key->values[1].procs.count;
	struct nspy_str s = {0};

	nspy_str_addf(&s, "%s: ", name);
	for (size_t v = 0; v < key->count && v < 4; v++) {
		nspy_str_add(&s, v ? ", " : "");
		add_value(&s, &key->values[v]);
		nspy_str_add(&s, " on ");
		nspy_add_procs_short(&s, key->values[v].procs.items, key->values[v].procs.count);
		for (size_t i = 0; v && !tie && i < key->values[v].procs.count; i++)
			nspy_finding_blame(finding, key->values[v].procs.items[i]);
	}
	nspy_texts_add(&finding->details, nspy_str_take(&s));
}

/* Names of facts that any process has, each once. */
static size_t list_keys(const struct nspy_case *c, struct key *keys, size_t capacity)
{
	size_t count = 0;

	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		const struct nspy_proc *proc = c->attempt->procs[i];

		for (size_t f = 0; f < proc->fact_count && count < capacity; f++) {
			const char *name = proc->facts[f].key;
			bool setting = nspy_rules_is_shared_setting(name), known = false;

			if (!setting && !is_version(name))
				continue;
			for (size_t k = 0; k < count && !known; k++)
				known = strcmp(keys[k].name, name) == 0;
			if (!known)
				keys[count++] = (struct key){.name = name, .setting = setting};
		}
	}
	return count;
}

static void finish(struct nspy_finding *finding, const struct nspy_case *c, size_t differing,
		   const char *first)
{
	struct nspy_str s = {0};

	nspy_str_addf(&s, "%zu setting%s or version%s differ between ranks, among them %s",
		      differing, differing == 1 ? "" : "s", differing == 1 ? "" : "s", first);
	if (finding->culprit_count) {
		nspy_str_add(&s, "; unlike the others: ");
		nspy_add_procs(&s, finding->culprits, finding->culprit_count);
	}
	finding->summary = nspy_str_take(&s);
	nspy_str_addf(&s, "ranks run with different settings or software (%s)", first);
	finding->cause = nspy_str_take(&s);
	finding->when_ns = c->attempt->start_ns;
}

void nspy_detect_drift(const struct nspy_case *c, struct nspy_findings *out)
{
	struct key *keys = nspy_xcalloc(NSPY_FACTS_MAX, sizeof(*keys));
	size_t count = list_keys(c, keys, NSPY_FACTS_MAX), differing = 0;
	struct nspy_finding *finding = NULL;
	const char *first = NULL;

	for (int settings = 1; settings >= 0; settings--) {
		for (size_t k = 0; k < count; k++) {
			if (keys[k].setting != settings)
				continue;
			collect_values(c, &keys[k]);
			if (keys[k].count < 2)
				continue;
			if (!finding) {
				finding = nspy_findings_add(out, NSPY_FINDING_STACK_DRIFT);
				finding->priority = settings ? 1 : 2;
				first = settings ? keys[k].name + 4 : keys[k].name;
			}
			if (differing++ < TOLD_MAX)
				tell_key(finding, &keys[k]);
		}
	}
	if (finding)
		finish(finding, c, differing, first);
	for (size_t k = 0; k < count; k++)
		key_done(&keys[k]);
	free(keys);
}
