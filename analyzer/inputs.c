/* SPDX-License-Identifier: Apache-2.0 */
#include "inputs.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bundle/bundle.h"
#include "foreign/foreign.h"
#include "ingest.h"
#include "source.h"
#include "text.h"
#include "trace_live.h"

/* Identity and schema come first in a segment and are small. */
#define PEEK_BYTES (128u << 10)
#define WALK_DEPTH 6

void nspy_inputs_problem(struct nspy_inputs *inputs, const char *path, const char *format, ...)
{
	struct nspy_problem *problem;
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	inputs->problems = nspy_grow(inputs->problems, inputs->problem_count,
				     &inputs->problem_capacity, sizeof(*inputs->problems));
	problem = &inputs->problems[inputs->problem_count++];
	problem->path = nspy_xstrdup(path);
	problem->text = text ? text : nspy_xstrdup("?");
	nspy_clean(problem->path);
	nspy_clean(problem->text);
}

const char *nspy_trace_error(int error)
{
	switch (-error) {
	case EBADMSG:
		return "damaged";
	case EPROTONOSUPPORT:
		return "written by a newer ncclspy; use that version to read it";
	case E2BIG:
		return "larger than the trace format allows";
	default:
		return strerror(-error);
	}
}

/* --- one file --- */

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

static size_t base_bytes(const char *path, enum nspy_file_kind kind)
{
	size_t n = strlen(path);
	size_t cut = kind == NSPY_FILE_SEGMENT ? 2 : kind == NSPY_FILE_LIVE ? 2 : 1;

	/* ".NNN.nspy", ".RUNID.live", ".exit" */
	while (cut-- > 0) {
		size_t at = n;

		while (at > 0 && path[at - 1] != '.' && path[at - 1] != '/')
			at--;
		if (at == 0 || path[at - 1] != '.')
			break;
		n = at - 1;
	}
	return n;
}

static struct nspy_model *job_named(struct nspy_inputs *inputs, const char *name)
{
	for (size_t i = 0; i < inputs->job_count; i++) {
		if (strcmp(inputs->jobs[i]->job, name) == 0)
			return inputs->jobs[i];
	}
	inputs->jobs = nspy_grow(inputs->jobs, inputs->job_count, &inputs->job_capacity,
				 sizeof(struct nspy_model *));
	return inputs->jobs[inputs->job_count++] = nspy_model_new(name);
}

/* The job's name by place: .../<job>/<host>/<file>. */
static char *job_by_place(const char *path)
{
	const char *end = strrchr(path, '/');
	const char *begin;

	if (!end || end == path)
		return nspy_xstrdup("?");
	for (end--; end > path && *end != '/'; end--)
		;
	for (begin = end; begin > path && begin[-1] != '/'; begin--)
		;
	return end > begin ? nspy_xstrndup(begin, (size_t)(end - begin)) : nspy_xstrdup("?");
}

static struct nspy_proc *proc_of(struct nspy_inputs *inputs, uint64_t run_id, char *place,
				 const uint8_t *ident, size_t ident_bytes)
{
	struct nspy_proc *proc = nspy_map_get(&inputs->by_run, run_id);
	struct nspy_proc facts = {.rank = NSPY_NO_RANK, .world = NSPY_NO_RANK, .pid = -1};
	const char *job;
	char *name;

	if (proc) {
		if (ident && proc->fact_count == 0)
			nspy_ingest_ident(proc, ident, ident_bytes);
		free(place);
		return proc;
	}
	if (ident)
		nspy_ingest_ident(&facts, ident, ident_bytes);
	job = nspy_proc_fact(&facts, "job");
	name = nspy_xstrdup(job && *job ? job : place);
	nspy_clean(name);
	proc = nspy_model_add_proc(job_named(inputs, name), run_id);
	proc->facts = facts.facts;
	proc->fact_count = facts.fact_count;
	proc->fact_capacity = facts.fact_capacity;
	proc->rank = facts.rank;
	proc->world = facts.world;
	proc->pid = facts.pid;
	nspy_map_put(&inputs->by_run, run_id, proc);
	free(place);
	free(name);
	return proc;
}

/*
 * Whether files from there are to be taken for the process: all of its files come from one place.
 * Traces go before summaries, which may be older, and later summaries before earlier ones.
 */
