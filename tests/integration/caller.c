/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that calls NCCL in a scripted way and ends in a scripted way, for tests of the
 * recorder: it knows how often it called, the test compares that with the trace. It uses a
 * communicator of one rank, so nobody is waited for.
 *
 *	caller WORD...
 *
 * Words are carried out in order:
 *	init          make the communicator
 *	N             N calls of ncclAllReduce
 *	version:N     N calls of ncclGetVersion, which also work in a forked child
 *	threads:N:M   N threads, at most 8 at a time, M calls of ncclAllReduce each
 *	loop:FILE:T   T threads call until the process is killed; what has been entered and has
 *	              returned is counted in FILE (struct counters)
 *	pace:US       the loops rest so many microseconds after each call
 *	destroy       finalize and destroy
 *	fork:WORD     fork; the child carries out WORD and leaves by exit
 *	_fork:WORD    the same, but the child leaves by _exit
 *	vfork         vfork, the child fails to exec and leaves by _exit
 *	spawn:PROGRAM run a program and wait for it
 *	exec          become this program anew with the words that follow
 *	closeall      close every descriptor above 2
 *	file:PATH     open PATH for appending on the lowest descriptor and keep it
 *	chdir:PATH    change directory
 *	sleep:MS      sleep
 *	say:TEXT      write a line to stdout
 *	return, exit:N, _exit:N, quick_exit:N, abort, segv, kill
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nccl_abi.h"

#define LOOP_THREADS_MAX 16
#define AT_ONCE          8
#define SYNC_EVERY       64

/* Read by the test; little-endian 64-bit numbers. */
struct counters {
	_Atomic uint64_t entered[LOOP_THREADS_MAX];
	_Atomic uint64_t returned[LOOP_THREADS_MAX];
};

static ncclComm_t comm;
static struct counters *counters;
static long pace_us;

_Noreturn static void give_up(const char *what, int code)
{
	(void)fprintf(stderr, "caller: %s: %d\n", what, code);
	_exit(99);
}

static void init(void)
{
	ncclUniqueId id;
	int rc = ncclGetUniqueId(&id);

	if (rc == ncclSuccess)
		rc = ncclCommInitRank(&comm, 1, id, 0);
	if (rc != ncclSuccess)
		give_up("ncclCommInitRank", rc);
}

static void all_reduce(void)
{
	static _Thread_local float in, out;
	int rc = ncclAllReduce(&in, &out, 1, ncclFloat32, ncclSum, comm, NULL);

	if (rc != ncclSuccess)
		give_up("ncclAllReduce", rc);
}

static void synchronize(void)
{
	int rc = cudaStreamSynchronize(NULL);

	if (rc != cudaSuccess)
		give_up("cudaStreamSynchronize", rc);
}

static void call_often(long times)
{
	for (long i = 1; i <= times; i++) {
		all_reduce();
		if (i % SYNC_EVERY == 0)
			synchronize();
	}
	synchronize();
}

static void *call_in_thread(void *times)
{
	call_often((long)(intptr_t)times);
	return NULL;
}

static void run_threads(long count, long times)
{
	pthread_t threads[AT_ONCE];

	for (long done = 0; done < count; done += AT_ONCE) {
		long now = count - done < AT_ONCE ? count - done : AT_ONCE;

		for (long i = 0; i < now; i++)
			if (pthread_create(&threads[i], NULL, call_in_thread,
					   (void *)(intptr_t)times) != 0)
				give_up("pthread_create", errno);
		for (long i = 0; i < now; i++)
			pthread_join(threads[i], NULL);
	}
}

static void *loop(void *number)
{
	size_t i = (size_t)(intptr_t)number;

	for (uint64_t n = 1;; n++) {
		atomic_store_explicit(&counters->entered[i], n, memory_order_release);
		all_reduce();
		atomic_store_explicit(&counters->returned[i], n, memory_order_release);
		if (n % SYNC_EVERY == 0)
			synchronize();
		if (pace_us)
			(void)usleep((useconds_t)pace_us);
	}
	return NULL;
}

_Noreturn static void run_loops(const char *path, long threads)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	pthread_t thread;

	if (fd < 0 || ftruncate(fd, sizeof(*counters)) < 0)
		give_up(path, errno);
	counters = mmap(NULL, sizeof(*counters), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counters == MAP_FAILED || threads > LOOP_THREADS_MAX)
		give_up(path, errno);
	for (long i = 1; i < threads; i++)
		if (pthread_create(&thread, NULL, loop, (void *)(intptr_t)i) != 0)
			give_up("pthread_create", errno);
	loop(NULL);
	_exit(0);
}

static void carry_out(const char *word, char **rest);

static void fork_and(const char *word, bool plain_exit, char **rest)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		give_up("fork", errno);
	if (pid == 0) {
		carry_out(word, rest);
		if (plain_exit)
			exit(0);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) < 0 || status != 0)
		give_up("child", status);
}

