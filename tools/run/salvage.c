/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace_salvage.h"

/* A shared directory that hangs must not keep the job's end waiting. */
#define DEADLINE_MS   10000
#define JOBS_MAX      4096
#define OTHERS_MAX    128
#define LIVE_PAGES_AT "/dev/shm"

/* --- the traces of this host: <root>/<job>/<host>/ --- */

/* Called with an open directory and its path; a nonzero return value ends the walk. */
typedef int visit_fn(DIR *directory, const char *path, void *context);

static int visit_host(const char *job_path, const char *host, visit_fn *visit, void *context)
{
	char path[PATH_MAX];
	DIR *directory;
	int rc;

	if (!host || !*host || strchr(host, '/') || host[0] == '.' ||
	    snprintf(path, sizeof(path), "%s/%s", job_path, host) >= (int)sizeof(path))
		return 0;
	directory = opendir(path);
	if (!directory)
		return 0;
	rc = visit(directory, path, context);
	(void)closedir(directory);
	return rc;
}

/* The names this host may go by, in the order in which the library prefers them. */
static int visit_job(const char *job_path, visit_fn *visit, void *context)
{
	char host[HOST_NAME_MAX + 1] = "";
	const char *names[] = {getenv("NODE_NAME"), getenv("SLURMD_NODENAME"), host};
	int rc = 0;

	(void)gethostname(host, sizeof(host) - 1);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && rc == 0; i++)
		rc = visit_host(job_path, names[i], visit, context);
	return rc;
}

static int visit_host_directories(const char *root, visit_fn *visit, void *context)
{
	DIR *jobs = opendir(root);
	struct dirent *entry;
	int rc = 0;

	if (!jobs)
		return 0;
	for (int i = 0; i < JOBS_MAX && rc == 0 && (entry = readdir(jobs)); i++) {
		char path[PATH_MAX];

		if (entry->d_name[0] != '.' &&
		    snprintf(path, sizeof(path), "%s/%s", root, entry->d_name) < (int)sizeof(path))
			rc = visit_job(path, visit, context);
	}
	(void)closedir(jobs);
	return rc;
}

static bool ends_with(const char *text, const char *end)
{
	size_t a = strlen(text), b = strlen(end);

	return a >= b && strcmp(text + a - b, end) == 0;
}

static int newer(DIR *directory, const char *path, void *context)
{
	const uint64_t *since = context;
	struct dirent *entry;

	(void)path;
	while ((entry = readdir(directory))) {
		struct stat st;

		if ((ends_with(entry->d_name, ".nspy") ||
		     ends_with(entry->d_name, NSPY_LIVE_SUFFIX)) &&
		    fstatat(dirfd(directory), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec >=
			    *since)
			return 1;
	}
	return 0;
}

bool nspy_traces_since(const char *root, uint64_t real_ns)
{
	return visit_host_directories(root, newer, &real_ns) == 1;
}

/* --- how the direct child ended --- */

struct search {
	char prefix[128]; /* <bootid8>.<pidns>.<pid>.<starttime>. */
	char base[PATH_MAX];
};

static int boot_id_start(char *ret, size_t bytes)
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return -errno;
	got = read(fd, ret, bytes - 1);
	close(fd);
	if (got != (ssize_t)bytes - 1)
		return -EIO;
	ret[got] = '\0';
	return 0;
}

static int find_base(DIR *directory, const char *path, void *context)
{
	struct search *search = context;
	size_t bytes = strlen(search->prefix);
	struct dirent *entry;

	while ((entry = readdir(directory))) {
		if (strncmp(entry->d_name, search->prefix, bytes) != 0)
			continue;
		if (snprintf(search->base, sizeof(search->base), "%s/%.*s", path, (int)bytes - 1,
			     entry->d_name) < (int)sizeof(search->base))
			return 1;
	}
	return 0;
}

/* Its trace when no live page told where it is: it ended in an orderly way. */
static bool search_base(const struct nspy_launch *launch, const struct nspy_child *child,
			uint64_t pid_namespace, char *ret_base, size_t bytes)
{
	struct search search = {0};
	char boot_id[9];

	if (boot_id_start(boot_id, sizeof(boot_id)) < 0)
		return false;
	(void)snprintf(search.prefix, sizeof(search.prefix), "%s.%llu.%ld.%llu.", boot_id,
		       (unsigned long long)pid_namespace, (long)child->pid,
		       (unsigned long long)child->starttime);
	if (visit_host_directories(launch->trace_root, find_base, &search) != 1)
		return false;
	(void)snprintf(ret_base, bytes, "%s", search.base);
	return true;
}

/* What is known of the command's end; of its children no more than that all were asked to end. */
static int print_note(int fd, const struct nspy_child *child, bool own)
{
	int status = child->status;

	if (own && dprintf(fd, "pid=%ld\n%s=%d\nreal_ns=%llu\n", (long)child->pid,
			   WIFSIGNALED(status) ? "signal" : "exit_code",
			   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
			   (unsigned long long)child->ended_real_ns) < 0)
		return -errno;
	if (child->asked_real_ns &&
	    dprintf(fd, "asked_signal=%d\nasked_real_ns=%llu\nasked_by=%ld\n", SIGTERM,
		    (unsigned long long)child->asked_real_ns, (long)child->asked_by) < 0)
		return -errno;
	return 0;
}

