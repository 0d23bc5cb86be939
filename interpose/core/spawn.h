/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs started beside the process without fork, whose handlers belong to the application. The
 * program is a grandchild; its parent is made without an exit signal and waited for here, so the
 * application sees no SIGCHLD and no child. It keeps no descriptor of the process, and signals are
 * as a fresh program has them.
 */
#ifndef NSPY_SPAWN_H
#define NSPY_SPAWN_H

#include <stdbool.h>

struct nspy_spawn {
	const char *program;
	char *const *arguments;   /* NULL at the end */
	char *const *environment; /* NULL at the end */
	int input;                /* descriptor that becomes its stdin; -1 = /dev/null */
	bool session;             /* in a session of its own */
	bool adopt;               /* also where it becomes a child of this process */
};

/*
 * false: not started, because orphans come to this process (pid 1, a subreaper) and it does not
 * want to adopt this one, or memory is short. That the program does not exist is not seen. context:
 * writer thread.
 */
bool nspy_spawn(const struct nspy_spawn *what);

/*
 * The environment that the process was started with, as the loader goes by it, without our preload;
 * reading the live one from another thread is not safe. It stays until the next call, with room for
 * `extra` entries before the NULL. Number of entries. context: writer thread.
 */
unsigned int nspy_spawn_environment(char ***ret, unsigned int extra);

#endif
