/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "compare/baseline.h"
#include "compare/compare.h"
#include "compare/read_runs.h"
#include "export/export.h"
#include "html/page.h"
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
	bool automatic;     /* --baseline auto */
	const char **bases; /* of --base */
	size_t base_count, base_capacity;
};

enum {
	OPT_BASE = 256,
	OPT_BASELINE,
	OPT_SAVE,
	OPT_MIN_EFFECT,
	OPT_FAIL_ON,
	OPT_JSON,
	OPT_NO_COLOR
};

static const struct option long_options[] = {
	{"base", required_argument, NULL, OPT_BASE},
	{"baseline", required_argument, NULL, OPT_BASELINE},
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
	      "       ncclspy-analyze compare --baseline auto NEW...\n"
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
	      "      --baseline auto      compare with the newest 5 earlier runs of the same job "
	      "beside\n"
	      "                           NEW that had no P0 or P1; with a PATH it is --base\n"
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
	case OPT_BASELINE:
		if (strcmp(value, "auto") != 0)
			return set_option(options, OPT_BASE, value);
		options->automatic = true;
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
	if (!nspy_exports_apart(&options->exports, options->json))
		return nspy_cmd_try_help(&nspy_cmd_compare);
	count = argc - optind;
	if (count >= 1 && options->save && !options->base_count && !options->automatic &&
	    (options->json || nspy_exports_any(&options->exports))) {
		fputs("ncclspy-analyze: --save-baseline without --base or --baseline compares "
		      "nothing: there is nothing to write in another form\n",
		      stderr);
		return nspy_cmd_try_help(&nspy_cmd_compare);
	}
	if (count >= 1 && (options->save || options->base_count || options->automatic))
		return -1;
	if (count == 2)
		return -1;
	fprintf(stderr, "ncclspy-analyze: compare needs a base and a new run%s\n",
		count > 2 ? "; name the former ones with --base" : "");
	return nspy_cmd_try_help(&nspy_cmd_compare);
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
	if (options->exports.html) {
		struct nspy_page page;
		char *title =
			nspy_xasprintf("ncclspy: %s compared", now->items[now->count - 1].job);

		nspy_page_init(&page);
		nspy_page_add_comparison(&page, document, comparison);
		ok = nspy_exports_file(options->exports.html, nspy_page_take(&page, title)) && ok;
		free(title);
	}
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

/* Earlier runs of the first new one. */
static void find_base(const struct nspy_runs *now, struct nspy_runs *base)
{
	struct nspy_str said = {0};

	nspy_baseline_find(&now->items[0], base, &said);
	fprintf(stderr, "baseline: %s\n", said.text);
	nspy_str_done(&said);
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
		nspy_runs_read(options.bases[i], &base);
	if (!options.base_count && !options.automatic && !options.save)
		nspy_runs_read(argv[optind++], &base);
	for (int i = optind; i < argc; i++)
		nspy_runs_read(argv[i], &now);
	if (options.automatic && now.count)
		find_base(&now, &base);
	if (!now.count ||
	    (!base.count && (options.base_count || options.automatic || !options.save))) {
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
