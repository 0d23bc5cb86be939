/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "activity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NS_PER_S 1000000000ull

static struct {
	uint64_t calls; /* when the readings below began to count */
	bool reading;
	uint64_t when_ns, cpu_ns, io_bytes;
} base;
static uint64_t own_io; /* read and written by the watcher */

void nspy_activity_own_io(size_t bytes)
{
	own_io += bytes;
}

void nspy_activity_start(void)
{
	memset(&base, 0, sizeof(base));
}

/* A small file of /proc as text; false if it cannot be read. */
static bool slurp(const char *path, char *ret, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, ret, bytes - 1);
	close(fd);
	if (n <= 0)
		return false;
	nspy_activity_own_io((size_t)n);
	ret[n] = '\0';
	return true;
}

/* Fields of a stat line from the third on, which is the state; NULL if it is none. */
static const char *after_name(const char *stat)
{
	const char *p = strrchr(stat, ')');

	return p && p[1] == ' ' && p[2] ? p + 2 : NULL;
}

/* The n-th field of the text, from 0, as a number. */
static uint64_t field(const char *p, unsigned int n)
{
	for (; n && *p; p++)
		n -= *p == ' ';
	return strtoull(p, NULL, 10);
}

static bool thread_stat(uint32_t tid, char *ret_state, uint64_t *ret_cpu_ns)
{
	char path[64], text[512];
	uint64_t tick_ns = NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK);
	const char *p;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%u/stat", tid);
	p = slurp(path, text, sizeof(text)) ? after_name(text) : NULL;
	if (!p)
		return false;
	*ret_state = *p;
	/* utime and stime are fields 14 and 15 of the line, the state is field 3. */
	*ret_cpu_ns = (field(p, 11) + field(p, 12)) * tick_ns;
	return true;
}

/*
 * How long the thread has been ready to run without a CPU, by the kernel's scheduler statistics; 0
 * without them. On a crowded node an endless loop gets little CPU and is busy all the same.
 */
static uint64_t ready_ns(uint32_t tid)
{
	char path[64], text[128];

	(void)snprintf(path, sizeof(path), "/proc/self/task/%u/schedstat", tid);
	return slurp(path, text, sizeof(text)) ? field(text, 1) : 0;
}

static uint64_t io_bytes(void)
{
	static const char *const keys[] = {"rchar: ", "wchar: "};
	char text[512];
	uint64_t sum = 0;

	if (!slurp("/proc/self/io", text, sizeof(text)))
		return 0;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *p = strstr(text, keys[i]);

		if (p)
			sum += strtoull(p + strlen(keys[i]), NULL, 10);
	}
	return sum > own_io ? sum - own_io : 0;
}

static void read_wchan(struct nspy_status *status, uint32_t tid)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/self/task/%u/wchan", tid);
	if (!slurp(path, status->caller_wchan, sizeof(status->caller_wchan)) ||
	    strcmp(status->caller_wchan, "0") == 0)
		status->caller_wchan[0] = '\0';
}

void nspy_activity_look(struct nspy_status *status, uint32_t tid, uint64_t now_ns)
{
	uint64_t cpu_ns = 0, io;

	status->busy_for_ns = 0;
	status->busy_cpu_ns = 0;
	status->busy_io_bytes = 0;
	status->caller_state = '?';
	status->caller_wchan[0] = '\0';
	if (!tid || tid != status->caller_tid || status->calls != base.calls) {
		status->caller_tid = tid;
		base.calls = status->calls;
		base.reading = false;
		return;
	}
	if (!thread_stat(tid, &status->caller_state, &cpu_ns))
		return;
	cpu_ns += ready_ns(tid);
	io = io_bytes();
	if (!base.reading) {
		base.reading = true;
		base.when_ns = now_ns;
		base.cpu_ns = cpu_ns;
		base.io_bytes = io;
	}
	status->busy_for_ns = now_ns - base.when_ns;
	status->busy_cpu_ns = cpu_ns - base.cpu_ns;
	status->busy_io_bytes = io > base.io_bytes ? io - base.io_bytes : 0;
	read_wchan(status, tid);
}

enum nspy_alive nspy_activity_alive(uint32_t pid, uint64_t starttime)
{
	char path[64], text[512];
	const char *p;

	(void)snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	/* What cannot be read, for want of a descriptor or the right, is not dead for that. */
	if (!slurp(path, text, sizeof(text)))
		return syscall(SYS_kill, (pid_t)pid, 0) < 0 && errno == ESRCH ? NSPY_ALIVE_NO
									      : NSPY_ALIVE_YES;
	p = after_name(text);
	/* Ended and not yet collected is ended. The start time is field 22. */
	if (!p || *p == 'Z' || *p == 'X' || (starttime && field(p, 19) != starttime))
		return NSPY_ALIVE_NO;
	return *p == 'T' || *p == 't' ? NSPY_ALIVE_STOPPED : NSPY_ALIVE_YES;
}
