/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of logs against real lines, prefixes, lines without end, packed and broken input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>
#include <zlib.h>

#include "foreign/foreign.h"
#include "foreign/pickle.h"

#define RULES_MAX 24u

static int rule_named(const char *name)
{
	for (int i = 0; i < NSPY_LOG_RULE_COUNT; i++) {
		if (strcmp(nspy_log_rules[i].name, name) == 0)
			return i;
	}
	return -1;
}

/* All that is wrong is said, not only the first. */
static int __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return 1;
}

/* One line of strings.txt; notes which rule it was for. */
static int check_line(const struct nspy_log *log, char *line, bool *seen)
{
	enum nspy_log_rule_id rules[RULES_MAX];
	char *text = strchr(line, '\t');
	bool found = false;
	size_t count;
	int wanted;

	line[strcspn(line, "\n")] = '\0';
	if (line[0] == '#' || !text)
		return 0;
	*text++ = '\0';
	count = nspy_log_rules_for(log, text, rules, RULES_MAX);
	if (strcmp(line, "=") == 0) {
		if (count && nspy_log_rules[rules[0]].klass != NSPY_LOG_FACT)
			return say("%s applies to: %s", nspy_log_rules[rules[0]].name, text);
		return 0;
	}
	wanted = rule_named(line);
	if (wanted < 0)
		return say("no rule %s", line);
	seen[wanted] = true;
	/* What is no fact must come first; facts may stand beside others. */
	for (size_t i = 0; i < count; i++)
		found |= rules[i] == (unsigned)wanted &&
			 (i == 0 || nspy_log_rules[wanted].klass == NSPY_LOG_FACT);
	if (!found)
		return say("%s does not apply to: %s (%s does)", line, text,
			   count ? nspy_log_rules[rules[0]].name : "none");
	return 0;
}

static void every_rule_has_a_real_line(void **state)
{
	FILE *file = fopen(getenv("NSPY_STRINGS"), "r");
	struct nspy_log *log = nspy_log_new();
	bool seen[NSPY_LOG_RULE_COUNT] = {0};
	char line[2048];
	int wrong = 0;

	(void)state;
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		wrong += check_line(log, line, seen);
	fclose(file);
	for (int i = 0; i < NSPY_LOG_RULE_COUNT; i++) {
		if (!seen[i])
			wrong += say("no line for rule %s", nspy_log_rules[i].name);
	}
	assert_int_equal(wrong, 0);
	nspy_log_free(log);
}

static struct nspy_log_who who_of(const char *text)
{
	const char *message = strstr(text, "MSG");
	struct nspy_log_who who;

	nspy_log_prefix(text, (size_t)(message - text), &who);
	return who;
}

