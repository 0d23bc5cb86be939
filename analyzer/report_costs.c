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
#define RANKS_MAX 1024u
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

/* Calls that ranks were late to, by what that cost. */
static struct entry *late_calls(const struct nspy_costs *costs, size_t *ret_count)
{
	struct entry *entries = nspy_xcalloc(costs->site_count + 1, sizeof(*entries));

	*ret_count = 0;
	for (size_t i = 0; i < costs->site_count; i++) {
		if (costs->sites[i].ns)
			entries[(*ret_count)++] = (struct entry){i, costs->sites[i].ns};
	}
	qsort(entries, *ret_count, sizeof(*entries), compare_entries);
	return entries;
}

/* "; late to ncclAllReduce of 8 ranks (0123456789abcdef#12) 90 %" */
static void add_late_calls(const struct nspy_report *report, struct nspy_str *s)
{
	const struct nspy_costs *costs = &report->c.costs;
	size_t count;
	struct entry *entries = late_calls(costs, &count);

	for (size_t i = 0; i < count && i < TOLD_MAX; i++) {
		const struct nspy_cost_site *site = &costs->sites[entries[i].index];

		if (i && entries[i].ns * 20 < costs->lost_ns)
			break;
		nspy_str_addf(s, "%s %s of %zu ranks (%016" PRIx64 "#%" PRIu64 ") %.0f %%",
			      i ? "," : "; late to",
			      nspy_model_get_fn(report->model, site->fn)->name,
			      site->comm->member_count, site->comm->shown, site->seq,
			      100 * (double)entries[i].ns / (double)costs->lost_ns);
	}
	free(entries);
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
	add_late_calls(report, &s);
	nspy_texts_add(ret, nspy_str_take(&s));
	free(entries);
}

static const char *activity_name(const struct nspy_report *report,
				 const struct nspy_activity *activity)
{
	return activity->fn ? nspy_model_get_fn(report->model, activity->fn)->name
			    : nspy_time_part_words(NSPY_TIME_OUTSIDE);
}

/* "rank 3 meanwhile: outside NCCL and CUDA 97 %, cudaMalloc 3 %", for the one that cost most. */
static void tell_activity(const struct nspy_report *report, struct nspy_texts *ret)
{
	const struct nspy_times *times = &report->c.times;
	const struct nspy_activity *most = NULL;
	uint64_t best = 0;
	struct nspy_str s = {0};

	for (size_t i = 0, end; i < times->activity_count; i = end) {
		uint64_t sum = 0;

		for (end = i; end < times->activity_count &&
			      times->activities[end].proc == times->activities[i].proc;
		     end++)
			sum += times->activities[end].ns;
		if (sum > best) {
			best = sum;
			most = &times->activities[i];
		}
	}
	if (!most)
		return;
	nspy_add_proc_short(&s, most->proc);
	for (size_t k = 0; k < TOLD_MAX; k++) {
		if (most + k == times->activities + times->activity_count ||
		    most[k].proc != most->proc || most[k].ns * 100 < best)
			break;
		nspy_str_addf(&s, "%s %s %.0f %%",
			      k ? "," : " meanwhile:", activity_name(report, &most[k]),
			      100 * (double)most[k].ns / (double)best);
	}
	nspy_texts_add(ret, nspy_str_take(&s));
}

/* Where the time of all ranks went, if enough was lost to tell of it. */
static void tell_times(const struct nspy_report *report, struct nspy_texts *ret)
{
	const struct nspy_costs *costs = &report->c.costs;
	struct nspy_str s = {0};
	bool told = false;

	if (!costs->rank_ns || (double)costs->lost_ns < SHARE_MIN * (double)costs->rank_ns)
		return;
	nspy_str_add(&s, "time of all ranks:");
	for (int k = 0; k < NSPY_TIME_PARTS; k++) {
		double share = (double)report->c.times.total[k] / (double)costs->rank_ns;

		if (share < SHARE_MIN)
			continue;
		nspy_str_addf(&s, "%s %.1f %% %s", told ? "," : "", 100 * share,
			      nspy_time_part_words((enum nspy_time_part)k));
		told = true;
	}
	nspy_texts_add(ret, nspy_str_take(&s));
}

