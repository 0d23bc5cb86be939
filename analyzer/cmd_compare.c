/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "compare/compare.h"
#include "export/export.h"
#include "inputs.h"
#include "load.h"
#include "report.h"
#include "term.h"

struct options {
	struct nspy_compare_options compare;
	int fail_on;
	bool json, colour;
	struct nspy_exports exports;
	const char *save;
	const char **bases; /* of --base */
	size_t base_count, base_capacity;
};

enum { OPT_BASE = 256, OPT_SAVE, OPT_MIN_EFFECT, OPT_FAIL_ON, OPT_JSON, OPT_NO_COLOR };

static const struct option long_options[] = {
	{"base", required_argument, NULL, OPT_BASE},
	{"save-baseline", required_argument, NULL, OPT_SAVE},
	{"min-effect", required_argument, NULL, OPT_MIN_EFFECT},
	{"fail-on", required_argument, NULL, OPT_FAIL_ON},
	{"json", no_argument, NULL, OPT_JSON},
	{"no-color", no_argument, NULL, OPT_NO_COLOR},
	NSPY_EXPORT_OPTIONS,
	{"help", no_argument, NULL, 'h'},
	{0},
};

static void usage(FILE *out)
{
	fputs("Usage: ncclspy-analyze compare [OPTION]... BASE NEW\n"
	      "       ncclspy-analyze compare [OPTION]... --base BASE [--base BASE]... NEW...\n"
	      "       ncclspy-analyze compare --save-baseline FILE RUN...\n"
	      "\n"
	      "Is the new run slower, where, and is it real? Each argument is a directory of one "
	      "or\n"
	      "more jobs, a job, or a baseline file. Several runs a side are worth far more than "
	      "one:\n"
	      "with one, nothing is known about how much runs differ anyway, and no finding is "
	      "above P2.\n"
	      "\n"
	      "Options:\n"
	      "      --base PATH          a run, or several, to compare with; may be repeated\n"
	      "      --fail-on LEVEL      exit 1 for a regression of P1 (default), P2 or more "
	      "urgent;\n"
	      "                           'none' never does\n"
	      "      --json               machine-readable output\n"
	      "      --min-effect PERCENT smaller changes are no regression (default 2)\n"
	      "      --no-color           no colour, also on a terminal\n"
	      "      --save-baseline FILE write the runs, a few KiB each, to FILE for later "
	      "comparison\n" NSPY_EXPORT_USAGE
	      "  -h, --help               show this help and exit\n"
	      "\n"
	      "Exit status: 0 no regression, 1 regression at or above --fail-on, 2 usage, "
	      "3 nothing\n"
	      "readable or not comparable, 4 internal error.\n",
	      out);
}

static bool parse_percent(const char *text, double *ret_share)
{
	char *end;
	double percent = strtod(text, &end);

	if (*end || end == text || !(percent >= 0 && percent <= 1000))
		return false;
	*ret_share = percent / 100;
	return true;
}

