/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#include "read.h"

#define LATE_MAX 64u

/* Asked to stop and not stopped in time. */
static pid_t late[LATE_MAX];
static size_t late_count;

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Whether the thread has stopped; the signal that it was about to get, to be passed on. */
static bool has_stopped(pid_t tid, int *ret_signal)
{
	int status;

	if (waitpid(tid, &status, __WALL | WNOHANG) != tid || !WIFSTOPPED(status))
		return false;
	/* Above it are events; without one it is a signal on its way to the thread. */
	*ret_signal = (unsigned int)status >> 16 ? 0 : WSTOPSIG(status);
	return true;
}

int hold_thread(pid_t tid, int *ret_signal)
{
	const struct timespec pause = {.tv_nsec = 100000};
	uint64_t until = now_ns() + STOP_MAX_MS * 1000000ull;

	if (late_count == LATE_MAX)
		return -EBUSY;
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
		return -errno;
	(void)ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
	while (!has_stopped(tid, ret_signal)) {
		if (now_ns() > until) {
			late[late_count++] = tid;
			return -ETIMEDOUT;
		}
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

void release_thread(pid_t tid, int signal)
{
	(void)ptrace(PTRACE_DETACH, tid, NULL, (void *)(long)signal);
}

void release_late(void)
{
	size_t kept = 0;

	for (size_t i = 0; i < late_count; i++) {
		int signal;

		if (has_stopped(late[i], &signal))
			release_thread(late[i], signal);
		else
			late[kept++] = late[i];
	}
	late_count = kept;
}

static uint64_t stack_pointer(const struct snapshot *snapshot)
{
#if defined(__x86_64__)
	return ((const struct user_regs_struct *)(const void *)snapshot->registers)->rsp;
#elif defined(__aarch64__)
	return ((const struct user_regs_struct *)(const void *)snapshot->registers)->sp;
#endif
}

/* Up to the end of the mapping, of which we know only that reading stops there. */
static size_t copy_stack(pid_t pid, struct snapshot *ret)
{
	for (size_t bytes = STACK_COPY_BYTES; bytes >= 4096; bytes /= 2) {
		struct iovec here = {ret->stack, bytes};
		struct iovec there = {(void *)(uintptr_t)ret->stack_pointer, bytes}; /* NOLINT */
		ssize_t got = process_vm_readv(pid, &here, 1, &there, 1, 0);

		if (got > 0)
			return (size_t)got;
	}
	return 0;
}

int take_snapshot(pid_t pid, pid_t tid, struct snapshot *ret)
{
	struct iovec registers = {ret->registers, sizeof(ret->registers)};
	int signal = 0, rc;

	release_late();
	rc = hold_thread(tid, &signal);
	if (rc < 0)
		return rc;
	if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &registers) < 0) /* NOLINT */
		rc = -errno;
	if (rc == 0) {
		ret->stack_pointer = stack_pointer(ret);
		ret->stack_bytes = copy_stack(pid, ret);
	}
	release_thread(tid, signal);
	return rc;
}