static void vfork_once(void)
{
	char *const nothing[] = {NULL};
	int status;
	pid_t pid = vfork();

	if (pid == 0) {
		(void)execve("/nonexistent", nothing, nothing);
		_exit(7);
	}
	if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
		give_up("vfork", status);
}

static void spawn(const char *program)
{
	char *const words[] = {(char *)program, NULL};
	int status;
	pid_t pid;

	if (posix_spawnp(&pid, program, NULL, NULL, words, environ) != 0 ||
	    waitpid(pid, &status, 0) < 0 || status != 0)
		give_up(program, errno);
}

static void become(char **rest)
{
	char *words[64] = {(char *)"caller"};

	for (int i = 0; rest[i] && i < 62; i++)
		words[i + 1] = rest[i];
	(void)execv("/proc/self/exe", words);
	give_up("exec", errno);
}

static void rest_ms(long ms)
{
	struct timespec time = {ms / 1000, ms % 1000 * 1000000};

	while (nanosleep(&time, &time) < 0 && errno == EINTR)
		;
}

static void get_version(long times)
{
	int version;

	while (times-- > 0)
		if (ncclGetVersion(&version) != ncclSuccess)
			give_up("ncclGetVersion", 0);
}

static bool is(const char *word, const char *name, const char **ret_argument)
{
	size_t bytes = strlen(name);

	if (strncmp(word, name, bytes) != 0 || (word[bytes] && word[bytes] != ':'))
		return false;
	*ret_argument = word[bytes] ? word + bytes + 1 : "";
	return true;
}

/* The number behind the last colon. */
static long last_number(const char *argument)
{
	const char *colon = strrchr(argument, ':');

	return strtol(colon ? colon + 1 : argument, NULL, 10);
}

static bool end(const char *word)
{
	const char *argument;

	if (is(word, "exit", &argument))
		exit((int)last_number(argument));
	if (is(word, "_exit", &argument))
		_exit((int)last_number(argument));
	if (is(word, "quick_exit", &argument))
		quick_exit((int)last_number(argument));
	if (is(word, "abort", &argument))
		abort();
	if (is(word, "segv", &argument))
		(void)raise(SIGSEGV);
	if (is(word, "kill", &argument))
		(void)raise(SIGKILL);
	return false;
}

static bool change_surroundings(const char *word)
{
	const char *argument;

	if (is(word, "closeall", &argument)) {
		for (int fd = 3; fd < 1024; fd++)
			(void)close(fd);
	} else if (is(word, "file", &argument)) {
		if (open(argument, O_WRONLY | O_CREAT | O_APPEND, 0600) < 0)
			give_up(argument, errno);
	} else if (is(word, "chdir", &argument)) {
		if (chdir(argument) < 0)
			give_up(argument, errno);
	} else if (is(word, "sleep", &argument)) {
		rest_ms(last_number(argument));
	} else if (is(word, "say", &argument)) {
		(void)printf("%s\n", argument);
		(void)fflush(stdout);
	} else {
		return false;
	}
	return true;
}

static bool make_processes(const char *word, char **rest)
{
	const char *argument;

	if (is(word, "fork", &argument))
		fork_and(argument, true, rest);
	else if (is(word, "_fork", &argument))
		fork_and(argument, false, rest);
	else if (is(word, "vfork", &argument))
		vfork_once();
	else if (is(word, "spawn", &argument))
		spawn(argument);
	else if (is(word, "exec", &argument))
		become(rest);
	else
		return false;
	return true;
}

static bool call_nccl(const char *word)
{
	const char *argument;
	char *colon;

	if (is(word, "init", &argument)) {
		init();
	} else if (is(word, "version", &argument)) {
		get_version(last_number(argument));
	} else if (is(word, "threads", &argument)) {
		run_threads(strtol(argument, NULL, 10), last_number(argument));
	} else if (is(word, "loop", &argument)) {
		colon = strrchr(argument, ':');
		if (!colon)
			give_up(word, 0);
		*colon = '\0';
		run_loops(argument, strtol(colon + 1, NULL, 10));
	} else if (is(word, "pace", &argument)) {
		pace_us = last_number(argument);
	} else if (is(word, "destroy", &argument)) {
		if (ncclCommFinalize(comm) != ncclSuccess || ncclCommDestroy(comm) != ncclSuccess)
			give_up("ncclCommDestroy", 0);
	} else if (word[0] >= '0' && word[0] <= '9') {
		call_often(strtol(word, NULL, 10));
	} else {
		return false;
	}
	return true;
}

static void carry_out(const char *word, char **rest)
{
	if (!call_nccl(word) && !make_processes(word, rest) && !change_surroundings(word) &&
	    !end(word) && strcmp(word, "return") != 0)
		give_up(word, 0);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		carry_out(argv[i], argv + i + 1);
	return 0;
}