static void prefixes_tell_who_printed(void **state)
{
	static const struct {
		const char *text;
		int64_t rank, pid;
		const char *host;
	} cases[] = {
		{"n-1:12:34 [0] NCCL INFO MSG", -1, 12, "n-1"},
		{"[2026-01-02 03:04:05] 10.0.0.1:12:34 [0] a.cc:1 NCCL WARN MSG", -1, 12,
		 "10.0.0.1"},
		{"[1,13]<stdout>:nodeB:35:89 [5] x:1 NCCL WARN MSG", 13, 35, "nodeB"},
		{"[1,mpirank:3,algo-1]<stderr>:algo-1:7:8 [0] NCCL INFO MSG", 3, 7, "algo-1"},
		{" 11: [rank11]: MSG", 11, -1, NULL},
		{"3: n1:12:34 [0] NCCL INFO MSG", 3, 12, "n1"},
		{"[rank9]:[E416 13:21:26 ProcessGroupNCCL.cpp:616] [Rank 1] MSG", 9, -1, NULL},
		{"(Worker pid=744, ip=10.0.0.4) [rank9]:[E ProcessGroupNCCL.cpp:6] MSG", 9, 744,
		 "10.0.0.4"},
		{"22:22:50 [rank6]: MSG", 6, -1, NULL},
		{"rank3: include/alloc.h:178 NCCL WARN MSG", 3, -1, NULL},
		/* Two processes wrote at the same time. */
		{"n1:1:2 [0] NCCL INFO Chan n2:3:4 [1] NCCL INFO MSG", -1, 3, "n2"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nspy_log_who who = who_of(cases[i].text);

		if (who.rank != cases[i].rank || who.pid != cases[i].pid)
			fail_msg("rank %d, pid %d: %s", (int)who.rank, (int)who.pid, cases[i].text);
		if (cases[i].host && (who.host_bytes != strlen(cases[i].host) ||
				      strncmp(who.host, cases[i].host, who.host_bytes) != 0))
			fail_msg("host %.*s: %s", (int)who.host_bytes, who.host, cases[i].text);
	}
	assert_int_equal(who_of("[rank0]:[E x] [PG ID 1 PG GUID 2 Rank 5] MSG").pg_rank, 5);
	assert_true(who_of("2026-01-02T03:04:05.5Z MSG").when_ns % NSPY_NS_PER_S == 500000000);
}

/* --- lines --- */

struct lines {
	size_t count, longest;
	char last[64];
};

static void count_line(void *arg, struct nspy_line *line)
{
	struct lines *lines = arg;

	lines->count++;
	lines->longest = line->bytes > lines->longest ? line->bytes : lines->longest;
	(void)snprintf(lines->last, sizeof(lines->last), "%s", line->text);
}

static void a_line_without_end_is_cut(void **state)
{
	size_t bytes = 3u << 20;
	char *text = malloc(bytes);
	struct nspy_stream *stream;
	struct lines lines = {0};

	(void)state;
	memset(text, 'x', bytes);
	memcpy(text + bytes - 10, "\nlast line", 10);
	stream = nspy_stream_memory(text, bytes);
	assert_int_equal(nspy_lines_each(stream, count_line, &lines), 1);
	nspy_stream_close(stream);
	assert_int_equal(lines.count, 2);
	assert_true(lines.longest <= NSPY_LINE_MAX);
	assert_string_equal(lines.last, "last line");
	free(text);
}

static void progress_bars_are_lines(void **state)
{
	static const char text[] = "10%\r20%\r\nend";
	struct nspy_stream *stream = nspy_stream_memory(text, sizeof(text) - 1);
	struct lines lines = {0};

	(void)state;
	nspy_lines_each(stream, count_line, &lines);
	nspy_stream_close(stream);
	assert_int_equal(lines.count, 3);
}

static void escapes_and_envelopes_go(void **state)
{
	char text[] = "\x1b[31mred\x1b[0m \x1b]0;title\arest";
	struct nspy_line line = {.text = text, .bytes = sizeof(text) - 1};
	char json[] = "{\"log\":\"n1:1:2 [0] NCCL INFO \\\"x\\\"\\n\",\"pod_name\":\"w-3\"}";
	struct nspy_line packed = {.text = json, .bytes = sizeof(json) - 1};
	struct nspy_log_who who = {0};

	(void)state;
	nspy_line_strip_escapes(&line);
	assert_string_equal(line.text, "red rest");
	assert_true(nspy_log_unwrap(&packed, &who));
	assert_string_equal(packed.text, "n1:1:2 [0] NCCL INFO \"x\" ");
	assert_int_equal(who.label_bytes, 3);
}

/* --- packed input --- */

static size_t gzip(const char *text, size_t bytes, void *out, size_t room)
{
	z_stream z = {0};

	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	z.next_in = (Bytef *)text;
	z.avail_in = (uInt)bytes;
	z.next_out = out;
	z.avail_out = (uInt)room;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return room - z.avail_out;
}

static void packed_files_are_read_and_cut_ones_said(void **state)
{
	static char text[100000], packed[200000], back[200000];
	struct nspy_stream *stream;
	size_t bytes, twice, got = 0, one;

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)(i * 7919 >> 3);
	bytes = gzip(text, sizeof(text), packed, sizeof(packed) / 2);
	memcpy(packed + bytes, packed, bytes); /* two members */
	twice = 2 * bytes;
	stream = nspy_stream_memory(packed, twice);
	while ((one = nspy_stream_read(stream, back + got, sizeof(back) - got)) > 0)
		got += one;
	assert_null(nspy_stream_error(stream));
	assert_int_equal(got, 2 * sizeof(text));
	assert_memory_equal(back + sizeof(text), text, sizeof(text));
	nspy_stream_close(stream);
	stream = nspy_stream_memory(packed, bytes / 2);
	while (nspy_stream_read(stream, back, sizeof(back)) > 0)
		;
	assert_non_null(strstr(nspy_stream_error(stream), "cut off at offset"));
	nspy_stream_close(stream);
}

