/* SPDX-License-Identifier: Apache-2.0 */
/* Memory is checked at the end: cJSON's adders tolerate NULL, a lost value is our own fault. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "evidence.h"
#include "report.h"
#include "text.h"
#include "who.h"

/* JSON numbers are doubles: times and keys that do not fit travel as text. */
static void add_u64(cJSON *object, const char *name, uint64_t value)
{
	cJSON_AddNumberToObject(object, name, (double)value);
}

static void add_time(cJSON *object, const char *name, uint64_t ns)
{
	struct nspy_str s = {0};

	if (!ns) {
		cJSON_AddNullToObject(object, name);
		return;
	}
	nspy_add_time(&s, ns);
	cJSON_AddStringToObject(object, name, s.text);
	nspy_str_done(&s);
}

static cJSON *texts(const struct nspy_texts *list)
{
	cJSON *array = cJSON_CreateArray();

	for (size_t i = 0; i < list->count; i++)
		cJSON_AddItemToArray(array, cJSON_CreateString(list->text[i]));
	return array;
}

static void add_fact(cJSON *object, const char *name, const struct nspy_proc *proc, const char *key)
{
	const char *value = nspy_proc_fact(proc, key);

	if (value && *value)
		cJSON_AddStringToObject(object, name, value);
}

static cJSON *culprit(const struct nspy_proc *proc)
{
	cJSON *object = cJSON_CreateObject();
	size_t count;
	int64_t *ranks = nspy_proc_ranks(proc, &count);

	if (count)
		cJSON_AddNumberToObject(object, "rank", (double)ranks[0]);
	else
		cJSON_AddNullToObject(object, "rank");
	if (count > 1) {
		cJSON *all = cJSON_AddArrayToObject(object, "ranks");

		for (size_t i = 0; i < count; i++)
			cJSON_AddItemToArray(all, cJSON_CreateNumber((double)ranks[i]));
	}
	free(ranks);
	cJSON_AddStringToObject(object, "node", nspy_proc_host(proc));
	cJSON_AddNumberToObject(object, "pid", (double)proc->pid);
	add_fact(object, "pod", proc, "pod");
	add_fact(object, "instance", proc, "instance.id");
	if (!proc->whole && count < 2) { /* else they are those of the process's first rank */
		add_fact(object, "gpu", proc, "gpu.index");
		add_fact(object, "gpu_pci", proc, "gpu.pci");
	}
	return object;
}

static cJSON *evidence(const struct nspy_finding *finding)
{
	cJSON *array = cJSON_CreateArray();

	for (size_t i = 0; i < finding->evidence_count; i++) {
		const struct nspy_evidence *item = &finding->evidence[i];
		cJSON *object = cJSON_CreateObject();
		char *command =
			nspy_evidence_command(item, finding->where ? finding->where : "DIR");
		char key[24];

		if (item->comm) {
			(void)snprintf(key, sizeof(key), "%016llx",
				       (unsigned long long)item->comm->shown);
			cJSON_AddStringToObject(object, "communicator", key);
		}
		if (item->seq)
			add_u64(object, "operation", item->seq);
		if (item->proc && item->proc->rank >= 0)
			cJSON_AddNumberToObject(object, "rank", (double)item->proc->rank);
		cJSON_AddStringToObject(object, "command", command);
		free(command);
		cJSON_AddItemToArray(array, object);
	}
	return array;
}

static cJSON *others(const struct nspy_finding *finding)
{
	cJSON *array = cJSON_CreateArray();
	const char *other;

	for (size_t i = 0; (other = nspy_alternative(finding->id, i)); i++)
		cJSON_AddItemToArray(array, cJSON_CreateString(other));
	return array;
}

cJSON *nspy_report_finding_json(const struct nspy_finding *finding)
{
	const struct nspy_catalog *entry = &nspy_catalog[finding->id];
	cJSON *object = cJSON_CreateObject();
	cJSON *culprits = cJSON_CreateArray();
	char priority[] = {'P', (char)('0' + finding->priority), '\0'};
	char *reference = nspy_xasprintf("references/%s § %d", entry->file, entry->section);
	char key[24];

	cJSON_AddStringToObject(object, "id", entry->id);
	cJSON_AddStringToObject(object, "priority", priority);
	cJSON_AddStringToObject(object, "confidence", nspy_confidence_name(finding->confidence));
	cJSON_AddStringToObject(object, "summary", finding->summary);
	cJSON_AddStringToObject(object, "cause", finding->cause);
	cJSON_AddStringToObject(object, "owner", finding->owner);
	cJSON_AddStringToObject(object, "action", finding->action);
	cJSON_AddStringToObject(object, "restart", finding->restart);
	cJSON_AddStringToObject(object, "reference", reference);
	add_time(object, "began", finding->when_ns);
	if (finding->comm) {
		(void)snprintf(key, sizeof(key), "%016llx",
			       (unsigned long long)finding->comm->shown);
		cJSON_AddStringToObject(object, "communicator", key);
	}
	if (finding->seq)
		add_u64(object, "operation", finding->seq);
	for (size_t i = 0; i < finding->culprit_count; i++)
		cJSON_AddItemToArray(culprits, culprit(finding->culprits[i]));
	cJSON_AddItemToObject(object, "culprits", culprits);
	cJSON_AddItemToObject(object, "details", texts(&finding->details));
	if (finding->commands.count)
		cJSON_AddItemToObject(object, "commands", texts(&finding->commands));
	cJSON_AddItemToObject(object, "consequences", texts(&finding->consequences));
	cJSON_AddItemToObject(object, "evidence", evidence(finding));
	cJSON_AddItemToObject(object, "not_seen", texts(&finding->not_seen));
	cJSON_AddItemToObject(object, "alternatives", others(finding));
	if (finding->next)
		cJSON_AddStringToObject(object, "next", finding->next);
	if (finding->ignored)
		cJSON_AddStringToObject(object, "ignored", finding->ignored);
	free(reference);
	return object;
}

