/* SPDX-License-Identifier: Apache-2.0 */
/* What ncclspy-top makes of pages: of large jobs, of damaged ones, and of hostile texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "top.h"

#define S     1000000000ull
#define NOW   (1000 * S)
#define RANKS 4096u /* of the largest job that must be readable */
#define OPS   8u
#define WORLD 0xAAAAAAAA00000001ull

static uint8_t file[RANKS * 2048];
static char names[2][NSPY_STATUS_NAME_BYTES] = {"ncclAllReduce", "cudaStreamSynchronize"};

struct made {
	struct nspy_status page;
	struct nspy_status_comm comm;
	struct nspy_status_call call;
	struct nspy_status_op ops[OPS];
};

/* Rank i of a job whose operations came once a second, rank by rank a microsecond later. */
static void make(struct made *m, uint32_t i)
{
	*m = (struct made){
		.page = {.run_id = i + 1,
			 .pid = 100 + i,
			 .state = NSPY_STATUS_RUNNING,
			 .rank = (int32_t)i,
			 .world_size = (int32_t)RANKS,
			 .published_ns = NOW,
			 .published_real_ns = NOW + 5000 * S,
			 .last_call_ns = NOW,
			 .comm_count = 1,
			 .op_count = OPS,
			 .name_count = 2},
		.comm = {.key = WORLD,
			 .enqueued = 100,
			 .completed = 100,
			 .nranks = (int32_t)RANKS,
			 .rank = (int32_t)i,
			 .name = 0},
	};
	for (uint32_t k = 0; k < OPS; k++)
		m->ops[k] = (struct nspy_status_op){
			.enter_ns = NOW - (OPS - k) * S + i * 1000u,
			.seq = 93 + k,
			.count = 1000,
			.klass = NSPY_CLASS_COLL,
			.datatype = 7, /* float */
		};
	(void)snprintf(m->page.node, sizeof(m->page.node), "node-%u", i / 8);
	m->page.comms = &m->comm;
	m->page.calls_open = &m->call;
	m->page.ops = m->ops;
	m->page.names = names;
}

static size_t put(const struct made *m, size_t at)
{
	long n = nspy_status_encode(&m->page, NSPY_STATUS_OPS_MAX, file + at, sizeof(file) - at);

	assert_true(n > 0);
	return at + (size_t)n;
}

static void let_wait(struct made *m, uint64_t ns)
{
	m->call = (struct nspy_status_call){.enter_ns = NOW - ns,
					    .comm = NSPY_STATUS_NONE,
					    .name = 1,
					    .klass = NSPY_CLASS_SYNC};
	m->page.call_count = 1;
	m->comm.completed = 99;
}

/* Rank 77 is 3 operations behind, 200 is dead, 300 late by 5 ms; all others wait. */
static size_t make_job(void)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < RANKS; i++) {
		struct made m;

		make(&m, i);
		if (i == 77)
			m.comm.enqueued = 97;
		else
			let_wait(&m, 30 * S);
		m.page.dead = i == 200;
		for (uint32_t k = 0; i == 300 && k < OPS; k++)
			m.ops[k].enter_ns += 5000000;
		bytes = put(&m, bytes);
	}
	return bytes;
}

static struct top_snapshot snap;

static void look(size_t bytes)
{
	snap.now_real_ns = NOW + 5001 * S;
	assert_int_equal(top_take_pages(&snap, file, bytes, false), 0);
	assert_int_equal(top_measure(&snap), 0);
}

static int teardown(void **state)
{
	(void)state;
	top_free(&snap);
	memset(&snap, 0, sizeof(snap));
	return 0;
}

