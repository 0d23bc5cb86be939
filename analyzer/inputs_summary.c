/* SPDX-License-Identifier: Apache-2.0 */
/* Summaries among the inputs, and the order of what comes from them. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "inputs.h"
#include "source.h"
#include "text.h"

#define PROBLEM_BYTES 4096u

/* As if it lay beside the summary: DIRECTORY/NODE/FILE. */
static char *path_of(const struct nspy_summary_file *file)
{
	const char *summary = file->summary->path, *slash = strrchr(summary, '/');

	return slash ? nspy_xasprintf("%.*s/%s", (int)(slash - summary), summary, file->name)
		     : nspy_xasprintf("./%s", file->name);
}

static int add_segment(struct nspy_inputs *inputs, const struct nspy_input_file *file)
{
	struct nspy_reader *reader;
	int rc = nspy_summary_lead(file->kept, &reader);

	if (rc < 0)
		return rc;
	rc = nspy_inputs_peek(inputs, reader, file, file->kept->job);
	nspy_reader_free(reader);
	if (rc == -ENODATA || rc > 0) { /* its first chunk is lost, perhaps not the others */
		rc = nspy_summary_reader(file->kept, &reader);
		if (rc < 0)
			return rc;
		rc = nspy_inputs_peek(inputs, reader, file, file->kept->job);
		nspy_reader_free(reader);
	}
	return rc > 0 ? -EBADMSG : rc;
}

static void add_file(struct nspy_inputs *inputs, const struct nspy_summary_file *kept)
{
	struct nspy_input_file file = {.kind = kept->kind == NSPY_SUMMARY_LIVE ? NSPY_FILE_LIVE
									       : NSPY_FILE_SEGMENT,
				       .segment = kept->segment,
				       .bytes = kept->bytes,
				       .kept = kept};
	char *text;
	int rc = 0;

	file.path = path_of(kept);
	switch (kept->kind) {
	case NSPY_SUMMARY_SEGMENT:
		rc = add_segment(inputs, &file);
		break;
	case NSPY_SUMMARY_LIVE:
		rc = nspy_inputs_peek_live(inputs, &file, kept->job);
		break;
	case NSPY_SUMMARY_EXIT:
		inputs->stray_exits++;
		break;
	case NSPY_SUMMARY_PROBLEM:
		text = nspy_summary_text(kept, PROBLEM_BYTES);
		nspy_inputs_problem(inputs, file.path, "%s", text ? text : "?");
		free(text);
		break;
	default:
		break;
	}
	if (rc < 0)
		nspy_inputs_problem(inputs, kept->summary->path, "%s: %s (at offset %" PRIu64 ")",
				    kept->name, nspy_trace_error(rc == -ENODATA ? -EBADMSG : rc),
				    kept->begin);
	free(file.path);
}

int nspy_inputs_add_summary(struct nspy_inputs *inputs, const char *path)
{
	struct nspy_summary_index *summary;
	int rc;

	for (size_t i = 0; i < inputs->summary_count; i++) {
		if (strcmp(inputs->summaries[i]->path, path) == 0)
			return 0; /* named twice */
	}
	rc = nspy_summary_open(path, &summary);
	if (rc < 0)
		return rc;
	inputs->summaries =
		nspy_grow(inputs->summaries, inputs->summary_count, &inputs->summary_capacity,
			  sizeof(struct nspy_summary_index *));
	inputs->summaries[inputs->summary_count++] = summary;
	if (summary->damaged_at != UINT64_MAX)
		nspy_inputs_problem(inputs, path, "damaged at offset %" PRIu64,
				    summary->damaged_at);
	else if (!summary->whole)
		nspy_inputs_problem(inputs, path, "cut off: its end is missing");
	for (size_t i = 0; i < summary->count; i++)
		add_file(inputs, &summary->files[i]);
	return 0;
}

void nspy_inputs_say_doubled(const struct nspy_inputs *inputs, FILE *out)
{
	const struct nspy_proc *first = NULL;
	size_t count = 0;

	for (size_t j = 0; j < inputs->job_count; j++) {
		const struct nspy_model *model = inputs->jobs[j];

		for (size_t i = 0; i < model->proc_count; i++) {
			if (!model->procs[i]->doubled)
				continue;
			first = first ? first : model->procs[i];
			count++;
		}
	}
	if (count)
		fprintf(out,
			"ncclspy-analyze: %s: %zu process%s in more than one input, taken once%s\n",
			first->summary ? first->summary->path
			: first->base  ? first->base
				       : "?",
			count, count == 1 ? " is" : "es are",
			first->summary ? "" : ", from the trace");
}

/* --- order --- */

struct place {
	struct nspy_proc *proc;
	size_t was;
};

/* By node, then by file, as directories are walked; recordings of one process as they were. */
static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	const char *p = x->proc->base ? nspy_path_end(x->proc->base) : "";
	const char *q = y->proc->base ? nspy_path_end(y->proc->base) : "";

	for (; *p && *p == *q; p++, q++)
		;
	if (*p != *q) /* the end of a folder's name comes before all that goes on */
		return (*p == '/' ? 0 : (unsigned char)*p) < (*q == '/' ? 0 : (unsigned char)*q)
			       ? -1
			       : 1;
	return x->was < y->was ? -1 : x->was > y->was;
}

void nspy_inputs_order(struct nspy_model *model)
{
	struct place *places = nspy_xcalloc(model->proc_count, sizeof(*places));

	for (size_t i = 0; i < model->proc_count; i++)
		places[i] = (struct place){model->procs[i], i};
	if (model->proc_count)
		qsort(places, model->proc_count, sizeof(*places), compare_places);
	for (size_t i = 0; i < model->proc_count; i++) {
		model->procs[i] = places[i].proc;
		model->procs[i]->index = (uint32_t)i;
	}
	free(places);
}
