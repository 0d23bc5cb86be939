/* SPDX-License-Identifier: Apache-2.0 */
/* Baseline files. They come from repositories and other people: nothing in them is trusted. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profile.h"
#include "text.h"

#define SCHEMA     "ncclspy.baseline/1"
#define LIST_MAX   100000
#define NUMBER_MAX 1e18
#define HEAD_BYTES 256u

/* --- writing --- */

static void add_number(cJSON *object, const char *name, double value)
{
	if (isnan(value))
		cJSON_AddNullToObject(object, name);
	else
		cJSON_AddNumberToObject(object, name, value);
}

static cJSON *metric_json(const struct nspy_metric *metric)
{
	cJSON *object = cJSON_CreateObject();

	cJSON_AddStringToObject(object, "metric", nspy_metric_kind_name(metric->kind));
	cJSON_AddStringToObject(object, "key", metric->key);
	add_number(object, "center_ns", metric->ns.center);
	add_number(object, "error_ns", metric->ns.error);
	add_number(object, "p50_ns", metric->ns.p50);
	add_number(object, "p95_ns", metric->ns.p95);
	add_number(object, "p99_ns", metric->ns.p99);
	add_number(object, "samples", (double)metric->ns.count);
	add_number(object, "per_step", metric->per_step);
	if (metric->bus_bytes > 0)
		add_number(object, "bus_bytes", metric->bus_bytes);
	return object;
}

static cJSON *run_json(const struct nspy_run *run)
{
	cJSON *object = cJSON_CreateObject(), *list;

	cJSON_AddStringToObject(object, "job", run->job);
	add_number(object, "start_s", floor((double)run->start_ns / 1e9));
	add_number(object, "ranks", (double)run->ranks);
	add_number(object, "nodes", (double)run->nodes);
	add_number(object, "steps", (double)run->steps);
	add_number(object, "step_length", (double)run->step_length);
	add_number(object, "lost_ns", run->lost_ns);
	list = cJSON_AddArrayToObject(object, "metrics");
	for (size_t i = 0; i < run->metric_count; i++)
		cJSON_AddItemToArray(list, metric_json(&run->metrics[i]));
	list = cJSON_AddArrayToObject(object, "mix");
	for (size_t i = 0; i < run->mix_count; i++) {
		cJSON *mix = cJSON_CreateObject();

		cJSON_AddStringToObject(mix, "key", run->mix[i].key);
		add_number(mix, "per_step", run->mix[i].per_step);
		add_number(mix, "bytes", run->mix[i].bytes);
		cJSON_AddItemToArray(list, mix);
	}
	list = cJSON_AddObjectToObject(object, "facts");
	for (size_t i = 0; i < run->fact_count; i++)
		cJSON_AddStringToObject(list, run->facts[i].key, run->facts[i].value);
	list = cJSON_AddArrayToObject(object, "hosts");
	for (size_t i = 0; i < run->host_count; i++) {
		cJSON *host = cJSON_CreateObject();

		cJSON_AddStringToObject(host, "name", run->hosts[i].name);
		add_number(host, "charged_ns", run->hosts[i].charged_ns);
		cJSON_AddItemToArray(list, host);
	}
	return object;
}

cJSON *nspy_runs_json(const struct nspy_runs *runs)
{
	cJSON *list = cJSON_CreateArray();

	for (size_t i = 0; i < runs->count; i++)
		cJSON_AddItemToArray(list, run_json(&runs->items[i]));
	return list;
}

/* Only a file is replaced: not a device, not a pipe; and what a link points to, not the link. */
static int write_whole(const char *path, const char *text)
{
	char *target = realpath(path, NULL), *beside;
	size_t bytes = strlen(text), done = 0;
	struct stat st;
	int fd, rc = 0;

	if (target && stat(target, &st) == 0 && !S_ISREG(st.st_mode)) {
		free(target);
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	}
	if (!target)
		target = nspy_xstrdup(path);
	beside = nspy_xasprintf("%s.XXXXXX", target);
	fd = mkostemp(beside, O_CLOEXEC);
	if (fd < 0) {
		rc = -errno;
		free(beside);
		free(target);
		return rc;
	}
	while (done < bytes) {
		ssize_t n = write(fd, text + done, bytes - done);

		if (n < 0 && errno != EINTR) {
			rc = -errno;
			break;
		}
		done += n > 0 ? (size_t)n : 0;
	}
	if (fchmod(fd, 0644) < 0 && !rc)
		rc = -errno;
	if (close(fd) < 0 && !rc)
		rc = -errno;
	if (!rc && rename(beside, target) < 0)
		rc = -errno;
	if (rc)
		(void)unlink(beside);
	free(beside);
	free(target);
	return rc;
}

int nspy_runs_save(const struct nspy_runs *runs, const char *path)
{
	cJSON *document = cJSON_CreateObject();
	char *text;
	int rc;

	cJSON_AddStringToObject(document, "schema", SCHEMA);
	cJSON_AddStringToObject(document, "version", NSPY_VERSION);
	cJSON_AddItemToObject(document, "runs", nspy_runs_json(runs));
	text = cJSON_Print(document);
	cJSON_Delete(document);
	if (!text)
		return -ENOMEM;
	rc = write_whole(path, text);
	cJSON_free(text);
	return rc;
}

/* --- reading --- */

struct parser {
	const char *missing; /* first member that was not as it must be */
};

static double number(struct parser *parser, const cJSON *object, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
	double value = cJSON_IsNumber(item) ? item->valuedouble : NAN;

	if (!(fabs(value) <= NUMBER_MAX)) { /* not a number, or not one to calculate with */
		parser->missing = parser->missing ? parser->missing : name;
		return 0;
	}
	return value;
}

