/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bundle.h"
#include "report.h"
#include "text.h"

#define SHOWN_MAX 4 /* names in a summary */
#define WHYS_MAX  8

const struct cJSON *nspy_js(const struct cJSON *object, const char *path)
{
	char name[128];

	while (object && *path) {
		size_t bytes = strcspn(path, ">");

		if (bytes >= sizeof(name))
			return NULL;
		memcpy(name, path, bytes);
		name[bytes] = '\0';
		object = cJSON_GetObjectItemCaseSensitive(object, name);
		path += bytes + (path[bytes] == '>');
	}
	return object;
}

const char *nspy_js_text(const struct cJSON *object, const char *path)
{
	const cJSON *item = nspy_js(object, path);

	return cJSON_IsString(item) ? item->valuestring : NULL;
}

double nspy_js_number(const struct cJSON *object, const char *path, double otherwise)
{
	const cJSON *item = nspy_js(object, path);

	return cJSON_IsNumber(item) ? item->valuedouble : otherwise;
}

double nspy_js_quantity(const struct cJSON *object, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

	if (cJSON_IsNumber(item))
		return item->valuedouble;
	return cJSON_IsString(item) ? strtod(item->valuestring, NULL) : 0;
}

uint64_t nspy_js_time(const char *text)
{
	struct tm tm = {0};
	const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
	time_t when;

	if (!rest)
		return 0;
	when = timegm(&tm);
	rest += strspn(rest, ".0123456789");
	if ((*rest == '+' || *rest == '-') && strlen(rest) == 6 && rest[3] == ':') {
		long offset = strtol(rest + 1, NULL, 10) * 3600 + strtol(rest + 4, NULL, 10) * 60;

		when -= *rest == '+' ? offset : -offset;
	}
	return when > 0 ? (uint64_t)when : 0;
}

char *nspy_js_who(const struct cJSON *object)
{
	const char *ns = nspy_js_text(object, "metadata>namespace");
	const char *name = nspy_js_text(object, "metadata>name");
	char *who = ns ? nspy_xasprintf("%s/%s", ns, name ? name : "?")
		       : nspy_xstrdup(name ? name : "?");

	nspy_clean(who);
	return who;
}

const char *nspy_js_plain(const char *name)
{
	if (!name || !*name || *name == '-' || strlen(name) > 253)
		return "<name>";
	for (const char *p = name; *p; p++) {
		if (!isalnum((unsigned char)*p) && !strchr("._-:", *p))
			return "<name>";
	}
	return name;
}

bool nspy_js_owner_same(const struct cJSON *a, const struct cJSON *b)
{
	static const char *const labels[] = {"batch.kubernetes.io/job-name", "job-name",
					     "training.kubeflow.org/job-name",
					     "leaderworkerset.sigs.k8s.io/name"};
	const char *x = nspy_js_text(a, "metadata>namespace");
	const char *y = nspy_js_text(b, "metadata>namespace");

	if (!x || !y || strcmp(x, y) != 0)
		return false;
	for (size_t i = 0; i < nspy_array_size(labels); i++) {
		x = nspy_js_text(
			cJSON_GetObjectItemCaseSensitive(nspy_js(a, "metadata>labels"), labels[i]),
			"");
		y = nspy_js_text(
			cJSON_GetObjectItemCaseSensitive(nspy_js(b, "metadata>labels"), labels[i]),
			"");
		if (x && y)
			return strcmp(x, y) == 0;
	}
	x = nspy_js_text(cJSON_GetArrayItem(nspy_js(a, "metadata>ownerReferences"), 0), "uid");
	y = nspy_js_text(cJSON_GetArrayItem(nspy_js(b, "metadata>ownerReferences"), 0), "uid");
	return x && y && strcmp(x, y) == 0;
}

double nspy_pod_wants(const struct cJSON *pod, const char *resource)
{
	const cJSON *container;
	double sum = 0;

	cJSON_ArrayForEach(container, nspy_js(pod, "spec>containers"))
	{
		double limit = nspy_js_quantity(nspy_js(container, "resources>limits"), resource);

		sum += limit > 0 ? limit
				 : nspy_js_quantity(nspy_js(container, "resources>requests"),
						    resource);
	}
	return sum;
}

/* --- groups --- */

void nspy_group_add(struct nspy_group *g, const char *who, const char *format, ...)
{
	va_list args;
	char *why;

	va_start(args, format);
	if (vasprintf(&why, format, args) < 0)
		why = nspy_xstrdup("?");
	va_end(args);
	nspy_clean(why);
	nspy_texts_add(&g->who, nspy_xstrdup(who));
	nspy_texts_add(&g->why, why);
	nspy_clean(g->who.text[g->who.count - 1]);
}

static void add_names(struct nspy_str *s, const struct nspy_texts *who)
{
	for (size_t i = 0; i < who->count && i < SHOWN_MAX; i++)
		nspy_str_addf(s, "%s%.120s", i ? ", " : "", who->text[i]);
	if (who->count > SHOWN_MAX)
		nspy_str_addf(s, " and %zu more", who->count - SHOWN_MAX);
}

struct nspy_finding *nspy_group_tell(struct nspy_group *g, struct nspy_findings *findings,
				     enum nspy_finding_id id, const char *noun,
				     const char *command_format, ...)
{
	struct nspy_finding *finding = NULL;
	struct nspy_str s = {0};

	if (g->who.count) {
		finding = nspy_findings_add(findings, id);
		nspy_str_addf(&s, "%s: ", nspy_catalog[id].title);
		if (g->who.count > 1)
			nspy_str_addf(&s, "%zu %ss: ", g->who.count, noun);
		add_names(&s, &g->who);
		finding->cause = nspy_xstrdup(s.text);
		if (g->who.count == 1)
			nspy_str_addf(&s, " (%s)", g->why.text[0]);
		finding->summary = nspy_str_take(&s);
		for (size_t i = 0; g->who.count > 1 && i < g->who.count && i < WHYS_MAX; i++)
			nspy_finding_detail(finding, "%s: %s", g->who.text[i], g->why.text[i]);
		if (g->who.count > WHYS_MAX)
			nspy_finding_detail(finding, "and %zu more", g->who.count - WHYS_MAX);
	}
	if (finding && command_format) {
		va_list args;
		char *command;

		va_start(args, command_format);
		if (vasprintf(&command, command_format, args) >= 0) {
			nspy_finding_detail(finding, "to look closer, run yourself: %s", command);
			free(command);
		}
		va_end(args);
	}
	nspy_texts_free(&g->who);
	nspy_texts_free(&g->why);
	return finding;
}
