/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../bundle/bundle.h"
#include "../foreign/stream.h"
#include "../text.h"
#include "../who.h"
#include "support.h"

/* Of a document of an API, unpacked. */
#define DOC_MAX    (64u << 20)
#define RANKS_MAX  16u
#define VALUES_MAX 8u
#define LOGS_MAX   4096u

static void add_path(struct nspy_support *s, const char *name, const char *path)
{
	struct nspy_stream *stream;
	int rc = nspy_stream_open(path, &stream);

	if (rc < 0) {
		nspy_support_note(s, "missing", name, "%s", strerror(-rc));
		return;
	}
	nspy_support_add_stream(s, name, stream);
	nspy_stream_close(stream);
}

/* --- what our own commands say --- */

/* Adds what a command said, if it said anything. */
static void add_said(struct nspy_support *s, const char *name, FILE *said)
{
	struct stat st;

	if (fstat(fileno(said), &st) == 0 && st.st_size > 0)
		nspy_support_add_raw(s, name, said, "text");
	else
		(void)fclose(said);
}

static void add_report(struct nspy_support *s, const struct nspy_inputs *inputs)
{
	const char *const text[] = {"report", "--no-color", "--fail-on", "none", NULL};
	const char *const json[] = {"report", "--json", "--fail-on", "none", NULL};
	const char *const check[] = {"check", NULL};
	FILE *out = nspy_support_temporary(), *err = nspy_support_temporary();

	(void)nspy_support_run(s, text, out, err);
	nspy_support_add_raw(s, "report.txt", out, "text");
	add_said(s, "problems.txt", err);
	out = nspy_support_temporary();
	err = nspy_support_temporary();
	(void)nspy_support_run(s, json, out, err);
	nspy_support_add_raw(s, "report.json", out, "json");
	if (inputs->job_count) {
		out = nspy_support_temporary();
		(void)nspy_support_run(s, check, out, err);
		nspy_support_add_raw(s, "check.txt", out, "text");
	}
	(void)fclose(err);
}

/* --- facts of all processes, each value once --- */

struct value {
	const char *key, *value;
	int64_t rank;
};

/* They differ from process to process and say nothing; a command line may hold anything. */
static bool is_personal(const char *key)
{
	static const char *const keys[] = {"pid",        "starttime", "start.mono_ns", "rank",
					   "local_rank", "boot_id",   "cmdline",       "pidns"};

	for (size_t i = 0; i < nspy_array_size(keys); i++) {
		if (strcmp(key, keys[i]) == 0)
			return true;
	}
	return false;
}

static int by_value(const void *a, const void *b)
{
	const struct value *x = a, *y = b;
	int rc = strcmp(x->key, y->key);

	rc = rc ? rc : strcmp(x->value, y->value);
	return rc ? rc : (x->rank > y->rank) - (x->rank < y->rank);
}

static void add_value(FILE *out, const struct value *from, size_t count, size_t procs)
{
	int64_t *ranks = nspy_xcalloc(count, sizeof(*ranks));
	struct nspy_str s = {0};

	for (size_t i = 0; i < count; i++)
		ranks[i] = from[i].rank;
	/* "NAME=value" is what the redactor knows variables by. */
	if (strncmp(from->key, "env.", 4) == 0)
		nspy_str_addf(&s, "%s=%s", from->key + 4, from->value);
	else if (strstr(from->key, "build_id"))
		nspy_str_addf(&s, "%s = %.16s", from->key,
			      from->value); /* in full it looks like a key */
	else
		nspy_str_addf(&s, "%s = %s", from->key, from->value);
	if (count < procs) {
		nspy_str_add(&s, "   [ranks ");
		nspy_add_ranges(&s, ranks, nspy_sort_unique(ranks, count));
		nspy_str_add(&s, "]");
	}
	fprintf(out, "%s\n", s.text);
	nspy_str_done(&s);
	free(ranks);
}

/* All values of one key. */
static void add_key(FILE *out, const struct value *from, size_t count, size_t procs)
{
	size_t distinct = 1, begin = 0;

	for (size_t i = 1; i < count; i++)
		distinct += strcmp(from[i].value, from[i - 1].value) != 0;
	if (distinct > VALUES_MAX) {
		fprintf(out, "%s: %zu different values\n", from->key, distinct);
		return;
	}
	for (size_t i = 1; i <= count; i++) {
		if (i < count && strcmp(from[i].value, from[begin].value) == 0)
			continue;
		add_value(out, from + begin, i - begin, procs);
		begin = i;
	}
}

