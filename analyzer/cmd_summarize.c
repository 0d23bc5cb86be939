/* SPDX-License-Identifier: Apache-2.0 */
/* Puts traces into a summary, where they lie, so that only that has to be moved. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmd.h"
#include "inputs.h"
#include "report.h"
#include "summary/collect.h"

enum { OPT_HOST = 256, OPT_SHARD };

static const struct option long_options[] = {
	{"output", required_argument, NULL, 'o'},
	{"host", required_argument, NULL, OPT_HOST},
	{"shard", required_argument, NULL, OPT_SHARD},
	{"help", no_argument, NULL, 'h'},
	{0},
};

struct options {
	const char *output;
	struct nspy_selection select;
	char host[256];
};

static void usage(FILE *out)
{
	fputs("Usage: ncclspy-analyze summarize [OPTION]... -o FILE|DIR [DIR|FILE|JOB]...\n"
	      "\n"
	      "Packs traces into a summary, a file that all other commands take in place of the\n"
	      "traces, together with others and with traces: a report on the summaries of all "
	      "nodes "
	      "is\n"
	      "the report on the traces. Run it on each node, where the traces lie, and gather "
	      "the\n"
	      "summaries.\n"
	      "\n"
	      "Options:\n"
	      "      --host NAME         only traces of this node; 'auto': of the one it runs on\n"
	      "  -o, --output FILE|DIR   where to; in a directory the name is JOB.nspysum, with "
	      "--host\n"
	      "                          JOB.NAME.nspysum, with --shard JOB.shard-I.nspysum\n"
	      "      --shard I/N         only traces of every N-th node, from the I-th (0 to N-1) "
	      "on\n"
	      "  -h, --help              show this help and exit\n"
	      "\n"
	      "Exit status: 0 written, 1 written but a file could not be read, 2 usage, 3 nothing\n"
	      "readable (with --shard an empty share is fine), 4 it could not be written.\n",
	      out);
}

/* As the recorder names a node. */
static const char *own_node(struct options *options)
{
	const char *const names[] = {getenv("NODE_NAME"), getenv("SLURMD_NODENAME")};

	for (size_t i = 0; i < nspy_array_size(names); i++) {
		if (names[i] && *names[i])
			return names[i];
	}
	return gethostname(options->host, sizeof(options->host) - 1) < 0 ? NULL : options->host;
}

static bool take_host(struct options *options, const char *value)
{
	options->select.host = value;
	if (!*value)
		return false;
	if (strcmp(value, "auto") != 0)
		return true;
	options->select.host = own_node(options);
	return options->select.host != NULL;
}

static bool take_shard(struct nspy_selection *select, const char *value)
{
	const char *slash = strchr(value, '/');
	char *first = nspy_xstrndup(value, slash ? (size_t)(slash - value) : 0);
	bool ok = slash && nspy_parse_u64(first, &select->shard) &&
		  nspy_parse_u64(slash + 1, &select->shards) && select->shard < select->shards;

	free(first);
	return ok;
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct options *options)
{
	int opt;

	while ((opt = getopt_long(argc, argv, "ho:", long_options, NULL)) != -1) {
		bool ok = true;

		if (opt == 'h') {
			usage(stdout);
			return NSPY_EXIT_OK;
		}
		if (opt == 'o')
			options->output = optarg;
		else if (opt == OPT_HOST)
			ok = take_host(options, optarg);
		else if (opt == OPT_SHARD)
			ok = take_shard(&options->select, optarg);
		else
			return nspy_cmd_try_help(&nspy_cmd_summarize);
		if (!ok) {
			fprintf(stderr, "ncclspy-analyze: bad value '%s'\n", optarg);
			return nspy_cmd_try_help(&nspy_cmd_summarize);
		}
	}
	if (*options->output)
		return -1;
	fputs("ncclspy-analyze: no -o FILE or DIR given\n", stderr);
	return nspy_cmd_try_help(&nspy_cmd_summarize);
}

/* Of a directory of a job, only what is below the node's: others' files are not even opened. */
static void add_input(struct nspy_inputs *inputs, const struct options *options,
		      const char *argument)
{
	struct stat st;
	char *below = options->select.host ? nspy_xasprintf("%s/%s", argument, options->select.host)
					   : NULL;

	nspy_inputs_add(inputs,
			below && stat(below, &st) == 0 && S_ISDIR(st.st_mode) ? below : argument);
	free(below);
}

