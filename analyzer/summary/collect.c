/* SPDX-License-Identifier: Apache-2.0 */
#include "collect.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"
#include "source.h"
#include "trace_file.h"
#include "trace_salvage.h"

#define EXIT_NOTE_BYTES 4096u

struct collect {
	struct nspy_summary_writer *writer;
	struct nspy_collected *done;
	struct nspy_map names; /* hash of texts that are in it already */
};

static uint64_t hash_of(const char *text)
{
	uint64_t h = 14695981039346656037ULL;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 1099511628211ULL;
	return h | 1;
}

/* --- which --- */

static const char *node_of(const struct nspy_proc *proc, size_t *ret_bytes)
{
	const char *end = proc->base ? nspy_path_end(proc->base) : "";

	*ret_bytes = strcspn(end, "/");
	return end;
}

/* How many nodes come before that of the process, by name. */
static uint64_t node_number(const struct nspy_inputs *inputs, const struct nspy_proc *proc)
{
	struct nspy_map seen = {0};
	size_t bytes, other_bytes;
	const char *node = node_of(proc, &bytes);
	uint64_t number = 0;

	for (size_t j = 0; j < inputs->job_count; j++) {
		for (size_t i = 0; i < inputs->jobs[j]->proc_count; i++) {
			const char *other = node_of(inputs->jobs[j]->procs[i], &other_bytes);
			char *name = nspy_xstrndup(other, other_bytes);
			char *mine = nspy_xstrndup(node, bytes);
			uint64_t id = hash_of(name);

			if (strcmp(name, mine) < 0 && !nspy_map_get(&seen, id)) {
				nspy_map_put(&seen, id, inputs->jobs[j]);
				number++;
			}
			free(name);
			free(mine);
		}
	}
	nspy_map_done(&seen);
	return number;
}

bool nspy_selected(const struct nspy_inputs *inputs, const struct nspy_selection *selection,
		   const struct nspy_proc *proc)
{
	size_t bytes;
	const char *node = node_of(proc, &bytes);

	if (selection->host && strcmp(nspy_proc_host(proc), selection->host) != 0 &&
	    (strlen(selection->host) != bytes || strncmp(selection->host, node, bytes) != 0))
		return false;
	return !selection->shards ||
	       node_number(inputs, proc) % selection->shards == selection->shard;
}

/* --- files --- */

static void unreadable(struct collect *c, const char *path, int rc)
{
	fprintf(stderr, "ncclspy-analyze: %s: %s\n", path, nspy_trace_error(rc));
	c->done->unreadable++;
}

/* The folder that the node's is in. */
static char *job_folder(const struct nspy_input_file *file)
{
	const char *end = nspy_path_end(file->path);
	const char *begin;

	if (file->kept)
		return nspy_xstrdup(file->kept->job);
	if (end == file->path || end == file->path + 1)
		return nspy_xstrdup("?");
	end--;
	for (begin = end; begin > file->path && begin[-1] != '/'; begin--)
		;
	return end > begin ? nspy_xstrndup(begin, (size_t)(end - begin)) : nspy_xstrdup("?");
}

static struct nspy_summary_file describe(const struct nspy_proc *proc, char *path, char *job,
					 unsigned int kind)
{
	struct nspy_summary_file file = {
		.kind = kind, .run_id = proc->run_id, .name = path, .job = job};

	if (proc->summary)
		file.life = proc->life;
	else if (nspy_proc_alive(proc))
		file.life = NSPY_LIFE_ALIVE;
	else if (nspy_proc_is_local(proc))
		file.life = NSPY_LIFE_GONE;
	return file;
}

static int read_original(const struct nspy_input_file *file, uint8_t **ret_data,
			 uint64_t *ret_bytes)
{
	size_t bytes;
	int rc;

	if (file->kept) {
		*ret_bytes = file->kept->bytes;
		return nspy_summary_bytes(file->kept, ret_data);
	}
	rc = nspy_file_read(file->path, ret_data, &bytes);
	if (rc == 0)
		*ret_bytes = bytes;
	return rc;
}

static int add_as_bytes(struct collect *c, struct nspy_summary_file to,
			const struct nspy_input_file *file)
{
	uint8_t *data;
	int rc = read_original(file, &data, &to.bytes);

	if (rc < 0) {
		unreadable(c, file->path, rc);
		return 0;
	}
	rc = nspy_summary_add_bytes(c->writer, to, data);
	free(data);
	return rc;
}

static int add_segment(struct collect *c, struct nspy_summary_file to,
		       const struct nspy_input_file *file)
{
	struct nspy_reader *reader;
	int rc = nspy_input_reader(file, &reader);

	to.segment = file->segment;
	to.bytes = file->bytes;
	if (rc == -EBADMSG)
		return add_as_bytes(c, to, file);
	if (rc < 0) {
		unreadable(c, file->path, rc);
		return 0;
	}
	rc = nspy_summary_add_chunks(c->writer, to, reader);
	nspy_reader_free(reader);
	if (rc > 0 && file->kept && file->kept->recoded) {
		unreadable(c, file->kept->summary->path, -EBADMSG);
		return 0;
	}
	return rc > 0 ? add_as_bytes(c, to, file) : rc;
}