static bool claim(struct nspy_proc *proc, const struct nspy_summary_index *summary, uint32_t life)
{
	if (proc->file_count && proc->summary != summary) {
		proc->doubled = true;
		if (!proc->summary || (summary && summary->made_ns <= proc->summary->made_ns))
			return false;
		for (size_t i = 0; i < proc->file_count; i++)
			free(proc->files[i].path);
		proc->file_count = 0;
		free(proc->base);
		proc->base = NULL;
		proc->has_clock = false;
		proc->start_ns = 0;
	}
	proc->summary = summary;
	proc->life = life;
	return true;
}

static void add_file(struct nspy_proc *proc, const struct nspy_input_file *from)
{
	struct nspy_input_file *file;

	for (size_t i = 0; i < proc->file_count; i++) {
		if (strcmp(proc->files[i].path, from->path) == 0)
			return; /* named twice */
	}
	proc->files = nspy_grow(proc->files, proc->file_count, &proc->file_capacity,
				sizeof(*proc->files));
	file = &proc->files[proc->file_count++];
	*file = *from;
	file->path = nspy_xstrdup(from->path);
	if (!proc->base)
		proc->base = nspy_xstrndup(from->path, base_bytes(from->path, from->kind));
}

static void note_clock(struct nspy_proc *proc, int64_t mono_to_real_ns, uint64_t first_ns)
{
	const char *start = nspy_proc_fact(proc, "start.mono_ns");
	uint64_t start_ns;

	if (!proc->has_clock) {
		proc->clock_offset = mono_to_real_ns;
		proc->has_clock = true;
	}
	if (!start || !nspy_parse_u64(start, &start_ns))
		start_ns = first_ns;
	if (!proc->start_ns || start_ns < proc->start_ns)
		proc->start_ns = start_ns; /* of the trace's clock until finish() */
}

static char *place_of(const struct nspy_input_file *file, const char *job)
{
	return job ? nspy_xstrdup(job) : job_by_place(file->path);
}

int nspy_inputs_peek(struct nspy_inputs *inputs, struct nspy_reader *reader,
		     const struct nspy_input_file *from, const char *job)
{
	const struct nspy_summary_file *kept = from->kept;
	struct nspy_input_file file = *from;
	struct nspy_chunk_info info;
	const uint8_t *payload;
	bool ident;
	struct nspy_proc *proc;
	int rc;

	do {
		rc = nspy_reader_next(reader, &info, &payload);
	} while (rc == -EBADMSG);
	if (rc < 0)
		return rc;
	if (info.flags & NSPY_CHUNK_IN_SUMMARY)
		return 1;
	ident = info.kind == NSPY_CHUNK_IDENT;
	proc = proc_of(inputs, info.run_id, place_of(from, job), ident ? payload : NULL,
		       ident ? info.raw_bytes : 0);
	inputs->trace_files++;
	if (!claim(proc, kept ? kept->summary : NULL, kept ? kept->life : NSPY_LIFE_UNKNOWN))
		return 0;
	note_clock(proc, info.mono_to_real_ns, info.first_ns);
	file.segment = info.segment;
	add_file(proc, &file);
	return 0;
}

static int peek_prefix(struct nspy_inputs *inputs, const char *path, uint64_t bytes)
{
	const struct nspy_input_file file = {(char *)path, NSPY_FILE_SEGMENT, 0, bytes, NULL};
	uint8_t *prefix = nspy_xmalloc(PEEK_BYTES);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct nspy_reader *reader = NULL;
	ssize_t got;
	int rc;

	if (fd < 0) {
		free(prefix);
		return -errno;
	}
	got = read(fd, prefix, PEEK_BYTES);
	rc = got < 0 ? -errno : nspy_reader_open_memory(prefix, (size_t)got, &reader);
	close(fd);
	if (rc == 0) {
		rc = nspy_inputs_peek(inputs, reader, &file, NULL);
		nspy_reader_free(reader);
	}
	free(prefix);
	return rc;
}

static int peek_segment(struct nspy_inputs *inputs, const char *path, uint64_t bytes)
{
	const struct nspy_input_file file = {(char *)path, NSPY_FILE_SEGMENT, 0, bytes, NULL};
	struct nspy_reader *reader;
	int rc = peek_prefix(inputs, path, bytes);

	/* The beginning is damaged: perhaps a chunk further on is not. */
	if (rc != -ENODATA || bytes <= PEEK_BYTES)
		return rc;
	rc = nspy_reader_open(path, &reader);
	if (rc < 0)
		return rc;
	rc = nspy_inputs_peek(inputs, reader, &file, NULL);
	nspy_reader_free(reader);
	return rc;
}