/* --- pickles --- */

static void refused(const char *data, size_t bytes, const char *why)
{
	char error[200] = "";
	cJSON *tree = nspy_pickle_read(data, bytes, error, sizeof(error));

	assert_null(tree);
	if (!strstr(error, why) || !strstr(error, "offset"))
		fail_msg("said '%s' instead of '%s'", error, why);
}

static void pickles_execute_nothing(void **state)
{
	/* os.system("id"), as a hostile pickle has it; protocol 2, and by STACK_GLOBAL */
	static const char call[] = "\x80\x02"
				   "cposix\nsystem\nU\x02id\x85R.";
	static const char stack[] = "\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R.";
	char deep[4096], list[] = "\x80\x02]q\x00K\x01"
				  "a.";
	char bomb[512];
	size_t n = 0;
	cJSON *tree;

	(void)state;
	refused(call, sizeof(call) - 1, "refused");
	refused(stack, sizeof(stack) - 1, "refused");
	refused("\x80\x02X\xff\xff\xff\x7f", 7, "absurd length");
	refused("\x80\x02]", 3, "cut off");
	memset(deep, ']', sizeof(deep));
	memset(deep + sizeof(deep) / 2, 'a', sizeof(deep) / 2);
	refused(deep, sizeof(deep), "nested too deeply");
	/* A list that holds the list before twice, and so on: 2^60 values. */
	n += (size_t)sprintf(bomb, "\x80\x02]q%c", 1);
	for (char i = 1; i < 30; i++)
		n += (size_t)sprintf(bomb + n, "]q%c(h%ch%ce", i + 1, i, i);
	bomb[n++] = '.';
	refused(bomb, n, "");
	tree = nspy_pickle_read(list, sizeof(list) - 1, deep, sizeof(deep));
	assert_non_null(tree);
	assert_int_equal(cJSON_GetArraySize(tree), 1);
	cJSON_Delete(tree);
}

static void broken_json_is_said(void **state)
{
	static const char *const bad[] = {
		"{\"entries\": [{\"profiling_name\": 1}",
		"{\"communicators\": [}",
		"{\"entries\": [], \"pg_config\": \x80\xff}",
	};
	char deep[4000];

	(void)state;
	memset(deep, '[', sizeof(deep));
	memcpy(deep, "{\"communicators\": ", 18);
	for (size_t i = 0; i < 4; i++) {
		const char *text = i < 3 ? bad[i] : deep;
		struct nspy_stream *stream =
			nspy_stream_memory(text, i < 3 ? strlen(text) : sizeof(deep));
		struct nspy_log *log = nspy_log_new();
		char error[200] = "";

		assert_true(nspy_foreign_add_stream(log, "x", stream, error, sizeof(error)) < 0);
		assert_non_null(strstr(error, "at offset"));
		nspy_stream_close(stream);
		nspy_log_free(log);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_rule_has_a_real_line),
		cmocka_unit_test(prefixes_tell_who_printed),
		cmocka_unit_test(a_line_without_end_is_cut),
		cmocka_unit_test(progress_bars_are_lines),
		cmocka_unit_test(escapes_and_envelopes_go),
		cmocka_unit_test(packed_files_are_read_and_cut_ones_said),
		cmocka_unit_test(pickles_execute_nothing),
		cmocka_unit_test(broken_json_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
