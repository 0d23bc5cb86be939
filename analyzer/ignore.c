/* SPDX-License-Identifier: Apache-2.0 */
#include "ignore.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "text.h"

#define FILE_BYTES_MAX (1u << 20)

static bool valid_date(const char *text)
{
	struct tm tm = {0};
	const char *end = strptime(text, "%Y-%m-%d", &tm);

	return strcmp(text, "never") == 0 || (end && *end == '\0' && strlen(text) == 10);
}

static bool valid_scope(const char *text)
{
	return strcmp(text, "*") == 0 || strncmp(text, "job=", 4) == 0 ||
	       strncmp(text, "node=", 5) == 0;
}

static const char *parse_line(struct nspy_ignore *ignore, char *line)
{
	char *id = strsep(&line, " \t");
	char *scope = line ? strsep(&line, " \t") : NULL;
	char *expiry = line ? strsep(&line, " \t") : NULL;
	int number = nspy_catalog_find(id);

	if (number < 0)
		return "no such finding";
	if (!scope || !valid_scope(scope))
		return "scope is '*', 'job=NAME' or 'node=NAME'";
	if (!expiry || !valid_date(expiry))
		return "expiry is YYYY-MM-DD or 'never'";
	if (!line || !*line)
		return "a reason is needed";
	ignore->rules =
		nspy_grow(ignore->rules, ignore->count, &ignore->capacity, sizeof(*ignore->rules));
	ignore->rules[ignore->count] = (struct nspy_ignore_rule){
		.id = number,
		.scope = nspy_xstrdup(scope),
		.expiry = nspy_xstrdup(expiry),
		.reason = nspy_xstrdup(line),
	};
	nspy_clean(ignore->rules[ignore->count++].reason);
	return NULL;
}

bool nspy_ignore_read(struct nspy_ignore *ignore, const char *path)
{
	char *text = nspy_read_text(path, FILE_BYTES_MAX);
	char *rest = text, *line;
	unsigned int number = 0;
	bool ok = text != NULL;

	if (!text)
		fprintf(stderr, "ncclspy-analyze: %s: cannot be read\n", path);
	while (ok && rest && (line = strsep(&rest, "\n"))) {
		const char *problem;

		number++;
		line += strspn(line, " \t");
		if (*line == '\0' || *line == '#')
			continue;
		problem = parse_line(ignore, line);
		if (problem) {
			fprintf(stderr, "ncclspy-analyze: %s:%u: %s\n", path, number, problem);
			ok = false;
		}
	}
	free(text);
	return ok;
}

static bool expired(const char *expiry)
{
	time_t now = time(NULL);
	struct tm tm;
	char today[16];

	if (strcmp(expiry, "never") == 0)
		return false;
	if (!gmtime_r(&now, &tm) || strftime(today, sizeof(today), "%Y-%m-%d", &tm) == 0)
		return true;
	return strcmp(today, expiry) > 0; /* ISO dates sort as text */
}

static bool in_scope(const char *scope, const struct nspy_report *report,
		     const struct nspy_finding *finding)
{
	if (strncmp(scope, "job=", 4) == 0)
		return strcmp(scope + 4, report->model->job) == 0;
	if (strncmp(scope, "node=", 5) != 0)
		return true;
	for (size_t i = 0; i < finding->culprit_count; i++) {
		if (strcmp(nspy_proc_host(finding->culprits[i]), scope + 5) != 0)
			return false;
	}
	return finding->culprit_count > 0;
}

void nspy_ignore_apply(const struct nspy_ignore *ignore, struct nspy_report *report)
{
	for (size_t i = 0; i < report->findings.count; i++) {
		struct nspy_finding *finding = report->findings.items[i];

		for (size_t r = 0; r < ignore->count && !finding->ignored; r++) {
			const struct nspy_ignore_rule *rule = &ignore->rules[r];

			if (rule->id == (int)finding->id && !expired(rule->expiry) &&
			    in_scope(rule->scope, report, finding))
				finding->ignored =
					nspy_xasprintf("%s (until %s)", rule->reason, rule->expiry);
		}
	}
}

void nspy_ignore_done(struct nspy_ignore *ignore)
{
	for (size_t i = 0; i < ignore->count; i++) {
		free(ignore->rules[i].scope);
		free(ignore->rules[i].expiry);
		free(ignore->rules[i].reason);
	}
	free(ignore->rules);
	*ignore = (struct nspy_ignore){0};
}
