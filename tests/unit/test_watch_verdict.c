/* SPDX-License-Identifier: Apache-2.0 */
/* What the watcher concludes from pages: each situation and its near miss. */
#include "test_watch_job.h"

#include "active.h"

static void test_all_at_work(void **state)
{
	(void)state;
	assert_int_equal(find(), NSPY_FOUND_NONE);
}

static void test_never_arrived(void **state)
{
	(void)state;
	three_wait_for_rank_3(LONG);
	expect(NSPY_FOUND_COLLECTIVE_HANG, 3);
	assert_int_equal(verdict.waiters, 3);
	assert_int_equal(verdict.seq, 11);
	assert_non_null(strstr(verdict.headline, "rank 3 never arrived"));
}

static void test_not_long_enough(void **state)
{
	(void)state;
	three_wait_for_rank_3(NOW - 20 * S);
	assert_int_equal(find(), NSPY_FOUND_NONE);
}

static void test_note(void **state)
{
	(void)state;
	three_wait_for_rank_3(NOW - 100 * S);
	assert_int_equal(find(), NSPY_FOUND_COLLECTIVE_HANG);
	assert_true(verdict.note);
}

/* A job that now and then waits 150 s for a checkpoint is not alarmed after 200 s. */
static void test_rhythm_raises_the_limit(void **state)
{
	(void)state;
	three_wait_for_rank_3(LONG);
	pages[0].longest_wait_ns = 150 * S;
	assert_true(find() == NSPY_FOUND_NONE || verdict.note);
}

static void test_warm_up(void **state)
{
	(void)state;
	three_wait_for_rank_3(LONG);
	for (uint32_t i = 0; i < RANKS; i++)
		pages[i].rounds = 3;
	assert_true(find() == NSPY_FOUND_NONE || verdict.note);
}

static void test_serving(void **state)
{
	(void)state;
	three_wait_for_rank_3(LONG);
	limits.serving = true;
	assert_int_equal(find(), NSPY_FOUND_NONE);
}

/* The page of the late rank is older than the wait: it proves nothing. */
static void test_stale_page(void **state)
{
	(void)state;
	three_wait_for_rank_3(LONG);
	pages[3].published_ns = LONG - S;
	assert_int_equal(find(), NSPY_FOUND_NONE);
}

/* The page was published when the others had just begun to wait: its rank may have come since. */
static void test_young_page(void **state)
{
	(void)state;
	three_wait_for_rank_3(LONG);
	pages[3].published_ns = LONG + S / 2;
	assert_int_equal(find(), NSPY_FOUND_NONE);
	pages[3].published_ns = LONG + 2 * S;
	expect(NSPY_FOUND_COLLECTIVE_HANG, 3);
}

/* Its node is not heard of any more: that is told, and what it lacks is not. */
static void test_silent_node(void **state)
{
	(void)state;
	three_wait_for_rank_3(LONG);
	pages[3].published_ns = LONG - S;
	pages[3].silent = true;
	expect(NSPY_FOUND_COLLECTIVE_HANG, 3);
	assert_non_null(strstr(verdict.headline, "not heard of since 201 s"));
	assert_string_equal(verdict.owner, "node");
}

static void test_stopped(void **state)
{
	(void)state;
	three_wait_for_rank_3(LONG);
	pages[3].stopped = true;
	pages[3].published_ns = LONG - S;
	expect(NSPY_FOUND_COLLECTIVE_HANG, 3);
	assert_non_null(strstr(verdict.lines[0], "is stopped"));
}

static void test_works_and_is_late(void **state)
{
	(void)state;
	three_wait_for_rank_3(LONG);
	pages[3].busy_for_ns = 190 * S;
	pages[3].busy_cpu_ns = 120 * S;
	expect(NSPY_FOUND_PROGRESS_STALLED_OUTSIDE_NCCL, 3);
	pages[3].busy_cpu_ns = S;
	pages[3].busy_io_bytes = 1ull << 32;
	expect(NSPY_FOUND_PROGRESS_STALLED_OUTSIDE_NCCL, 3);
	pages[3].busy_io_bytes = 1u << 20;
	expect(NSPY_FOUND_COLLECTIVE_HANG, 3);
}

