/* SPDX-License-Identifier: Apache-2.0 */
#include "trainjob.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char help[] =
	"usage: trainjob -n RANKS [OPTION...]\n"
	"       trainjob --rank R --world N --idfile FILE [OPTION...]\n"
	"\n"
	"Does the communication of a training job with RANKS processes, on whatever NCCL and\n"
	"CUDA libraries it is run with (built against the stand-ins of tests/fakes), and\n"
	"checks the results. Faults: environment variable NSPY_FAKE, see tests/fakes/README.md.\n"
	"\n"
	"  -n, --ranks N             ranks of the job (1 to 256; default 2)\n"
	"      --ranks-per-process K K ranks share a process, a thread each (default 1)\n"
	"      --node-size K         pretend that K ranks each are on a host: sets NODE_NAME and\n"
	"                            NCCL_HOSTID to node-<i>; data between hosts counts as "
	"network\n"
	"      --steps N             steps (default 20)\n"
	"      --pattern P           dp (default), tp, pp, ep, or mix: what a step does\n"
	"      --count N             elements of a large operation (default 4096)\n"
	"      --extra-comms N       duplicates of the world communicator, used once a step each\n"
	"      --compute-ms T        computing at the start of a step, in ms (default 0)\n"
	"      --compute-on W        host (default) or gpu\n"
	"      --checkpoint-every N  pause after each N-th step\n"
	"      --checkpoint-ms T     length of that pause (default 50)\n"
	"      --graph               capture the step once, then replay it\n"
	"      --nonblocking         nonblocking communicators\n"
	"      --abort-at-end        ncclCommAbort instead of finalize and destroy\n"
	"      --watchdog S          a thread per rank aborts its communicators on an\n"
	"                            asynchronous error (exit 6) or after S seconds of one\n"
	"                            step (exit 7)\n"
	"      --abort-status N      exit status after that instead, as of a job that saves what "
	"it\n"
	"                            has and asks to be queued again\n"
	"      --env R:NAME=VALUE    environment of rank R, of ranks R-S, or of any; may be "
	"repeated\n"
	"      --verify, --no-verify check results (default: unless NSPY_FAKE is set)\n"
	"      --timeout S           kill all ranks if none made progress for S seconds\n"
	"                            (default 60, 0 = never)\n"
	"      --grace S             kill the rest S seconds after a rank failed (default 5)\n"
	"      --launcher 'CMD ...'  put these words before each rank's command\n"
	"      --quiet               only failures\n"
	"      --rank, --world, --idfile\n"
	"                            be one rank (RANK and WORLD_SIZE do as well); the unique id\n"
	"                            goes through the file, which rank 0 creates\n"
	"      --help\n"
	"\n"
	"exit status: 0 all well; 1 could not start; 2 usage or fault script; of a rank: 3 wrong\n"
	"data, 4 CUDA call failed, 5 NCCL call failed, 6 asynchronous error, 7 hung (watchdog),\n"
	"128+N died of signal N; the job has that of the first rank that failed, and 124 if it\n"
	"was killed for making no progress.\n";

enum option_code {
	OPT_RANKS_PER_PROCESS = 256,
	OPT_NODE_SIZE,
	OPT_STEPS,
	OPT_PATTERN,
	OPT_COUNT,
	OPT_EXTRA_COMMS,
	OPT_COMPUTE_MS,
	OPT_COMPUTE_ON,
	OPT_CHECKPOINT_EVERY,
	OPT_CHECKPOINT_MS,
	OPT_GRAPH,
	OPT_NONBLOCKING,
	OPT_ABORT_AT_END,
	OPT_WATCHDOG,
	OPT_ABORT_STATUS,
	OPT_ENV,
	OPT_VERIFY,
	OPT_NO_VERIFY,
	OPT_TIMEOUT,
	OPT_GRACE,
	OPT_LAUNCHER,
	OPT_QUIET,
	OPT_RANK,
	OPT_WORLD,
	OPT_IDFILE,
	OPT_PROGRESS,
	OPT_HELP,
};

