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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_crashed, setup),
		cmocka_unit_test_setup(test_asked_to_end, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
