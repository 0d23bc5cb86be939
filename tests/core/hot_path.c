/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proves what the wrappers promise: once a thread has made its first call, a recorded call makes no
 * system call (a seccomp filter kills the thread that does), takes no lock and allocates nothing
 * (the program's own definitions of these functions count). Run with the library preloaded.
 *
 * usage: hot_path [break]: with "break" the measured loop itself makes a forbidden system call, to
 * show that the trap works.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "null_api.h"

#define ROUNDS 500 /* six calls each: the pages of the live area hold them without the writer */

static __thread int watched;
static __thread long allocations, locks;

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void __libc_free(void *p);

void *malloc(size_t bytes)
{
	allocations += watched;
	return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	allocations += watched;
	return __libc_calloc(count, bytes);
}

void free(void *p)
{
	allocations += watched;
	__libc_free(p);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	static int (*real)(pthread_mutex_t * mutex);

	locks += watched;
	if (!real)
		real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
	return real(mutex);
}

static int forbid_system_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	/* This thread only: the writer thread goes on. */
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void one_round(void *comm)
{
	void *p;

	ncclAllReduce(NULL, NULL, 1024, 7, 0, comm, NULL);
	ncclGroupStart();
	ncclSend(NULL, 64, 7, 3, comm, NULL);
	ncclGroupEnd();
	cudaMalloc(&p, 4096);
	cudaStreamSynchronize(NULL);
}

struct measured {
	void *comm;
	int cheat;
	_Atomic int result; /* exit status, -1 = not done */
};

/* A thread cannot even end without a system call, so it waits in place for the process to do so. */
static void *measure(void *arg)
{
	struct measured *m = arg;

	one_round(m->comm);
	if (forbid_system_calls() < 0) {
		m->result = 77;
		return NULL;
	}
	watched = 1;
	errno = 12345;
	for (int i = 0; i < ROUNDS; i++) {
		one_round(m->comm);
		if (m->cheat)
			syscall(SYS_getppid);
	}
	watched = 0;
	m->result = allocations ? 3 : locks ? 4 : errno != 12345 ? 5 : 0;
	for (;;)
		__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	static struct measured m = {.result = -1};
	struct null_id id;
	pthread_t thread;

	memset(&id, 1, sizeof(id));
	m.cheat = argc > 1 && strcmp(argv[1], "break") == 0;
	if (ncclCommInitRank(&m.comm, 8, id, 0) != 0 ||
	    pthread_create(&thread, NULL, measure, &m) != 0)
		return 2;
	while (m.result < 0)
		usleep(1000);
	return m.result;
}
