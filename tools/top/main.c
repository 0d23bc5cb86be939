/* SPDX-License-Identifier: Apache-2.0 */
/* ncclspy-top: the ranks of a running job, live. See ncclspy-top(1). */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "top.h"

enum { EXIT_USAGE = 2, EXIT_NOTHING = 3, EXIT_INTERNAL = 4 };

static const char usage[] =
	"Usage: ncclspy-top [--once|--follow] [--json] [--interval SECONDS] "
	"[--sort worst|rank|lag] [DIR|JOB]\n"
	"\n"
	"Shows the ranks, communicators and findings of a running job.\n"
	"  DIR|JOB             job directory, directory of jobs (the newest), or name of a job\n"
	"                      below NCCLSPY_DIR; default: the newest job there\n"
	"  --once              print once as text and end; the default if stdout is no terminal\n"
	"  --follow            append a line for each change and event until the job is over\n"
	"  --json              once, or each line, as JSON\n"
	"  --interval SECONDS  between two looks (1 to 60, default 2)\n"
	"  --sort ORDER        of the ranks (--once): worst (default), rank, lag\n"
	"  -V, --version       print the version\n"
	"  -h, --help          this text\n"
	"Keys of the live view: q ends it, s changes the order.\n";

struct options {
	bool once, follow, json;
	unsigned int interval_s;
	enum top_sort sort;
};

static bool take_sort(const char *word, enum top_sort *ret)
{
	static const char *const names[TOP_SORTS] = {"worst", "rank", "lag"};

	for (int i = 0; i < TOP_SORTS; i++)
		if (strcmp(word, names[i]) == 0) {
			*ret = (enum top_sort)i;
			return true;
		}
	return false;
}

static bool take_interval(const char *word, unsigned int *ret)
{
	char *end;
	unsigned long value = strtoul(word, &end, 10);

	*ret = (unsigned int)value;
	return word[0] >= '0' && word[0] <= '9' && !*end && value >= 1 && value <= 60;
}

/* -1: go on; else the exit status. */
static int take_options(int argc, char **argv, struct options *ret)
{
	static const struct option names[] = {
		{"once", no_argument, NULL, 'o'},       {"follow", no_argument, NULL, 'f'},
		{"json", no_argument, NULL, 'j'},       {"interval", required_argument, NULL, 'i'},
		{"sort", required_argument, NULL, 's'}, {"version", no_argument, NULL, 'V'},
		{"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0},
	};
	bool good = true;
	int c;

	while (good && (c = getopt_long(argc, argv, "Vh", names, NULL)) != -1) {
		switch (c) {
		case 'o':
			ret->once = true;
			break;
		case 'f':
			ret->follow = true;
			break;
		case 'j':
			ret->json = true;
			break;
		case 'i':
			good = take_interval(optarg, &ret->interval_s);
			break;
		case 's':
			good = take_sort(optarg, &ret->sort);
			break;
		case 'V':
			(void)printf("ncclspy-top %s\n", NSPY_VERSION);
			return 0;
		case 'h':
			(void)fputs(usage, stdout);
			return 0;
		default:
			good = false;
		}
	}
	if (good && argc - optind <= 1 && !(ret->once && ret->follow))
		return -1;
	(void)fputs(usage, stderr);
	return EXIT_USAGE;
}

static int print_once(struct top_snapshot *snap, const struct options *options)
{
	struct top_lines lines = {0};
	int rc = top_look(snap);

	if (rc < 0)
		return EXIT_INTERNAL;
	top_sort(snap, options->sort);
	if (options->json)
		rc = top_print_json(snap, stdout);
	else
		rc = top_text(snap, options->sort, 0, &lines);
	for (size_t i = 0; i < lines.count; i++)
		(void)puts(lines.at[i].text);
	free(lines.at);
	if (rc < 0 || fflush(stdout) != 0)
		return EXIT_INTERNAL;
	return snap->rank_count ? 0 : EXIT_NOTHING;
}

int main(int argc, char **argv)
{
	struct options options = {.interval_s = 2};
	struct top_snapshot snap = {0};
	int status = take_options(argc, argv, &options);
	const char *word = optind < argc ? argv[optind] : NULL;

	if (status >= 0)
		return status;
	if (top_find_job(word, &snap) < 0) {
		(void)fprintf(stderr, "ncclspy-top: no job in %s\n", word ? word : "NCCLSPY_DIR");
		return EXIT_NOTHING;
	}
	if (options.follow)
		status = top_follow(&snap, options.interval_s * 1000u, options.json);
	else if (options.once || options.json || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		status = print_once(&snap, &options);
	else
		status = top_screen(&snap, options.interval_s * 1000u);
	top_free(&snap);
	return status;
}
