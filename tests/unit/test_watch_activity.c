/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a thread works and a process lives, by /proc: of threads and children of this test. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "activity.h"

#define S  1000000000ull
#define MS 1000000ull

static _Atomic bool over;
static _Atomic uint32_t tids[2];

static uint64_t clock_now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec;
}

static void rest(uint64_t ns)
{
	struct timespec t = {.tv_nsec = (long)ns};

	nanosleep(&t, NULL);
}

static void *spin(void *number)
{
	atomic_store(&tids[(uintptr_t)number], (uint32_t)syscall(SYS_gettid));
	while (!atomic_load(&over))
		;
	return NULL;
}

static void *doze(void *number)
{
	atomic_store(&tids[(uintptr_t)number], (uint32_t)syscall(SYS_gettid));
	while (!atomic_load(&over))
		rest(50 * MS);
	return NULL;
}

static void begin(pthread_t *threads, uintptr_t count, void *(*work)(void *))
{
	atomic_store(&over, false);
	for (uintptr_t i = 0; i < count; i++) {
		atomic_store(&tids[i], 0);
		assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)i), 0);
		while (!atomic_load(&tids[i]))
			sched_yield();
	}
	nspy_activity_start();
}

static void end(pthread_t *threads, uintptr_t count)
{
	atomic_store(&over, true);
	for (uintptr_t i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static bool has_scheduler_statistics(void)
{
	return access("/proc/self/schedstat", R_OK) == 0;
}

/* On a crowded node an endless loop gets a part of a CPU and is busy all the same. */
static void test_ready_is_busy(void **state)
{
	struct nspy_status status = {.calls = 1};
	pthread_t threads[2];
	clockid_t clock;
	cpu_set_t one;
	uint64_t cpu_before, limit;
	bool more = false;

	(void)state;
	if (!has_scheduler_statistics())
		skip();
	begin(threads, 2, spin);
	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	for (int i = 0; i < 2; i++)
		(void)pthread_setaffinity_np(threads[i], sizeof(one), &one);
	assert_int_equal(pthread_getcpuclockid(threads[0], &clock), 0);
	nspy_activity_look(&status, tids[0], clock_now(CLOCK_MONOTONIC));
	assert_int_equal(status.busy_for_ns, 0);
	nspy_activity_look(&status, tids[0], clock_now(CLOCK_MONOTONIC));
	cpu_before = clock_now(clock);
	limit = clock_now(CLOCK_MONOTONIC) + 30 * S;
	while (!more && clock_now(CLOCK_MONOTONIC) < limit) {
		rest(20 * MS);
		nspy_activity_look(&status, tids[0], clock_now(CLOCK_MONOTONIC));
		/* Ticks of CPU time are 10 ms. */
		more = status.busy_cpu_ns > clock_now(clock) - cpu_before + 30 * MS;
	}
	end(threads, 2);
	assert_true(more);
	assert_int_equal(status.caller_state, 'R');
}

static void test_asleep(void **state)
{
	struct nspy_status status = {.calls = 1};
	pthread_t thread;

	(void)state;
	begin(&thread, 1, doze);
	for (int i = 0; i < 4; i++) {
		nspy_activity_look(&status, tids[0], 10 * S + (uint64_t)i * 100 * MS);
		rest(100 * MS);
	}
	assert_int_equal(status.busy_for_ns, 200 * MS);
	assert_true(status.busy_cpu_ns <= status.busy_for_ns / 5);
	/* A call begins it anew. */
	status.calls++;
	nspy_activity_look(&status, tids[0], 20 * S);
	assert_int_equal(status.busy_for_ns, 0);
	assert_int_equal(status.caller_state, '?');
	end(&thread, 1);
}

/* --- other processes --- */

static pid_t child(void)
{
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	assert_true(pid > 0);
	return pid;
}

static bool comes_to(pid_t pid, enum nspy_alive what)
{
	for (int i = 0; i < 3000; i++) {
		if (nspy_activity_alive((uint32_t)pid, 0) == what)
			return true;
		rest(10 * MS);
	}
	return false;
}

static void test_alive(void **state)
{
	pid_t pid = child();

	(void)state;
	assert_int_equal(nspy_activity_alive((uint32_t)pid, 0), NSPY_ALIVE_YES);
	/* Its number, and another process. */
	assert_int_equal(nspy_activity_alive((uint32_t)pid, 1), NSPY_ALIVE_NO);
	kill(pid, SIGSTOP);
	assert_true(comes_to(pid, NSPY_ALIVE_STOPPED));
	kill(pid, SIGKILL);
	/* Not collected yet. */
	assert_true(comes_to(pid, NSPY_ALIVE_NO));
	waitpid(pid, NULL, 0);
	assert_int_equal(nspy_activity_alive((uint32_t)pid, 0), NSPY_ALIVE_NO);
}

/* What cannot be looked up for want of a descriptor is not dead for that. */
static void test_alive_without_descriptors(void **state)
{
	struct rlimit before, none;
	pid_t pid = child();
	enum nspy_alive living, dead;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &before);
	none = before;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &none);
	living = nspy_activity_alive((uint32_t)pid, 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	dead = nspy_activity_alive((uint32_t)pid, 0);
	setrlimit(RLIMIT_NOFILE, &before);
	assert_int_equal(living, NSPY_ALIVE_YES);
	assert_int_equal(dead, NSPY_ALIVE_NO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ready_is_busy),
		cmocka_unit_test(test_asleep),
		cmocka_unit_test(test_alive),
		cmocka_unit_test(test_alive_without_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