static const struct option long_options[] = {
	{"ranks", required_argument, NULL, 'n'},
	{"ranks-per-process", required_argument, NULL, OPT_RANKS_PER_PROCESS},
	{"node-size", required_argument, NULL, OPT_NODE_SIZE},
	{"steps", required_argument, NULL, OPT_STEPS},
	{"pattern", required_argument, NULL, OPT_PATTERN},
	{"count", required_argument, NULL, OPT_COUNT},
	{"extra-comms", required_argument, NULL, OPT_EXTRA_COMMS},
	{"compute-ms", required_argument, NULL, OPT_COMPUTE_MS},
	{"compute-on", required_argument, NULL, OPT_COMPUTE_ON},
	{"checkpoint-every", required_argument, NULL, OPT_CHECKPOINT_EVERY},
	{"checkpoint-ms", required_argument, NULL, OPT_CHECKPOINT_MS},
	{"graph", no_argument, NULL, OPT_GRAPH},
	{"nonblocking", no_argument, NULL, OPT_NONBLOCKING},
	{"abort-at-end", no_argument, NULL, OPT_ABORT_AT_END},
	{"watchdog", required_argument, NULL, OPT_WATCHDOG},
	{"abort-status", required_argument, NULL, OPT_ABORT_STATUS},
	{"env", required_argument, NULL, OPT_ENV},
	{"verify", no_argument, NULL, OPT_VERIFY},
	{"no-verify", no_argument, NULL, OPT_NO_VERIFY},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"grace", required_argument, NULL, OPT_GRACE},
	{"launcher", required_argument, NULL, OPT_LAUNCHER},
	{"quiet", no_argument, NULL, OPT_QUIET},
	{"rank", required_argument, NULL, OPT_RANK},
	{"world", required_argument, NULL, OPT_WORLD},
	{"idfile", required_argument, NULL, OPT_IDFILE},
	{"progress", required_argument, NULL, OPT_PROGRESS},
	{"help", no_argument, NULL, OPT_HELP},
	{NULL, 0, NULL, 0},
};

void job_sleep_ns(uint64_t ns)
{
	struct timespec rest = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	while (nanosleep(&rest, &rest) < 0 && errno == EINTR)
		;
}

uint64_t job_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* One write, so that lines of several ranks do not mix. */
void job_say(const struct rank *rank, const char *format, ...)
{
	char line[512];
	va_list args;
	int n;

	if (rank)
		n = snprintf(line, sizeof(line), "trainjob: rank %d: ", rank->world_rank);
	else
		n = snprintf(line, sizeof(line), "trainjob: ");
	va_start(args, format);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n, format, args);
	va_end(args);
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
}

static void __attribute__((noreturn)) bad_value(const char *option, const char *value)
{
	fprintf(stderr, "trainjob: bad value '%s' for --%s\n", value, option);
	exit(EXIT_USAGE);
}

static double number(const char *option, const char *value, double least, double most)
{
	char *end;
	double result = strtod(value, &end);

	if (end == value || *end != '\0' || !(result >= least && result <= most))
		bad_value(option, value);
	return result;
}

static enum pattern parse_pattern(const char *value)
{
	static const char *const names[] = {"dp", "tp", "pp", "ep", "mix"};

	for (int i = 0; i <= PATTERN_MIX; i++) {
		if (strcmp(value, names[i]) == 0)
			return (enum pattern)i;
	}
	bad_value("pattern", value);
}

static void take_number(struct job_options *options, int code, const char *name, const char *value)
{
	switch (code) {
	case 'n':
		options->ranks = (int)number("ranks", value, 1, MAX_RANKS);
		break;
	case OPT_RANKS_PER_PROCESS:
		options->ranks_per_process = (int)number(name, value, 1, MAX_RANKS);
		break;
	case OPT_NODE_SIZE:
		options->node_size = (int)number(name, value, 1, MAX_RANKS);
		break;
	case OPT_STEPS:
		options->steps = (long)number(name, value, 0, 1e9);
		break;
	case OPT_COUNT:
		options->count = (size_t)number(name, value, 1, 1e9);
		break;
	case OPT_EXTRA_COMMS:
		options->extra_comms = (int)number(name, value, 0, MAX_COMMS - 8);
		break;
	case OPT_COMPUTE_MS:
		options->compute_ms = number(name, value, 0, 1e7);
		break;
	case OPT_CHECKPOINT_EVERY:
		options->checkpoint_every = (long)number(name, value, 0, 1e9);
		break;
	case OPT_CHECKPOINT_MS:
		options->checkpoint_ms = number(name, value, 0, 1e7);
		break;
	case OPT_WATCHDOG:
		options->watchdog_s = number(name, value, 0.1, 1e6);
		break;
	case OPT_ABORT_STATUS:
		options->abort_status = (int)number(name, value, 0, 125);
		break;
	case OPT_TIMEOUT:
		options->timeout_s = number(name, value, 0, 1e6);
		break;
	case OPT_GRACE:
		options->grace_s = number(name, value, 0, 1e6);
		break;
	case OPT_RANK:
		options->rank = (int)number(name, value, 0, MAX_RANKS - 1);
		break;
	case OPT_WORLD:
		options->world = (int)number(name, value, 1, MAX_RANKS);
		break;
	default:
		exit(EXIT_USAGE);
	}
}