static void add_inputs(struct nspy_inputs *inputs, const struct options *options, int count,
		       char **arguments)
{
	char *root = nspy_inputs_root();
	char *newest = count ? NULL : nspy_inputs_newest_job(root);

	for (int i = 0; i < count; i++)
		add_input(inputs, options, arguments[i]);
	if (newest)
		add_input(inputs, options, newest);
	else if (!count)
		nspy_inputs_problem(inputs, root, "no ncclspy trace in this directory");
	free(newest);
	free(root);
	nspy_inputs_finish(inputs);
}

/* A name of a job is no path. */
static char *path_in(const struct options *options, const struct nspy_model *job)
{
	char *name = nspy_xstrdup(job->job), *path;

	for (char *p = name; *p; p++) {
		if (*p == '/' || (*p == '.' && p == name))
			*p = '_';
	}
	if (options->select.host)
		path = nspy_xasprintf("%s/%s.%s" NSPY_SUMMARY_SUFFIX, options->output, name,
				      options->select.host);
	else if (options->select.shards)
		path = nspy_xasprintf("%s/%s.shard-%" PRIu64 NSPY_SUMMARY_SUFFIX, options->output,
				      name, options->select.shard);
	else
		path = nspy_xasprintf("%s/%s" NSPY_SUMMARY_SUFFIX, options->output, name);
	free(name);
	return path;
}

static size_t count_selected(const struct nspy_inputs *inputs, const struct options *options,
			     const struct nspy_model *job)
{
	size_t count = 0;

	for (size_t j = 0; j < inputs->job_count; j++) {
		const struct nspy_model *model = inputs->jobs[j];

		for (size_t i = 0; (!job || model == job) && i < model->proc_count; i++)
			count += nspy_selected(inputs, &options->select, model->procs[i]);
	}
	return count;
}

static uint64_t now_real(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * NSPY_NS_PER_S + (uint64_t)now.tv_nsec;
}

static int write_one(struct nspy_inputs *inputs, const struct options *options,
		     const struct nspy_model *job, const char *path)
{
	struct nspy_summary_writer *writer;
	struct nspy_collected done = {0};
	uint64_t bytes = 0;
	int rc = nspy_summary_create(path, now_real(), &writer);

	if (rc == 0) {
		rc = nspy_collect(inputs, job, &options->select, writer, &done);
		if (rc < 0)
			nspy_summary_drop(writer);
		else
			rc = nspy_summary_commit(writer, &bytes);
	}
	if (rc < 0) {
		fprintf(stderr, "ncclspy-analyze: %s: %s\n", path, strerror(-rc));
		return NSPY_EXIT_INTERNAL;
	}
	printf("%s: %zu processes, %zu files, %" PRIu64 " bytes of %" PRIu64 "\n", path, done.procs,
	       done.files, bytes, done.bytes);
	return done.unreadable ? NSPY_EXIT_FINDING : NSPY_EXIT_OK;
}

static int write_all(struct nspy_inputs *inputs, const struct options *options)
{
	struct stat st;
	int worst = NSPY_EXIT_OK;

	if (!count_selected(inputs, options, NULL)) {
		if (options->select.host && inputs->job_count)
			fprintf(stderr, "ncclspy-analyze: no trace of node %s\n",
				options->select.host);
		return options->select.shards && inputs->job_count ? NSPY_EXIT_OK
								   : NSPY_EXIT_NOTHING;
	}
	if (stat(options->output, &st) < 0 || !S_ISDIR(st.st_mode))
		return write_one(inputs, options, NULL, options->output);
	for (size_t j = 0; j < inputs->job_count; j++) {
		char *path = path_in(options, inputs->jobs[j]);
		int rc = count_selected(inputs, options, inputs->jobs[j])
				 ? write_one(inputs, options, inputs->jobs[j], path)
				 : NSPY_EXIT_OK;

		worst = rc > worst ? rc : worst;
		free(path);
	}
	return worst;
}

static int run(int argc, char **argv)
{
	struct options options = {.output = ""};
	struct nspy_inputs inputs = {0};
	int rc = parse(argc, argv, &options);

	if (rc >= 0)
		return rc;
	add_inputs(&inputs, &options, argc - optind, argv + optind);
	rc = write_all(&inputs, &options);
	nspy_report_problems(&inputs, stderr);
	nspy_inputs_done(&inputs);
	return rc;
}

const struct nspy_cmd nspy_cmd_summarize = {
	.name = "summarize",
	.help = "traces of some nodes as one file, to be reported on elsewhere",
	.run = run,
};