/* Rank 3 is late in a pair; rank 2 waits there, and the world for rank 2. */
static void test_chain(void **state)
{
	(void)state;
	for (uint32_t i = 2; i < 4; i++) {
		comms[i][1] = comms[i][0];
		comms[i][1].key = PAIR;
		comms[i][1].parent_key = WORLD;
		comms[i][1].nranks = 2;
		comms[i][1].rank = (int32_t)i - 2;
		pages[i].comm_count = 2;
	}
	for (uint32_t i = 0; i < 2; i++) {
		comms[i][0].enqueued = 11;
		sync_since(i, LONG);
	}
	comms[2][1].enqueued = 11;
	sync_since(2, LONG + S);
	expect(NSPY_FOUND_COLLECTIVE_HANG, 3);
}

/* Nobody is missing: whoever waits last is not to blame. */
static void test_nobody_missing(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RANKS; i++) {
		comms[i][0].enqueued = i < 2 ? 12 : 11;
		sync_since(i, LONG);
	}
	expect(NSPY_FOUND_COLLECTIVE_HANG, -1);
	assert_string_equal(verdict.owner, "fabric");
}

static void test_ranks_not_seen(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RANKS; i++) {
		comms[i][0].nranks = 8;
		pages[i].world_size = 8;
		sync_since(i, LONG);
	}
	expect(NSPY_FOUND_COLLECTIVE_HANG, -1);
	assert_string_equal(verdict.owner, "unknown");
}

/* Four of eight have been heard of; the others get time, and until then nobody is accused. */
static void four_of_eight(void)
{
	limits.unseen_ns = 6 * S;
	for (uint32_t i = 0; i < RANKS; i++) {
		comms[i][0].nranks = 8;
		pages[i].world_size = 8;
	}
}

static void test_not_heard_of_yet(void **state)
{
	(void)state;
	four_of_eight();
	for (uint32_t i = 0; i < RANKS; i++)
		sync_since(i, NOW - limits.hang_ns - 3 * S);
	/* The rhythm of the job asks for no more patience than that. */
	assert_true(find() == NSPY_FOUND_NONE || verdict.note);
	for (uint32_t i = 0; i < RANKS; i++)
		calls[i][0].enter_ns -= 4 * S;
	expect(NSPY_FOUND_COLLECTIVE_HANG, -1);
	assert_string_equal(verdict.owner, "unknown");
}

/* Whoever is stuck in a call, or lacks a message, may wait for one of those. */
static void test_waits_for_the_unseen(void **state)
{
	(void)state;
	four_of_eight();
	three_wait_for_rank_3(LONG);
	wait_in(3, NSPY_CLASS_COLL, NAME_GATHER, LONG);
	ways[0][0] = (struct nspy_status_way){.peer = 1, .sent = 5};
	ways[1][0] = (struct nspy_status_way){.peer = 0, .received = 6};
	pages[0].way_count = pages[1].way_count = 1;
	expect(NSPY_FOUND_COLLECTIVE_HANG, -1);
	assert_string_equal(verdict.owner, "unknown");
}

/* A side thread sits in a wait for long; the main thread has moved on and is only a bit ahead. */
static void test_side_thread_waits(void **state)
{
	(void)state;
	three_wait_for_rank_3(LONG);
	for (uint32_t i = 0; i < 3; i++) {
		comms[i][0].last_ns = NOW - S;
		pages[i].last_call_ns = NOW - S;
	}
	assert_int_equal(find(), NSPY_FOUND_NONE);
}

static void test_inside_a_call(void **state)
{
	(void)state;
	three_wait_for_rank_3(LONG);
	wait_in(3, NSPY_CLASS_COLL, NAME_GATHER, LONG);
	expect(NSPY_FOUND_COLLECTIVE_HANG, 3);
	assert_non_null(strstr(verdict.lines[0], "is inside ncclAllGather"));
}

static void test_died(void **state)
{
	(void)state;
	sync_since(0, NOW - 2 * S);
	pages[2].dead = true;
	expect(NSPY_FOUND_RANK_DIED, 2);
}

