/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "hook.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "core.h"
#include "outbox.h"
#include "say.h"
#include "spawn.h"

#define WAITING_MAX 4u
#define PAUSE_NS    10000000000ull
#define VARIABLE    "NCCLSPY_EVENT="
#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1u
#endif

static struct {
	_Atomic uint32_t put, taken; /* events ever */
	uint64_t next_ns;
	bool refused;
	/* Behind the variable's name, as the command finds it in its environment. */
	char text[WAITING_MAX][sizeof(VARIABLE) + NSPY_OUTBOX_LINE_MAX];
} hook;

void nspy_hook_start(void)
{
	atomic_store(&hook.put, 0);
	atomic_store(&hook.taken, 0);
	hook.next_ns = 0;
	hook.refused = false;
}

void nspy_hook_put(const char *line, size_t bytes)
{
	uint32_t put = atomic_load_explicit(&hook.put, memory_order_relaxed);
	char *text = hook.text[put % WAITING_MAX];

	if (!nspy_core.env.NCCLSPY_ON_EVENT[0] || bytes > NSPY_OUTBOX_LINE_MAX ||
	    put - atomic_load_explicit(&hook.taken, memory_order_acquire) == WAITING_MAX)
		return;
	(void)snprintf(text, sizeof(hook.text[0]), VARIABLE "%.*s", (int)bytes, line);
	text[strcspn(text, "\n")] = '\0';
	/* Pairs with the acquire load of the writer. */
	atomic_store_explicit(&hook.put, put + 1, memory_order_release);
}

/* A file without a name that holds the event, to be read from its start. */
static int make_input(const char *event)
{
	int fd = (int)syscall(SYS_memfd_create, "ncclspy-event", MFD_CLOEXEC);
	size_t bytes = strlen(event);

	if (fd < 0)
		return -1;
	if (write(fd, event, bytes) != (ssize_t)bytes || write(fd, "\n", 1) != 1 ||
	    syscall(SYS_lseek, fd, 0, SEEK_SET) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static bool run(char *variable)
{
	static char shell[] = "/bin/sh", c[] = "-c";
	char *arguments[] = {shell, c, nspy_core.env.NCCLSPY_ON_EVENT, NULL};
	struct nspy_spawn what = {.program = shell, .arguments = arguments, .session = true};
	char **environment;
	unsigned int count = nspy_spawn_environment(&environment, 1);
	bool ok;

	environment[count] = variable;
	environment[count + 1] = NULL;
	what.environment = environment;
	what.input = make_input(variable + sizeof(VARIABLE) - 1);
	ok = nspy_spawn(&what);
	if (what.input >= 0)
		close(what.input);
	return ok;
}

void nspy_hook_work(void)
{
	uint32_t taken = atomic_load_explicit(&hook.taken, memory_order_relaxed);
	uint64_t now;

	if (taken == atomic_load_explicit(&hook.put, memory_order_acquire))
		return;
	now = nspy_monotonic_ns();
	if (now < hook.next_ns)
		return;
	hook.next_ns = now + PAUSE_NS;
	if (!run(hook.text[taken % WAITING_MAX]) && !hook.refused) {
		hook.refused = true;
		nspy_say(NSPY_SAY_WARN, "NCCLSPY_ON_EVENT is not started by a process that "
					"adopts orphans (pid 1 or a subreaper)");
	}
	/* Pairs with the acquire load of the watcher: the place may be used again. */
	atomic_store_explicit(&hook.taken, taken + 1, memory_order_release);
}
