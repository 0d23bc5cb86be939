/* SPDX-License-Identifier: Apache-2.0 */
/* NCCLSPY_ON_EVENT: off by default, how often it is started, and with what. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core.h"
#include "hook.h"
#include "outbox.h"
#include "say.h"
#include "spawn.h"

#define S 1000000000ull

struct nspy_core nspy_core;

static uint64_t now_ns;
static bool refuse;
static uint32_t warned;
static struct {
	uint32_t count;
	char program[32], command[64], variable[64], input[64];
	bool session, adopt;
} started;

/* The clock that the hook sees, with the recorder's own code behind it. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
	(void)clock;
	*ret = (struct timespec){.tv_sec = (time_t)(now_ns / S), .tv_nsec = (long)(now_ns % S)};
	return 0;
}

void nspy_say(enum nspy_say_tag tag, const char *format, ...)
{
	(void)format;
	warned += tag == NSPY_SAY_WARN;
}

unsigned int nspy_spawn_environment(char ***ret, unsigned int extra)
{
	static char home[] = "HOME=/root";
	static char *environment[4];

	assert_int_equal(extra, 1);
	environment[0] = home;
	*ret = environment;
	return 1;
}

bool nspy_spawn(const struct nspy_spawn *what)
{
	ssize_t n;

	if (refuse)
		return false;
	started.count++;
	(void)snprintf(started.program, sizeof(started.program), "%s", what->program);
	assert_string_equal(what->arguments[1], "-c");
	assert_null(what->arguments[3]);
	(void)snprintf(started.command, sizeof(started.command), "%s", what->arguments[2]);
	assert_string_equal(what->environment[0], "HOME=/root");
	assert_null(what->environment[2]);
	(void)snprintf(started.variable, sizeof(started.variable), "%s", what->environment[1]);
	n = read(what->input, started.input, sizeof(started.input) - 1);
	assert_true(n > 0);
	started.input[n] = '\0';
	started.session = what->session;
	started.adopt = what->adopt;
	return true;
}

static int set_up(void **state)
{
	(void)state;
	memset(&started, 0, sizeof(started));
	memset(&nspy_core, 0, sizeof(nspy_core));
	(void)snprintf(nspy_core.env.NCCLSPY_ON_EVENT, sizeof(nspy_core.env.NCCLSPY_ON_EVENT),
		       "tell someone");
	now_ns = 1000 * S;
	warned = 0;
	refuse = false;
	nspy_hook_start();
	return 0;
}

static void put(uint32_t number)
{
	char line[32];
	int n = snprintf(line, sizeof(line), "{\"n\":%u}\n", number);

	nspy_hook_put(line, (size_t)n);
}

/* The writer comes by ten times a second. */
static void pass(uint32_t tenths)
{
	for (uint32_t i = 0; i < tenths; i++, now_ns += S / 10)
		nspy_hook_work();
}

static void test_off_by_default(void **state)
{
	(void)state;
	nspy_core.env.NCCLSPY_ON_EVENT[0] = '\0';
	put(1);
	pass(1000);
	assert_int_equal(started.count, 0);
}

static void test_nothing_to_tell(void **state)
{
	(void)state;
	pass(1000);
	assert_int_equal(started.count, 0);
}

/* By the shell, in a session of its own, nobody's child; the event on stdin and in a variable. */
static void test_with_what(void **state)
{
	(void)state;
	put(1);
	pass(1);
	assert_int_equal(started.count, 1);
	assert_string_equal(started.program, "/bin/sh");
	assert_string_equal(started.command, "tell someone");
	assert_string_equal(started.variable, "NCCLSPY_EVENT={\"n\":1}");
	assert_string_equal(started.input, "{\"n\":1}\n");
	assert_true(started.session);
	assert_false(started.adopt);
}

static void test_every_ten_seconds(void **state)
{
	(void)state;
	put(1);
	put(2);
	pass(100);
	assert_int_equal(started.count, 1);
	pass(1);
	assert_int_equal(started.count, 2);
	assert_string_equal(started.input, "{\"n\":2}\n");
	pass(1000);
	assert_int_equal(started.count, 2);
}

/* Four wait; a storm of events starts no storm of commands. */
static void test_storm(void **state)
{
	(void)state;
	for (uint32_t i = 1; i <= 1000; i++)
		put(i);
	pass(1000);
	assert_int_equal(started.count, 4);
	assert_string_equal(started.input, "{\"n\":4}\n");
	/* There is room again. */
	put(1001);
	pass(1);
	assert_string_equal(started.input, "{\"n\":1001}\n");
	/* As fast as they can be put: at most six a minute. */
	started.count = 0;
	for (uint32_t i = 0; i < 600; i++) {
		put(i);
		pass(1);
	}
	assert_in_range(started.count, 4, 6);
}

static void test_longest(void **state)
{
	static char line[NSPY_OUTBOX_LINE_MAX + 2];

	(void)state;
	memset(line, 'x', sizeof(line) - 1);
	nspy_hook_put(line, NSPY_OUTBOX_LINE_MAX + 1);
	pass(200);
	assert_int_equal(started.count, 0);
	line[NSPY_OUTBOX_LINE_MAX - 1] = '\n';
	nspy_hook_put(line, NSPY_OUTBOX_LINE_MAX);
	pass(200);
	assert_int_equal(started.count, 1);
}

/* A process that adopts orphans: said once, and nothing piles up. */
static void test_refused(void **state)
{
	(void)state;
	refuse = true;
	for (uint32_t i = 0; i < 3; i++) {
		put(i);
		pass(150);
	}
	assert_int_equal(warned, 1);
	refuse = false;
	put(9);
	pass(150);
	assert_int_equal(started.count, 1);
	assert_string_equal(started.input, "{\"n\":9}\n");
}

static uint32_t descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	uint32_t count = 0;

	while (d && readdir(d))
		count++;
	if (d)
		closedir(d);
	return count;
}

static void test_keeps_no_descriptor(void **state)
{
	uint32_t before = descriptors();

	(void)state;
	for (uint32_t i = 0; i < 10; i++) {
		refuse = i % 2;
		put(i);
		pass(101);
	}
	assert_int_equal(started.count, 5);
	assert_int_equal(descriptors(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_off_by_default, set_up),
		cmocka_unit_test_setup(test_nothing_to_tell, set_up),
		cmocka_unit_test_setup(test_with_what, set_up),
		cmocka_unit_test_setup(test_every_ten_seconds, set_up),
		cmocka_unit_test_setup(test_storm, set_up),
		cmocka_unit_test_setup(test_longest, set_up),
		cmocka_unit_test_setup(test_refused, set_up),
		cmocka_unit_test_setup(test_keeps_no_descriptor, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