/* It died before its page showed a communicator. */
static void test_died_early(void **state)
{
	(void)state;
	sync_since(0, NOW - 2 * S);
	pages[2].dead = true;
	pages[2].comm_count = 0;
	expect(NSPY_FOUND_RANK_DIED, 2);
	/* A dead one of another size of the job is an earlier attempt. */
	pages[2].world_size = 8;
	assert_int_equal(find(), NSPY_FOUND_NONE);
}

/* Killed in an earlier run of the job, which had another world; its successor is not seen yet. */
static void test_died_earlier(void **state)
{
	(void)state;
	sync_since(0, NOW - 2 * S);
	pages[2].dead = true;
	comms[2][0].key = PAIR;
	assert_int_equal(find(), NSPY_FOUND_NONE);
}

/* Something that inherited its rank died early; the rank itself is alive and late. */
static void test_died_namesake(void **state)
{
	(void)state;
	sync_since(0, NOW - 2 * S);
	pages[2].dead = true;
	pages[2].comm_count = 0;
	pages[3].rank = 2;
	pages[3].comm_count = 0;
	assert_int_equal(find(), NSPY_FOUND_NONE);
}

/* The others have gone on without it in a communicator of their own; the old one is still there. */
static void test_died_left_behind(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RANKS; i++) {
		if (i == 2)
			continue;
		comms[i][0].last_ns = NOW - 60 * S;
		comms[i][1] = comms[i][0];
		comms[i][1].key = PAIR;
		comms[i][1].last_ns = NOW - 2 * S;
		pages[i].comm_count = 2;
	}
	sync_since(0, NOW - 2 * S);
	pages[2].dead = true;
	assert_int_equal(find(), NSPY_FOUND_NONE);
	comms[0][0].last_ns = NOW - 2 * S;
	expect(NSPY_FOUND_RANK_DIED, 2);
}

/* It is gone, but nobody waits: the job is over, or goes on without it. */
static void test_died_unmissed(void **state)
{
	(void)state;
	pages[2].dead = true;
	assert_int_equal(find(), NSPY_FOUND_NONE);
}

static void test_exit_codes(void **state)
{
	(void)state;
	sync_since(0, NOW - 2 * S);
	pages[2].state = NSPY_STATUS_EXITED;
	assert_int_equal(find(), NSPY_FOUND_NONE);
	pages[2].exit_code = 3;
	expect(NSPY_FOUND_RANK_DIED, 2);
	assert_non_null(strstr(verdict.headline, "exit code 3"));
}

/* Of several deaths the first is told. */
static void test_first_death(void **state)
{
	(void)state;
	sync_since(0, NOW - 2 * S);
	pages[1].dead = pages[2].dead = true;
	pages[2].published_ns = NOW - 5 * S;
	expect(NSPY_FOUND_RANK_DIED, 2);
}

static void test_mismatch(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RANKS; i++) {
		add_op(i, 0, 9, NAME_REDUCE, 100);
		add_op(i, 0, 10, NAME_REDUCE, i == 1 ? 50 : 100);
	}
	expect(NSPY_FOUND_COLLECTIVE_MISMATCH, 1);
	assert_int_equal(verdict.seq, 10);
	ops[1][1].count = 100;
	assert_int_equal(find(), NSPY_FOUND_NONE);
}

static void test_mismatch_tie(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RANKS; i++)
		add_op(i, 0, 10, i < 2 ? NAME_REDUCE : NAME_GATHER, 100);
	expect(NSPY_FOUND_COLLECTIVE_MISMATCH, -1);
}

/* Two against two, and four more to be heard of: the majority decides when they are. */
static void test_mismatch_tie_of_few(void **state)
{
	(void)state;
	four_of_eight();
	for (uint32_t i = 0; i < RANKS; i++)
		add_op(i, 0, 10, i < 2 ? NAME_REDUCE : NAME_GATHER, 100);
	assert_int_equal(find(), NSPY_FOUND_NONE);
	ops[1][0].name = NAME_GATHER;
	expect(NSPY_FOUND_COLLECTIVE_MISMATCH, 0);
	ops[1][0].name = NAME_REDUCE;
	for (uint32_t i = 0; i < RANKS; i++)
		sync_since(i, NOW - 7 * S);
	expect(NSPY_FOUND_COLLECTIVE_MISMATCH, -1);
}

