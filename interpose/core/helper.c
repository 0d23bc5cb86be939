/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "helper.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core.h"
#include "facts.h"
#include "procfs.h"

#define STACK_BYTES      (16u << 10)
#define ENVIRONMENT_MAX  1024u
#define ENVIRONMENT_SIZE (128u << 10)
#define DEADLINE_NS      3000000000ull /* the helper ends itself a second earlier */
#define OLD_FDS          4096

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

static struct {
	char file[NSPY_PATH_MAX + 64];
	char program[NSPY_PATH_MAX + 64];
	char plugin[256], gpu[64];
	char *arguments[5];
	char *environment[ENVIRONMENT_MAX + 1];
	char environment_text[ENVIRONMENT_SIZE];
	uint64_t deadline_ns; /* 0 = not running */
	_Alignas(16) char stack[2][STACK_BYTES];
} helper;

/* The rest of these run in the memory of the process, on other stacks, while it waits: plain system
 * calls, nothing else. */

static int run_program(void *unused)
{
	long null = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);

	(void)unused;
	for (int fd = 0; null >= 0 && fd < 3; fd++)
		(void)syscall(SYS_dup3, (int)null, fd, 0);
	if (syscall(SYS_close_range, 3u, ~0u, 0u) != 0)
		for (int fd = 3; fd < OLD_FDS; fd++)
			(void)syscall(SYS_close, fd);
	(void)syscall(SYS_execve, helper.program, helper.arguments, helper.environment);
	(void)syscall(SYS_exit_group, 127);
	return 127; /* not reached */
}

static int run_parent(void *unused)
{
	(void)unused;
	(void)clone(run_program, helper.stack[1] + STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD,
		    NULL);
	(void)syscall(SYS_exit_group, 0);
	return 0; /* not reached */
}

/* Beside the library. */
static bool find_program(void)
{
	static const char anchor = 0;
	struct link_map *map;
	Dl_info where;
	const char *slash;

	if (!nspy_sys_dladdr1(&anchor, &where, (void **)&map, RTLD_DL_LINKMAP) || !where.dli_fname)
		return false;
	slash = strrchr(where.dli_fname, '/');
	(void)snprintf(helper.program, sizeof(helper.program), "%.*sncclspy-probe",
		       slash ? (int)(slash + 1 - where.dli_fname) : 0, where.dli_fname);
	return syscall(SYS_faccessat, AT_FDCWD, helper.program, X_OK) == 0;
}

/*
 * As the process was started: this is what the loader goes by, and reading the live environment
 * from another thread is not safe. Without our own preload.
 */
static void copy_environment(void)
{
	ssize_t bytes = nspy_proc_read_all("/proc/self/environ", helper.environment_text,
					   sizeof(helper.environment_text));
	size_t count = 0;

	for (ssize_t at = 0; at < bytes && count < ENVIRONMENT_MAX;) {
		char *text = helper.environment_text + at;

		if (strncmp(text, "LD_PRELOAD=", 11) != 0)
			helper.environment[count++] = text;
		at += (ssize_t)strlen(text) + 1;
	}
	helper.environment[count] = NULL;
}

static bool orphans_come_here(void)
{
	int subreaper = 0;

	return nspy_core.id.pid == 1 || prctl(PR_GET_CHILD_SUBREAPER, &subreaper) != 0 || subreaper;
}

void nspy_helper_start(const char *plugin, const char *gpu, uint64_t now_ns)
{
	size_t n = 2;
	int pid, status;

	if (orphans_come_here() || !find_program())
		return;
	(void)snprintf(helper.file, sizeof(helper.file), "%s.%016llx.probe", nspy_core.id.base,
		       (unsigned long long)nspy_core.id.run_id);
	helper.arguments[0] = helper.program;
	helper.arguments[1] = helper.file;
	(void)snprintf(helper.plugin, sizeof(helper.plugin), "plugin=%s", plugin ? plugin : "");
	(void)snprintf(helper.gpu, sizeof(helper.gpu), "gpu=%s", gpu ? gpu : "");
	if (plugin)
		helper.arguments[n++] = helper.plugin;
	if (gpu)
		helper.arguments[n++] = helper.gpu;
	helper.arguments[n] = NULL;
	copy_environment();
	pid = clone(run_parent, helper.stack[0] + STACK_BYTES, CLONE_VM | CLONE_VFORK, NULL);
	if (pid < 0)
		return;
	/* It has ended already; __WCLONE finds what has no exit signal, and nothing else. */
	while (syscall(SYS_wait4, pid, &status, __WCLONE, NULL) < 0 && errno == EINTR)
		;
	helper.deadline_ns = now_ns + DEADLINE_NS;
}

static void take(char *text)
{
	while (*text) {
		char *end = strchr(text, '\n'), *equals = strchr(text, '=');

		if (!end || !equals || equals > end)
			break;
		*end = *equals = '\0';
		if (strcmp(text, "done") != 0)
			nspy_facts_add(text, equals + 1);
		text = end + 1;
	}
}

void nspy_helper_end(void)
{
	if (helper.deadline_ns)
		(void)unlink(helper.file);
	helper.deadline_ns = 0;
}

bool nspy_helper_poll(uint64_t now_ns)
{
	static char text[4096];
	ssize_t bytes;

	if (!helper.deadline_ns)
		return false;
	bytes = nspy_proc_read_all(helper.file, text, sizeof(text));
	if (now_ns < helper.deadline_ns && !strstr(text, "done=1\n"))
		return false;
	if (bytes > 0)
		take(text);
	nspy_helper_end();
	return bytes > 0;
}
