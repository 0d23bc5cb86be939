/* SPDX-License-Identifier: Apache-2.0 */
/* The section about lost time of a report, in both forms. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "text.h"
#include "who.h"

#define TOLD_MAX  3u
#define JSON_MAX  64u
#define SHARE_MIN 0.005 /* of the ranks' time: less is not worth a line */

struct entry {
	size_t index; /* of a process or communicator */
	uint64_t ns;
};

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* Processes of the attempt, or nodes (by their first process), by what is charged to them. */
static struct entry *charged(const struct nspy_report *report, bool nodes, size_t *ret_count)
{
	const struct nspy_attempt *attempt = report->attempt;
	struct entry *entries = nspy_xcalloc(attempt->proc_count + 1, sizeof(*entries));
	size_t count = 0;

	for (size_t i = 0; i < attempt->proc_count; i++) {
		uint64_t ns = report->c.costs.by_proc[attempt->procs[i]->index];
		size_t k = count;

		/* Ranks of a host are neighbours: the search ends quickly. */
		while (nodes && k > 0 &&
		       strcmp(nspy_proc_host(attempt->procs[entries[k - 1].index]),
			      nspy_proc_host(attempt->procs[i])) != 0)
			k--;
		if (nodes && k > 0)
			entries[k - 1].ns += ns;
		else
			entries[count++] = (struct entry){i, ns};
	}
	qsort(entries, count, sizeof(*entries), compare_entries);
	while (count && !entries[count - 1].ns)
		count--;
	*ret_count = count;
	return entries;
}

static void tell_losses(const struct nspy_report *report, struct nspy_texts *ret)
{
	const struct nspy_costs *costs = &report->c.costs;
	struct nspy_str s = {0};
	struct entry *entries;
	size_t count;

	if (!costs->rank_ns || (double)costs->lost_ns < SHARE_MIN * (double)costs->rank_ns)
		return;
	entries = charged(report, false, &count);
	nspy_str_add(&s, "lost time: ");
	nspy_add_duration(&s, costs->lost_ns);
	nspy_str_addf(&s,
		      " of all ranks together (%.1f %%) went on waiting for the one that came "
		      "last; charged to ",
		      100 * (double)costs->lost_ns / (double)costs->rank_ns);
	for (size_t i = 0; i < count && i < TOLD_MAX; i++) {
		if (i && entries[i].ns * 100 < costs->lost_ns)
			break;
		nspy_str_add(&s, i ? ", " : "");
		nspy_add_proc_short(&s, report->attempt->procs[entries[i].index]);
		nspy_str_addf(&s, " %.0f %%", 100 * (double)entries[i].ns / (double)costs->lost_ns);
	}
	nspy_texts_add(ret, nspy_str_take(&s));
	free(entries);
}

void nspy_report_costs(const struct nspy_report *report, struct nspy_texts *ret)
{
	const struct nspy_steps *steps = &report->c.steps;
	struct nspy_str s = {0};

	tell_losses(report, ret);
	if (steps->length < 2)
		return;
	nspy_str_addf(&s, "steps: %zu operations of ", steps->length);
	nspy_add_comm(&s, report->attempt->world);
	nspy_str_addf(&s, " repeat; of the last %zu steps the median took ", steps->count);
	nspy_add_duration(&s, steps->median_ns);
	nspy_str_add(&s, ", the slowest ");
	nspy_add_duration(&s, steps->slowest_ns);
	nspy_str_addf(&s, " (from #%" PRIu64 ")", steps->slowest_seq);
	nspy_texts_add(ret, nspy_str_take(&s));
}

/* --- JSON --- */

static void add_seconds(cJSON *object, const char *name, uint64_t ns)
{
	cJSON_AddNumberToObject(object, name, (double)ns / 1e9);
}

static cJSON *procs_json(const struct nspy_report *report, bool nodes)
{
	cJSON *array = cJSON_CreateArray();
	size_t count;
	struct entry *entries = charged(report, nodes, &count);

	for (size_t i = 0; i < count && i < JSON_MAX; i++) {
		const struct nspy_proc *proc = report->attempt->procs[entries[i].index];
		cJSON *object = cJSON_CreateObject();

		if (!nodes && proc->rank >= 0)
			cJSON_AddNumberToObject(object, "rank", (double)proc->rank);
		cJSON_AddStringToObject(object, "node", nspy_proc_host(proc));
		add_seconds(object, "seconds", entries[i].ns);
		cJSON_AddItemToArray(array, object);
	}
	free(entries);
	return array;
}

static cJSON *comms_json(const struct nspy_report *report)
{
	const struct nspy_attempt *attempt = report->attempt;
	struct entry *entries = nspy_xcalloc(attempt->comm_count + 1, sizeof(*entries));
	cJSON *array = cJSON_CreateArray();
	size_t count = 0;
	char key[24];

	for (size_t i = 0; i < attempt->comm_count; i++) {
		if (report->c.costs.by_comm[i])
			entries[count++] = (struct entry){i, report->c.costs.by_comm[i]};
	}
	qsort(entries, count, sizeof(*entries), compare_entries);
	for (size_t i = 0; i < count && i < JSON_MAX; i++) {
		cJSON *object = cJSON_CreateObject();

		(void)snprintf(key, sizeof(key), "%016" PRIx64,
			       attempt->comms[entries[i].index]->shown);
		cJSON_AddStringToObject(object, "communicator", key);
		add_seconds(object, "seconds", entries[i].ns);
		cJSON_AddItemToArray(array, object);
	}
	free(entries);
	return array;
}

cJSON *nspy_report_costs_json(const struct nspy_report *report)
{
	const struct nspy_costs *costs = &report->c.costs;
	const struct nspy_steps *steps = &report->c.steps;
	cJSON *object = cJSON_CreateObject(), *step;

	add_seconds(object, "rank_seconds", costs->rank_ns);
	add_seconds(object, "lost_seconds", costs->lost_ns);
	add_seconds(object, "passed_on_seconds", costs->passed_ns);
	cJSON_AddNumberToObject(object, "rounds", (double)costs->rounds);
	cJSON_AddNumberToObject(object, "withheld_rounds", (double)costs->withheld);
	cJSON_AddItemToObject(object, "by_rank", procs_json(report, false));
	cJSON_AddItemToObject(object, "by_node", procs_json(report, true));
	cJSON_AddItemToObject(object, "by_communicator", comms_json(report));
	if (!steps->length)
		return object;
	step = cJSON_AddObjectToObject(object, "steps");
	cJSON_AddNumberToObject(step, "operations", (double)steps->length);
	cJSON_AddNumberToObject(step, "count", (double)steps->count);
	add_seconds(step, "median_seconds", steps->median_ns);
	add_seconds(step, "slowest_seconds", steps->slowest_ns);
	cJSON_AddNumberToObject(step, "slowest_operation", (double)steps->slowest_seq);
	return object;
}