/* Of a time or a rate: neither is negative. */
static double positive(struct parser *parser, const cJSON *object, const char *name)
{
	double value = number(parser, object, name);

	if (value < 0)
		parser->missing = parser->missing ? parser->missing : name;
	return value;
}

static double number_or_null(struct parser *parser, const cJSON *object, const char *name)
{
	if (cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(object, name)))
		return NAN;
	return positive(parser, object, name);
}

static uint64_t whole(struct parser *parser, const cJSON *object, const char *name)
{
	double value = number(parser, object, name);

	if (value < 0 || value != floor(value))
		parser->missing = parser->missing ? parser->missing : name;
	return value > 0 ? (uint64_t)value : 0;
}

static const char *text_of(struct parser *parser, const cJSON *object, const char *name)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));

	if (!text)
		parser->missing = parser->missing ? parser->missing : name;
	return text ? text : "";
}

static const cJSON *list_of(struct parser *parser, const cJSON *object, const char *name)
{
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, name);

	if ((!cJSON_IsArray(list) && !cJSON_IsObject(list)) || cJSON_GetArraySize(list) > LIST_MAX)
		parser->missing = parser->missing ? parser->missing : name;
	return list;
}

static void parse_metric(struct parser *parser, const cJSON *item, struct nspy_run *run)
{
	const char *kind = text_of(parser, item, "metric");
	struct nspy_metric *metric;

	for (int k = 0; k < NSPY_METRIC_KINDS; k++) {
		if (strcmp(kind, nspy_metric_kind_name((enum nspy_metric_kind)k)) != 0)
			continue;
		metric = nspy_run_add_metric(run, (enum nspy_metric_kind)k,
					     text_of(parser, item, "key"));
		metric->ns.center = positive(parser, item, "center_ns");
		metric->ns.error = number_or_null(parser, item, "error_ns");
		metric->ns.p50 = positive(parser, item, "p50_ns");
		metric->ns.p95 = positive(parser, item, "p95_ns");
		metric->ns.p99 = positive(parser, item, "p99_ns");
		metric->ns.count = whole(parser, item, "samples");
		metric->per_step = positive(parser, item, "per_step");
		if (cJSON_GetObjectItemCaseSensitive(item, "bus_bytes"))
			metric->bus_bytes = positive(parser, item, "bus_bytes");
		return;
	}
	/* A kind of a newer version: what is known is compared. */
}

static void parse_run(struct parser *parser, const cJSON *item, struct nspy_run *run)
{
	const cJSON *one;

	run->job = nspy_xstrdup(text_of(parser, item, "job"));
	nspy_clean(run->job);
	run->start_ns = whole(parser, item, "start_s") * NSPY_NS_PER_S;
	run->ranks = (int64_t)whole(parser, item, "ranks");
	run->nodes = (int64_t)whole(parser, item, "nodes");
	run->steps = whole(parser, item, "steps");
	run->step_length = whole(parser, item, "step_length");
	run->lost_ns = number(parser, item, "lost_ns");
	cJSON_ArrayForEach(one, list_of(parser, item, "metrics")) parse_metric(parser, one, run);
	cJSON_ArrayForEach(one, list_of(parser, item, "mix"))
	{
		struct nspy_mix *mix = nspy_run_add_mix(run, text_of(parser, one, "key"));

		mix->per_step = number(parser, one, "per_step");
		mix->bytes = number(parser, one, "bytes");
	}
	cJSON_ArrayForEach(one, list_of(parser, item, "facts"))
	{
		if (one->string && cJSON_IsString(one))
			nspy_run_add_fact(run, one->string, one->valuestring);
	}
	cJSON_ArrayForEach(one, list_of(parser, item, "hosts"))
	{
		struct nspy_run_host *host = nspy_run_add_host(run, text_of(parser, one, "name"));

		host->charged_ns = number(parser, one, "charged_ns");
	}
}

/* NULL if it is one of ours, else what is wrong with it. */
static const char *check_document(const cJSON *document)
{
	const char *schema =
		cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(document, "schema"));
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(document, "runs");
	int count = cJSON_GetArraySize(list);

	if (!document)
		return "not JSON, or cut off";
	if (!schema || strcmp(schema, SCHEMA) != 0)
		return "not a baseline of a version known here";
	if (!cJSON_IsArray(list) || count < 1 || count > (int)NSPY_RUNS_MAX)
		return "holds no runs, or too many";
	return NULL;
}

int nspy_runs_parse(const char *text, size_t bytes, struct nspy_runs *runs, char *error,
		    size_t error_bytes)
{
	cJSON *document = cJSON_ParseWithLength(text, bytes);
	const char *wrong = check_document(document);
	struct parser parser = {0};
	const cJSON *item;
	size_t before = runs->count;

	if (wrong) {
		(void)snprintf(error, error_bytes, "%s", wrong);
		cJSON_Delete(document);
		return -EINVAL;
	}
	cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(document, "runs"))
		parse_run(&parser, item, nspy_runs_add(runs));
	cJSON_Delete(document);
	if (!parser.missing)
		return 0;
	(void)snprintf(error, error_bytes, "'%s' is missing or out of range", parser.missing);
	while (runs->count > before)
		nspy_run_done(&runs->items[--runs->count]);
	return -EINVAL;
}

bool nspy_runs_is_baseline(const char *path)
{
	char head[HEAD_BYTES + 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, head, HEAD_BYTES);
	close(fd);
	if (n <= 0)
		return false;
	head[n] = '\0';
	return strstr(head, "\"ncclspy.baseline/") != NULL;
}
