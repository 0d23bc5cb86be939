/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle/bundle.h"
#include "cmd.h"
#include "compare/baseline.h"
#include "compare/read_runs.h"
#include "export/export.h"
#include "foreign/foreign.h"
#include "html/page.h"
#include "ignore.h"
#include "inputs.h"
#include "load.h"
#include "logs/log_report.h"
#include "report.h"
#include "term.h"
#include "verify.h"

struct options {
	struct nspy_report_options report;
	int fail_on; /* priority; -1 = never */
	bool json;
	bool silent; /* standard output is taken by another form */
	struct nspy_exports exports;
	struct nspy_page *page; /* NULL: none is asked for */
	const char *ignore_path;
	const char *verify_path;
	const char *baseline; /* a path, or "auto" */
};

enum {
	OPT_JSON = 256,
	OPT_FAIL_ON,
	OPT_HANG_AFTER,
	OPT_ATTEMPT,
	OPT_IGNORE,
	OPT_VERIFY,
	OPT_BASELINE,
	OPT_NO_COLOR,
};

static const struct option long_options[] = {
	{"json", no_argument, NULL, OPT_JSON},
	{"fail-on", required_argument, NULL, OPT_FAIL_ON},
	{"hang-after", required_argument, NULL, OPT_HANG_AFTER},
	{"attempt", required_argument, NULL, OPT_ATTEMPT},
	{"baseline", required_argument, NULL, OPT_BASELINE},
	{"ignore", required_argument, NULL, OPT_IGNORE},
	{"verify", required_argument, NULL, OPT_VERIFY},
	{"no-color", no_argument, NULL, OPT_NO_COLOR},
	NSPY_EXPORT_OPTIONS,
	{"help", no_argument, NULL, 'h'},
	{0},
};

static void usage(FILE *out)
{
	fputs("Usage: ncclspy-analyze [report] [OPTION]... [DIR|FILE|JOB]...\n"
	      "\n"
	      "Says what happened in a job: verdict first, then findings with culprit, evidence "
	      "and\n"
	      "where to read on. Without an argument the job written to last below $NCCLSPY_DIR.\n"
	      "A job that still runs can be read too, and what ncclspy-collect gathered.\n"
	      "\n"
	      "Options:\n"
	      "      --attempt N         analyse the N-th start of the job (default: the newest)\n"
	      "      --baseline PATH     say how its steps compare with earlier runs; 'auto' looks "
	      "for\n"
	      "                          them beside the job\n"
	      "      --fail-on LEVEL     exit 1 if there is a finding of P0 (default), P1, P2 or "
	      "more\n"
	      "                          urgent; 'none' never does\n"
	      "      --hang-after SEC    what counts as waiting in vain (default: 5 for a job that "
	      "has\n"
	      "                          ended, $NCCLSPY_HANG_S or 180 while it runs)\n"
	      "      --ignore FILE       findings known and accepted: lines 'ID SCOPE EXPIRY "
	      "REASON'\n"
	      "      --json              machine-readable output\n"
	      "      --no-color          no colour, also on a terminal\n"
	      "      --verify OLD.json   compare with an earlier --json report: gone, remains, "
	      "new\n" NSPY_EXPORT_USAGE "  -h, --help              show this help and exit\n"
	      "\n"
	      "Exit status: 0 fine, 1 finding at or above --fail-on, 2 usage, 3 nothing readable,\n"
	      "4 internal error.\n",
	      out);
}

static bool parse_seconds(const char *text, uint64_t *ret_ns)
{
	char *end;
	double seconds = strtod(text, &end);

	if (*end || end == text || !(seconds >= 0) || seconds > 1e6)
		return false;
	*ret_ns = (uint64_t)(seconds * 1e9);
	return true;
}

