/* SPDX-License-Identifier: Apache-2.0 */
#include "foreign.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "flight.h"
#include "pickle.h"
#include "text.h"

#define WHOLE_MAX  (256u << 20) /* of a document that must be read at once */
#define DEPTH_MAX  100
#define VALUES_MAX (4u << 20) /* each takes 64 bytes and more once parsed */

enum form { FORM_TEXT, FORM_PICKLE, FORM_DOCUMENT, FORM_INSPECTOR, FORM_BINARY };

void nspy_foreign_file(struct nspy_log *log, const char *path)
{
	struct nspy_log_file *file;

	log->files =
		nspy_grow(log->files, log->file_count, &log->file_capacity, sizeof(*log->files));
	file = &log->files[log->file_count++];
	*file = (struct nspy_log_file){.path = nspy_xstrdup(path)};
	nspy_clean(file->path);
}

void nspy_foreign_say(struct nspy_log *log, enum nspy_log_rule_id rule,
		      enum nspy_finding_id finding, enum nspy_log_class klass, int priority,
		      int64_t rank, char *meaning)
{
	struct nspy_line line = {.text = meaning, .bytes = strlen(meaning)};
	struct nspy_log_look look = {.log = log, .line = &line};
	struct nspy_log_who who = {.pid = -1, .rank = rank, .pg_rank = -1};
	struct nspy_log_event *event;

	nspy_clean(meaning);
	look.source = nspy_log_source(log, &who);
	look.who = who;
	event = nspy_log_event(&look, rule, (int64_t)nspy_log_hash(meaning, line.bytes), NULL, 0);
	event->finding = finding;
	event->klass = klass;
	event->priority = priority;
	event->rank = rank;
	if (!event->meaning)
		event->meaning = meaning;
	else
		free(meaning);
}

static bool holds(const char *data, size_t bytes, const char *text)
{
	return memmem(data, bytes, text, strlen(text)) != NULL;
}

static enum form form_of(const char *data, size_t bytes)
{
	size_t at = 0, odd = 0, looked = bytes < 4096 ? bytes : 4096;

	if (bytes >= 2 && (unsigned char)data[0] == 0x80 && data[1] >= 2 && data[1] <= 5)
		return FORM_PICKLE;
	while (at < bytes && isspace((unsigned char)data[at]))
		at++;
	if (at < bytes && data[at] == '{') {
		if (holds(data, bytes, "\"coll_perf\"") ||
		    holds(data, bytes, "\"inspector_output_format_version\""))
			return FORM_INSPECTOR;
		if ((holds(data, bytes, "\"entries\"") &&
		     (holds(data, bytes, "\"profiling_name\"") ||
		      holds(data, bytes, "\"pg_config\""))) ||
		    holds(data, bytes, "\"communicators\"") ||
		    holds(data, bytes, "\"out_of_place\""))
			return FORM_DOCUMENT;
	}
	for (size_t i = 0; i < looked; i++)
		odd += data[i] == '\0';
	return odd > looked / 64 ? FORM_BINARY : FORM_TEXT;
}

bool nspy_foreign_is(const char *data, size_t bytes)
{
	return form_of(data, bytes) != FORM_BINARY;
}

/*
 * cJSON follows nesting with its own stack and makes an object of each value: what nests deeper,
 * or has more values, than any real dump is refused first. NULL if it is fine.
 */
static const char *too_much(const char *text, size_t *ret_offset)
{
	unsigned depth = 0, values = 0;
	bool quoted = false;

	for (const char *p = text; *p; p++) {
		if (quoted) {
			p += *p == '\\' && p[1];
			quoted = *p != '"';
		} else if (*p == '"') {
			quoted = true;
		} else if (*p == '[' || *p == '{') {
			if (++depth > DEPTH_MAX) {
				*ret_offset = (size_t)(p - text);
				return "JSON nested too deeply";
			}
			values++;
		} else if ((*p == ']' || *p == '}') && depth) {
			depth--;
		} else if (*p == ',' && ++values > VALUES_MAX) {
			*ret_offset = (size_t)(p - text);
			return "JSON of more values than any dump has";
		}
	}
	return NULL;
}

static cJSON *parse(const char *text, size_t bytes, char *error, size_t error_bytes)
{
	const char *end = NULL, *reason;
	size_t offset;
	cJSON *tree;

	reason = too_much(text, &offset);
	if (reason) {
		(void)snprintf(error, error_bytes, "%s at offset %zu", reason, offset);
		return NULL;
	}
	tree = cJSON_ParseWithLengthOpts(text, bytes + 1, &end, false);
	if (!tree)
		(void)snprintf(error, error_bytes, "not valid JSON at offset %zu",
			       end ? (size_t)(end - text) : 0);
	return tree;
}

