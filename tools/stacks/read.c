/* SPDX-License-Identifier: Apache-2.0 */
#include "read.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "trace_stacks.h"

void add(struct text *text, const char *format, ...)
{
	va_list args;
	int n;

	if (text->full)
		return;
	va_start(args, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is above */
	n = vsnprintf(text->data + text->used, text->room - text->used, format, args);
	va_end(args);
	if (n < 0 || text->used + (size_t)n >= text->room)
		text->full = true;
	else
		text->used += (size_t)n;
}

void finish(struct text *text)
{
	bool full = text->full;

	text->full = false;
	text->room += TEXT_RESERVE;
	if (full)
		add(text, "\nnote more did not fit\n");
	add(text, "end\n");
}

/* The first line of a small file; "" if it cannot be read. */
static void slurp(char *out, size_t bytes, pid_t pid, pid_t tid, const char *name)
{
	char path[96];
	ssize_t n = -1;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, out, bytes - 1);
		close(fd);
	}
	out[n > 0 ? n : 0] = '\0';
	out[strcspn(out, "\n")] = '\0';
}

static char add_thread(pid_t pid, pid_t tid, struct text *out)
{
	char stat[512], wchan[64], call[256], name[64];
	const char *state;

	slurp(stat, sizeof(stat), pid, tid, "stat");
	slurp(wchan, sizeof(wchan), pid, tid, "wchan");
	slurp(call, sizeof(call), pid, tid, "syscall");
	slurp(name, sizeof(name), pid, tid, "comm");
	state = strrchr(stat, ')');
	state = state && state[1] == ' ' && state[2] ? state + 2 : "?";
	add(out, "thread %d %c %s %d %s\n", (int)tid, *state,
	    wchan[0] && strcmp(wchan, "0") != 0 ? wchan : "-",
	    isdigit((unsigned char)call[0]) ? number_of(call) : -1, name);
	return *state;
}

static bool says(const char *path, const char *wanted)
{
	char text[4096];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return strstr(text, wanted) != NULL;
}

static void add_refusal(pid_t pid, int rc, struct text *out)
{
	char path[64];
	int scope = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	while (scope < 4 && !says("/proc/sys/kernel/yama/ptrace_scope",
				  (const char[]){(char)('0' + scope), '\0'}))
		scope++;
	add(out, "note ptrace refused (%s): ", strerror(-rc));
	if (!says(path, "TracerPid:\t0\n"))
		add(out, "a debugger is attached already\n");
	else if (scope > 0 && scope < 4)
		add(out, "kernel.yama.ptrace_scope is %d; needs CAP_SYS_PTRACE\n", scope);
	else if (says("/proc/self/status", "Seccomp:\t2\n"))
		add(out, "a seccomp filter, or another user's process without CAP_SYS_PTRACE\n");
	else
		add(out, "another user's or a protected process; needs CAP_SYS_PTRACE\n");
}

static int read_thread(pid_t pid, pid_t tid, bool unwinds, struct text *out)
{
	static struct snapshot snapshot;
	char state = add_thread(pid, tid, out);
	int rc;

	/* A thread in the kernel's hands would stop late, and nobody knows when. */
	if (state == 'D' || state == 'Z' || state == 'X' || !unwinds)
		return 0;
	rc = take_snapshot(pid, tid, &snapshot);
	if (rc == 0)
		unwind_add(&snapshot, out);
	return rc == -ESRCH || rc == -ETIMEDOUT ? 0 : rc;
}

static void read_threads(const struct subject *subject, DIR *tasks, struct text *out)
{
	bool unwinds = unwind_begin(subject->pid);
	unsigned int count = 0;
	struct dirent *entry;
	int rc;

	if (!unwinds)
		add(out, "note this build has no libunwind: states only\n");
	while ((entry = readdir(tasks)) && count < NSPY_STACKS_THREADS_MAX) {
		pid_t tid = (pid_t)number_of(entry->d_name);

		if (tid <= 0)
			continue;
		if (now_ns() > subject->deadline_ns) {
			add(out, "note time is up: threads from %d on are missing\n", (int)tid);
			break;
		}
		rc = read_thread(subject->pid, tid, unwinds, out);
		if (rc < 0) {
			add_refusal(subject->pid, rc, out);
			unwinds = false;
		}
		count++;
	}
	release_late();
	unwind_end();
}

int read_process(const struct subject *subject, struct text *out)
{
	struct timespec now;
	char path[64];
	DIR *tasks;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)subject->pid);
	tasks = opendir(path);
	if (!tasks)
		return -errno;
	clock_gettime(CLOCK_REALTIME, &now);
	add(out, NSPY_STACKS_MAGIC "pid %d\nrun %016" PRIx64 "\nrank %d\ncaller %d\nnode %s\n",
	    (int)subject->pid, subject->run_id, subject->rank, (int)subject->caller, subject->node);
	add(out, "time %lld%09ld\n", (long long)now.tv_sec, now.tv_nsec);
	read_threads(subject, tasks, out);
	(void)closedir(tasks);
	return 0;
}
