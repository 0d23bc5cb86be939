/* SPDX-License-Identifier: Apache-2.0 */
/* What the watcher concludes from the signal that a process noted before it ended. */
#include <signal.h>

#include "test_watch_job.h"

static void test_crashed(void **state)
{
	(void)state;
	sync_since(0, NOW - 2 * S);
	pages[2].dead = true;
	pages[2].signal = (struct nspy_signal_note){
		.when_ns = pages[2].published_ns, .number = SIGSEGV, .code = SEGV_MAPERR, .tid = 7};
	expect(NSPY_FOUND_RANK_CRASHED, 2);
	/* A fault that it survived for long. */
	pages[2].signal.when_ns = pages[2].published_ns - 6 * S;
	expect(NSPY_FOUND_RANK_DIED, 2);
}

/* SIGTERM came to one rank alone, or to most: then the job is being ended. */
static void test_asked_to_end(void **state)
{
	(void)state;
	sync_since(0, NOW - 2 * S);
	pages[2].dead = true;
	pages[2].signal = (struct nspy_signal_note){.when_ns = NOW - S, .number = SIGTERM};
	expect(NSPY_FOUND_RANK_DIED, 2);
	for (uint32_t i = 0; i < RANKS / 2; i++)
		pages[i].signal = pages[2].signal;
	assert_int_equal(find(), NSPY_FOUND_NONE);
	/* The others got theirs long before. */
	for (uint32_t i = 0; i < RANKS; i++)
		if (i != 2)
			pages[i].signal.when_ns = NOW - 60 * S;
	expect(NSPY_FOUND_RANK_DIED, 2);
}

/* The others poll: no call of theirs is open. The dead rank's last page is of an earlier moment. */
static void test_died_while_others_poll(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RANKS; i++) {
		comms[i][0].enqueued = i == 2 ? 0 : 11;
		pages[i].last_call_ns = LONG;
	}
	pages[2].state = NSPY_STATUS_EXITED;
	pages[2].exit_code = 42;
	expect(NSPY_FOUND_RANK_DIED, 2);
	assert_int_equal(verdict.waiters, RANKS - 1);
	assert_non_null(strstr(verdict.headline, "exit code 42"));
	assert_null(strstr(verdict.headline, "#1"));
	/* It left in order: it is missing. */
	pages[2].exit_code = 0;
	expect(NSPY_FOUND_COLLECTIVE_HANG, 2);
	/* They have been polling for a moment only. */
	pages[2].exit_code = 42;
	pages[0].last_call_ns = NOW - 2 * S;
	assert_int_equal(find(), NSPY_FOUND_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_crashed, setup),
		cmocka_unit_test_setup(test_asked_to_end, setup),
		cmocka_unit_test_setup(test_died_while_others_poll, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
