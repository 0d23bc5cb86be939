/* SPDX-License-Identifier: Apache-2.0 */
/* The text file for Prometheus: what names do to it, and that it never comes out cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "prom.h"

#define S 1000000000ull

static char out[NSPY_PROM_BYTES];

static void test_names_are_escaped(void **state)
{
	struct nspy_status page = {.state = NSPY_STATUS_RUNNING, .world_size = -1};
	const struct nspy_prom_labels labels = {"a\"b\\c\nd", "n"};
	long n = nspy_prom_text(&page, 1, &page, &labels, 10 * S, 1500000000ull, out);

	(void)state;
	assert_int_equal(n, strlen(out));
	assert_non_null(strstr(out, "{job=\"a\\\"b\\\\c d\",node=\"n\",state=\"running\"} 1\n"));
	assert_null(strstr(out, "world_size"));
	assert_non_null(strstr(out, "updated_timestamp_seconds{job=\"a\\\"b\\\\c d\",node=\"n\"} "
				    "1.500\n"));
}

/* Names as long as they can be, all of quotes: whole escapes, whole lines. */
static void test_longest(void **state)
{
	struct nspy_status page = {.state = NSPY_STATUS_RUNNING, .world_size = 4, .event_key = 1};
	char name[128];
	const struct nspy_prom_labels labels = {name, name};
	long n;

	(void)state;
	memset(name, '"', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	memset(page.event_id, '"', sizeof(page.event_id) - 1);
	n = nspy_prom_text(&page, 1, &page, &labels, 10 * S, S, out);
	assert_true(n > 0 && out[n - 1] == '\n');
	for (char *line = out; *line; line = strchr(line, '\n') + 1)
		assert_true(*line == '#' || strncmp(line, "ncclspy_", 8) == 0);
}

static void test_states(void **state)
{
	struct nspy_status_call call = {.enter_ns = 2 * S};
	struct nspy_status pages[5] = {
		{.state = NSPY_STATUS_RUNNING, .calls = 1},
		{.state = NSPY_STATUS_RUNNING, .calls = 2, .call_count = 1, .calls_open = &call},
		{.state = NSPY_STATUS_RUNNING, .calls = 4, .dead = true, .lost = 7},
		{.state = NSPY_STATUS_RUNNING, .calls = 8, .stopped = true},
		{.state = NSPY_STATUS_EXITED, .calls = 16},
	};
	const struct nspy_prom_labels labels = {"j", "n"};
	static const char *const expected[] = {"state=\"running\"} 1\n",
					       "state=\"waiting\"} 1\n",
					       "state=\"stopped\"} 1\n",
					       "state=\"dead\"} 1\n",
					       "state=\"ended\"} 1\n",
					       "calls_total{job=\"j\",node=\"n\"} 31\n",
					       "records_lost_total{job=\"j\",node=\"n\"} 7\n",
					       "open_call_seconds{job=\"j\",node=\"n\"} 8.000\n",
					       "finding_active{job=\"j\",node=\"n\"} 0\n"};

	(void)state;
	assert_true(nspy_prom_text(pages, 5, &pages[0], &labels, 10 * S, S, out) > 0);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		assert_non_null(strstr(out, expected[i]));
	assert_null(strstr(out, "finding_info"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_are_escaped),
		cmocka_unit_test(test_longest),
		cmocka_unit_test(test_states),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
