/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the ranks, watches their progress, and ends what will not end by itself. */
#include "trainjob.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_EVERY_NS 50000000u
#define MAX_WORDS     256

struct parent {
	const struct job_options *options;
	pid_t pids[MAX_RANKS];
	int processes, alive;
	char folder[64], id_file[96], progress_file[96];
	struct job_progress *progress;
	int status;         /* of the first process that failed */
	uint64_t failed_at; /* 0 = none has */
	uint64_t moved_at, calls;
};

static volatile sig_atomic_t stop_signal;

static void on_signal(int signal)
{
	stop_signal = signal;
}

static int make_files(struct parent *parent)
{
	int fd;

	snprintf(parent->folder, sizeof(parent->folder), "/tmp/trainjob.XXXXXX");
	if (!mkdtemp(parent->folder))
		return -errno;
	snprintf(parent->id_file, sizeof(parent->id_file), "%s/id", parent->folder);
	snprintf(parent->progress_file, sizeof(parent->progress_file), "%s/progress",
		 parent->folder);
	fd = open(parent->progress_file, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(struct job_progress)) != 0)
		return -errno;
	parent->progress = mmap(NULL, sizeof(struct job_progress), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return parent->progress == MAP_FAILED ? -errno : 0;
}

static void remove_files(const struct parent *parent)
{
	unlink(parent->id_file);
	unlink(parent->progress_file);
	rmdir(parent->folder);
}

/* launcher words, our own command line, and which rank to be */
static void __attribute__((noreturn)) exec_rank(struct parent *parent, char **argv, int rank)
{
	char *words[MAX_WORDS], *copy, *save = NULL;
	char rank_text[16], world_text[16], self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int count = 0;

	if (n < 0)
		_exit(EXIT_FAILED);
	self[n] = '\0';
	job_set_environment(parent->options, rank);
	if (parent->options->launcher) {
		copy = strdup(parent->options->launcher);
		for (char *word = strtok_r(copy, " ", &save); word && count < MAX_WORDS / 2;
		     word = strtok_r(NULL, " ", &save))
			words[count++] = word;
	}
	words[count++] = self;
	for (int i = 1; argv[i] && count < MAX_WORDS - 9; i++)
		words[count++] = argv[i];
	snprintf(rank_text, sizeof(rank_text), "%d", rank);
	snprintf(world_text, sizeof(world_text), "%d", parent->options->ranks);
	words[count++] = (char *)"--rank";
	words[count++] = rank_text;
	words[count++] = (char *)"--world";
	words[count++] = world_text;
	words[count++] = (char *)"--idfile";
	words[count++] = parent->id_file;
	words[count++] = (char *)"--progress";
	words[count++] = parent->progress_file;
	words[count] = NULL;
	execvp(words[0], words);
	fprintf(stderr, "trainjob: %s: %s\n", words[0], strerror(errno));
	_exit(EXIT_FAILED);
}

static int start_all(struct parent *parent, char **argv)
{
	pid_t self = getpid();

	for (int i = 0; i < parent->processes; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return -errno;
		if (pid == 0) {
			/* a group of its own, so that a launcher's children go with it */
			setpgid(0, 0);
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != self)
				_exit(EXIT_FAILED);
			exec_rank(parent, argv, i * parent->options->ranks_per_process);
		}
		setpgid(pid, pid);
		parent->pids[i] = pid;
		parent->alive++;
	}
	return 0;
}

static void kill_all(const struct parent *parent, int signal)
{
	for (int i = 0; i < parent->processes; i++) {
		if (parent->pids[i] > 0)
			kill(-parent->pids[i], signal);
	}
}

static void describe(const struct parent *parent, int index, int status)
{
	int rank = index * parent->options->ranks_per_process;

	if (WIFSIGNALED(status))
		job_say(NULL, "rank %d was killed by signal %d", rank, WTERMSIG(status));
	else
		job_say(NULL, "rank %d ended with status %d", rank, WEXITSTATUS(status));
}

static void reap(struct parent *parent)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (int i = 0; i < parent->processes; i++) {
			if (parent->pids[i] != pid)
				continue;
			parent->pids[i] = 0;
			parent->alive--;
			if (status == 0 || parent->failed_at)
				continue;
			describe(parent, i, status);
			parent->failed_at = job_now_ns();
			parent->status =
				WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		}
	}
}

static void look_at_progress(struct parent *parent)
{
	uint64_t calls = 0;

	for (int i = 0; i < parent->options->ranks; i++)
		calls += atomic_load(&parent->progress->steps[i]) +
			 atomic_load(&parent->progress->calls[i]);
	if (calls != parent->calls) {
		parent->calls = calls;
		parent->moved_at = job_now_ns();
	}
}

static bool older_than(uint64_t when, double seconds)
{
	return (double)(job_now_ns() - when) > seconds * 1e9;
}

/* Has the job to be ended? */
static bool given_up(struct parent *parent)
{
	const struct job_options *options = parent->options;

	if (stop_signal) {
		parent->status = 128 + stop_signal;
		return true;
	}
	if (parent->failed_at && older_than(parent->failed_at, options->grace_s))
		return true;
	if (options->timeout_s > 0 && older_than(parent->moved_at, options->timeout_s)) {
		job_say(NULL, "no progress for %.1f s, %d processes left: killing them",
			options->timeout_s, parent->alive);
		if (!parent->status)
			parent->status = EXIT_NO_PROGRESS;
		return true;
	}
	return false;
}

static void watch(struct parent *parent)
{
	bool killed = false;

	parent->moved_at = job_now_ns();
	while (parent->alive > 0) {
		reap(parent);
		look_at_progress(parent);
		if (!killed && parent->alive > 0 && given_up(parent)) {
			kill_all(parent, SIGKILL);
			/* what follows is our own doing */
			parent->failed_at = parent->failed_at ? parent->failed_at : 1;
			killed = true;
		}
		job_sleep_ns(LOOK_EVERY_NS);
	}
}

int job_run_parent(const struct job_options *options, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct parent parent = {.options = options,
				.processes = options->ranks / options->ranks_per_process};
	int error = make_files(&parent);

	if (error == 0) {
		sigaction(SIGINT, &action, NULL);
		sigaction(SIGTERM, &action, NULL);
		error = start_all(&parent, argv);
	}
	if (error) {
		job_say(NULL, "could not start: %s", strerror(-error));
		kill_all(&parent, SIGKILL);
		parent.status = EXIT_FAILED;
	}
	watch(&parent);
	remove_files(&parent);
	if (parent.status == 0 && !options->quiet)
		job_say(NULL, "%d ranks, %ld steps: done", options->ranks, options->steps);
	return parent.status;
}
