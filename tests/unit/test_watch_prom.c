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

static uint32_t series(void)
{
	uint32_t count = 0;

	for (const char *line = out; *line; line = strchr(line, '\n') + 1)
		count += *line != '#';
	return count;
}

/*
 * As many processes as are looked at on a node, each with as many communicators, calls, operations
 * and names as a page has room for: not a series more than of one process with nothing.
 */
static void test_series_are_bounded(void **state)
{
	static struct nspy_status pages[128];
	static struct nspy_status_comm comms[NSPY_STATUS_COMMS_MAX];
	static struct nspy_status_call calls[NSPY_STATUS_CALLS_MAX];
	static struct nspy_status_op ops[NSPY_STATUS_OPS_MAX];
	static struct nspy_status_way ways[NSPY_STATUS_WAYS_MAX];
	static char names[NSPY_STATUS_NAMES_MAX][NSPY_STATUS_NAME_BYTES];
	const struct nspy_prom_labels labels = {"j", "n"};
	uint32_t least;

	(void)state;
	pages[0] = (struct nspy_status){.state = NSPY_STATUS_RUNNING, .world_size = 1};
	assert_true(nspy_prom_text(pages, 1, &pages[0], &labels, 10 * S, S, out) > 0);
	least = series();
	assert_int_equal(least, 13);
	for (uint32_t i = 0; i < NSPY_STATUS_COMMS_MAX; i++)
		comms[i] = (struct nspy_status_comm){
			.key = i + 1, .enqueued = UINT64_MAX, .nranks = 2};
	for (uint32_t i = 0; i < NSPY_STATUS_NAMES_MAX; i++)
		(void)snprintf(names[i], sizeof(names[i]), "ncclFunction%u", i);
	for (uint32_t i = 0; i < 128; i++)
		pages[i] = (struct nspy_status){
			.state = NSPY_STATUS_RUNNING,
			.rank = (int32_t)(1000000 + i),
			.world_size = 4096,
			.dead = i % 3 == 0,
			.stopped = i % 5 == 0,
			.calls = UINT64_MAX / 256,
			.lost = UINT64_MAX / 256,
			.rounds = UINT64_MAX / 256,
			.longest_wait_ns = UINT64_MAX,
			.event_key = 1,
			.event_id = "COLLECTIVE_HANG",
			.comm_count = NSPY_STATUS_COMMS_MAX,
			.call_count = NSPY_STATUS_CALLS_MAX,
			.op_count = NSPY_STATUS_OPS_MAX,
			.way_count = NSPY_STATUS_WAYS_MAX,
			.name_count = NSPY_STATUS_NAMES_MAX,
			.comms = comms,
			.calls_open = calls,
			.ops = ops,
			.ways = ways,
			.names = names,
		};
	assert_true(nspy_prom_text(pages, 128, &pages[0], &labels, 10 * S, S, out) > 0);
	/* And the one that names the finding. */
	assert_int_equal(series(), least + 1);
	assert_null(strstr(out, "1000000"));
	assert_null(strstr(out, "ncclFunction"));
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
		cmocka_unit_test(test_series_are_bounded),
		cmocka_unit_test(test_states),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