static void test_worst_first(void **state)
{
	(void)state;
	look(make_job());
	assert_int_equal(snap.rank_count, RANKS);
	assert_int_equal(snap.nodes, RANKS / 8);
	assert_int_equal(snap.world_size, RANKS);
	top_sort(&snap, TOP_SORT_WORST);
	assert_int_equal(snap.ranks[0].page.rank, 200);
	assert_int_equal(snap.ranks[0].state, TOP_DEAD);
	assert_int_equal(snap.ranks[1].page.rank, 77);
	assert_int_equal(snap.ranks[1].state, TOP_BEHIND);
	assert_int_equal(snap.ranks[1].behind, 3);
	assert_int_equal(snap.ranks[2].state, TOP_WAITING);
	top_sort(&snap, TOP_SORT_LAG);
	assert_int_equal(snap.ranks[0].page.rank, 300);
	assert_true(snap.ranks[0].lag_ns > 5.29e6 && snap.ranks[0].lag_ns < 5.31e6);
	top_sort(&snap, TOP_SORT_RANK);
	assert_int_equal(snap.ranks[RANKS - 1].page.rank, RANKS - 1);
}

static void test_numbers(void **state)
{
	const struct top_comm *c;

	(void)state;
	look(make_job());
	assert_int_equal(snap.comm_count, 1);
	c = &snap.comms[0];
	assert_true(c->world);
	assert_int_equal(c->seen, RANKS);
	assert_int_equal(c->waiting, RANKS - 1);
	assert_int_equal(c->low, 97);
	assert_int_equal(c->high, 100);
	/* 8 operations in the 8 s before the page was published. */
	assert_true(c->ops_per_s > 0.99 && c->ops_per_s < 1.01);
	/* An all-reduce of n bytes moves 2 (r - 1) / r n. */
	assert_true(c->bus_bytes_per_s > 7900 && c->bus_bytes_per_s < 8010);
}

/* However small the terminal, nobody is left out without being counted. */
static void test_fits(void **state)
{
	struct top_lines lines = {0};

	(void)state;
	look(make_job());
	top_sort(&snap, TOP_SORT_WORST);
	assert_int_equal(top_text(&snap, TOP_SORT_WORST, 24, &lines), 0);
	assert_int_equal(lines.count, 24);
	assert_non_null(strstr(lines.at[5].text, "200 node-25"));
	assert_int_equal(lines.at[5].style, TOP_RED);
	assert_non_null(strstr(lines.at[23].text, "and 4078 ranks more, 4078 waiting"));
	assert_int_equal(top_text(&snap, TOP_SORT_WORST, 0, &lines), 0);
	assert_int_equal(lines.count, 5 + RANKS);
	free(lines.at);
}

/* A terminal of a line, and of fewer than the heads of the tables take. */
static void test_tiny(void **state)
{
	struct top_lines lines = {0};

	(void)state;
	look(make_job());
	for (size_t height = 1; height < 12; height++) {
		assert_int_equal(top_text(&snap, TOP_SORT_WORST, height, &lines), 0);
		assert_true(lines.count <= (height > 6 ? height : 6));
	}
	free(lines.at);
}

/* --- changes, line by line --- */

static struct top_follow follow;
static char said[8192];

/* Each is small: 4 ranks. */
static struct made four[4];

static void follow_look(bool json)
{
	FILE *out = fmemopen(said, sizeof(said), "w");
	size_t bytes = 0;

	while (snap.block_count)
		free(snap.blocks[--snap.block_count].base);
	snap.rank_count = 0;
	free(snap.comms);
	snap.comms = NULL;
	snap.comm_count = 0;
	for (uint32_t i = 0; i < 4; i++)
		bytes = put(&four[i], bytes);
	look(bytes);
	top_sort(&snap, TOP_SORT_RANK);
	memset(said, 0, sizeof(said));
	assert_int_equal(top_follow_look(&snap, &follow, json, out), 0);
	(void)fclose(out);
}

static int set_up_four(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		make(&four[i], i);
		four[i].page.comms = &four[i].comm;
		four[i].page.calls_open = &four[i].call;
		four[i].page.ops = four[i].ops;
	}
	memset(&follow, 0, sizeof(follow));
	(void)snprintf(snap.job, sizeof(snap.job), "j");
	return 0;
}

