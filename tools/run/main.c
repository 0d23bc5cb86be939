/* SPDX-License-Identifier: Apache-2.0 */
/* ncclspy-run: runs a command with libncclspy.so preloaded. */
#include "launch.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OPTION_PROBE = 256, OPTION_JOB, OPTION_LIB, OPTION_CHECK, OPTION_DRY_RUN };

static const struct option options[] = {
	{"output", required_argument, NULL, 'o'},
	{"job", required_argument, NULL, OPTION_JOB},
	{"lib", required_argument, NULL, OPTION_LIB},
	{"check", no_argument, NULL, OPTION_CHECK},
	{"dry-run", no_argument, NULL, OPTION_DRY_RUN},
	{"quiet", no_argument, NULL, 'q'},
	{"verbose", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{"probe", no_argument, NULL, OPTION_PROBE}, /* for ourselves, see nspy_probe */
	{NULL, 0, NULL, 0},
};

static const char help[] =
	"Usage: ncclspy-run [OPTION...] [--] COMMAND [ARGUMENT...]\n"
	"\n"
	"Runs COMMAND with libncclspy.so preloaded, so that its NCCL calls are recorded, and\n"
	"saves the last calls of processes that were killed.\n"
	"\n"
	"Options:\n"
	"  -o, --output DIR   write traces below DIR (sets NCCLSPY_DIR)\n"
	"      --job ID       name of the job, the same on all its ranks (sets NCCLSPY_JOB)\n"
	"      --lib FILE     preload this libncclspy.so instead of the one beside ncclspy-run\n"
	"      --check        do not run COMMAND; say what would be seen of it and what not\n"
	"      --dry-run      do not run COMMAND; print it with the variables it would get\n"
	"  -q, --quiet        nothing on stderr, files only (sets NCCLSPY_QUIET=1)\n"
	"  -v, --verbose      say what is done, and why when no NCCL call was seen\n"
	"  -V, --version      print the version\n"
	"  -h, --help         print this help\n"
	"\n"
	"Exit status: that of COMMAND; 125 ncclspy-run failed, 126 COMMAND cannot be run,\n"
	"127 COMMAND not found. Killed by the signal that killed COMMAND. With --check: 0 all\n"
	"is seen, 1 not.\n"
	"\n"
	"See ncclspy-run(1); the analysis is ncclspy-analyze(1).\n";

__attribute__((format(printf, 2, 3))) static void tell(const struct nspy_launch *launch,
						       const char *format, ...)
{
	va_list arguments;

	if (launch->quiet)
		return;
	(void)fputs("ncclspy: ", stderr);
	va_start(arguments, format);
	(void)vfprintf(stderr, format, arguments);
	va_end(arguments);
	(void)fputc('\n', stderr);
}

_Noreturn static void misused(void)
{
	(void)fputs("Try 'ncclspy-run --help'.\n", stderr);
	exit(NSPY_RUN_FAILED);
}

static void print_and_exit(const char *text)
{
	(void)fputs(text, stdout);
	exit(fflush(stdout) == 0 ? 0 : NSPY_RUN_FAILED);
}

static void parse(int argc, char **argv, struct nspy_launch *launch)
{
	int option;

	/* '+': the command's own options are not ours. */
	while ((option = getopt_long(argc, argv, "+o:qvhV", options, NULL)) != -1) {
		switch (option) {
		case 'o':
			launch->directory = optarg;
			break;
		case OPTION_JOB:
			launch->job = optarg;
			break;
		case OPTION_LIB:
			launch->library = optarg;
			break;
		case OPTION_CHECK:
			launch->check = true;
			break;
		case OPTION_DRY_RUN:
			launch->dry_run = true;
			break;
		case 'q':
			launch->quiet = true;
			break;
		case 'v':
			launch->verbose = true;
			break;
		case 'V':
			print_and_exit("ncclspy-run " NSPY_VERSION "\n");
			break;
		case 'h':
			print_and_exit(help);
			break;
		case OPTION_PROBE:
			exit(nspy_probe());
		default:
			misused();
		}
	}
	if (argv[optind])
		launch->command = argv + optind;
}

static void find_paths(struct nspy_launch *launch, int *ret_library_error)
{
	int rc = nspy_trace_root(launch->directory, launch->trace_root, sizeof(launch->trace_root));

	if (rc < 0) {
		(void)fprintf(stderr, "ncclspy-run: output directory: %s\n", strerror(-rc));
		exit(NSPY_RUN_FAILED);
	}
	*ret_library_error =
		nspy_find_library(launch->library, launch->preload, sizeof(launch->preload));
}

/* Says what is wrong before the command starts; nothing of it keeps the command from running. */
static void prepare(struct nspy_launch *launch, int library_error)
{
	const char *advice = nspy_misplaced(launch->command[0]);
	struct nspy_program program;

	if (library_error == -EINVAL)
		tell(launch, "the path of libncclspy.so holds a blank or a colon, which LD_PRELOAD "
			     "cannot express: running without recording");
	else if (library_error < 0 && launch->library)
		tell(launch, "%s: %s: running without recording", launch->library,
		     strerror(-library_error));
	else if (library_error < 0)
		tell(launch, "no libncclspy.so beside this program (--lib names it): running "
			     "without recording");
	if (advice)
		tell(launch,
		     "%s starts the ranks elsewhere, where this launcher cannot follow; "
		     "write: %s",
		     launch->command[0], advice);
	if (nspy_inspect(launch->command[0], &program) == 0 && program.kind == NSPY_PROGRAM_MUSL) {
		tell(launch,
		     "%s is linked with musl, which cannot load libncclspy.so: running "
		     "without recording",
		     program.interpreter);
		launch->preload[0] = '\0';
	}
}

static void explain_silence(const struct nspy_launch *launch)
{
	const char *why = "the command and its children never called NCCL, or call it in a way "
			  "that preloading does not reach (see ncclspy-run --check)";
	struct nspy_program program;

	if (!launch->preload[0])
		why = "libncclspy.so was not preloaded";
	else if (nspy_inspect(launch->command[0], &program) == 0 &&
		 program.kind != NSPY_PROGRAM_DYNAMIC)
		why = nspy_program_kind_text(program.kind);
	tell(launch, "no NCCL call seen: %s", why);
}

static void finish(const struct nspy_launch *launch, const struct nspy_child *child,
		   uint64_t started_real_ns)
{
	struct nspy_salvage_outcome outcome;

	nspy_salvage_after(launch, child, &outcome);
	if (outcome.timed_out)
		tell(launch,
		     "%s does not answer: the last calls of killed processes stay in "
		     "/dev/shm on this host",
		     launch->trace_root);
	if (outcome.error)
		tell(launch, "could not save what is known about %s: %s", outcome.failed_base,
		     strerror(-outcome.error));
	if (!launch->verbose)
		return;
	if (outcome.saved)
		tell(launch, "saved the last calls of %u killed process%s", outcome.saved,
		     outcome.saved == 1 ? "" : "es");
	if (outcome.recorded || outcome.saved ||
	    nspy_traces_since(launch->trace_root, started_real_ns))
		tell(launch, "traces: %s   next: ncclspy-analyze report %s", launch->trace_root,
		     launch->trace_root);
	else
		explain_silence(launch);
}

static uint64_t real_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

_Noreturn static void cannot_execute(const char *command, int rc)
{
	(void)fprintf(stderr, "ncclspy-run: %s: %s\n", command, strerror(-rc));
	exit(rc == -ENOENT ? NSPY_RUN_NOT_FOUND : NSPY_RUN_CANNOT_EXECUTE);
}

int main(int argc, char **argv)
{
	static struct nspy_launch launch;
	uint64_t started_real_ns = real_ns();
	char **before = nspy_environment_copy();
	struct nspy_child child;
	int library_error, rc;

	parse(argc, argv, &launch);
	if (!launch.command && !launch.check) {
		(void)fputs("ncclspy-run: no command given\n", stderr);
		misused();
	}
	find_paths(&launch, &library_error);
	if (launch.check)
		return nspy_check(&launch, library_error);
	if (launch.dry_run && (!before || nspy_switched_off()))
		return before && nspy_print_launch(before, launch.command) == 0 ? 0
										: NSPY_RUN_FAILED;
	if (nspy_switched_off()) {
		/* Final: not even a process of ours in between. */
		(void)execvp(launch.command[0], launch.command);
		cannot_execute(launch.command[0], -errno);
	}
	prepare(&launch, library_error);
	rc = nspy_apply_environment(&launch);
	if (rc < 0) {
		(void)fprintf(stderr, "ncclspy-run: environment: %s\n", strerror(-rc));
		return NSPY_RUN_FAILED;
	}
	if (launch.dry_run)
		return nspy_print_launch(before, launch.command) == 0 ? 0 : NSPY_RUN_FAILED;
	free(before);
	rc = nspy_run_child(launch.command, &child);
	if (rc < 0)
		cannot_execute(launch.command[0], rc);
	finish(&launch, &child, started_real_ns);
	nspy_end_like(child.status);
}