static cJSON *totals_json(const struct nspy_report *report)
{
	cJSON *object = cJSON_CreateObject();
	struct nspy_totals t;

	nspy_report_totals(report, &t);
	add_u64(object, "ranks",
		nspy_count_ranks((const struct nspy_proc *const *)report->attempt->procs,
				 report->attempt->proc_count));
	cJSON_AddNumberToObject(object, "world_size", (double)report->attempt->world_size);
	add_u64(object, "nodes", t.hosts);
	add_u64(object, "operations", t.ops);
	cJSON_AddNumberToObject(object, "bytes", t.bytes);
	add_u64(object, "records", t.records);
	add_u64(object, "lost_records", t.lost);
	add_u64(object, "captured_operations", t.captured);
	add_u64(object, "cuda_errors", t.cuda_errors);
	add_u64(object, "trace_bytes", t.packed_bytes);
	add_u64(object, "complete", t.complete);
	add_u64(object, "cut", t.cut);
	add_u64(object, "running", t.running);
	return object;
}

static void add_verdict(cJSON *object, const struct nspy_report *report)
{
	const struct nspy_finding *top = nspy_report_top(report);
	cJSON *verdict = cJSON_AddObjectToObject(object, "verdict");

	cJSON_AddStringToObject(verdict, "cause", top ? top->cause : "no P0 or P1 finding");
	cJSON_AddStringToObject(verdict, "page", top ? top->owner : "nobody");
	cJSON_AddStringToObject(verdict, "do", top ? top->action : "nothing");
	cJSON_AddStringToObject(verdict, "restart", top ? top->restart : "not needed");
}

cJSON *nspy_report_json(const struct nspy_report *report)
{
	cJSON *object = cJSON_CreateObject();
	cJSON *findings = cJSON_CreateArray();
	struct nspy_texts warn = {0}, info = {0}, not_seen = {0};

	cJSON_AddStringToObject(object, "job", report->model->job);
	add_u64(object, "attempts", report->model->attempt_count);
	if (!report->attempt)
		return object;
	add_u64(object, "attempt", report->attempt->number);
	add_time(object, "start", report->attempt->start_ns);
	add_time(object, "end", report->attempt->end_ns);
	cJSON_AddItemToObject(object, "totals", totals_json(report));
	add_verdict(object, report);
	for (size_t i = 0; i < report->findings.count; i++)
		cJSON_AddItemToArray(findings, nspy_report_finding_json(report->findings.items[i]));
	cJSON_AddItemToObject(object, "findings", findings);
	nspy_report_remarks(report, &warn, &info);
	nspy_report_not_seen(report, &not_seen);
	cJSON_AddItemToObject(object, "costs", nspy_report_costs_json(report));
	cJSON_AddItemToObject(object, "self", nspy_report_account_json(report));
	cJSON_AddItemToObject(object, "bandwidth", nspy_report_bandwidth_json(report));
	cJSON_AddItemToObject(object, "network", nspy_report_network_json(report));
	cJSON_AddItemToObject(object, "profiler", nspy_report_profiler_json(report));
	cJSON_AddItemToObject(object, "gpu_time", nspy_report_gpu_json(report));
	cJSON_AddItemToObject(object, "stacks", nspy_report_stacks_json(report));
	cJSON_AddItemToObject(object, "warnings", texts(&warn));
	cJSON_AddItemToObject(object, "notes", texts(&info));
	cJSON_AddItemToObject(object, "not_seen", texts(&not_seen));
	nspy_texts_free(&warn);
	nspy_texts_free(&info);
	nspy_texts_free(&not_seen);
	return object;
}

cJSON *nspy_report_problems_json(const struct nspy_inputs *inputs)
{
	cJSON *array = cJSON_CreateArray();

	for (size_t i = 0; i < inputs->problem_count; i++) {
		cJSON *object = cJSON_CreateObject();

		cJSON_AddStringToObject(object, "path", inputs->problems[i].path);
		cJSON_AddStringToObject(object, "problem", inputs->problems[i].text);
		cJSON_AddItemToArray(array, object);
	}
	for (size_t j = 0; j < inputs->job_count; j++) {
		for (size_t p = 0; p < inputs->jobs[j]->proc_count; p++) {
			const struct nspy_proc *proc = inputs->jobs[j]->procs[p];

			for (size_t i = 0; i < proc->trouble_count; i++) {
				const struct nspy_trouble *trouble = &proc->troubles[i];
				cJSON *object = cJSON_CreateObject();

				cJSON_AddStringToObject(object, "path", trouble->path);
				cJSON_AddStringToObject(object, "problem",
							trouble->truncated
								? "cut off"
								: nspy_trace_error(trouble->error));
				add_u64(object, "offset", trouble->offset);
				cJSON_AddItemToArray(array, object);
			}
		}
	}
	return array;
}
