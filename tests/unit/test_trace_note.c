/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts of a recording and commands to one: there and back, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace_control.h"
#include "trace_note.h"

static const char mark[] = "mark before eval";

static const struct nspy_note notes[] = {
	{.kind = NSPY_NOTE_MODE, .mode = {NSPY_MODE_WATCH, 1234567890123}},
	{.kind = NSPY_NOTE_HOLE, .hole = {5, UINT64_MAX, 77}},
	{.kind = NSPY_NOTE_COMMAND, .command = {1796281040744500461u, 9, mark, sizeof(mark) - 1}},
	{.kind = NSPY_NOTE_SELF, .self = {1, 22, 333, 4, 5555, 6, 1ull << 40, 8}},
};
#define NOTES (sizeof(notes) / sizeof(notes[0]))

static size_t encode(uint8_t *out, size_t bytes)
{
	struct nspy_put w = {out, out + bytes, false};

	for (size_t i = 0; i < NOTES; i++)
		nspy_note_put(&w, &notes[i]);
	assert_false(w.bad);
	return (size_t)(w.at - out);
}

static void test_notes(void **state)
{
	uint8_t data[512];
	size_t bytes = encode(data, sizeof(data)), cursor = 0;
	struct nspy_note note;

	(void)state;
	for (size_t i = 0; i < NOTES; i++) {
		assert_int_equal(nspy_note_next(data, bytes, &cursor, &note), 0);
		assert_int_equal(note.kind, notes[i].kind);
		if (note.kind == NSPY_NOTE_COMMAND) {
			assert_int_equal(note.command.id, notes[i].command.id);
			assert_int_equal(note.command.taken_ns, 9);
			assert_int_equal(note.command.text_bytes, sizeof(mark) - 1);
			assert_memory_equal(note.command.text, mark, sizeof(mark) - 1);
		} else if (note.kind == NSPY_NOTE_MODE) {
			assert_int_equal(note.mode.mode, NSPY_MODE_WATCH);
			assert_int_equal(note.mode.since_ns, 1234567890123);
		} else if (note.kind == NSPY_NOTE_HOLE) {
			assert_memory_equal(&note.hole, &notes[i].hole, sizeof(note.hole));
		} else {
			assert_memory_equal(&note.self, &notes[i].self, sizeof(note.self));
		}
	}
	assert_int_equal(nspy_note_next(data, bytes, &cursor, &note), -ENODATA);
}

/* Every prefix is either whole records or refused; unknown kinds and more fields are skipped. */
static void test_notes_damage(void **state)
{
	uint8_t data[512],
		newer[] = {99, 2, 0, 0, 0, 1, 2, NSPY_NOTE_HOLE, 5, 0, 0, 0, 1, 2, 3, 4, 5};
	size_t bytes = encode(data, sizeof(data)), cursor = 0;
	struct nspy_note note;
	int rc;

	(void)state;
	for (size_t cut = 0; cut < bytes; cut++) {
		uint8_t *copy = malloc(cut ? cut : 1);

		assert_non_null(copy);
		memcpy(copy, data, cut);
		cursor = 0;
		while ((rc = nspy_note_next(copy, cut, &cursor, &note)) == 0)
			;
		assert_true(rc == -ENODATA || rc == -EBADMSG);
		free(copy);
	}
	cursor = 0;
	assert_int_equal(nspy_note_next(newer, sizeof(newer), &cursor, &note), 0);
	assert_int_equal(note.kind, 99);
	assert_int_equal(nspy_note_next(newer, sizeof(newer), &cursor, &note), 0);
	assert_int_equal(note.hole.records, 3);
	assert_int_equal(nspy_note_next(newer, sizeof(newer), &cursor, &note), -ENODATA);
}

static void add(struct nspy_control *control, uint64_t id, const char *verb, const char *text)
{
	struct nspy_command command = {.id = id};

	assert_int_equal(nspy_command_parse(verb, text, &command), 0);
	nspy_control_add(control, &command);
}

static void test_commands(void **state)
{
	struct nspy_control control = {.job_dir = "/fsx/spy/8123"}, back;
	char text[NSPY_CONTROL_BYTES_MAX], damaged[NSPY_CONTROL_BYTES_MAX];
	long bytes;

	(void)state;
	for (uint64_t i = 1; i <= 20; i++)
		add(&control, i, "mark", "a text\x1b[2J\nwith an end of line");
	add(&control, 30, "threshold", "60");
	add(&control, 31, "dump", "stacks");
	assert_int_equal(control.count, NSPY_CONTROL_COMMANDS);
	bytes = nspy_control_encode(&control, text, sizeof(text));
	assert_true(bytes > 0);
	assert_int_equal(nspy_control_decode(text, (size_t)bytes, &back), 0);
	assert_string_equal(back.job_dir, "/fsx/spy/8123");
	assert_int_equal(back.count, NSPY_CONTROL_COMMANDS);
	assert_int_equal(back.at[0].id, 7);
	assert_string_equal(back.at[0].text, "a text [2J with an end of line");
	assert_int_equal(back.at[14].verb, NSPY_CONTROL_THRESHOLD);
	assert_int_equal(back.at[14].value, 60);
	assert_int_equal(back.at[15].value, 1);
	for (long i = 0; i < bytes; i++) {
		assert_int_equal(nspy_control_decode(text, (size_t)i, &back), -EBADMSG);
		memcpy(damaged, text, (size_t)bytes);
		damaged[i] ^= 1;
		assert_int_equal(nspy_control_decode(damaged, (size_t)bytes, &back), -EBADMSG);
	}
	assert_int_equal(nspy_control_encode(&control, text, 100), -ENOBUFS);
}

static void test_wrong_words(void **state)
{
	static const struct {
		const char *verb, *text;
		int rc;
	} cases[] = {
		{"on", "", 0},
		{"on", "x", -ERANGE},
		{"?", "", -EINVAL},
		{"", "", -EINVAL},
		{"mark", "", -ERANGE},
		{"mark", "  ", -ERANGE},
		{"mark", "x", 0},
		{"dump", "", 0},
		{"dump", "all", -ERANGE},
		{"threshold", "1", 0},
		{"threshold", "0", -ERANGE},
		{"threshold", "-1", -ERANGE},
		{"threshold", "86400", 0},
		{"threshold", "86401", -ERANGE},
		{"threshold", "60s", -ERANGE},
		{"threshold", "99999999999999999999", -ERANGE},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nspy_command command = {0};

		assert_int_equal(nspy_command_parse(cases[i].verb, cases[i].text, &command),
				 cases[i].rc);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_notes),
		cmocka_unit_test(test_notes_damage),
		cmocka_unit_test(test_commands),
		cmocka_unit_test(test_wrong_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
