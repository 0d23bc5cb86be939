/* SPDX-License-Identifier: Apache-2.0 */
/* After all inputs are known: order of files, one clock per boot, exit notes. */
#include <stdlib.h>
#include <string.h>

#include "clocks.h"
#include "inputs.h"
#include "source.h"

#define EXIT_NOTE_BYTES 4096u
static int compare_files(const void *a, const void *b)
{
	const struct nspy_input_file *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->segment != y->segment)
		return x->segment < y->segment ? -1 : 1;
	return strcmp(x->path, y->path);
}

/* Text file of the launcher: lines "key=value". */
static bool read_exit(const struct nspy_proc *proc, const char *path, struct nspy_exit *ret)
{
	char *text = nspy_input_text(proc, path, EXIT_NOTE_BYTES);
	struct nspy_exit exit_note = {0};
	char *rest = text, *line;

	while (rest && (line = strsep(&rest, "\n"))) {
		char *value = strchr(line, '=');
		int64_t number;

		if (!value)
			continue;
		*value++ = '\0';
		value[strcspn(value, "\r")] = '\0';
		if (!nspy_parse_i64(value, &number))
			continue;
		if (strcmp(line, "exit_code") == 0 && number >= 0 && number < 256) {
			exit_note.code = (int)number;
			exit_note.has_code = exit_note.known = true;
		} else if (strcmp(line, "signal") == 0 && number > 0 && number < 128) {
			exit_note.signal = (int)number;
			exit_note.known = true;
		} else if (strcmp(line, "real_ns") == 0 && number > 0) {
			exit_note.real_ns = (uint64_t)number;
		} else if (strcmp(line, "asked_signal") == 0 && number > 0 && number < 128) {
			exit_note.asked = (int)number;
			exit_note.asked_launcher = true;
		} else if (strcmp(line, "asked_real_ns") == 0 && number > 0) {
			exit_note.asked_ns = (uint64_t)number;
		} else if (strcmp(line, "asked_by") == 0 && number > 0) {
			exit_note.asked_by = number;
		}
	}
	free(text);
	/* A shell between launcher and program reports 128 + signal. */
	if (exit_note.has_code && exit_note.code > 128 && exit_note.code < 128 + 65)
		exit_note.signal = exit_note.code - 128;
	if (!exit_note.asked_ns)
		exit_note.asked = 0;
	if (exit_note.known || exit_note.asked)
		*ret = exit_note;
	return exit_note.known || exit_note.asked;
}

static void find_exit(struct nspy_inputs *inputs, struct nspy_proc *proc)
{
	char *path = nspy_xasprintf("%s.exit", proc->base ? proc->base : "");

	if (proc->base && read_exit(proc, path, &proc->exit) && inputs->stray_exits)
		inputs->stray_exits--;
	free(path);
}

static int compare_recordings(const void *a, const void *b)
{
	const struct nspy_proc *x = *(struct nspy_proc *const *)a;
	const struct nspy_proc *y = *(struct nspy_proc *const *)b;
	int order = strcmp(x->base ? x->base : "", y->base ? y->base : "");

	if (order)
		return order;
	return x->start_ns > y->start_ns ? -1 : x->start_ns < y->start_ns;
}

/* After an exec several recordings share a process: the exit note is of the last one. */
static void find_exits(struct nspy_inputs *inputs, struct nspy_model *model)
{
	struct nspy_proc **sorted = nspy_xcalloc(model->proc_count, sizeof(struct nspy_proc *));
	const struct nspy_proc *last = NULL;

	memcpy(sorted, model->procs, model->proc_count * sizeof(struct nspy_proc *));
	qsort(sorted, model->proc_count, sizeof(struct nspy_proc *), compare_recordings);
	for (size_t i = 0; i < model->proc_count; i++) {
		if (!sorted[i]->base)
			continue;
		if (!last || strcmp(last->base, sorted[i]->base) != 0)
			last = sorted[i];
		if (sorted[i]->start_ns == last->start_ns)
			find_exit(inputs, sorted[i]);
	}
	free(sorted);
}

static uint64_t job_start(const struct nspy_model *model)
{
	uint64_t start = UINT64_MAX;

	for (size_t i = 0; i < model->proc_count; i++) {
		if (model->procs[i]->start_ns < start)
			start = model->procs[i]->start_ns;
	}
	return start;
}

static int compare_jobs(const void *a, const void *b)
{
	uint64_t x = job_start(*(struct nspy_model *const *)a);
	uint64_t y = job_start(*(struct nspy_model *const *)b);

	return x < y ? -1 : x > y;
}

void nspy_inputs_finish(struct nspy_inputs *inputs)
{
	for (size_t i = 0; i < inputs->job_count; i++) {
		struct nspy_model *model = inputs->jobs[i];

		for (size_t p = 0; p < model->proc_count; p++)
			qsort(model->procs[p]->files, model->procs[p]->file_count,
			      sizeof(struct nspy_input_file), compare_files);
		nspy_inputs_order(model);
		nspy_clocks_join(model);
		find_exits(inputs, model);
	}
	if (inputs->job_count)
		qsort(inputs->jobs, inputs->job_count, sizeof(struct nspy_model *), compare_jobs);
}
