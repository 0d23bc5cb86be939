/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd.h"
#include "report.h"
#include "support/support.h"
#include "text.h"

#define MIB             (1u << 20)
#define MAX_MIB_DEFAULT 64u
#define MAX_MIB_LIMIT   1024u
#define LINES_DEFAULT   2000u

enum { OPT_FOR = 256, OPT_MAX_SIZE, OPT_RECORDS, OPT_RANK };

static const struct option long_options[] = {
	{"output", required_argument, NULL, 'o'},
	{"for", required_argument, NULL, OPT_FOR},
	{"max-size", required_argument, NULL, OPT_MAX_SIZE},
	{"rank", required_argument, NULL, OPT_RANK},
	{"records", required_argument, NULL, OPT_RECORDS},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static void usage(FILE *out)
{
	fputs("Usage: ncclspy-analyze support-bundle [OPTION]... -o FILE [DIR|FILE|JOB]...\n"
	      "\n"
	      "Packs what a vendor's support needs into FILE (tar, gzip): cover page, report, the "
	      "last\n"
	      "calls of the ranks that findings name, versions and settings, what ncclspy-collect\n"
	      "gathered, logs. Name jobs, bundles, snapshots and logs together. Inputs are only "
	      "read;\n"
	      "secrets are removed from everything. Look at the result before you hand it on.\n"
	      "\n"
	      "Options:\n"
	      "  -o, --output FILE   where to write; must not exist\n"
	      "      --for WHOM      aws or nvidia: the cover page says what they ask for besides\n"
	      "      --max-size MIB  bound of all contents (default: 64, at most 1024)\n"
	      "      --rank N        calls of this rank too; may be given several times\n"
	      "      --records N     last calls of each such rank (default: 2000; 0: none)\n"
	      "  -h, --help          show this help and exit\n"
	      "\n"
	      "Exit status: 0 written, 2 usage, 3 nothing readable, 4 it could not be written.\n",
	      out);
}

static bool take_whom(struct nspy_support *s, const char *value)
{
	if (strcmp(value, "aws") == 0)
		s->whom = NSPY_FOR_AWS;
	else if (strcmp(value, "nvidia") == 0)
		s->whom = NSPY_FOR_NVIDIA;
	else
		return false;
	return true;
}

static bool take(struct nspy_support *s, int opt, const char *value)
{
	uint64_t number = 0;

	if (opt == OPT_FOR)
		return take_whom(s, value);
	if (!nspy_parse_u64(value, &number))
		return false;
	switch (opt) {
	case OPT_MAX_SIZE:
		s->max_bytes = (size_t)number * MIB;
		return number >= 1 && number <= MAX_MIB_LIMIT;
	case OPT_RECORDS:
		s->lines = number;
		return number <= 1000000;
	default:
		if (number > INT32_MAX || s->rank_count >= 8)
			return false;
		s->ranks = nspy_grow(s->ranks, s->rank_count, &s->rank_capacity, sizeof(*s->ranks));
		s->ranks[s->rank_count++] = (int64_t)number;
		return true;
	}
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct nspy_support *s, const char **ret_path)
{
	int opt;

	while ((opt = getopt_long(argc, argv, "ho:", long_options, NULL)) != -1) {
		switch (opt) {
		case 'h':
			usage(stdout);
			return NSPY_EXIT_OK;
		case 'o':
			*ret_path = optarg;
			break;
		case '?':
			return nspy_cmd_try_help(&nspy_cmd_support);
		default:
			if (!take(s, opt, optarg)) {
				fprintf(stderr, "ncclspy-analyze: bad value '%s'\n", optarg);
				return nspy_cmd_try_help(&nspy_cmd_support);
			}
		}
	}
	for (int i = optind; i < argc; i++) {
		if (strcmp(argv[i], "-") == 0) {
			fputs("ncclspy-analyze: standard input cannot be read twice; name a file\n",
			      stderr);
			return NSPY_EXIT_USAGE;
		}
	}
	if (!*ret_path || !**ret_path) {
		fputs("ncclspy-analyze: no -o FILE given\n", stderr);
		return nspy_cmd_try_help(&nspy_cmd_support);
	}
	return -1;
}

static int make(struct nspy_support *s, struct nspy_inputs *inputs, const char *path)
{
	int rc;

	nspy_support_gather(s, inputs);
	nspy_support_cover(s, inputs);
	rc = nspy_support_pack(s, path, (uint64_t)time(NULL));
	if (rc < 0) {
		fprintf(stderr, "ncclspy-analyze: %s: %s\n", path, strerror(-rc));
		return NSPY_EXIT_INTERNAL;
	}
	printf("%s: %zu files", path, s->entry_count);
	if (s->left_out)
		printf("; %zu items left out or missing, see manifest.txt in it", s->left_out);
	printf("\nRead COVER.txt and look through the rest before you hand it on: tar -xzf %s\n",
	       path);
	return NSPY_EXIT_OK;
}

static int run(int argc, char **argv)
{
	struct nspy_support s = {.max_bytes = (size_t)MAX_MIB_DEFAULT * MIB,
				 .lines = LINES_DEFAULT};
	struct nspy_inputs inputs = {0};
	const char *path = NULL;
	int rc = parse(argc, argv, &s, &path);

	if (rc < 0 && path && access(path, F_OK) == 0) {
		fprintf(stderr, "ncclspy-analyze: %s: exists\n", path);
		rc = NSPY_EXIT_USAGE;
	}
	if (rc < 0 && !(s.redactor = nspy_support_redactor())) {
		fputs("ncclspy-analyze: ncclspy-redact is not installed: nothing is packed without "
		      "it\n",
		      stderr);
		rc = NSPY_EXIT_INTERNAL;
	}
	if (rc < 0) {
		s.arguments = argv + optind;
		s.argument_count = argc - optind;
		nspy_inputs_add_arguments(&inputs, s.argument_count, s.arguments);
		if (inputs.job_count || inputs.foreign_count || inputs.bundle_count) {
			rc = make(&s, &inputs, path);
		} else {
			nspy_report_problems(&inputs, stderr);
			rc = NSPY_EXIT_NOTHING;
		}
	}
	nspy_inputs_done(&inputs);
	nspy_support_done(&s);
	return rc;
}

const struct nspy_cmd nspy_cmd_support = {
	.name = "support-bundle",
	.help = "what a vendor's support needs, without secrets, in one file",
	.run = run,
};