/* The same bytes under another type, moved and not added up. */
static void test_same_bytes(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RANKS; i++) {
		add_op(i, 0, 10, NAME_GATHER, 100);
		ops[i][0].redop = NSPY_REDOP_NONE;
	}
	ops[1][0].datatype = 0;
	ops[1][0].count = 400;
	assert_int_equal(find(), NSPY_FOUND_NONE);
	ops[1][0].count = 100;
	expect(NSPY_FOUND_COLLECTIVE_MISMATCH, 1);
}

static void test_order(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RANKS; i++) {
		comms[i][1] = comms[i][0];
		comms[i][1].key = PAIR;
		pages[i].comm_count = 2;
		add_op(i, i == 2, 10, NAME_REDUCE, 100);
		add_op(i, i != 2, 10, NAME_REDUCE, 100);
		sync_since(i, LONG);
	}
	expect(NSPY_FOUND_ORDER_INVERSION, 2);
}

/* Each waits at once for its first operation: a circle, and nobody to blame. */
static void test_circle(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RANKS; i++) {
		comms[i][1] = comms[i][0];
		comms[i][1].key = PAIR;
		pages[i].comm_count = 2;
		comms[i][i < 2].enqueued = 11;
		sync_since(i, LONG);
	}
	expect(NSPY_FOUND_ORDER_INVERSION, -1);
}

static void test_message(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RANKS; i++)
		sync_since(i, LONG);
	ways[0][0] = (struct nspy_status_way){.peer = 1, .sent = 5};
	ways[1][0] = (struct nspy_status_way){.peer = 0, .received = 6};
	pages[0].way_count = pages[1].way_count = 1;
	expect(NSPY_FOUND_COLLECTIVE_HANG, 0);
	assert_int_equal(verdict.seq, 6);
	assert_non_null(strstr(verdict.operation, "ncclSend #6 from rank 0 to rank 1"));
}

/* Three of four are in the creation. */
static void creating(uint64_t since)
{
	for (uint32_t i = 0; i < RANKS; i++) {
		comms[i][0].flags = NSPY_COMM_STARTED;
		comms[i][0].enqueued = 0;
		if (i < 3)
			wait_in(i, NSPY_CLASS_COMM_INIT, NAME_INIT, since);
	}
	pages[3].comm_count = 0;
}

static void test_creation(void **state)
{
	(void)state;
	creating(NOW - 700 * S);
	expect(NSPY_FOUND_RANKS_MISSING, 3);
}

static void test_creation_unseen(void **state)
{
	struct nspy_arena arena = {(uint8_t *)scratch, sizeof(scratch), 0};

	(void)state;
	creating(NOW - 700 * S);
	assert_int_equal(nspy_verdict_find(pages, 3, NOW, &limits, &arena, &verdict), 0);
	assert_int_equal(verdict.id, NSPY_FOUND_RANKS_MISSING);
	assert_non_null(strstr(verdict.headline, "no sign of rank 3 "));
	/* It may be on a node that is only about to be heard of. */
	limits.unseen_ns = 101 * S;
	arena.used = 0;
	assert_int_equal(nspy_verdict_find(pages, 3, NOW, &limits, &arena, &verdict), 0);
	assert_true(verdict.id == NSPY_FOUND_NONE || verdict.note);
}

static void test_creation_short(void **state)
{
	(void)state;
	creating(LONG);
	assert_true(find() == NSPY_FOUND_NONE || verdict.note);
}

static void test_creation_with_all(void **state)
{
	(void)state;
	creating(NOW - 700 * S);
	pages[3].comm_count = 1;
	wait_in(3, NSPY_CLASS_COMM_INIT, NAME_INIT, NOW - 700 * S);
	expect(NSPY_FOUND_INIT_TIMEOUT, -1);
}