static void take_env(struct job_options *options, const char *value)
{
	if (!job_env_valid(value) || options->env_count == MAX_ENV)
		bad_value("env", value);
	options->env[options->env_count++] = value;
}

static void take_option(struct job_options *options, int code, const char *name, const char *value)
{
	switch (code) {
	case OPT_PATTERN:
		options->pattern = parse_pattern(value);
		break;
	case OPT_COMPUTE_ON:
		if (strcmp(value, "gpu") != 0 && strcmp(value, "host") != 0)
			bad_value(name, value);
		options->compute_on_gpu = *value == 'g';
		break;
	case OPT_GRAPH:
		options->graph = true;
		break;
	case OPT_NONBLOCKING:
		options->nonblocking = true;
		break;
	case OPT_ABORT_AT_END:
		options->abort_at_end = true;
		break;
	case OPT_ENV:
		take_env(options, value);
		break;
	case OPT_VERIFY:
	case OPT_NO_VERIFY:
		options->verify = code == OPT_VERIFY;
		break;
	case OPT_LAUNCHER:
		options->launcher = value;
		break;
	case OPT_QUIET:
		options->quiet = true;
		break;
	case OPT_IDFILE:
		options->id_file = value;
		break;
	case OPT_PROGRESS:
		options->progress_file = value;
		break;
	case OPT_HELP:
		fputs(help, stdout);
		exit(EXIT_OK);
	default:
		take_number(options, code, name, value);
	}
}

static void take_environment(struct job_options *options)
{
	const char *rank = getenv("RANK"), *world = getenv("WORLD_SIZE");

	if (!options->id_file)
		return;
	if (options->rank < 0 && rank)
		options->rank = (int)number("rank", rank, 0, MAX_RANKS - 1);
	if (options->world < 0 && world)
		options->world = (int)number("world", world, 1, MAX_RANKS);
}

int main(int argc, char **argv)
{
	const char *script = getenv("NSPY_FAKE");
	struct job_options options = {.ranks = 2,
				      .ranks_per_process = 1,
				      .steps = 20,
				      .count = 4096,
				      .timeout_s = 60,
				      .grace_s = 5,
				      .checkpoint_ms = 50,
				      .abort_status = -1,
				      .verify = !script || *script == '\0',
				      .rank = -1,
				      .world = -1};
	int code, index = 0;

	while ((code = getopt_long(argc, argv, "+n:", long_options, &index)) >= 0)
		take_option(&options, code, code == 'n' ? "ranks" : long_options[index].name,
			    optarg);
	if (optind != argc) {
		fprintf(stderr, "trainjob: unexpected '%s'\n", argv[optind]);
		return EXIT_USAGE;
	}
	take_environment(&options);
	fake_fault_load();
	if (options.id_file) {
		if (options.rank < 0 || options.world <= options.rank) {
			fprintf(stderr, "trainjob: --idfile needs --rank and a larger --world\n");
			return EXIT_USAGE;
		}
		options.ranks = options.world;
		return job_run_process(&options);
	}
	if (options.ranks % options.ranks_per_process) {
		fprintf(stderr, "trainjob: --ranks is not a multiple of --ranks-per-process\n");
		return EXIT_USAGE;
	}
	return job_run_parent(&options, argv);
}
