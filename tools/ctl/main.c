/* SPDX-License-Identifier: Apache-2.0 */
/* ncclspy-ctl: changes what ncclspy does in a running job. See ncclspy-ctl(1). */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl.h"

enum { EXIT_REFUSED = 1, EXIT_USAGE = 2, EXIT_NOTHING = 3, EXIT_INTERNAL = 4 };

#define WAIT_DEFAULT_S 60u
#define WAIT_MAX_S     86400u
#define POLL_NS        200000000L  /* pages in shared memory */
#define POLL_SHARED_NS 1000000000L /* a board of many nodes */

static const char usage[] =
	"Usage: ncclspy-ctl [--wait[=SECONDS]] [--json] [--force] DIR|JOB COMMAND\n"
	"\n"
	"Changes what ncclspy does in a running job. Only the job's owner may do that.\n"
	"  on                 record again (or at last: NCCLSPY_MODE=off, watch)\n"
	"  off                record nothing and report nothing until `on`\n"
	"  watch              report, but keep records in memory until something happens\n"
	"  mark TEXT          put TEXT into every trace and into events.jsonl\n"
	"  dump [stacks]      write what is in memory now; with the stacks of all ranks\n"
	"  threshold SECONDS  until a hang is reported (NCCLSPY_HANG_S), 1 to 86400\n"
	"  status             what holds, and which commands were taken up\n"
	"Options:\n"
	"  --wait[=SECONDS]   until all ranks have taken it up (default 60 s at most)\n"
	"  --json             print the outcome as JSON\n"
	"  --force            leave the command even if no rank is seen to run\n"
	"  -V, --version      print the version\n"
	"  -h, --help         this text\n"
	"Exit status: 0 done; 1 refused, or not taken up by all; 2 usage; 3 no such running job.\n";

struct options {
	bool json, force, status;
	uint64_t wait_s; /* 0 = not at all */
	const char *job;
	struct nspy_command command;
};

static bool take_number(const char *word, uint64_t max, uint64_t *ret)
{
	char *end;
	unsigned long long value = strtoull(word, &end, 10);

	*ret = value;
	return word[0] >= '0' && word[0] <= '9' && !*end && value >= 1 && value <= max;
}

/* The words of a command, joined: a text need not be quoted. */
static bool join(int count, char **words, char *ret, size_t bytes)
{
	size_t used = 0;

	ret[0] = '\0';
	for (int i = 0; i < count; i++) {
		int n = snprintf(ret + used, bytes - used, "%s%s", i ? " " : "", words[i]);

		if (n < 0 || (size_t)n >= bytes - used)
			return false;
		used += (size_t)n;
	}
	return true;
}

static int complain(const char *what, const char *word)
{
	(void)fprintf(stderr, "ncclspy-ctl: %s '%s'\nTry 'ncclspy-ctl --help'.\n", what, word);
	return EXIT_USAGE;
}

static int take_command(int count, char **words, struct options *ret)
{
	char text[NSPY_CONTROL_TEXT_BYTES];
	int rc;

	ret->job = words[0];
	ret->status = strcmp(words[1], "status") == 0 && count == 2;
	if (ret->status)
		return -1;
	if (!join(count - 2, words + 2, text, sizeof(text)))
		return complain("too long a text of", words[1]);
	rc = nspy_command_parse(words[1], text, &ret->command);
	if (rc == -EINVAL)
		return complain("no such command:", words[1]);
	return rc < 0 ? complain("missing, out of range or too much: what follows", words[1]) : -1;
}