static int write_exit_note(const char *base, const struct nspy_child *child, bool own)
{
	char path[PATH_MAX], temporary[PATH_MAX];
	int fd, rc;

	if (snprintf(path, sizeof(path), "%s.exit", base) >= (int)sizeof(path) ||
	    snprintf(temporary, sizeof(temporary), "%s.tmp", path) >= (int)sizeof(temporary))
		return -ENAMETOOLONG;
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	rc = print_note(fd, child, own);
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	/* A launcher of its own knows more: it must not be overwritten. */
	if (rc == 0 && (own ? rename(temporary, path) : link(temporary, path)) < 0 &&
	    (own || errno != EEXIST))
		rc = -errno;
	if (rc < 0 || !own)
		(void)unlink(temporary);
	return rc;
}

/* --- all of it, with a deadline --- */

struct work {
	const struct nspy_child *child;
	struct nspy_salvage_outcome outcome;
	char child_base[PATH_MAX]; /* "" = not known yet */
	/* Others that have died, in case the command is a launcher itself. */
	char others[OTHERS_MAX][PATH_MAX];
	size_t other_count;
};

/* Of a long path the end tells more than the beginning. */
static void note_failure(struct nspy_salvage_outcome *outcome, const char *base, int error)
{
	size_t bytes = strlen(base), room = sizeof(outcome->failed_base) - 1;

	if (bytes > room) {
		base += bytes - room;
		bytes = room;
	}
	memcpy(outcome->failed_base, base, bytes);
	outcome->failed_base[bytes] = '\0';
	outcome->error = error;
}

static void saw(void *context, const struct nspy_live_facts *facts, int error)
{
	struct work *work = context;

	if (error)
		note_failure(&work->outcome, facts->base, error);
	if (facts->pid == (uint32_t)work->child->pid && facts->starttime == work->child->starttime)
		(void)snprintf(work->child_base, sizeof(work->child_base), "%s", facts->base);
	else if (work->other_count < OTHERS_MAX)
		(void)snprintf(work->others[work->other_count++], PATH_MAX, "%s", facts->base);
}

/* torchrun's workers, say: it was asked to end, and has ended them. */
static void note_others(struct work *work)
{
	for (size_t i = 0; work->child->asked_real_ns && i < work->other_count; i++) {
		int rc = write_exit_note(work->others[i], work->child, false);

		if (rc < 0 && !work->outcome.error)
			note_failure(&work->outcome, work->others[i], rc);
	}
}

static void do_work(const struct nspy_launch *launch, struct work *work)
{
	static struct nspy_salvage salvage;
	int rc;

	salvage = (struct nspy_salvage){
		.directory = LIVE_PAGES_AT,
		.trace_root = launch->trace_root,
		.uid = getuid(),
		.any_job = true,
		.mode = 0600,
		.report = saw,
		.context = work,
	};
	if (nspy_pid_namespace(&salvage.pid_namespace) == 0)
		(void)nspy_salvage_run(&salvage);
	work->outcome.saved = salvage.saved;
	work->outcome.failed = salvage.failed;
	if (!work->child_base[0] && !search_base(launch, work->child, salvage.pid_namespace,
						 work->child_base, sizeof(work->child_base))) {
		note_others(work);
		return;
	}
	work->outcome.recorded = true;
	rc = write_exit_note(work->child_base, work->child, true);
	if (rc < 0 && !work->outcome.error)
		note_failure(&work->outcome, work->child_base, rc);
}

_Noreturn static void work_and_tell(const struct nspy_launch *launch, struct work *work, int fd)
{
	do_work(launch, work);
	if (write(fd, &work->outcome, sizeof(work->outcome)) != sizeof(work->outcome))
		_exit(1);
	_exit(0);
}

static bool await_outcome(int fd, struct nspy_salvage_outcome *ret)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	int rc;

	do {
		rc = poll(&ready, 1, DEADLINE_MS);
	} while (rc < 0 && errno == EINTR);
	return rc > 0 && read(fd, ret, sizeof(*ret)) == sizeof(*ret);
}

void nspy_salvage_after(const struct nspy_launch *launch, const struct nspy_child *child,
			struct nspy_salvage_outcome *ret)
{
	static struct work work;
	int ends[2];
	pid_t pid;

	work = (struct work){.child = child};
	*ret = (struct nspy_salvage_outcome){0};
	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	pid = fork();
	if (pid == 0)
		work_and_tell(launch, &work, ends[1]);
	close(ends[1]);
	if (pid > 0 && !await_outcome(ends[0], ret)) {
		ret->timed_out = true;
		(void)kill(pid, SIGKILL); /* not waited for: it may be stuck in the kernel */
	} else if (pid > 0) {
		(void)waitpid(pid, NULL, 0);
	}
	close(ends[0]);
}