int nspy_inputs_peek_live(struct nspy_inputs *inputs, const struct nspy_input_file *file,
			  const char *job)
{
	const struct nspy_summary_file *kept = file->kept;
	struct nspy_live_info info;
	struct nspy_live *live;
	struct nspy_proc *proc;
	const uint8_t *ident;
	size_t ident_bytes;
	int rc = nspy_input_live(file, &live);

	if (rc < 0)
		return rc;
	nspy_live_info(live, &info);
	ident = nspy_live_ident(live, &ident_bytes);
	proc = proc_of(inputs, info.run_id, place_of(file, job), ident, ident_bytes);
	inputs->trace_files++;
	if (claim(proc, kept ? kept->summary : NULL, kept ? kept->life : NSPY_LIFE_UNKNOWN)) {
		note_clock(proc, info.mono_to_real_ns, info.heartbeat_ns);
		add_file(proc, file);
	}
	nspy_live_free(live);
	return 0;
}

static int peek_live(struct nspy_inputs *inputs, const char *path, uint64_t bytes)
{
	const struct nspy_input_file file = {(char *)path, NSPY_FILE_LIVE, 0, bytes, NULL};

	return nspy_inputs_peek_live(inputs, &file, NULL);
}

static void add_foreign(struct nspy_inputs *inputs, const char *path)
{
	inputs->foreign = nspy_grow(inputs->foreign, inputs->foreign_count,
				    &inputs->foreign_capacity, sizeof(char *));
	inputs->foreign[inputs->foreign_count++] = nspy_xstrdup(path);
}

static void add_bundle(struct nspy_inputs *inputs, const char *path)
{
	inputs->bundles = nspy_grow(inputs->bundles, inputs->bundle_count, &inputs->bundle_capacity,
				    sizeof(char *));
	inputs->bundles[inputs->bundle_count++] = nspy_xstrdup(path);
}

/* A log, or a dump of another tool? A damaged trace is neither. */
static bool take_foreign(struct nspy_inputs *inputs, const char *path)
{
	struct nspy_stream *stream;
	const char *data;
	size_t bytes;
	bool yes;

	if (ends_with(path, ".nspy") || ends_with(path, ".live") ||
	    nspy_stream_open(path, &stream) < 0)
		return false;
	bytes = nspy_stream_peek(stream, &data);
	yes = bytes > 0 && nspy_foreign_is(data, bytes);
	nspy_stream_close(stream);
	if (yes)
		add_foreign(inputs, path);
	return yes;
}

static void add_path(struct nspy_inputs *inputs, const char *path, const struct stat *st,
		     bool asked)
{
	bool live = ends_with(path, ".live");
	int rc;

	if (ends_with(path, ".exit")) {
		inputs->stray_exits++; /* taken back when its process is found */
		return;
	}
	if (!asked && !live && !ends_with(path, ".nspy") && !ends_with(path, NSPY_SUMMARY_SUFFIX))
		return;
	if (st->st_size == 0) {
		nspy_inputs_problem(inputs, path, "empty");
		return;
	}
	rc = live ? peek_live(inputs, path, (uint64_t)st->st_size)
		  : peek_segment(inputs, path, (uint64_t)st->st_size);
	if (rc > 0 || (rc < 0 && ends_with(path, NSPY_SUMMARY_SUFFIX)))
		rc = nspy_inputs_add_summary(inputs, path);
	if (rc == -EBADMSG && asked && !live)
		rc = peek_live(inputs, path, (uint64_t)st->st_size);
	if (asked && (rc == -EBADMSG || rc == -ENODATA) && nspy_bundle_is(path)) {
		add_bundle(inputs, path);
		return;
	}
	if (asked && (rc == -EBADMSG || rc == -ENODATA) && take_foreign(inputs, path))
		return;
	if (rc == -EBADMSG)
		nspy_inputs_problem(inputs, path, "not an ncclspy trace (at offset 0)");
	else if (rc == -ENODATA)
		nspy_inputs_problem(inputs, path, "no intact chunk in it (damaged from offset 0)");
	else if (rc < 0)
		nspy_inputs_problem(inputs, path, "%s", nspy_trace_error(rc));
}

/* --- directories --- */

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static void walk(struct nspy_inputs *inputs, const char *directory)
{
	char *paths[] = {(char *)directory, NULL};
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
	size_t before = inputs->trace_files, problems = inputs->problem_count;
	FTSENT *entry;

	if (!fts) {
		nspy_inputs_problem(inputs, directory, "%s", strerror(errno));
		return;
	}
	while ((entry = fts_read(fts))) {
		if (entry->fts_info == FTS_D && entry->fts_level > WALK_DEPTH)
			fts_set(fts, entry, FTS_SKIP);
		else if (entry->fts_info == FTS_F)
			add_path(inputs, entry->fts_path, entry->fts_statp, false);
		else if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
			nspy_inputs_problem(inputs, entry->fts_path, "%s",
					    strerror(entry->fts_errno));
	}
	fts_close(fts);
	if (inputs->trace_files == before && inputs->problem_count == problems)
		nspy_inputs_problem(inputs, directory, "no ncclspy trace in this directory");
}

