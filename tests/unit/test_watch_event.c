/* SPDX-License-Identifier: Apache-2.0 */
/* From verdicts to what is told: what is said once, what has to hold, whose it is, what is noted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core.h"
#include "event.h"
#include "hook.h"
#include "outbox.h"
#include "say.h"
#include "stacks.h"

#define S     1000000000ull
#define NOW   (1000 * S)
#define RANKS 4u

struct nspy_core nspy_core;

static struct {
	uint32_t lines, hooked, blocks, blamed;
	char line[NSPY_OUTBOX_LINE_MAX + 1]; /* the latest of events.jsonl */
	char first[400];                     /* of the latest block */
	enum nspy_say_tag tag;
} said;

bool nspy_outbox_put(const char *line, size_t bytes)
{
	assert_true(bytes && line[bytes - 1] == '\n');
	(void)snprintf(said.line, sizeof(said.line), "%.*s", (int)bytes, line);
	said.lines++;
	return true;
}

void nspy_hook_put(const char *line, size_t bytes)
{
	(void)line;
	(void)bytes;
	said.hooked++;
}

bool nspy_say_block(enum nspy_say_tag tag, const char *const *texts, size_t count)
{
	assert_in_range(count, 1, 8);
	(void)snprintf(said.first, sizeof(said.first), "%s", texts[0]);
	said.tag = tag;
	said.blocks++;
	return true;
}

void nspy_stacks_blame(const char *id, const struct nspy_status *page)
{
	(void)id;
	assert_non_null(page);
	said.blamed++;
}

static struct nspy_status pages[RANKS];
static struct nspy_verdict hang;
static struct nspy_status own;
static uint64_t now;

static int set_up(void **state)
{
	(void)state;
	memset(&said, 0, sizeof(said));
	memset(&own, 0, sizeof(own));
	for (uint32_t i = 0; i < RANKS; i++) {
		pages[i] = (struct nspy_status){.rank = (int32_t)i, .pid = 100 + i, .node = "n0"};
	}
	(void)snprintf(nspy_core.id.job, sizeof(nspy_core.id.job), "j");
	(void)snprintf(nspy_core.id.node, sizeof(nspy_core.id.node), "n0");
	(void)snprintf(nspy_core.id.dir, sizeof(nspy_core.id.dir), "/spy/j/n0");
	nspy_event_start();
	now = NOW;
	hang = (struct nspy_verdict){
		.id = NSPY_FOUND_COLLECTIVE_HANG,
		.key = 0x11,
		.since_ns = NOW - 200 * S,
		.culprits = {3},
		.culprit_count = 1,
		.waiters = 3,
		.operation = "ncclAllReduce #11 of world (4 ranks)",
		.headline = "3 wait, rank 3 never arrived",
		.cause = "rank 3 never came",
	};
	return 0;
}

static void look(const struct nspy_verdict *v, uint32_t times, uint64_t told_before)
{
	static const struct nspy_verdict nothing = {.id = NSPY_FOUND_NONE};

	for (uint32_t i = 0; i < times; i++, now += S)
		nspy_event_take(v ? v : &nothing, pages, now, told_before, &own);
}

static void test_once_after_two_looks(void **state)
{
	(void)state;
	look(&hang, 1, 0);
	assert_int_equal(said.blocks + said.lines + said.hooked, 0);
	assert_int_equal(own.event_key, 0);
	look(&hang, 20, 0);
	assert_int_equal(said.blocks, 1);
	assert_int_equal(said.lines, 1);
	assert_int_equal(said.hooked, 1);
	assert_int_equal(said.blamed, 1);
	assert_non_null(strstr(said.first, "P0 COLLECTIVE_HANG"));
	assert_non_null(strstr(said.line, "\"event\":\"finding\",\"id\":\"COLLECTIVE_HANG\""));
	assert_non_null(strstr(said.line, "\"culprits\":[{\"rank\":3,\"pid\":103"));
	assert_true(own.event_key == hang.key);
	assert_string_equal(own.event_id, "COLLECTIVE_HANG");
}

/* One look that sees nothing, or something else, begins it anew. */
static void test_what_flickers(void **state)
{
	struct nspy_verdict other = hang;

	(void)state;
	other.key ^= 1;
	for (int i = 0; i < 10; i++) {
		look(&hang, 1, 0);
		look(i % 2 ? NULL : &other, 1, 0);
	}
	assert_int_equal(said.blocks + said.lines, 0);
}

static void test_has_to_hold(void **state)
{
	(void)state;
	hang.hold_ns = 5 * S;
	look(&hang, 5, 0);
	assert_int_equal(said.blocks, 0);
	look(NULL, 1, 0);
	look(&hang, 5, 0);
	assert_int_equal(said.blocks, 0);
	look(&hang, 1, 0);
	assert_int_equal(said.blocks, 1);
}

static void test_its_end(void **state)
{
	(void)state;
	look(&hang, 2, 0);
	look(NULL, 1, 0);
	assert_int_equal(said.blocks, 1);
	look(NULL, 5, 0);
	assert_int_equal(said.blocks, 2);
	assert_non_null(strstr(said.first, "COLLECTIVE_HANG: ncclAllReduce #11 of world"));
	assert_non_null(strstr(said.first, "resumed after 20"));
	assert_int_equal(said.tag, NSPY_SAY_INFO);
	assert_int_equal(said.hooked, 2);
	assert_int_equal(own.event_key, 0);
	assert_string_equal(own.event_id, "");
	/* The same one again is not told again. */
	look(&hang, 5, 0);
	assert_int_equal(said.blocks, 2);
}