/* As the loader would see them: a copy among the files, else those that the process has now. */
static int add_live(struct collect *c, struct nspy_summary_file to, const struct nspy_live *live)
{
	size_t bytes;
	const uint8_t *image = nspy_live_image(live, &bytes);

	to.bytes = bytes;
	return nspy_summary_add_bytes(c->writer, to, image);
}

static int add_text(struct collect *c, struct nspy_summary_file to, const char *path, char *text,
		    size_t bytes)
{
	uint64_t id = hash_of(path);

	if (!text || nspy_map_get(&c->names, id))
		return 0;
	nspy_map_put(&c->names, id, c);
	to.bytes = bytes;
	return nspy_summary_add_bytes(c->writer, to, (const uint8_t *)text);
}

/* The exit note and the stacks. */
static int add_texts(struct collect *c, const struct nspy_proc *proc, char *job)
{
	char *path = nspy_xasprintf("%s.exit", proc->base);
	char *text = nspy_input_text(proc, path, EXIT_NOTE_BYTES);
	int rc = add_text(c, describe(proc, (char *)nspy_path_end(path), job, NSPY_SUMMARY_EXIT),
			  path, text, text ? strlen(text) : 0);

	free(text);
	free(path);
	if (rc < 0)
		return rc;
	path = nspy_xasprintf(
		"%.*s%016" PRIx64 NSPY_STACKS_SUFFIX,
		(int)(strrchr(proc->base, '/') ? strrchr(proc->base, '/') + 1 - proc->base : 0),
		proc->base, proc->run_id);
	text = nspy_input_text(proc, path, NSPY_STACKS_BYTES_MAX);
	rc = add_text(c, describe(proc, (char *)nspy_path_end(path), job, NSPY_SUMMARY_STACKS),
		      path, text, text ? strlen(text) : 0);
	free(text);
	free(path);
	return rc;
}

/* Pages before segments, as when loading: records move from the one to the other. */
static int add_proc(struct collect *c, const struct nspy_proc *proc)
{
	char *job = job_folder(&proc->files[0]), *name;
	struct nspy_live *live = NULL;
	const char *path;
	int rc = nspy_load_live(proc, &live, &path), written = 0;

	if (rc < 0 && rc != -ENOENT)
		live = NULL;
	for (size_t i = 0; i < proc->file_count && written == 0; i++) {
		const struct nspy_input_file *file = &proc->files[i];

		c->done->files++;
		c->done->bytes += file->bytes;
		if (file->kind == NSPY_FILE_SEGMENT)
			written = add_segment(c,
					      describe(proc, (char *)nspy_path_end(file->path), job,
						       NSPY_SUMMARY_SEGMENT),
					      file);
		else if (!live) /* damaged: to be told by the report */
			written = add_as_bytes(c,
					       describe(proc, (char *)nspy_path_end(file->path),
							job, NSPY_SUMMARY_LIVE),
					       file);
	}
	if (live && written == 0) {
		name = nspy_xasprintf("%s.%016" PRIx64 NSPY_LIVE_SUFFIX, nspy_path_end(proc->base),
				      proc->run_id);
		written = add_live(c, describe(proc, name, job, NSPY_SUMMARY_LIVE), live);
		free(name);
	}
	nspy_live_free(live);
	if (written == 0)
		written = add_texts(c, proc, job);
	free(job);
	c->done->procs++;
	return written;
}

/* Files of no use are in the report, too; with a selection it cannot be told whose they are. */
static int add_problems(struct collect *c, struct nspy_inputs *inputs)
{
	int rc = 0;

	for (size_t i = 0; i < inputs->problem_count && rc == 0; i++) {
		const struct nspy_problem *problem = &inputs->problems[i];
		struct nspy_summary_file to = {.kind = NSPY_SUMMARY_PROBLEM,
					       .name = (char *)nspy_path_end(problem->path),
					       .job = (char *)"?",
					       .bytes = strlen(problem->text)};

		rc = nspy_summary_add_bytes(c->writer, to, (const uint8_t *)problem->text);
	}
	return rc;
}

int nspy_collect(struct nspy_inputs *inputs, const struct nspy_model *job,
		 const struct nspy_selection *selection, struct nspy_summary_writer *writer,
		 struct nspy_collected *ret)
{
	struct collect c = {.writer = writer, .done = ret};
	int rc = 0;

	for (size_t j = 0; j < inputs->job_count && rc == 0; j++) {
		const struct nspy_model *model = inputs->jobs[j];

		for (size_t i = 0; i < model->proc_count && rc == 0; i++) {
			const struct nspy_proc *proc = model->procs[i];

			if ((!job || model == job) && proc->file_count &&
			    nspy_selected(inputs, selection, proc))
				rc = add_proc(&c, proc);
		}
	}
	if (rc == 0 && !selection->shards)
		rc = add_problems(&c, inputs);
	nspy_map_done(&c.names);
	return rc;
}
