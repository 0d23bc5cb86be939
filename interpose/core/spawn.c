/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core.h"
#include "procfs.h"

#define STACK_BYTES      (16u << 10)
#define ENVIRONMENT_MAX  1024u
#define ENVIRONMENT_SIZE (128u << 10)
#define OLD_FDS          4096
#define SIGNALS          64

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

static struct {
	struct nspy_spawn what;
	char *environment[ENVIRONMENT_MAX + 1];
	char environment_text[ENVIRONMENT_SIZE];
	_Alignas(16) char stack[2][STACK_BYTES];
} spawn;

/* The rest of these run in the memory of the process, on other stacks, while it waits: plain system
 * calls, nothing else. */

/* No handler of the application's may run here; handlers first, then the mask. */
static void reset_signals(void)
{
	static const uint64_t action[8]; /* the kernel's: SIG_DFL, no flags */
	static const uint64_t none;

	for (int i = 1; i <= SIGNALS; i++)
		(void)syscall(SYS_rt_sigaction, i, action, NULL, sizeof(none));
	(void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
}

static int run_program(void *unused)
{
	long null = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
	int input = spawn.what.input >= 0 ? spawn.what.input : (int)null;

	(void)unused;
	/* The input first: it may be one of those that are replaced. */
	if (input == 0)
		input = (int)syscall(SYS_dup, 0);
	(void)syscall(SYS_dup3, input, 0, 0);
	for (int fd = 1; null >= 0 && fd < 3; fd++)
		if (null != fd)
			(void)syscall(SYS_dup3, (int)null, fd, 0);
	if (syscall(SYS_close_range, 3u, ~0u, 0u) != 0)
		for (int fd = 3; fd < OLD_FDS; fd++)
			(void)syscall(SYS_close, fd);
	if (spawn.what.session)
		(void)syscall(SYS_setsid);
	reset_signals();
	(void)syscall(SYS_execve, spawn.what.program, spawn.what.arguments, spawn.what.environment);
	(void)syscall(SYS_exit_group, 127);
	return 127; /* not reached */
}

static int run_parent(void *unused)
{
	(void)unused;
	(void)clone(run_program, spawn.stack[1] + STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD,
		    NULL);
	(void)syscall(SYS_exit_group, 0);
	return 0; /* not reached */
}

static bool orphans_come_here(void)
{
	int subreaper = 0;

	return nspy_core.id.pid == 1 || prctl(PR_GET_CHILD_SUBREAPER, &subreaper) != 0 || subreaper;
}

unsigned int nspy_spawn_environment(char ***ret, unsigned int extra)
{
	ssize_t bytes = nspy_proc_read_all("/proc/self/environ", spawn.environment_text,
					   sizeof(spawn.environment_text));
	unsigned int count = 0;

	for (ssize_t at = 0; at < bytes && count + extra < ENVIRONMENT_MAX;) {
		char *text = spawn.environment_text + at;

		if (strncmp(text, "LD_PRELOAD=", 11) != 0)
			spawn.environment[count++] = text;
		at += (ssize_t)strlen(text) + 1;
	}
	spawn.environment[count] = NULL;
	*ret = spawn.environment;
	return count;
}

bool nspy_spawn(const struct nspy_spawn *what)
{
	int pid, status;

	if (!what->adopt && orphans_come_here())
		return false;
	spawn.what = *what;
	pid = clone(run_parent, spawn.stack[0] + STACK_BYTES, CLONE_VM | CLONE_VFORK, NULL);
	if (pid < 0)
		return false;
	/* It has ended already; __WCLONE finds what has no exit signal, and nothing else. */
	while (syscall(SYS_wait4, pid, &status, __WCLONE, NULL) < 0 && errno == EINTR)
		;
	return true;
}
