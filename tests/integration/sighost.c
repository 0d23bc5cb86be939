/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that handles signals in a chosen way, calls NCCL, and then gets one. For tests that the
 * library's own handlers change nothing.
 *
 *	sighost HOW END
 *
 * HOW: none; plain, info, nodefer, resethand, mask, onstack (handlers before the first NCCL call);
 *	late (a handler after it, which passes on to what it found); ignore
 * END: segv, bus, fpe, ill (by an instruction), abort, raise:N, kill:N (to the process), thread (a
 *	segv in another thread), overflow, wait (sleeps)
 *
 * Prints what its handlers see of their surroundings. A handler of HOW reports and then takes the
 * default action by itself, except resethand, which returns.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "nccl_abi.h"

static struct sigaction found;
static char alternate[65536];

static void say(const char *text)
{
	(void)!write(STDOUT_FILENO, text, strlen(text));
}

static void say_mask(int number)
{
	char here;
	sigset_t mask;
	struct sigaction now;

	(void)pthread_sigmask(SIG_BLOCK, NULL, &mask);
	(void)sigaction(number, NULL, &now);
	say(sigismember(&mask, number) ? " self-blocked" : " self-open");
	say(sigismember(&mask, SIGUSR1) ? " usr1-blocked" : " usr1-open");
	say(&here >= alternate && &here < alternate + sizeof(alternate) ? " alternate" : " normal");
	/* Only whether it was reset: who stands there else is told to whoever asks (docs/WATCH.md).
	 */
	say(now.sa_handler == SIG_DFL ? " reset\n" : " kept\n");
}

static void leave(int number)
{
	struct sigaction standard = {.sa_handler = SIG_DFL};
	sigset_t one;

	(void)sigaction(number, &standard, NULL);
	sigemptyset(&one);
	sigaddset(&one, number);
	(void)raise(number);
	(void)pthread_sigmask(SIG_UNBLOCK, &one, NULL);
}

static void plain(int number)
{
	say("plain");
	say_mask(number);
	leave(number);
}

static void info(int number, siginfo_t *what, void *context)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "info code %d address %d context %d", what->si_code,
		       what->si_code > 0 && what->si_addr == NULL, context != NULL);
	say(text);
	say_mask(number);
	leave(number);
}

static void once(int number)
{
	say("once");
	say_mask(number);
}

/* As Python's faulthandler does it: what it found is put back, and the signal raised again. */
static void late(int number)
{
	say("late\n");
	(void)sigaction(number, &found, NULL);
	(void)raise(number);
}

static void arrange(const char *how)
{
	static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM};
	struct sigaction action = {.sa_handler = plain};
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};

	if (strcmp(how, "none") == 0)
		return;
	if (strcmp(how, "info") == 0) {
		action.sa_sigaction = info;
		action.sa_flags = SA_SIGINFO;
	} else if (strcmp(how, "nodefer") == 0) {
		action.sa_flags = SA_NODEFER;
	} else if (strcmp(how, "resethand") == 0) {
		action.sa_handler = once;
		action.sa_flags = (int)SA_RESETHAND;
	} else if (strcmp(how, "mask") == 0) {
		sigaddset(&action.sa_mask, SIGUSR1);
	} else if (strcmp(how, "onstack") == 0) {
		(void)sigaltstack(&stack, NULL);
		action.sa_flags = SA_ONSTACK;
	} else if (strcmp(how, "late") == 0) {
		action.sa_handler = late;
		action.sa_flags = SA_NODEFER;
	} else if (strcmp(how, "ignore") == 0) {
		action.sa_handler = SIG_IGN;
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		(void)sigaction(numbers[i], &action, &found);
}

static void call_nccl(void)
{
	ncclUniqueId id;
	ncclComm_t comm;
	static float in, out;

	if (ncclGetUniqueId(&id) != ncclSuccess ||
	    ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess ||
	    ncclAllReduce(&in, &out, 1, ncclFloat32, ncclSum, comm, NULL) != ncclSuccess ||
	    cudaStreamSynchronize(NULL) != cudaSuccess)
		_exit(99);
}

static void *fault(void *unused)
{
	(void)unused;
	*(volatile int *)NULL = 1; /* NOLINT: that is what it is for */
	return NULL;
}

static int deeper(volatile char *before, int left)
{
	volatile char here[4096];

	here[0] = before ? before[0] : 1;
	return left ? deeper(here, left - 1) + here[0] : 0;
}

static void bus(void)
{
	char name[] = "busXXXXXX";
	int fd = mkstemp(name);
	volatile char *page;

	(void)unlink(name);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	page[0] = 1; /* the file is empty */
}

static void end(const char *how)
{
	pthread_t thread;

	if (strcmp(how, "segv") == 0)
		(void)fault(NULL);
	else if (strcmp(how, "bus") == 0)
		bus();
	else if (strcmp(how, "fpe") == 0)
#if defined(__x86_64__)
		__asm__ volatile(
			"xorl %%ecx, %%ecx; xorl %%edx, %%edx; movl $1, %%eax; idivl %%ecx" ::
				: "eax", "ecx", "edx");
#else
		(void)raise(SIGFPE);
#endif
	else if (strcmp(how, "ill") == 0)
		__builtin_trap();
	else if (strcmp(how, "abort") == 0)
		abort();
	else if (strncmp(how, "raise:", 6) == 0)
		(void)raise(atoi(how + 6)); /* NOLINT: a number */
	else if (strncmp(how, "kill:", 5) == 0)
		(void)kill(getpid(), atoi(how + 5)); /* NOLINT: a number */
	else if (strcmp(how, "thread") == 0 && pthread_create(&thread, NULL, fault, NULL) == 0)
		(void)pthread_join(thread, NULL);
	else if (strcmp(how, "overflow") == 0)
		(void)deeper(NULL, 1 << 30);
	else if (strcmp(how, "wait") == 0)
		(void)sleep(60);
}

int main(int argc, char **argv)
{
	struct rlimit core = {RLIM_INFINITY, RLIM_INFINITY};
	bool is_late = argc > 1 && strcmp(argv[1], "late") == 0;

	if (argc < 3)
		return 2;
	(void)setrlimit(RLIMIT_CORE, &core);
	if (!is_late)
		arrange(argv[1]);
	call_nccl();
	if (is_late)
		arrange(argv[1]);
	say("ready\n");
	end(argv[2]);
	say("survived\n");
	return 0;
}
