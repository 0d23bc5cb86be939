/* SPDX-License-Identifier: Apache-2.0 */
/* When a node posts its pages, reads the others' and tells them; the directory is made up here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#include "across.h"
#include "board.h"
#include "core.h"
#include "event.h"
#include "exchange.h"
#include "live.h"

#define S  1000000000ull
#define MS 1000000ull

struct nspy_core nspy_core;

/* --- the directory --- */

static struct {
	uint8_t out[65536], in[65536];
	size_t in_bytes;
	bool has_pages, refused;
	uint32_t posts, reads, digest_reads, digests;
	struct nspy_digest digest, going_on;
} dir;

uint8_t *nspy_exchange_room(size_t bytes)
{
	return bytes <= sizeof(dir.out) ? dir.out : NULL;
}

void nspy_exchange_post(size_t bytes)
{
	(void)bytes;
	dir.posts++;
}

bool nspy_exchange_refused(void)
{
	return dir.refused;
}

bool nspy_exchange_ask_pages(bool heads_only)
{
	(void)heads_only;
	dir.reads++;
	return true;
}

bool nspy_exchange_pages(bool *ret_heads_only)
{
	*ret_heads_only = false;
	return dir.has_pages;
}

const uint8_t *nspy_exchange_next(size_t *cursor, size_t *ret_bytes)
{
	*ret_bytes = dir.in_bytes;
	return (*cursor)++ ? NULL : dir.in;
}

void nspy_exchange_done(void)
{
	dir.has_pages = false;
}

void nspy_exchange_post_digest(const struct nspy_digest *digest)
{
	dir.digest = *digest;
	dir.digests++;
}

void nspy_exchange_ask_digest(void)
{
	dir.digest_reads++;
}

bool nspy_exchange_digest(struct nspy_digest *ret)
{
	(void)ret;
	return false;
}

void nspy_event_digest(struct nspy_digest *ret)
{
	ret->key = dir.going_on.key;
	(void)snprintf(ret->text, sizeof(ret->text), "%s", dir.going_on.text);
}

void nspy_event_hear(const struct nspy_digest *digest, struct nspy_status *own)
{
	(void)digest;
	(void)own;
}

void *nspy_live_map_private(size_t bytes, int flags)
{
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)flags;
	return map == MAP_FAILED ? NULL : map;
}

/* --- the job: two nodes of two ranks, of which one is seen --- */

static struct nspy_local local;
static struct nspy_status_comm comms[2];
static struct nspy_status_call call;
static struct nspy_limits limits;
static struct nspy_view view;
static uint64_t now;

static void page(struct nspy_status *ret, int32_t rank, const char *node)
{
	struct timespec real;

	clock_gettime(CLOCK_REALTIME, &real);
	*ret = (struct nspy_status){
		.run_id = (uint64_t)rank + 1,
		.pid = 100 + (uint32_t)rank,
		.state = NSPY_STATUS_RUNNING,
		.rank = rank,
		.world_size = 4,
		.published_ns = now,
		.published_real_ns = (uint64_t)real.tv_sec * S + (uint64_t)real.tv_nsec,
	};
	(void)snprintf(ret->node, sizeof(ret->node), "%s", node);
}

static int set_up(void **state)
{
	(void)state;
	memset(&dir, 0, sizeof(dir));
	memset(&nspy_core, 0, sizeof(nspy_core));
	nspy_core.env.NCCLSPY_BOARD_S = 10;
	(void)snprintf(nspy_core.id.node, sizeof(nspy_core.id.node), "n0");
	now = 1000 * S;
	nspy_across_start(now);
	local = (struct nspy_local){.count = 2};
	for (uint32_t i = 0; i < 2; i++) {
		page(&local.pages[i], (int32_t)i, "n0");
		comms[i] = (struct nspy_status_comm){
			.key = 7, .nranks = 4, .rank = (int32_t)i, .flags = NSPY_COMM_READY};
		local.pages[i].comm_count = 1;
		local.pages[i].comms = &comms[i];
	}
	limits = (struct nspy_limits){.hang_ns = 180 * S, .note_ns = 30 * S, .start_ns = 600 * S};
	return 0;
}

static void look(uint32_t seconds)
{
	struct nspy_status own = {0};

	for (uint32_t i = 0; i < seconds; i++, now += S) {
		nspy_across_look(&local, now, &limits, &own, &view);
		nspy_across_tell(now);
	}
}

static void forget(void)
{
	dir.posts = dir.reads = dir.digest_reads = dir.digests = 0;
}

static void rounds_take(uint64_t ns)
{
	local.pages[0].round_ns[0] = local.pages[1].round_ns[0] = ns;
}

static void test_a_quiet_job(void **state)
{
	(void)state;
	rounds_take(120 * MS);
	look(60); /* the beginning */
	forget();
	look(100);
	assert_in_range(dir.posts, 9, 11);
	assert_in_range(dir.reads, 9, 11);
	assert_in_range(dir.digests, 9, 11);
}