/* In events.jsonl once each, however they take turns; nowhere else. */
static void test_notes(void **state)
{
	struct nspy_verdict other;

	(void)state;
	hang.note = true;
	other = hang;
	other.key ^= 1;
	for (int i = 0; i < 5; i++) {
		look(&hang, 3, 0);
		look(&other, 3, 0);
		look(NULL, 3, 0);
	}
	assert_int_equal(said.lines, 2);
	assert_non_null(strstr(said.line, "\"event\":\"note\""));
	assert_int_equal(said.blocks + said.hooked, 0);
	assert_int_equal(own.event_key, 0);
	/* Long enough in the end. */
	hang.note = false;
	look(&hang, 2, 0);
	assert_int_equal(said.blocks, 1);
}

/* Whoever spoke before has told it; its end is ours to tell. */
static void test_told_by_the_speaker_before(void **state)
{
	(void)state;
	look(&hang, 5, hang.key);
	assert_int_equal(said.blocks + said.lines, 0);
	assert_true(own.event_key == hang.key);
	look(NULL, 2, 0);
	assert_int_equal(said.blocks, 1);
	assert_non_null(strstr(said.first, "resumed after"));
}

static void hear(uint64_t key, const char *text)
{
	struct nspy_digest digest = {.key = key, .node = "n7"};

	(void)snprintf(digest.text, sizeof(digest.text), "%s", text);
	nspy_event_hear(&digest, &own);
}

/* A line, once; the finding is known, and is another node's to name in full. */
static void test_heard_of(void **state)
{
	(void)state;
	hear(77, "P0 RANK_DIED rank 3 (node n7) died");
	hear(77, "P0 RANK_DIED rank 3 (node n7) died");
	assert_int_equal(said.blocks, 1);
	assert_non_null(strstr(said.first, "died (in full on node n7)"));
	assert_int_equal(said.lines + said.hooked, 0);
	assert_int_equal(own.event_key, 77);
	assert_string_equal(own.event_id, "RANK_DIED");
	assert_false(nspy_event_in_full(&own));
	hear(0, "");
	assert_int_equal(own.event_key, 0);
	assert_string_equal(own.event_id, "");
	/* Texts that are none. */
	hear(78, "P0");
	assert_string_equal(own.event_id, "");
	hear(79, "P0 A_NAME_THAT_IS_LONGER_THAN_THE_PLACE_FOR_IT_IN_A_PAGE");
	assert_int_equal(strlen(own.event_id), sizeof(own.event_id) - 1);
}

static void test_in_full(void **state)
{
	struct nspy_digest digest = {0};

	(void)state;
	assert_false(nspy_event_in_full(&own));
	look(&hang, 2, 0);
	assert_true(nspy_event_in_full(&own));
	nspy_event_digest(&digest);
	assert_true(digest.key == hang.key);
	assert_true(strncmp(digest.text, "P0 COLLECTIVE_HANG ", 19) == 0);
	/* What comes back to the node that told it. */
	nspy_event_hear(&digest, &own);
	assert_int_equal(said.blocks, 1);
	look(NULL, 2, 0);
	assert_false(nspy_event_in_full(&own));
	nspy_event_digest(&digest);
	assert_int_equal(digest.key, 0);
	assert_string_equal(digest.text, "");
}

/* Lateness comes and goes, the dead stay dead: no word of an end. */
static void test_no_end_is_told(void **state)
{
	const enum nspy_found_id ids[] = {NSPY_FOUND_RANK_DIED, NSPY_FOUND_STRAGGLER_RANK,
					  NSPY_FOUND_COLLECTIVE_MISMATCH};

	(void)state;
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		uint32_t before = said.blocks;

		hang.id = ids[i];
		hang.key++;
		look(&hang, 2, 0);
		look(NULL, 5, 0);
		assert_int_equal(said.blocks, before + 1);
		assert_int_equal(own.event_key, 0);
	}
}

/* Quotes, ends of lines and control characters of names. */
static void test_json_is_json(void **state)
{
	(void)state;
	(void)snprintf(nspy_core.id.job, sizeof(nspy_core.id.job), "a\"b\\c\n\x1b");
	look(&hang, 2, 0);
	assert_non_null(strstr(said.line, "\"job\":\"a\\\"b\\\\c  \""));
	assert_ptr_equal(strchr(said.line, '\n'), said.line + strlen(said.line) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_once_after_two_looks, set_up),
		cmocka_unit_test_setup(test_what_flickers, set_up),
		cmocka_unit_test_setup(test_has_to_hold, set_up),
		cmocka_unit_test_setup(test_its_end, set_up),
		cmocka_unit_test_setup(test_notes, set_up),
		cmocka_unit_test_setup(test_told_by_the_speaker_before, set_up),
		cmocka_unit_test_setup(test_heard_of, set_up),
		cmocka_unit_test_setup(test_in_full, set_up),
		cmocka_unit_test_setup(test_no_end_is_told, set_up),
		cmocka_unit_test_setup(test_json_is_json, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
