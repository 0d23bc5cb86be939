/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "foreign/foreign.h"
#include "logs/log_report.h"
#include "term.h"

enum { OPT_JSON = 256, OPT_FAIL_ON, OPT_NO_COLOR };

static const struct option long_options[] = {
	{"json", no_argument, NULL, OPT_JSON},
	{"fail-on", required_argument, NULL, OPT_FAIL_ON},
	{"no-color", no_argument, NULL, OPT_NO_COLOR},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static void usage(FILE *out)
{
	fputs("Usage: ncclspy-analyze logs [OPTION]... FILE|DIR|-...\n"
	      "\n"
	      "Says what happened in a job from what people already have: output of all ranks "
	      "(NCCL,\n"
	      "its plugins, PyTorch, launchers, kernel log) with any prefixes, flight-recorder "
	      "dumps,\n"
	      "ncclras and Inspector output, tables of nccl-tests. Plain, .gz or .zst; '-' is\n"
	      "standard input. Give the logs of all ranks together: what one rank lacks is "
	      "evidence.\n"
	      "\n"
	      "Options:\n"
	      "      --fail-on LEVEL  exit 1 if there is a finding of P0 (default), P1, P2 or "
	      "more\n"
	      "                       urgent; 'none' never does\n"
	      "      --json           machine-readable output\n"
	      "      --no-color       no colour, also on a terminal\n"
	      "  -h, --help           show this help and exit\n"
	      "\n"
	      "Exit status: 0 fine, 1 finding at or above --fail-on, 2 usage, 3 nothing "
	      "readable.\n",
	      out);
}

struct problems {
	char **texts;
	size_t count, capacity;
};

static void print_json(const struct nspy_log *log, const struct nspy_findings *findings,
		       const struct problems *problems, char **paths)
{
	cJSON *document = cJSON_CreateObject(), *jobs = cJSON_AddArrayToObject(document, "jobs");
	cJSON *list;
	char *text;

	cJSON_AddStringToObject(document, "schema", "ncclspy.report/1");
	cJSON_AddStringToObject(document, "version", NSPY_VERSION);
	cJSON_AddItemToArray(jobs, nspy_log_json(log, findings));
	list = cJSON_AddArrayToObject(document, "problems");
	for (size_t i = 0; i < problems->count; i++) {
		cJSON *problem = problems->texts[i] ? cJSON_CreateObject() : NULL;

		if (!problem)
			continue;
		cJSON_AddStringToObject(problem, "path", paths[i]);
		cJSON_AddStringToObject(problem, "problem", problems->texts[i]);
		cJSON_AddItemToArray(list, problem);
	}
	text = cJSON_Print(document);
	puts(text ? text : "{}");
	cJSON_free(text);
	cJSON_Delete(document);
}

static int run_logs(char **paths, size_t count, bool json, bool colour, int fail_on)
{
	struct nspy_log *log = nspy_log_new();
	struct nspy_findings findings = {0};
	struct problems problems = {nspy_xcalloc(count, sizeof(char *)), count, count};
	bool readable = false;
	int rc = NSPY_EXIT_OK;

	for (size_t i = 0; i < count; i++) {
		char error[256];

		uint64_t before = log->order;

		if (nspy_foreign_add(log, paths[i], error, sizeof(error)) < 0)
			problems.texts[i] = nspy_xstrdup(error);
		/* What came before a damaged place counts. */
		readable |= !problems.texts[i] || log->order > before;
	}
	nspy_log_settle(log);
	nspy_log_judge(log, &findings);
	if (readable && json)
		print_json(log, &findings, &problems, paths);
	else if (readable)
		nspy_log_print(log, &findings, stdout, colour);
	else
		rc = NSPY_EXIT_NOTHING;
	fflush(stdout);
	for (size_t i = 0; i < count; i++) {
		if (problems.texts[i])
			fprintf(stderr, "ncclspy-analyze: %s: %s\n", paths[i], problems.texts[i]);
		free(problems.texts[i]);
	}
	if (rc == NSPY_EXIT_OK && fail_on >= 0 && nspy_log_worst(&findings) <= fail_on)
		rc = NSPY_EXIT_FINDING;
	free(problems.texts);
	nspy_findings_done(&findings);
	nspy_log_free(log);
	return rc;
}

static int run(int argc, char **argv)
{
	bool json = false, colour = nspy_term_colour(stdout);
	int opt, fail_on = 0;

	while ((opt = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		switch (opt) {
		case 'h':
			usage(stdout);
			return NSPY_EXIT_OK;
		case OPT_JSON:
			json = true;
			break;
		case OPT_NO_COLOR:
			colour = false;
			break;
		case OPT_FAIL_ON:
			if (!nspy_cmd_level(optarg, &fail_on)) {
				fprintf(stderr, "ncclspy-analyze: bad value '%s'\n", optarg);
				return nspy_cmd_try_help(&nspy_cmd_logs);
			}
			break;
		default:
			return nspy_cmd_try_help(&nspy_cmd_logs);
		}
	}
	if (optind == argc) {
		fputs("ncclspy-analyze: logs: no file named\n", stderr);
		return nspy_cmd_try_help(&nspy_cmd_logs);
	}
	return run_logs(argv + optind, (size_t)(argc - optind), json, colour, fail_on);
}

const struct nspy_cmd nspy_cmd_logs = {
	.name = "logs",
	.help = "what happened, from logs and dumps of other tools",
	.run = run,
};