char *nspy_inputs_root(void)
{
	const char *root = getenv("NCCLSPY_DIR");
	const char *tmp = getenv("TMPDIR");

	if (root && *root)
		return nspy_xstrdup(root);
	return nspy_xasprintf("%s/ncclspy-%lu", tmp && *tmp ? tmp : "/tmp",
			      (unsigned long)getuid());
}

void nspy_inputs_add(struct nspy_inputs *inputs, const char *argument)
{
	char *path = nspy_xstrdup(argument);
	struct stat st;
	int rc = stat(path, &st);

	if (strcmp(argument, "-") == 0) {
		add_foreign(inputs, argument);
		free(path);
		return;
	}
	if (rc < 0 && errno == ENOENT && !strchr(argument, '/')) {
		char *root = nspy_inputs_root();
		char *below = nspy_xasprintf("%s/%s", root, argument);

		rc = stat(below, &st);
		free(root);
		if (rc == 0) {
			free(path);
			path = below;
		} else {
			free(below);
			errno = ENOENT;
		}
	}
	if (rc < 0)
		nspy_inputs_problem(inputs, path, "%s", strerror(errno));
	else if (S_ISDIR(st.st_mode) && nspy_bundle_is(path))
		add_bundle(inputs, path);
	else if (S_ISDIR(st.st_mode))
		walk(inputs, path);
	else
		add_path(inputs, path, &st, true);
	free(path);
}

char *nspy_inputs_newest_job(const char *root)
{
	char *paths[] = {(char *)root, NULL};
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
	struct timespec newest = {0};
	char *job = NULL;
	FTSENT *entry;

	while (fts && (entry = fts_read(fts))) {
		const struct timespec *when;
		size_t bytes;

		if (entry->fts_info == FTS_D && entry->fts_level > WALK_DEPTH)
			fts_set(fts, entry, FTS_SKIP);
		if (entry->fts_info != FTS_F || entry->fts_level < 2 ||
		    !(ends_with(entry->fts_name, ".nspy") || ends_with(entry->fts_name, ".live")))
			continue;
		when = &entry->fts_statp->st_mtim;
		if (when->tv_sec < newest.tv_sec ||
		    (when->tv_sec == newest.tv_sec && when->tv_nsec <= newest.tv_nsec))
			continue;
		newest = *when;
		/* The job is the first level below the root. */
		bytes = strlen(root);
		while (entry->fts_path[bytes] == '/')
			bytes++;
		bytes += strcspn(entry->fts_path + bytes, "/");
		free(job);
		job = nspy_xstrndup(entry->fts_path, bytes);
	}
	if (fts)
		fts_close(fts);
	return job;
}

void nspy_inputs_add_arguments(struct nspy_inputs *inputs, int count, char **arguments)
{
	char *root = nspy_inputs_root();
	char *newest = count ? NULL : nspy_inputs_newest_job(root);

	for (int i = 0; i < count; i++)
		nspy_inputs_add(inputs, arguments[i]);
	if (newest)
		nspy_inputs_add(inputs, newest);
	else if (!count)
		nspy_inputs_problem(inputs, root, "no ncclspy trace in this directory");
	free(newest);
	free(root);
	nspy_inputs_finish(inputs);
}

void nspy_inputs_done(struct nspy_inputs *inputs)
{
	for (size_t i = 0; i < inputs->job_count; i++)
		nspy_model_free(inputs->jobs[i]);
	free(inputs->jobs);
	for (size_t i = 0; i < inputs->problem_count; i++) {
		free(inputs->problems[i].path);
		free(inputs->problems[i].text);
	}
	free(inputs->problems);
	for (size_t i = 0; i < inputs->bundle_count; i++)
		free(inputs->bundles[i]);
	free(inputs->bundles);
	for (size_t i = 0; i < inputs->foreign_count; i++)
		free(inputs->foreign[i]);
	free(inputs->foreign);
	for (size_t i = 0; i < inputs->summary_count; i++)
		nspy_summary_free(inputs->summaries[i]);
	free(inputs->summaries);
	nspy_map_done(&inputs->by_run);
	*inputs = (struct nspy_inputs){0};
}
