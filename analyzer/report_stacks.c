/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks that were read at a hang: where the culprits stood, and all ranks as one tree. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "source.h"
#include "trace_stacks.h"
#include "who.h"

#define LINES_MAX 60u
#define TOLD_MAX  4u

static int read_stacks(const struct nspy_proc *proc, struct nspy_stacks *ret)
{
	const char *slash = proc->base ? strrchr(proc->base, '/') : NULL;
	char *path;
	int rc;

	if (!proc->base)
		return -1;
	path = nspy_xasprintf("%.*s%016" PRIx64 NSPY_STACKS_SUFFIX,
			      slash ? (int)(slash + 1 - proc->base) : 0, proc->base, proc->run_id);
	rc = nspy_input_stacks(proc, path, ret);
	free(path);
	return rc;
}

/* Findings that ask where somebody is. */
static bool wants_stacks(const struct nspy_finding *finding)
{
	switch (finding->id) {
	case NSPY_FINDING_COLLECTIVE_HANG:
	case NSPY_FINDING_INIT_TIMEOUT:
	case NSPY_FINDING_ORDER_INVERSION:
	case NSPY_FINDING_PROGRESS_STALLED_OUTSIDE_NCCL:
	case NSPY_FINDING_RANKS_MISSING:
		return true;
	default:
		return false;
	}
}

static void tell_culprits(struct nspy_finding *finding)
{
	for (size_t i = 0; i < finding->culprit_count && i < TOLD_MAX; i++) {
		const struct nspy_proc *proc = finding->culprits[i];
		const struct nspy_stack_thread *thread;
		struct nspy_stacks stacks;
		struct nspy_str s = {0};
		char where[400] = "";

		if (read_stacks(proc->whole ? proc->whole : proc, &stacks) < 0)
			continue;
		thread = nspy_stacks_caller(&stacks);
		if (thread)
			nspy_stacks_tell(&stacks, thread, where, sizeof(where));
		if (where[0]) {
			nspy_add_proc_short(&s, proc);
			nspy_str_addf(&s, " stands in %s", where);
			nspy_texts_add(&finding->details, nspy_str_take(&s));
		}
		nspy_stacks_done(&stacks);
	}
}

static void add_process(struct nspy_report *report, const struct nspy_proc *proc)
{
	const struct nspy_stack_thread *thread;
	struct nspy_stacks stacks;

	if (read_stacks(proc->whole ? proc->whole : proc, &stacks) < 0)
		return;
	thread = nspy_stacks_caller(&stacks);
	if (thread && nspy_stack_tree_add(report->stacks, &stacks, thread,
					  proc->rank != NSPY_NO_RANK ? proc->rank : proc->pid) == 0)
		report->stack_count++;
	for (uint32_t i = 0; i < stacks.note_count && report->stack_notes.count < TOLD_MAX * 10;
	     i++) {
		struct nspy_str s = {0};

		nspy_add_proc_short(&s, proc);
		nspy_str_addf(&s, ": %s", stacks.notes[i]);
		nspy_texts_add(&report->stack_notes, nspy_str_take(&s));
	}
	nspy_stacks_done(&stacks);
}

void nspy_report_read_stacks(struct nspy_report *report)
{
	report->stacks = nspy_stack_tree_new();
	if (!report->stacks)
		return;
	for (size_t i = 0; i < report->attempt->proc_count; i++)
		add_process(report, report->attempt->procs[i]);
	for (size_t i = 0; i < report->findings.count; i++)
		if (wants_stacks(report->findings.items[i]))
			tell_culprits(report->findings.items[i]);
}

void nspy_report_stacks_done(struct nspy_report *report)
{
	nspy_stack_tree_free(report->stacks);
	nspy_texts_free(&report->stack_notes);
	report->stacks = NULL;
}

static void print_line(void *context, unsigned int depth, const char *who, uint32_t count,
		       const char *frames)
{
	(void)count;
	fprintf(context, "%*s%s  %s\n", 2 + 2 * (int)depth, "", who, frames);
}

void nspy_report_print_stacks(const struct nspy_report *report, FILE *out)
{
	size_t left_out;

	if (!report->stack_count)
		return;
	fprintf(out, "stacks of %zu process%s, read at the hang; by rank, outermost frame first:\n",
		report->stack_count, report->stack_count == 1 ? "" : "es");
	left_out = nspy_stack_tree_walk(report->stacks, LINES_MAX, print_line, out);
	if (left_out)
		fprintf(out, "  ... %zu more branches\n", left_out);
	for (size_t i = 0; i < report->stack_notes.count; i++)
		fprintf(out, "  %s\n", report->stack_notes.text[i]);
}

static void json_line(void *context, unsigned int depth, const char *who, uint32_t count,
		      const char *frames)
{
	cJSON *object = cJSON_CreateObject();

	cJSON_AddNumberToObject(object, "depth", depth);
	cJSON_AddStringToObject(object, "ranks", who);
	cJSON_AddNumberToObject(object, "count", count);
	cJSON_AddStringToObject(object, "frames", frames);
	cJSON_AddItemToArray(context, object);
}

cJSON *nspy_report_stacks_json(const struct nspy_report *report)
{
	cJSON *object = cJSON_CreateObject();
	cJSON *tree = cJSON_AddArrayToObject(object, "tree");
	cJSON *notes = cJSON_AddArrayToObject(object, "notes");

	cJSON_AddNumberToObject(object, "processes", (double)report->stack_count);
	if (report->stacks)
		(void)nspy_stack_tree_walk(report->stacks, 10u * LINES_MAX, json_line, tree);
	for (size_t i = 0; i < report->stack_notes.count; i++)
		cJSON_AddItemToArray(notes, cJSON_CreateString(report->stack_notes.text[i]));
	return object;
}
