/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the stacks of another process from outside. A thread is stopped only while its registers
 * and the top of its stack are copied; the copy is unwound afterwards. What is stopped goes on when
 * this process ends, however it ends. context: one thread.
 */
#ifndef NSPY_STACKS_READ_H
#define NSPY_STACKS_READ_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

#define STACK_COPY_BYTES (512u << 10)
#define STOP_MAX_MS      50 /* longest wait for a thread to stop */

#define TEXT_RESERVE 64u

/*
 * A text of bounded length under construction. What does not fit is left out, and finish() notes
 * that in the TEXT_RESERVE bytes beyond room.
 */
struct text {
	char *data;
	size_t used, room;
	bool full;
};
void finish(struct text *text);
void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A copy of a thread's registers and stack. */
struct snapshot {
	uint64_t registers[34]; /* as PTRACE_GETREGSET gives them */
	uint64_t stack_pointer;
	size_t stack_bytes;
	uint8_t stack[STACK_COPY_BYTES];
};

/* What to write about a process, for the head of the file. */
struct subject {
	pid_t pid;
	uint64_t run_id;
	int rank; /* -1 = not known */
	pid_t caller;
	const char *node;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC; what is not read by then is left out */
};

uint64_t now_ns(void);

/* The decimal number that a text begins with, 0 if it does not. */
static inline int number_of(const char *text)
{
	long value = strtol(text, NULL, 10);

	return value < 0 || value > INT_MAX ? 0 : (int)value;
}

/*
 * Stops a thread, copies it, lets it go. 0; -ETIMEDOUT: it did not stop in time, it goes on as
 * soon as it can be told to; else the error of ptrace.
 */
int take_snapshot(pid_t pid, pid_t tid, struct snapshot *ret);
/* Attaches and stops; the thread stays stopped until release_thread() or our end. */
int hold_thread(pid_t tid, int *ret_signal);
void release_thread(pid_t tid, int signal);
/* Lets go what stopped too late. */
void release_late(void);

/* Frames of the copy, as lines of a stack file. false: this build cannot unwind. */
bool unwind_begin(pid_t pid);
void unwind_add(const struct snapshot *snapshot, struct text *out);
void unwind_end(void);

/* All of a process in the form of a stack file, without its end. -ENOENT: there is none. */
int read_process(const struct subject *subject, struct text *out);

#define RAS_ADDRESS "localhost:28028" /* where NCCL listens unless told otherwise */

/* The address given, else what NCCL_RAS_ADDR says, else NCCL's default. given: NULL or "" = none.
 */
const char *ras_address(const char *given);

/*
 * Status of NCCL's RAS service at HOST:PORT, as "note RAS: ..." lines; an error is a line too.
 * Waits timeout_ms in all at most.
 */
void add_ras(const char *address, int timeout_ms, struct text *out);

#endif
