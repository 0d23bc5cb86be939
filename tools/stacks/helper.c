/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ncclspy-stack-helper: reads the stacks of a process for libncclspy.so, which starts it after a
 * confirmed hang, beside the process and never inside it.
 *
 *	ncclspy-stack-helper FILE PID [run=HEX] [rank=N] [caller=TID] [node=NAME] [mode=OCTAL]
 *		[ras=[ADDRESS]]
 *
 * Writes FILE.part and renames it. The kernel ends it after ten seconds, wherever it is, and lets
 * go whatever it held. Exit status: 0, or 2.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "read.h"
#include "trace_stacks.h"

#define LIFE_S         10
#define READ_NS        4000000000ull
#define RAS_TIMEOUT_MS 4000

static char buffer[NSPY_STACKS_BYTES_MAX];

/* The thread that started us had all signals blocked. */
static void settle(void)
{
	const struct rlimit no_core = {0, 0};
	sigset_t none;

	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGALRM, SIG_DFL);
	(void)alarm(LIFE_S);
	(void)setrlimit(RLIMIT_CORE, &no_core);
	(void)nice(5); /* NOLINT: no matter */
}

static int write_file(const char *path, const struct text *text, mode_t mode)
{
	char part[4200];
	size_t done = 0;
	int fd;

	(void)snprintf(part, sizeof(part), "%.4100s.part", path);
	(void)unlink(part);
	fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return 2;
	while (done < text->used) {
		ssize_t n = write(fd, text->data + done, text->used - done);

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	if (close(fd) != 0 || done < text->used || rename(part, path) != 0) {
		(void)unlink(part);
		return 2;
	}
	return 0;
}

/* One line for who wants no more: where the thread stands that calls NCCL. */
static void add_summary(struct text *text)
{
	const struct nspy_stack_thread *thread;
	struct nspy_stacks stacks;
	char line[512] = "";

	if (nspy_stacks_parse(text->data, text->used, &stacks) < 0)
		return;
	thread = nspy_stacks_caller(&stacks);
	if (thread)
		nspy_stacks_tell(&stacks, thread, line, sizeof(line));
	if (line[0])
		add(text, "tell %s\n", line);
	nspy_stacks_done(&stacks);
}

int main(int argc, char **argv)
{
	struct text text = {.data = buffer, .room = sizeof(buffer) - TEXT_RESERVE};
	struct subject subject = {.rank = -1, .node = "-", .deadline_ns = now_ns() + READ_NS};
	const char *ras = NULL;
	mode_t mode = 0600;

	settle();
	if (argc < 3)
		return 2;
	subject.pid = (pid_t)number_of(argv[2]);
	for (int i = 3; i < argc; i++) {
		const char *value = strchr(argv[i], '=');

		if (!value++)
			continue;
		if (strncmp(argv[i], "run=", 4) == 0)
			subject.run_id = strtoull(value, NULL, 16);
		else if (strncmp(argv[i], "rank=", 5) == 0)
			subject.rank = value[0] == '-' ? -1 : number_of(value);
		else if (strncmp(argv[i], "caller=", 7) == 0)
			subject.caller = (pid_t)number_of(value);
		else if (strncmp(argv[i], "node=", 5) == 0)
			subject.node = value;
		else if (strncmp(argv[i], "mode=", 5) == 0)
			mode = (mode_t)strtoul(value, NULL, 8) & 0640;
		else if (strncmp(argv[i], "ras=", 4) == 0)
			ras = value;
	}
	if (subject.pid <= 0 || read_process(&subject, &text) < 0)
		return 2;
	if (ras)
		add_ras(ras_address(ras), RAS_TIMEOUT_MS, &text);
	add_summary(&text);
	finish(&text);
	return write_file(argv[1], &text, mode);
}