void nspy_report_costs(const struct nspy_report *report, struct nspy_texts *ret)
{
	const struct nspy_steps *steps = &report->c.steps;
	struct nspy_str s = {0};

	tell_losses(report, ret);
	tell_activity(report, ret);
	tell_times(report, ret);
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

static cJSON *calls_json(const struct nspy_report *report)
{
	const struct nspy_costs *costs = &report->c.costs;
	size_t count;
	struct entry *entries = late_calls(costs, &count);
	cJSON *array = cJSON_CreateArray();
	char text[48];

	for (size_t i = 0; i < count && i < JSON_MAX; i++) {
		const struct nspy_cost_site *site = &costs->sites[entries[i].index];
		cJSON *object = cJSON_CreateObject();

		cJSON_AddStringToObject(object, "function",
					nspy_model_get_fn(report->model, site->fn)->name);
		cJSON_AddNumberToObject(object, "ranks", (double)site->comm->member_count);
		(void)snprintf(text, sizeof(text), "%016" PRIx64 "#%" PRIu64, site->comm->shown,
			       site->seq);
		cJSON_AddStringToObject(object, "operation", text);
		cJSON_AddNumberToObject(object, "rounds", (double)site->rounds);
		add_seconds(object, "seconds", site->ns);
		cJSON_AddItemToArray(array, object);
	}
	free(entries);
	return array;
}

static cJSON *links_json(const struct nspy_report *report)
{
	const struct nspy_costs *costs = &report->c.costs;
	cJSON *array = cJSON_CreateArray();

	for (size_t i = 0; i < costs->link_count && i < JSON_MAX; i++) {
		cJSON *object = cJSON_CreateObject();

		cJSON_AddStringToObject(object, "node", nspy_proc_host(costs->links[i].late));
		cJSON_AddStringToObject(object, "waiting_node",
					nspy_proc_host(costs->links[i].waiting));
		add_seconds(object, "seconds", costs->links[i].ns);
		cJSON_AddItemToArray(array, object);
	}
	return array;
}

static cJSON *parts_json(const uint64_t *parts)
{
	cJSON *object = cJSON_CreateObject();

	for (int k = 0; k < NSPY_TIME_PARTS; k++)
		add_seconds(object, nspy_time_part_name((enum nspy_time_part)k), parts[k]);
	return object;
}

static void add_who(cJSON *object, const struct nspy_proc *proc)
{
	if (proc->rank >= 0)
		cJSON_AddNumberToObject(object, "rank", (double)proc->rank);
	cJSON_AddStringToObject(object, "node", nspy_proc_host(proc));
}

static cJSON *times_json(const struct nspy_report *report)
{
	cJSON *object = cJSON_CreateObject();
	cJSON *ranks;

	cJSON_AddItemToObject(object, "total", parts_json(report->c.times.total));
	ranks = cJSON_AddArrayToObject(object, "ranks");
	for (size_t i = 0; i < report->attempt->proc_count && i < RANKS_MAX; i++) {
		const struct nspy_proc *proc = report->attempt->procs[i];
		cJSON *one = parts_json(report->c.times.by_proc[proc->index]);

		add_who(one, proc);
		cJSON_AddItemToArray(ranks, one);
	}
	return object;
}

static cJSON *activities_json(const struct nspy_report *report)
{
	cJSON *array = cJSON_CreateArray();

	for (size_t i = 0; i < report->c.times.activity_count; i++) {
		const struct nspy_activity *activity = &report->c.times.activities[i];
		cJSON *object = cJSON_CreateObject();

		add_who(object, activity->proc);
		cJSON_AddStringToObject(object, "doing", activity_name(report, activity));
		add_seconds(object, "seconds", activity->ns);
		cJSON_AddItemToArray(array, object);
	}
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
	cJSON_AddItemToObject(object, "by_call", calls_json(report));
	cJSON_AddItemToObject(object, "by_link", links_json(report));
	cJSON_AddItemToObject(object, "by_activity", activities_json(report));
	cJSON_AddItemToObject(object, "time", times_json(report));
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
