/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _exit ends a process without running destructors; Python's multiprocessing workers leave this
 * way. Noting it tells a deliberate end from a death. Everything here is async-signal-safe, as
 * _exit has to be, and nothing is done in a child that shares its parent's memory (vfork).
 */
#include "compat.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "export.h"
#include "init.h"

static _Noreturn void leave(int status)
{
	nspy_stop(status);
	for (;;)
		(void)syscall(SYS_exit_group, status);
}

NSPY_EXPORT _Noreturn void _exit(int status)
{
	leave(status);
}

NSPY_EXPORT _Noreturn void _Exit(int status)
{
	leave(status);
}