static int take_tree(struct nspy_log *log, const char *path, const cJSON *tree, char *error,
		     size_t error_bytes)
{
	if (nspy_flight_is(tree)) {
		if (!log->flights)
			log->flights = nspy_flights_new();
		nspy_flights_add(log->flights, path, tree);
		return 0;
	}
	if (nspy_foreign_ras(log, path, tree) || nspy_foreign_tests(log, path, tree))
		return 0;
	(void)snprintf(error, error_bytes, "well formed, but no dump or report that is known here");
	return -EPROTONOSUPPORT;
}

static int whole(struct nspy_log *log, const char *path, struct nspy_stream *stream, bool pickle,
		 char *error, size_t error_bytes)
{
	size_t bytes = 0;
	char *data = nspy_stream_all(stream, WHOLE_MAX, &bytes);
	cJSON *tree;
	int rc = -EBADMSG;

	if (!data) {
		(void)snprintf(error, error_bytes, "%s", nspy_stream_error(stream));
		return -EIO;
	}
	tree = pickle ? nspy_pickle_read(data, bytes, error, error_bytes)
		      : parse(data, bytes, error, error_bytes);
	if (tree)
		rc = take_tree(log, path, tree, error, error_bytes);
	cJSON_Delete(tree);
	free(data);
	return rc;
}

int nspy_foreign_add_stream(struct nspy_log *log, const char *path, struct nspy_stream *stream,
			    char *ret_error, size_t error_bytes)
{
	const char *data;
	size_t bytes = nspy_stream_peek(stream, &data);

	switch (form_of(data, bytes)) {
	case FORM_PICKLE:
		nspy_foreign_file(log, path);
		return whole(log, path, stream, true, ret_error, error_bytes);
	case FORM_DOCUMENT:
		nspy_foreign_file(log, path);
		return whole(log, path, stream, false, ret_error, error_bytes);
	case FORM_INSPECTOR:
		nspy_foreign_file(log, path);
		nspy_foreign_inspector(log, path, stream);
		break;
	case FORM_BINARY:
		(void)snprintf(ret_error, error_bytes,
			       "neither text nor a dump that is known here");
		return -EPROTONOSUPPORT;
	case FORM_TEXT:
		nspy_log_read(log, path, stream);
		break;
	}
	if (nspy_stream_error(stream)) {
		(void)snprintf(ret_error, error_bytes, "%s; what came before was read",
			       nspy_stream_error(stream));
		return -EIO;
	}
	return 0;
}

static int add_file(struct nspy_log *log, const char *path, char *error, size_t error_bytes)
{
	struct nspy_stream *stream;
	int rc = nspy_stream_open(path, &stream);

	if (rc < 0) {
		(void)snprintf(error, error_bytes, "%s", strerror(-rc));
		return rc;
	}
	rc = nspy_foreign_add_stream(log, path, stream, error, error_bytes);
	nspy_stream_close(stream);
	return rc;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int add_directory(struct nspy_log *log, const char *path, char *error, size_t error_bytes)
{
	char *paths[] = {(char *)path, NULL};
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
	size_t before = log->file_count;
	FTSENT *entry;
	int rc = 0;

	while (fts && (entry = fts_read(fts))) {
		const char *name = entry->fts_name, *dot = strrchr(name, '.');
		char text[256] = "";
		int one;

		if (entry->fts_info != FTS_F || entry->fts_statp->st_size == 0 || name[0] == '.' ||
		    (dot && (strcmp(dot, ".nspy") == 0 || strcmp(dot, ".live") == 0 ||
			     strcmp(dot, ".exit") == 0)))
			continue;
		one = add_file(log, entry->fts_path, text, sizeof(text));
		/* A binary among logs is nobody's mistake. */
		if (one < 0 && one != -EPROTONOSUPPORT && rc == 0) {
			(void)snprintf(error, error_bytes, "%s: %s", name, text);
			rc = one;
		}
	}
	if (fts)
		fts_close(fts);
	if (rc == 0 && log->file_count == before) {
		(void)snprintf(error, error_bytes, "no log in this directory");
		rc = -ENOENT;
	}
	return rc;
}

int nspy_foreign_add(struct nspy_log *log, const char *path, char *ret_error, size_t error_bytes)
{
	struct stat st;

	if (strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return add_directory(log, path, ret_error, error_bytes);
	return add_file(log, path, ret_error, error_bytes);
}
