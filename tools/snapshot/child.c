/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may block for ever (a lost GPU, a dead file server) happens in a child. One that hangs in
 * the kernel cannot be killed: it is left to init, and we go on.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "snapshot.h"

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Until the child closes its end. */
static ssize_t take(int fd, char *buf, size_t bytes, int deadline_ms)
{
	int64_t until = now_ms() + deadline_ms, left;
	size_t have = 0;

	while ((left = until - now_ms()) > 0) {
		struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
		ssize_t got;

		if (poll(&poll_fd, 1, (int)left) <= 0)
			continue;
		got = read(fd, buf + have, bytes - have);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		have += (size_t)got;
		if (got == 0 || have == bytes)
			return (ssize_t)have;
	}
	return -ETIMEDOUT;
}

ssize_t snap_child(void (*fn)(int fd, const void *arg), const void *arg, void *buf, size_t bytes,
		   int deadline_ms)
{
	int fds[2];
	ssize_t got;
	pid_t pid;

	if (pipe(fds) < 0)
		return -errno;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		fn(fds[1], arg);
		_exit(0);
	}
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return -EAGAIN;
	}
	got = take(fds[0], buf, bytes, deadline_ms);
	close(fds[0]);
	kill(pid, SIGKILL);
	for (int tries = 0; waitpid(pid, NULL, WNOHANG) == 0 && tries < 20; tries++)
		usleep(5000);
	return got;
}