static bool set_option(struct options *options, int opt, const char *value)
{
	switch (opt) {
	case OPT_BASE:
		options->bases = nspy_grow(options->bases, options->base_count,
					   &options->base_capacity, sizeof(const char *));
		options->bases[options->base_count++] = value;
		return true;
	case OPT_SAVE:
		options->save = value;
		return true;
	case OPT_MIN_EFFECT:
		return parse_percent(value, &options->compare.min_effect);
	case OPT_FAIL_ON:
		return nspy_cmd_level(value, &options->fail_on);
	case OPT_JSON:
		options->json = true;
		return true;
	default:
		if (!nspy_exports_take(&options->exports, opt, value))
			options->colour = false;
		return true;
	}
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct options *options)
{
	int opt, count;

	while ((opt = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		if (opt == 'h') {
			usage(stdout);
			return NSPY_EXIT_OK;
		}
		if (opt == '?')
			return nspy_cmd_try_help(&nspy_cmd_compare);
		if (!set_option(options, opt, optarg)) {
			fprintf(stderr, "ncclspy-analyze: bad value '%s'\n", optarg);
			return nspy_cmd_try_help(&nspy_cmd_compare);
		}
	}
	if (options->json && nspy_exports_to_stdout(&options->exports)) {
		fputs("ncclspy-analyze: two forms for standard output\n", stderr);
		return nspy_cmd_try_help(&nspy_cmd_compare);
	}
	count = argc - optind;
	if (count >= 1 && (options->save || options->base_count))
		return -1;
	if (count == 2)
		return -1;
	fprintf(stderr, "ncclspy-analyze: compare needs a base and a new run%s\n",
		count > 2 ? "; name the former ones with --base" : "");
	return nspy_cmd_try_help(&nspy_cmd_compare);
}

static void read_baseline(const char *path, struct nspy_runs *runs)
{
	char *text = nspy_read_text(path, NSPY_BASELINE_BYTES_MAX), error[160];

	if (!text)
		fprintf(stderr, "ncclspy-analyze: %s: cannot be read\n", path);
	else if (nspy_runs_parse(text, strlen(text), runs, error, sizeof(error)) < 0)
		fprintf(stderr, "ncclspy-analyze: %s: %s\n", path, error);
	free(text);
}

/* Adds all runs at a path; what cannot be used is said. */
static void read_runs(const char *path, struct nspy_runs *runs)
{
	const struct nspy_load_options load = {.progress = nspy_term_progress()};
	struct nspy_inputs inputs = {0};

	if (nspy_runs_is_baseline(path)) {
		read_baseline(path, runs);
		return;
	}
	nspy_inputs_add(&inputs, path);
	nspy_inputs_finish(&inputs);
	for (size_t i = 0; i < inputs.job_count; i++) {
		struct nspy_run run;

		nspy_load(inputs.jobs[i], &load);
		if (nspy_profile_make(inputs.jobs[i], &run))
			*nspy_runs_add(runs) = run;
		else
			nspy_inputs_problem(&inputs, path, "job %s: no operation to compare",
					    inputs.jobs[i]->job);
	}
	for (size_t i = 0; i < inputs.foreign_count; i++)
		nspy_inputs_problem(&inputs, inputs.foreign[i], "neither a trace nor a baseline");
	for (size_t i = 0; i < inputs.bundle_count; i++)
		nspy_inputs_problem(&inputs, inputs.bundles[i], "a bundle, not a run");
	nspy_report_problems(&inputs, stderr);
	nspy_inputs_done(&inputs);
}

static int save(const char *path, const struct nspy_runs *runs)
{
	int rc = nspy_runs_save(runs, path);

	if (rc < 0) {
		fprintf(stderr, "ncclspy-analyze: %s: %s\n", path, strerror(-rc));
		return NSPY_EXIT_NOTHING;
	}
	fprintf(stderr, "%zu run%s saved to %s\n", runs->count, runs->count == 1 ? "" : "s", path);
	return NSPY_EXIT_OK;
}

static int print_json(const cJSON *document)
{
	char *text = cJSON_Print(document);

	if (!text)
		return NSPY_EXIT_INTERNAL;
	puts(text);
	cJSON_free(text);
	return NSPY_EXIT_OK;
}

/* The other forms know jobs with findings. */
static bool write_exports(const struct options *options, const struct nspy_comparison *comparison,
			  cJSON *document)
{
	const struct nspy_runs *now = comparison->now;
	cJSON *jobs = cJSON_CreateArray();
	bool ok;

	cJSON_AddStringToObject(document, "job", now->items[now->count - 1].job);
	cJSON_AddItemReferenceToArray(jobs, document);
	ok = nspy_exports_write(&options->exports, jobs);
	cJSON_Delete(jobs);
	return ok;
}

static int compare(const struct options *options, const struct nspy_runs *base,
		   const struct nspy_runs *now)
{
	struct nspy_comparison comparison;
	cJSON *document;
	int rc = NSPY_EXIT_OK;

	nspy_compare(base, now, &options->compare, &comparison);
	document = nspy_compare_json(&comparison);
	if (options->json)
		rc = print_json(document);
	else if (!nspy_exports_to_stdout(&options->exports))
		nspy_compare_print(&comparison, stdout, options->colour);
	if (!write_exports(options, &comparison, document))
		rc = NSPY_EXIT_NOTHING;
	cJSON_Delete(document);
	if (rc == NSPY_EXIT_OK && !comparison.comparable)
		rc = NSPY_EXIT_NOTHING;
	if (rc == NSPY_EXIT_OK && comparison.findings.count &&
	    comparison.findings.items[0]->priority <= options->fail_on)
		rc = NSPY_EXIT_FINDING;
	nspy_comparison_done(&comparison);
	return rc;
}

static int run(int argc, char **argv)
{
	struct options options = {
		.compare = NSPY_COMPARE_DEFAULTS, .fail_on = 1, .colour = nspy_term_colour(stdout)};
	struct nspy_runs base = {0}, now = {0};
	int rc = parse(argc, argv, &options);

	if (rc >= 0) {
		free(options.bases);
		return rc;
	}
	for (size_t i = 0; i < options.base_count; i++)
		read_runs(options.bases[i], &base);
	if (!options.base_count && !options.save)
		read_runs(argv[optind++], &base);
	for (int i = optind; i < argc; i++)
		read_runs(argv[i], &now);
	if (!now.count || (!base.count && (options.base_count || !options.save))) {
		fprintf(stderr, "ncclspy-analyze: no run to compare%s\n", now.count ? " with" : "");
		rc = NSPY_EXIT_NOTHING;
	} else {
		rc = options.save ? save(options.save, &now) : NSPY_EXIT_OK;
		if (rc == NSPY_EXIT_OK && base.count)
			rc = compare(&options, &base, &now);
	}
	nspy_runs_done(&base);
	nspy_runs_done(&now);
	free(options.bases);
	return rc;
}

const struct nspy_cmd nspy_cmd_compare = {
	.name = "compare",
	.help = "is a run slower than earlier ones, where, and is it real",
	.run = run,
};