/* Nobody hangs, and all nodes hear of each other in seconds. */
static void test_longer_rounds(void **state)
{
	(void)state;
	rounds_take(120 * MS);
	look(60);
	forget();
	rounds_take(132 * MS);
	look(4);
	assert_true(dir.posts >= 2 && dir.reads >= 2);
	look(8);
	assert_true(dir.posts >= 6 && dir.reads >= 6);
	look(30);
	forget();
	look(100);
	assert_in_range(dir.posts, 9, 11);
}

static void test_longer_rounds_of_a_follower(void **state)
{
	(void)state;
	local.pages[0].rank = 2;
	local.pages[1].rank = 3;
	rounds_take(120 * MS);
	look(60);
	forget();
	rounds_take(132 * MS);
	look(4);
	assert_true(dir.posts >= 2 && dir.digest_reads >= 2);
}

static void test_a_long_wait(void **state)
{
	(void)state;
	look(30);
	forget();
	call.enter_ns = now;
	local.pages[1].call_count = 1;
	local.pages[1].calls_open = &call;
	look(10);
	assert_true(dir.posts <= 2);
	look(4);
	assert_true(dir.posts >= 2 && dir.reads >= 2);
	forget();
	look(20);
	assert_in_range(dir.posts, 9, 11);
}

/* It holds up no call. */
static void test_a_nonblocking_creation(void **state)
{
	(void)state;
	look(30);
	comms[1].flags = NSPY_COMM_NONBLOCKING;
	comms[1].started_ns = now;
	look(11);
	forget();
	look(20);
	assert_in_range(dir.posts, 9, 11);
	/* It has come, or never will. */
	comms[1].flags |= NSPY_COMM_FAILED;
	forget();
	look(20);
	assert_true(dir.posts <= 3);
}

/* What is over before the others have looked is told to them all the same. */
static void test_what_does_not_last(void **state)
{
	(void)state;
	look(30);
	dir.going_on.key = 77;
	(void)snprintf(dir.going_on.text, sizeof(dir.going_on.text), "P0 X y");
	forget();
	look(1);
	assert_int_equal(dir.digests, 1);
	assert_int_equal(dir.digest.key, 77);
	dir.going_on.key = 0;
	look(10);
	assert_int_equal(dir.digest.key, 77);
	look(13);
	assert_int_equal(dir.digest.key, 0);
}

static void other_node_posts(void)
{
	struct nspy_status others[2];
	long bytes;

	page(&others[0], 2, "n1");
	page(&others[1], 3, "n1");
	bytes = nspy_board_encode(others, 2, 0, dir.in, sizeof(dir.in));
	assert_true(bytes > 0);
	dir.in_bytes = (size_t)bytes;
	dir.has_pages = true;
}

static uint32_t silent_ones(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < view.count; i++)
		count += view.pages[i].silent;
	return count;
}

static void nothing_new_is_read(uint32_t seconds)
{
	for (uint32_t i = 0; i < seconds; i++) {
		dir.in_bytes = 0;
		dir.has_pages = false;
		look(1);
	}
}

static void test_a_silent_node(void **state)
{
	(void)state;
	other_node_posts();
	look(1);
	assert_true(view.judge && view.whole);
	assert_int_equal(view.count, 4);
	assert_int_equal(silent_ones(), 0);
	nothing_new_is_read(30);
	assert_int_equal(silent_ones(), 0);
}

/* The directory is there and says nothing new of that node. */
static void test_a_node_whose_file_is_old(void **state)
{
	uint8_t file[sizeof(dir.in)];
	size_t bytes;

	(void)state;
	other_node_posts();
	memcpy(file, dir.in, sizeof(file));
	bytes = dir.in_bytes;
	look(1);
	/* Whoever cannot write either does not take the others' silence for theirs. */
	for (int refused = 1; refused >= 0; refused--) {
		struct nspy_status old[1];

		dir.refused = refused;
		memcpy(dir.in, file, sizeof(file));
		dir.in_bytes = bytes;
		dir.has_pages = true;
		look(1);
		assert_int_equal(silent_ones(), 0);
		/* As if it had been read just now and were 40 s old. */
		old[0] = view.pages[0];
		assert_int_equal(old[0].rank, 2);
		((struct nspy_status *)view.pages)[0].published_ns = now - 40 * S;
		look(1);
		assert_int_equal(silent_ones(), refused ? 0 : 1);
		assert_int_equal(view.count, refused ? 3 : 4);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_a_quiet_job, set_up),
		cmocka_unit_test_setup(test_longer_rounds, set_up),
		cmocka_unit_test_setup(test_longer_rounds_of_a_follower, set_up),
		cmocka_unit_test_setup(test_a_long_wait, set_up),
		cmocka_unit_test_setup(test_a_nonblocking_creation, set_up),
		cmocka_unit_test_setup(test_what_does_not_last, set_up),
		cmocka_unit_test_setup(test_a_silent_node, set_up),
		cmocka_unit_test_setup(test_a_node_whose_file_is_old, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