static int tear_down_four(void **state)
{
	free(follow.seen);
	return teardown(state);
}

static void test_follow(void **state)
{
	(void)state;
	follow_look(false);
	assert_non_null(strstr(said, " job j 4 ranks (0-3) running\n"));
	follow_look(false);
	assert_string_equal(said, "");
	/* Three wait for rank 1: said at the second look, together. */
	for (uint32_t i = 0; i < 4; i++)
		if (i != 1)
			let_wait(&four[i], 30 * S);
	four[1].comm.enqueued = 97;
	follow_look(false);
	assert_string_equal(said, "");
	follow_look(false);
	assert_non_null(strstr(said, " job j rank 1 (node node-0, pid 101) behind"));
	assert_non_null(strstr(said, " job j 3 ranks (0,2-3) waiting; the first: 30.0 s in cuda"));
	/* What lasts is said at once. */
	four[1].page.dead = true;
	follow_look(true);
	assert_non_null(strstr(said, "\"what\":\"ranks\",\"state\":\"dead\",\"count\":1,"
				     "\"ranks\":\"1\""));
	assert_null(strchr(strchr(said, '\n') + 1, '{'));
	assert_false(top_follow_over(&snap, &follow));
	for (uint32_t i = 0; i < 4; i++)
		if (i != 1)
			four[i].page.state = NSPY_STATUS_EXITED;
	follow_look(false);
	assert_non_null(strstr(said, " job j 3 ranks (0,2-3) ended"));
	assert_true(top_follow_over(&snap, &follow));
}

/* However many ranks change in however small groups: a line each state. */
static void test_follow_many(void **state)
{
	FILE *out = fmemopen(said, sizeof(said), "w");

	(void)state;
	look(make_job());
	for (size_t i = 0; i < snap.rank_count; i++)
		snap.ranks[i].state = i % 2 ? TOP_STOPPED : TOP_RUNNING;
	memset(said, 0, sizeof(said));
	assert_int_equal(top_follow_look(&snap, &follow, false, out), 0);
	(void)fclose(out);
	assert_non_null(strstr(said, "2048 ranks (1,3,5,"));
	assert_non_null(strstr(said, ",...) stopped"));
	assert_true(strlen(said) < 1200);
}

static void test_follow_events(void **state)
{
	static const char first[] = "{\"time_ns\":1764687474000000000,\"event\":\"finding\","
				    "\"priority\":\"P0\",\"id\":\"A\",\"summary\":\"s\"}\n";
	static const char later[] = "{\"time_ns\":1764687475000000000,\"event\":\"end\","
				    "\"priority\":\"P0\",\"id\":\"A\",\"summary\":\"t\"}\n";

	(void)state;
	follow_look(false);
	top_take_events(&snap, first, sizeof(first) - 1);
	follow_look(false);
	assert_string_equal(said, "2025-12-02T14:57:54Z job j finding P0 A s\n");
	follow_look(false);
	assert_string_equal(said, "");
	top_take_events(&snap, later, sizeof(later) - 1);
	follow_look(true);
	assert_string_equal(said, "{\"time\":\"2025-12-02T14:57:55Z\",\"job\":\"j\",\"what\":"
				  "\"end\",\"id\":\"A\",\"priority\":\"P0\","
				  "\"summary\":\"t\"}\n");
}

static void test_silence(void **state)
{
	struct made m;

	(void)state;
	make(&m, 0);
	m.page.published_real_ns = NOW + 4900 * S;
	look(put(&m, 0));
	assert_int_equal(snap.ranks[0].state, TOP_SILENT);
	assert_int_equal(snap.ranks[0].age_ns, 101 * S);
}