static size_t take_facts(const struct nspy_inputs *inputs, struct value **ret_values,
			 size_t *ret_procs)
{
	size_t count = 0, capacity = 0;

	*ret_values = NULL;
	*ret_procs = 0;
	for (size_t j = 0; j < inputs->job_count; j++) {
		*ret_procs += inputs->jobs[j]->proc_count;
		for (size_t i = 0; i < inputs->jobs[j]->proc_count; i++) {
			const struct nspy_proc *proc = inputs->jobs[j]->procs[i];

			for (size_t f = 0; f < proc->fact_count; f++) {
				if (is_personal(proc->facts[f].key))
					continue;
				*ret_values = nspy_grow(*ret_values, count, &capacity,
							sizeof(**ret_values));
				(*ret_values)[count++] = (struct value){
					proc->facts[f].key, proc->facts[f].value, proc->rank};
			}
		}
	}
	return count;
}

static void add_facts(struct nspy_support *s, const struct nspy_inputs *inputs)
{
	FILE *out = nspy_support_temporary();
	size_t procs, begin = 0;
	struct value *values;
	size_t count = take_facts(inputs, &values, &procs);

	if (count)
		qsort(values, count, sizeof(*values), by_value);
	for (size_t i = 1; i <= count; i++) {
		if (i < count && strcmp(values[i].key, values[begin].key) == 0)
			continue;
		add_key(out, values + begin, i - begin, procs);
		begin = i;
	}
	free(values);
	nspy_support_add_raw(s, "facts.txt", out, "text");
}

/* --- the last records of the ranks that findings name --- */

static void want_rank(struct nspy_support *s, double rank)
{
	if (!(rank >= 0) || rank > 1e9 || s->rank_count >= RANKS_MAX)
		return;
	for (size_t i = 0; i < s->rank_count; i++) {
		if (s->ranks[i] == (int64_t)rank)
			return;
	}
	s->ranks = nspy_grow(s->ranks, s->rank_count, &s->rank_capacity, sizeof(*s->ranks));
	s->ranks[s->rank_count++] = (int64_t)rank;
}

/* Culprits, and one rank that is none, to compare with. */
static void want_ranks(struct nspy_support *s, const struct nspy_inputs *inputs)
{
	const struct nspy_support_entry *entry = nspy_support_find(s, "report.json");
	cJSON *report = entry ? cJSON_ParseWithLength(entry->data, entry->bytes) : NULL;
	const cJSON *job, *finding, *culprit, *rank;
	size_t named;

	cJSON_ArrayForEach(job, cJSON_GetObjectItem(report, "jobs"))
	{
		cJSON_ArrayForEach(finding, cJSON_GetObjectItem(job, "findings"))
		{
			cJSON_ArrayForEach(culprit, cJSON_GetObjectItem(finding, "culprits"))
			{
				rank = cJSON_GetObjectItem(culprit, "rank");
				if (cJSON_IsNumber(rank) && s->rank_count + 1 < RANKS_MAX)
					want_rank(s, rank->valuedouble);
			}
		}
	}
	cJSON_Delete(report);
	named = s->rank_count;
	for (size_t i = 0; named == s->rank_count && i < inputs->jobs[0]->proc_count; i++)
		want_rank(s, (double)inputs->jobs[0]->procs[i]->rank);
}

/* The last lines of a dump, without the facts, which have a file of their own. */
static FILE *last_lines(FILE *dump, uint64_t lines)
{
	FILE *out = nspy_support_temporary();
	uint64_t count = 0, at = 0;
	char *line = NULL;
	size_t capacity = 0;

	for (int pass = 0; pass < 2; pass++) {
		rewind(dump);
		while (getline(&line, &capacity, dump) > 0) {
			if (strstr(line, "  fact  "))
				continue;
			if (!pass)
				count++;
			else if (at++ + lines >= count)
				fputs(line, out);
		}
	}
	free(line);
	return out;
}

static void add_records(struct nspy_support *s, const struct nspy_inputs *inputs)
{
	want_ranks(s, inputs);
	for (size_t i = 0; i < s->rank_count; i++) {
		char *rank = nspy_xasprintf("%" PRId64, s->ranks[i]);
		char *name = nspy_xasprintf("records/rank-%s.txt", rank);
		const char *const command[] = {"dump", "--rank", rank, NULL};
		FILE *out = nspy_support_temporary(), *err = nspy_support_temporary();

		if (nspy_support_run(s, command, out, err) == 0)
			nspy_support_add_raw(s, name, last_lines(out, s->lines), "text");
		else
			nspy_support_note(s, "missing", name, "the traces cannot be shown");
		(void)fclose(out);
		(void)fclose(err);
		free(name);
		free(rank);
	}
}