static bool set_option(struct options *options, int opt, const char *value)
{
	uint64_t number;

	switch (opt) {
	case OPT_JSON:
		options->json = true;
		return true;
	case OPT_FAIL_ON:
		return nspy_cmd_level(value, &options->fail_on);
	case OPT_HANG_AFTER:
		if (!parse_seconds(value, &options->report.thresholds.hang_ended_ns))
			return false;
		options->report.thresholds.hang_running_ns =
			options->report.thresholds.hang_ended_ns;
		return true;
	case OPT_ATTEMPT:
		if (!nspy_parse_u64(value, &number) || number == 0 || number > UINT32_MAX)
			return false;
		options->report.attempt = (uint32_t)number;
		return true;
	case OPT_IGNORE:
		options->ignore_path = value;
		return true;
	case OPT_VERIFY:
		options->verify_path = value;
		return true;
	case OPT_BASELINE:
		options->baseline = value;
		return true;
	default:
		if (!nspy_exports_take(&options->exports, opt, value))
			options->report.colour = false;
		return true;
	}
}

static void set_defaults(struct options *options)
{
	const char *hang = getenv("NCCLSPY_HANG_S");

	options->report.colour = nspy_term_colour(stdout);
	options->report.thresholds.hang_ended_ns = NSPY_HANG_ENDED_NS;
	if (!hang || !parse_seconds(hang, &options->report.thresholds.hang_running_ns))
		options->report.thresholds.hang_running_ns = NSPY_HANG_RUNNING_NS;
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct options *options)
{
	int opt;

	set_defaults(options);
	while ((opt = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		if (opt == 'h') {
			usage(stdout);
			return NSPY_EXIT_OK;
		}
		if (opt == '?')
			return nspy_cmd_try_help(&nspy_cmd_report);
		if (!set_option(options, opt, optarg)) {
			fprintf(stderr, "ncclspy-analyze: bad value '%s'\n", optarg);
			return nspy_cmd_try_help(&nspy_cmd_report);
		}
	}
	options->silent = options->json || nspy_exports_to_stdout(&options->exports);
	if (!nspy_exports_apart(&options->exports, options->json))
		return nspy_cmd_try_help(&nspy_cmd_report);
	return -1;
}

static void say_jobs(const struct nspy_inputs *inputs, FILE *out)
{
	fprintf(out, "%zu jobs in this input, one report each:", inputs->job_count);
	for (size_t i = 0; i < inputs->job_count; i++)
		fprintf(out, "%s %s", i ? "," : "", inputs->jobs[i]->job);
	fprintf(out, "\n\n");
}

/* How the job's steps compare with earlier ones: a line of text and a member of the JSON form. */
static void add_baseline(const struct nspy_model *model, const struct options *options, cJSON *job)
{
	struct nspy_runs base = {0}, now = {0};
	struct nspy_str said = {0};
	struct nspy_run run;
	char *line = NULL;

	if (!nspy_profile_make(model, &run)) {
		line = nspy_xstrdup("vs baseline: no operation to compare");
	} else {
		*nspy_runs_add(&now) = run;
		if (strcmp(options->baseline, "auto") == 0)
			nspy_baseline_find(&run, &base, &said);
		else
			nspy_runs_read(options->baseline, &base);
		line = base.count
			       ? nspy_baseline_line(&base, &now)
			       : nspy_xasprintf("vs baseline: no run to compare with%s%s",
						said.text ? ": " : "", said.text ? said.text : "");
	}
	cJSON_AddStringToObject(job, "baseline", line);
	if (!options->silent)
		puts(line);
	nspy_str_done(&said);
	free(line);
	nspy_runs_done(&base);
	nspy_runs_done(&now);
}

/* One job: loads, judges and shows it. Returns the most urgent priority. */
static int report_job(struct nspy_model *model, const struct options *options,
		      const struct nspy_ignore *ignore, struct nspy_findings *logs, cJSON *jobs)
{
	const struct nspy_load_options load = {.progress = nspy_term_progress()};
	struct nspy_report report;
	cJSON *job;
	int worst;

	nspy_load(model, &load);
	nspy_report_make(&report, model, &options->report);
	if (logs)
		nspy_log_merge(&report, logs);
	nspy_ignore_apply(ignore, &report);
	worst = nspy_report_worst(&report);
	job = nspy_report_json(&report);
	cJSON_AddItemToArray(jobs, job);
	if (options->page)
		nspy_page_add_job(options->page, job, &report);
	if (!options->silent)
		nspy_report_print(&report, stdout, options->report.colour);
	if (options->baseline)
		add_baseline(model, options, job);
	nspy_report_done(&report);
	return worst;
}

static int print_json(const struct nspy_inputs *inputs, cJSON *jobs)
{
	cJSON *document = cJSON_CreateObject();
	char *text;

	cJSON_AddStringToObject(document, "schema", "ncclspy.report/1");
	cJSON_AddStringToObject(document, "version", NSPY_VERSION);
	cJSON_AddItemReferenceToObject(document, "jobs", jobs);
	cJSON_AddItemToObject(document, "problems", nspy_report_problems_json(inputs));
	text = cJSON_Print(document);
	cJSON_Delete(document);
	if (!text)
		return NSPY_EXIT_INTERNAL;
	puts(text);
	cJSON_free(text);
	return NSPY_EXIT_OK;
}

/* Logs that belong to no job, or to one of several: a report of their own. */
static int report_logs(const struct nspy_log *log, const struct nspy_findings *findings,
		       const struct options *options, cJSON *jobs)
{
	cJSON *json = nspy_log_json(log, findings);

	cJSON_AddItemToArray(jobs, json);
	if (options->page)
		nspy_page_add_job(options->page, json, NULL);
	if (!options->silent)
		nspy_log_print(log, findings, stdout, options->report.colour);
	return nspy_log_worst(findings);
}

/* Reads what is no trace; NULL if there is nothing. */
static struct nspy_log *read_logs(struct nspy_inputs *inputs, struct nspy_findings *findings)
{
	struct nspy_log *log;
	char error[256];

	if (!inputs->foreign_count)
		return NULL;
	log = nspy_log_new();
	for (size_t i = 0; i < inputs->foreign_count; i++) {
		if (nspy_foreign_add(log, inputs->foreign[i], error, sizeof(error)) < 0)
			nspy_inputs_problem(inputs, inputs->foreign[i], "%s", error);
	}
	nspy_log_settle(log);
	nspy_log_judge(log, findings);
	return log;
}

static void add_log(struct nspy_inputs *inputs, struct nspy_log *log,
		    const struct nspy_bundle_log *one)
{
	struct nspy_stream *stream;
	char error[256];
	int rc;

	if (one->path) {
		rc = nspy_foreign_add(log, one->path, error, sizeof(error));
	} else {
		stream = nspy_stream_memory(one->data, one->bytes);
		rc = nspy_foreign_add_stream(log, one->name, stream, error, sizeof(error));
		nspy_stream_close(stream);
	}
	if (rc < 0)
		nspy_inputs_problem(inputs, one->path ? one->path : one->name, "%s", error);
}

/* A bundle with the logs in it. */
static int report_bundle(struct nspy_inputs *inputs, const char *path,
			 const struct options *options, cJSON *jobs)
{
	struct nspy_bundle *bundle = nspy_bundle_new(path);
	struct nspy_findings findings = {0}, said = {0};
	struct nspy_log *log = nspy_log_new();
	cJSON *json;
	int worst;

	nspy_bundle_read(bundle);
	for (size_t i = 0; i < bundle->log_count; i++)
		add_log(inputs, log, &bundle->logs[i]);
	nspy_bundle_judge(bundle, &findings);
	json = nspy_bundle_json(bundle, &findings);
	cJSON_AddItemToArray(jobs, json);
	if (options->page)
		nspy_page_add_job(options->page, json, NULL);
	if (!options->silent)
		nspy_bundle_print(bundle, &findings, stdout, options->report.colour);
	worst = nspy_log_worst(&findings);
	if (bundle->log_count) {
		int one;

		nspy_log_judge(log, &said);
		if (!options->silent)
			puts("");
		one = report_logs(log, &said, options, jobs);
		worst = one < worst ? one : worst;
	}
	nspy_findings_done(&findings);
	nspy_findings_done(&said);
	nspy_log_free(log);
	nspy_bundle_free(bundle);
	return worst;
}

static bool write_page(const struct options *options, const struct nspy_inputs *inputs)
{
	char *title, *text;

	if (!options->page)
		return true;
	title = nspy_xasprintf("ncclspy: %s",
			       inputs->job_count == 1 ? inputs->jobs[0]->job : "report");
	text = nspy_page_take(options->page, title);
	free(title);
	return nspy_exports_file(options->exports.html, text);
}

static int report_all(struct nspy_inputs *inputs, const struct options *options,
		      const struct nspy_ignore *ignore)
{
	cJSON *jobs = cJSON_CreateArray();
	struct nspy_findings found = {0};
	struct nspy_log *log = read_logs(inputs, &found);
	bool merge = log && inputs->job_count == 1;
	int worst = 9, rc = NSPY_EXIT_OK;

	if (inputs->job_count > 1 && !options->silent)
		say_jobs(inputs, stdout);
	for (size_t i = 0; i < inputs->job_count; i++) {
		int one = report_job(inputs->jobs[i], options, ignore, merge ? &found : NULL, jobs);

		worst = one < worst ? one : worst;
		if (!options->silent && i + 1 < inputs->job_count)
			puts("");
	}
	if (log && !merge) {
		int one = report_logs(log, &found, options, jobs);

		worst = one < worst ? one : worst;
	}
	for (size_t i = 0; i < inputs->bundle_count; i++) {
		int one;

		if (!options->silent && (i || log || inputs->job_count))
			puts("");
		one = report_bundle(inputs, inputs->bundles[i], options, jobs);
		worst = one < worst ? one : worst;
	}
	if (options->json)
		rc = print_json(inputs, jobs);
	fflush(stdout);
	nspy_report_problems(inputs, stderr);
	if (!nspy_exports_write(&options->exports, jobs) || !write_page(options, inputs))
		rc = NSPY_EXIT_NOTHING;
	if (rc == NSPY_EXIT_OK && options->verify_path)
		rc = nspy_verify(options->verify_path, jobs, options->silent ? stderr : stdout);
	cJSON_Delete(jobs);
	nspy_findings_done(&found);
	nspy_log_free(log);
	if (rc == NSPY_EXIT_OK && options->fail_on >= 0 && worst <= options->fail_on)
		rc = NSPY_EXIT_FINDING;
	return rc;
}

static int run(int argc, char **argv)
{
	struct options options = {.fail_on = 0};
	struct nspy_inputs inputs = {0};
	struct nspy_ignore ignore = {0};
	struct nspy_page page = {0};
	int rc = parse(argc, argv, &options);

	if (rc >= 0)
		return rc;
	if (options.ignore_path && !nspy_ignore_read(&ignore, options.ignore_path))
		return NSPY_EXIT_USAGE;
	if (options.exports.html) {
		nspy_page_init(&page);
		options.page = &page;
	}
	nspy_inputs_add_arguments(&inputs, argc - optind, argv + optind);
	if (inputs.job_count || inputs.foreign_count || inputs.bundle_count) {
		rc = report_all(&inputs, &options, &ignore);
	} else {
		nspy_report_problems(&inputs, stderr);
		rc = NSPY_EXIT_NOTHING;
	}
	nspy_page_done(&page);
	nspy_inputs_done(&inputs);
	nspy_ignore_done(&ignore);
	return rc;
}

const struct nspy_cmd nspy_cmd_report = {
	.name = "report",
	.help = "what happened, culprits first (default)",
	.run = run,
};