/* -1: go on; else the exit status. */
static int take_options(int argc, char **argv, struct options *ret)
{
	static const struct option names[] = {
		{"wait", optional_argument, NULL, 'w'}, {"json", no_argument, NULL, 'j'},
		{"force", no_argument, NULL, 'f'},      {"version", no_argument, NULL, 'V'},
		{"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0},
	};
	bool good = true;
	int c;

	while (good && (c = getopt_long(argc, argv, "Vh", names, NULL)) != -1) {
		switch (c) {
		case 'w':
			ret->wait_s = WAIT_DEFAULT_S;
			good = !optarg || take_number(optarg, WAIT_MAX_S, &ret->wait_s);
			break;
		case 'j':
			ret->json = true;
			break;
		case 'f':
			ret->force = true;
			break;
		case 'V':
			(void)printf("ncclspy-ctl %s\n", NSPY_VERSION);
			return 0;
		case 'h':
			(void)fputs(usage, stdout);
			return 0;
		default:
			good = false;
		}
	}
	if (good && argc - optind >= 2)
		return take_command(argc - optind, argv + optind, ret);
	(void)fputs(usage, stderr);
	return EXIT_USAGE;
}

static int tell_failure(const struct ctl_job *job, int rc)
{
	if (rc == -EPERM)
		(void)fprintf(stderr,
			      "ncclspy-ctl: %s or its board belongs to another user, or others can "
			      "write there; only its owner may control the job\n",
			      job->snap.job_dir);
	else if (rc == -EAGAIN)
		(void)fprintf(stderr, "ncclspy-ctl: too many commands in a short time, or another "
				      "ncclspy-ctl is at work; try again later\n");
	else
		(void)fprintf(stderr, "ncclspy-ctl: %s: %s\n", job->snap.job_dir, strerror(-rc));
	return EXIT_REFUSED;
}

static void tell_missing(const struct ctl_count *count)
{
	size_t more = count->running - count->taken - count->missing_count;

	(void)printf("not yet by rank%s ", count->missing_count == 1 && !more ? "" : "s");
	for (size_t i = 0; i < count->missing_count; i++)
		(void)printf("%s%" PRId64, i ? "," : "", count->missing[i]);
	if (more)
		(void)printf(" and %zu more", more);
	(void)printf("\n");
}

/* Whether all have taken it up, or were never seen and cannot be waited for. */
static int tell_outcome(const struct ctl_job *job, const struct options *options)
{
	const struct nspy_command *command = &options->command;
	struct ctl_count count;
	bool all;

	ctl_count(job, command->id, &count);
	all = count.taken == count.running && count.running;
	if (options->json)
		return ctl_print_json(job, command) < 0 ? EXIT_INTERNAL
		       : options->wait_s && !all        ? EXIT_REFUSED
							: 0;
	if (!options->wait_s) {
		(void)printf("left for %zu rank%s of job %s; they take it up within seconds, on "
			     "other nodes within NCCLSPY_BOARD_S: ncclspy-ctl %s status\n",
			     count.running, count.running == 1 ? "" : "s", job->snap.job,
			     job->snap.job_dir);
		return 0;
	}
	(void)printf("taken up by %zu of %zu ranks on %" PRIu32 " node%s\n", count.taken,
		     count.running, count.nodes, count.nodes == 1 ? "" : "s");
	if (count.taken < count.running)
		tell_missing(&count);
	return all ? 0 : EXIT_REFUSED;
}

static int wait_for_ranks(struct ctl_job *job, const struct options *options)
{
	struct timespec begin, now, pause = {0};
	struct ctl_count count;
	int rc;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		rc = ctl_look(job);
		ctl_count(job, options->command.id, &count);
		if (rc < 0 || (count.running && count.taken == count.running))
			break;
		pause.tv_nsec = count.nodes > 1 ? POLL_SHARED_NS - 1 : POLL_NS;
		(void)nanosleep(&pause, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((uint64_t)(now.tv_sec - begin.tv_sec) < options->wait_s);
	return rc;
}

static int run(struct ctl_job *job, struct options *options)
{
	struct ctl_count count;
	int rc = ctl_look(job);

	if (rc < 0)
		return EXIT_INTERNAL;
	ctl_count(job, 0, &count);
	if (!count.running && !job->has_traces && !options->force) {
		(void)fprintf(stderr, "ncclspy-ctl: no rank of job %s is seen to run\n",
			      job->snap.job);
		return EXIT_NOTHING;
	}
	if (options->status) {
		ctl_read(job);
		if (options->json)
			return ctl_print_json(job, NULL) < 0 ? EXIT_INTERNAL : 0;
		ctl_print_status(job);
		return 0;
	}
	rc = ctl_leave(job, &options->command);
	if (rc < 0)
		return tell_failure(job, rc);
	if (options->wait_s && wait_for_ranks(job, options) < 0)
		return EXIT_INTERNAL;
	return tell_outcome(job, options);
}

int main(int argc, char **argv)
{
	struct ctl_job *job = calloc(1, sizeof(*job));
	struct options options = {0};
	int status = take_options(argc, argv, &options), rc;

	if (status < 0 && !job)
		status = EXIT_INTERNAL;
	if (status >= 0) {
		free(job);
		return status;
	}
	rc = ctl_find(options.job, job);
	if (rc == -EISDIR)
		(void)fprintf(
			stderr,
			"ncclspy-ctl: %s is not the directory of one job; the newest in it is "
			"%s\n",
			options.job, job->snap.job_dir);
	else if (rc < 0)
		(void)fprintf(stderr, "ncclspy-ctl: no job in %s\n", options.job);
	status = rc == -EISDIR ? EXIT_USAGE : rc < 0 ? EXIT_NOTHING : run(job, &options);
	top_free(&job->snap);
	free(job);
	if (fflush(stdout) != 0 && !status)
		status = EXIT_INTERNAL;
	return status;
}