static void test_replay(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RANKS; i++) {
		comms[i][0].captured = 24;
		pages[i].graph_launches = i == 1 ? 6 : 7;
		if (i != 1)
			sync_since(i, LONG);
	}
	pages[1].last_call_ns = LONG;
	expect(NSPY_FOUND_COLLECTIVE_HANG, 1);
	assert_non_null(strstr(verdict.operation, "graph replay #7"));
}

/* No call is open anywhere; the hosts may be stuck in launches that nobody sees. */
static void test_silence(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RANKS; i++) {
		comms[i][0].enqueued = i == 2 ? 10 : 11;
		pages[i].last_call_ns = LONG;
	}
	expect(NSPY_FOUND_COLLECTIVE_HANG, 2);
	pages[0].last_call_ns = NOW - 2 * S;
	assert_int_equal(find(), NSPY_FOUND_NONE);
}

static void test_active(void **state)
{
	struct nspy_active a;

	(void)state;
	nspy_active_count(pages, RANKS, &a);
	assert_int_equal(a.expected, RANKS);
	assert_int_equal(a.seen, RANKS);
	assert_int_equal(a.nodes, 1);
	(void)snprintf(pages[3].node, sizeof(pages[3].node), "n1");
	nspy_active_count(pages, RANKS, &a);
	assert_int_equal(a.nodes, 2);
	/* Ranks 1 to 2 of six and the last have no page. */
	for (uint32_t i = 0; i < RANKS; i++)
		comms[i][0].nranks = pages[i].world_size = 6;
	comms[1][0].rank = 3;
	comms[2][0].rank = 4;
	comms[3][0].rank = 4;
	nspy_active_count(pages, RANKS, &a);
	assert_int_equal(a.seen, 3);
	assert_string_equal(a.missing, "1-2,5");
	/* The world has not been made yet. */
	for (uint32_t i = 0; i < RANKS; i++)
		comms[i][0].flags = NSPY_COMM_STARTED;
	nspy_active_count(pages, RANKS, &a);
	assert_int_equal(a.expected, 0);
}

/* Half of the pages are missing, or there are none: no crash, no name. */
static void test_few_pages(void **state)
{
	struct nspy_arena arena = {(uint8_t *)scratch, sizeof(scratch), 0};

	(void)state;
	three_wait_for_rank_3(LONG);
	assert_int_equal(nspy_verdict_find(pages, 0, NOW, &limits, &arena, &verdict), 0);
	assert_int_equal(verdict.id, NSPY_FOUND_NONE);
	assert_int_equal(nspy_verdict_find(pages, 2, NOW, &limits, &arena, &verdict), 0);
	assert_int_equal(verdict.culprit_count, 0);
	arena = (struct nspy_arena){(uint8_t *)scratch, 64, 0};
	assert_true(nspy_verdict_find(pages, RANKS, NOW, &limits, &arena, &verdict) < 0);
}

#define TEST(name) cmocka_unit_test_setup(test_##name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_at_work),
		TEST(never_arrived),
		TEST(not_long_enough),
		TEST(note),
		TEST(rhythm_raises_the_limit),
		TEST(warm_up),
		TEST(serving),
		TEST(stale_page),
		TEST(young_page),
		TEST(silent_node),
		TEST(stopped),
		TEST(works_and_is_late),
		TEST(chain),
		TEST(nobody_missing),
		TEST(ranks_not_seen),
		TEST(not_heard_of_yet),
		TEST(waits_for_the_unseen),
		TEST(inside_a_call),
		TEST(died),
		TEST(died_early),
		TEST(died_earlier),
		TEST(died_namesake),
		TEST(died_left_behind),
		TEST(side_thread_waits),
		TEST(died_unmissed),
		TEST(exit_codes),
		TEST(first_death),
		TEST(mismatch),
		TEST(mismatch_tie),
		TEST(mismatch_tie_of_few),
		TEST(same_bytes),
		TEST(order),
		TEST(circle),
		TEST(message),
		TEST(creation),
		TEST(creation_unseen),
		TEST(creation_short),
		TEST(creation_with_all),
		TEST(replay),
		TEST(silence),
		TEST(few_pages),
		TEST(active),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