static void test_ends(void **state)
{
	struct made m;
	size_t bytes;

	(void)state;
	make(&m, 0);
	m.page.state = NSPY_STATUS_EXITED;
	bytes = put(&m, 0);
	make(&m, 1);
	m.page.state = NSPY_STATUS_EXITED;
	m.page.exit_code = 3;
	look(put(&m, bytes));
	assert_int_equal(snap.ranks[0].state, TOP_ENDED);
	assert_int_equal(snap.ranks[1].state, TOP_FAILED);
}

/* What comes after damage is not trusted, what came before it is shown. */
static void test_torn(void **state)
{
	struct made m;
	size_t first, bytes;

	(void)state;
	make(&m, 0);
	first = put(&m, 0);
	make(&m, 1);
	bytes = put(&m, first);
	file[first + 100] ^= 1;
	look(bytes);
	assert_int_equal(snap.rank_count, 1);
	assert_int_equal(snap.bad, 1);
}

static void test_every_cut(void **state)
{
	struct made m;
	size_t bytes;

	(void)state;
	make(&m, 0);
	bytes = put(&m, 0);
	for (size_t n = 0; n < bytes; n++) {
		snap.rank_count = snap.bad = 0;
		assert_int_equal(top_take_pages(&snap, file, n, false), 0);
		assert_int_equal(snap.rank_count, 0);
		assert_int_equal(snap.bad, n > 0);
	}
}

/* A terminal obeys what is printed on it. */
static void test_hostile_texts(void **state)
{
	static const char events[] =
		"{\"time_ns\":1764687474000000000,\"event\":\"finding\",\"id\":\"X\\u001b[2J\","
		"\"priority\":\"P0\",\"summary\":\"\\u009b31m \\u202e\"}\n"
		"not json\n[]\n{\"event\":7,\"id\":[]}\n{\"event\":\"finding\",\"id\":\"HALF\"";
	struct top_lines lines = {0};
	struct made m;

	(void)state;
	make(&m, 0);
	(void)snprintf(m.page.node, sizeof(m.page.node),
		       "\033]0;x\a\x9b"
		       "1m");
	look(put(&m, 0));
	top_take_events(&snap, events, sizeof(events) - 1);
	assert_int_equal(snap.event_count, 1);
	assert_string_equal(snap.events[0].time, "2025-12-02T14:57:54Z");
	assert_int_equal(top_text(&snap, TOP_SORT_WORST, 0, &lines), 0);
	for (size_t i = 0; i < lines.count; i++)
		for (const char *c = lines.at[i].text; *c; c++)
			assert_true(*c >= 0x20 && *c < 0x7f);
	free(lines.at);
}

static void test_end_of_event(void **state)
{
	static const char events[] =
		"{\"event\":\"finding\",\"id\":\"A\"}\n{\"event\":\"finding\",\"id\":\"B\"}\n"
		"{\"event\":\"end\",\"id\":\"A\"}\n";

	(void)state;
	top_take_events(&snap, events, sizeof(events) - 1);
	assert_int_equal(snap.event_count, 3);
	assert_string_equal(snap.events[0].event, "end");
	assert_string_equal(snap.events[1].id, "B");
	assert_false(snap.events[1].over);
	assert_true(snap.events[2].over);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_worst_first, teardown),
		cmocka_unit_test_teardown(test_numbers, teardown),
		cmocka_unit_test_teardown(test_fits, teardown),
		cmocka_unit_test_teardown(test_tiny, teardown),
		cmocka_unit_test_setup_teardown(test_follow, set_up_four, tear_down_four),
		cmocka_unit_test_setup_teardown(test_follow_many, set_up_four, tear_down_four),
		cmocka_unit_test_setup_teardown(test_follow_events, set_up_four, tear_down_four),
		cmocka_unit_test_teardown(test_silence, teardown),
		cmocka_unit_test_teardown(test_ends, teardown),
		cmocka_unit_test_teardown(test_torn, teardown),
		cmocka_unit_test_teardown(test_every_cut, teardown),
		cmocka_unit_test_teardown(test_hostile_texts, teardown),
		cmocka_unit_test_teardown(test_end_of_event, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
