/* SPDX-License-Identifier: Apache-2.0 */
/* Whole segments: packing, reading, damage of every kind. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "segment_builder.h"
#include "trace_bytes.h"

/* Reads a segment to its end; counts good chunks and reports of damage. */
struct tally {
	int good, bad, newer;
	int truncated;
	int last_rc;
};

static struct tally read_all(const uint8_t *data, size_t bytes)
{
	struct tally t = {0};
	struct nspy_reader *reader = NULL;
	struct nspy_chunk_info info;
	const uint8_t *payload;

	t.last_rc = nspy_reader_open_memory(data, bytes, &reader);
	if (t.last_rc < 0)
		return t;
	/* No input may make the reader stand still: each call consumes at least a byte. */
	for (size_t i = 0; i <= bytes + 1; i++) {
		t.last_rc = nspy_reader_next(reader, &info, &payload);
		if (t.last_rc == -ENODATA)
			break;
		if (t.last_rc == 0)
			t.good++;
		else if (t.last_rc == -EPROTONOSUPPORT)
			t.newer++;
		else
			t.bad++;
	}
	t.truncated = nspy_reader_truncated(reader);
	nspy_reader_free(reader);
	return t;
}

static int setup(void **state)
{
	*state = segment_build();
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	segment_free(*state);
	return 0;
}

static void an_intact_segment_reads_completely(void **state)
{
	const struct segment *s = *state;
	struct tally t = read_all(s->data, s->bytes);

	assert_int_equal(t.last_rc, -ENODATA);
	assert_int_equal(t.good, s->chunks);
	assert_int_equal(t.bad, 0);
	assert_int_equal(t.truncated, 0);
}

static void headers_come_back(void **state)
{
	const struct segment *s = *state;
	struct nspy_reader *reader;
	struct nspy_chunk_info info;
	const uint8_t *payload;
	size_t got = 0;
	static union nspy_any_rec records[NSPY_CHUNK_RECORDS_MAX];

	assert_int_equal(nspy_reader_open_memory(s->data, s->bytes, &reader), 0);
	do
		assert_int_equal(nspy_reader_next(reader, &info, &payload), 0);
	while (info.kind != NSPY_CHUNK_OPS);
	assert_int_equal(info.run_id, SEGMENT_RUN_ID);
	assert_int_equal(info.thread_serial, 3);
	assert_int_equal(info.records, SEGMENT_RECORDS);
	assert_int_equal(info.first_index, 77);
	assert_true(info.mono_to_real_ns == -5);
	assert_int_equal(
		nspy_ops_decode(payload, info.raw_bytes, records, NSPY_CHUNK_RECORDS_MAX, &got), 0);
	assert_int_equal(got, SEGMENT_RECORDS);
	nspy_reader_free(reader);
}

/* Cut at every byte: all whole chunks are read, and the cut is told from damage. */
static void a_cut_segment_reads_up_to_the_cut(void **state)
{
	const struct segment *s = *state;

	for (size_t n = NSPY_CHUNK_HEADER_BYTES; n < s->bytes; n++) {
		struct tally t = read_all(s->data, n);
		int whole = 0;

		while (whole < s->chunks && s->ends[whole] <= n)
			whole++;
		assert_int_equal(t.good, whole);
		assert_int_equal(t.last_rc, -ENODATA);
		if (whole && s->ends[whole - 1] == n) {
			assert_int_equal(t.bad, 0);
		} else {
			assert_int_equal(t.bad, 1);
			assert_true(t.truncated);
		}
	}
}

/* One bit flipped anywhere: never a crash, never a wrong payload, at most one chunk lost. */
static void a_flipped_bit_costs_at_most_one_chunk(void **state)
{
	const struct segment *s = *state;
	uint8_t *copy = malloc(s->bytes);

	memcpy(copy, s->data, s->bytes);
	for (size_t bit = 0; bit < s->bytes * 8; bit++) {
		struct tally t;

		copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
		t = read_all(copy, s->bytes);
		if (bit / 8 < 16) /* the file's own mark: it is not a segment any more */
			assert_true(t.last_rc == -EBADMSG || t.good >= s->chunks - 1);
		else if (t.last_rc != -EPROTONOSUPPORT && !t.newer)
			assert_in_range(t.good, s->chunks - 1, s->chunks);
		copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	free(copy);
}

/* Garbage between chunks is stepped over. */
static void reading_goes_on_behind_garbage(void **state)
{
	const struct segment *s = *state;
	size_t at = s->ends[1];
	uint8_t *copy = malloc(s->bytes + 100);
	struct tally t;

	memcpy(copy, s->data, at);
	memset(copy + at, 0x5A, 100);
	memcpy(copy + at + 100, s->data + at, s->bytes - at);
	t = read_all(copy, s->bytes + 100);
	assert_int_equal(t.good, s->chunks);
	assert_int_equal(t.bad, 1);
	free(copy);
}

static void foreign_files_are_refused(void **state)
{
	static const uint8_t zstd_frame[64] = {0x28, 0xB5, 0x2F, 0xFD};
	struct nspy_reader *reader;

	(void)state;
	assert_int_equal(nspy_reader_open_memory("", 0, &reader), -EBADMSG);
	assert_int_equal(nspy_reader_open_memory("short", 5, &reader), -EBADMSG);
	assert_int_equal(nspy_reader_open_memory(zstd_frame, sizeof(zstd_frame), &reader),
			 -EBADMSG);
	assert_int_equal(nspy_reader_open("/nonexistent/file", &reader), -ENOENT);
	assert_int_equal(nspy_reader_open("/dev/null", &reader), -EBADMSG);
}

static void a_newer_version_asks_for_a_newer_reader(void **state)
{
	const struct segment *s = *state;
	uint8_t *copy = malloc(s->bytes);
	struct nspy_reader *reader;

	memcpy(copy, s->data, s->bytes);
	nspy_le16_store(copy + 16, NSPY_TRACE_VERSION + 1);
	assert_int_equal(nspy_reader_open_memory(copy, s->bytes, &reader), -EPROTONOSUPPORT);
	free(copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_intact_segment_reads_completely, setup,
						teardown),
		cmocka_unit_test_setup_teardown(headers_come_back, setup, teardown),
		cmocka_unit_test_setup_teardown(a_cut_segment_reads_up_to_the_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(a_flipped_bit_costs_at_most_one_chunk, setup,
						teardown),
		cmocka_unit_test_setup_teardown(reading_goes_on_behind_garbage, setup, teardown),
		cmocka_unit_test(foreign_files_are_refused),
		cmocka_unit_test_setup_teardown(a_newer_version_asks_for_a_newer_reader, setup,
						teardown),
	};

	return cmocka_run_group_tests_name("trace_chunk", tests, NULL, NULL);
}