/* What was said while the jobs ran: beside the folders of the nodes. */
static void add_events(struct nspy_support *s, const struct nspy_inputs *inputs)
{
	for (size_t i = 0; i < inputs->job_count; i++) {
		const struct nspy_model *job = inputs->jobs[i];
		const char *base = job->proc_count ? job->procs[0]->base : NULL;
		const char *slash = base ? strrchr(base, '/') : NULL;
		char *path, *name;

		if (!slash)
			continue;
		path = nspy_xasprintf("%.*s/../events.jsonl", (int)(slash - base), base);
		name = nspy_xasprintf("events/job-%zu.jsonl", i + 1);
		if (access(path, F_OK) == 0) /* nothing was reported, or the watcher was off */
			add_path(s, name, path);
		free(path);
		free(name);
	}
}

/* --- what others gathered --- */

/* A name in the archive: plain characters, numbered, the end of the path. */
static char *plain_name(struct nspy_support *s, const char *folder, const char *path)
{
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	size_t bytes = strlen(base);
	char *name = nspy_xasprintf("%s/%03zu-%s", folder, ++s->log_count,
				    bytes > 60 ? base + bytes - 60 : base);

	for (char *p = name + strlen(folder) + 1; *p; p++) {
		if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
			*p = '_';
	}
	return name;
}

struct gathering {
	struct nspy_support *support;
	char *folder;
};

static void add_log(struct gathering *g, struct nspy_bundle_file *file)
{
	char *folder = nspy_xasprintf("%s/logs", g->folder);
	char *name = plain_name(g->support, folder, file->name);

	if (g->support->log_count > LOGS_MAX) {
		nspy_support_note(g->support, "left out", name, "too many logs");
	} else if (file->path) {
		add_path(g->support, name, file->path);
	} else {
		struct nspy_stream *stream = nspy_stream_memory(file->data, file->bytes);

		nspy_support_add_stream(g->support, name, stream);
		nspy_stream_close(stream);
	}
	free(name);
	free(folder);
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

/* Names in a bundle are ours, and somebody may have put others in. */
static bool is_ours(const char *name)
{
	if (strlen(name) > 85 || *name == '.')
		return false;
	for (const char *p = name; *p; p++) {
		if (!isalnum((unsigned char)*p) && !strchr("._-/", *p))
			return false;
	}
	return ends_with(name, ".json") || ends_with(name, ".txt");
}

static void add_file(void *arg, struct nspy_bundle_file *file)
{
	struct gathering *g = arg;
	char *name, *text;
	size_t bytes;
	FILE *raw;

	if (strncmp(file->name, "logs/", 5) == 0) {
		add_log(g, file);
		return;
	}
	name = nspy_xasprintf("%s/%s", g->folder, file->name);
	text = is_ours(file->name) ? nspy_bundle_file_text(file, DOC_MAX, &bytes) : NULL;
	if (text) {
		raw = nspy_support_temporary();
		(void)fwrite(text, 1, bytes, raw);
		nspy_support_add_raw(g->support, name, raw,
				     ends_with(name, ".json") ? "json" : "text");
	} else {
		nspy_clean(name);
		nspy_support_note(g->support, "left out", name,
				  "not of a bundle, unreadable, or larger than %u MiB",
				  DOC_MAX >> 20);
	}
	free(text);
	free(name);
}

static void add_bundles(struct nspy_support *s, const struct nspy_inputs *inputs)
{
	for (size_t i = 0; i < inputs->bundle_count; i++) {
		struct nspy_texts problems = {0};
		struct gathering g = {s, i ? nspy_xasprintf("bundle-%zu", i + 1)
					   : nspy_xstrdup("bundle")};

		nspy_bundle_each(inputs->bundles[i], &problems, add_file, &g);
		for (size_t p = 0; p < problems.count; p++)
			nspy_support_note(s, "left out", g.folder, "%s", problems.text[p]);
		for (size_t p = 0; p < problems.count; p++)
			free(problems.text[p]);
		free(problems.text);
		free(g.folder);
	}
}

static void add_logs(struct nspy_support *s, const struct nspy_inputs *inputs)
{
	for (size_t i = 0; i < inputs->foreign_count; i++) {
		char *name = plain_name(s, "logs", inputs->foreign[i]);

		add_path(s, name, inputs->foreign[i]);
		free(name);
	}
}

void nspy_support_gather(struct nspy_support *s, struct nspy_inputs *inputs)
{
	add_report(s, inputs);
	if (inputs->job_count)
		add_facts(s, inputs);
	if (inputs->job_count && s->lines)
		add_records(s, inputs);
	add_events(s, inputs);
	add_bundles(s, inputs);
	add_logs(s, inputs);
}
