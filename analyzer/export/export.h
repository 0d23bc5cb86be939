/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings in the forms that other programs read. The source is the JSON form (report.schema.json
 * below "jobs", or one job made by compare), so all forms say the same.
 */
#ifndef NSPY_EXPORT_H
#define NSPY_EXPORT_H

#include <stdbool.h>

struct cJSON;

/* Files to write, each may be NULL; "-" is standard output. */
struct nspy_exports {
	const char *sarif, *junit, *csv, *otlp_logs, *otlp_metrics;
	const char *html; /* written by whoever made the page: nspy_exports_file */
};

/* Long options, in this order from first on, for a command's table; the first is NSPY_OPT_EXPORT.
 */
#define NSPY_OPT_EXPORT 512
#define NSPY_EXPORT_OPTIONS                                                                        \
	{"sarif", required_argument, NULL, NSPY_OPT_EXPORT},                                       \
		{"junit", required_argument, NULL, NSPY_OPT_EXPORT + 1},                           \
		{"csv", required_argument, NULL, NSPY_OPT_EXPORT + 2},                             \
		{"otlp-logs", required_argument, NULL, NSPY_OPT_EXPORT + 3},                       \
		{"otlp-metrics", required_argument, NULL, NSPY_OPT_EXPORT + 4},                    \
	{                                                                                          \
		"html", required_argument, NULL, NSPY_OPT_EXPORT + 5                               \
	}
#define NSPY_EXPORT_USAGE                                                                          \
	"      --csv FILE          findings as a table, one row a culprit\n"                       \
	"      --html FILE         all of it as one page for a browser\n"                          \
	"      --junit FILE        findings as JUnit XML: one test case each, P0 and P1 failed\n"  \
	"      --otlp-logs FILE    findings as OTLP/JSON log records (OpenTelemetry)\n"            \
	"      --otlp-metrics FILE the job's figures as OTLP/JSON metrics\n"                       \
	"      --sarif FILE        findings as SARIF 2.1.0; each FILE may be - for standard "      \
	"output\n"

/* Takes an option if it is one of these. */
bool nspy_exports_take(struct nspy_exports *exports, int opt, const char *value);
bool nspy_exports_any(const struct nspy_exports *exports);
/* False, and said, if two forms would go to one place; json is standard output too. */
bool nspy_exports_apart(const struct nspy_exports *exports, bool json);
/* Whether standard output is taken, so that nothing else may go there. */
bool nspy_exports_to_stdout(const struct nspy_exports *exports);
/* Writes all that were asked for; a failure is said on stderr. False if one could not be written.
 */
bool nspy_exports_write(const struct nspy_exports *exports, const struct cJSON *jobs);

/* Writes one file, "-" for standard output, and frees text. */
bool nspy_exports_file(const char *path, char *text);

/* The documents; the caller frees. */
char *nspy_export_sarif(const struct cJSON *jobs);
char *nspy_export_junit(const struct cJSON *jobs);
char *nspy_export_csv(const struct cJSON *jobs);
char *nspy_export_otlp_logs(const struct cJSON *jobs);
char *nspy_export_otlp_metrics(const struct cJSON *jobs);

/* A text member of an object, "" if it has none. */
const char *nspy_export_text(const struct cJSON *object, const char *name);
/* Most urgent is 0. */
int nspy_export_priority(const struct cJSON *finding);

#endif
