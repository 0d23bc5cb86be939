/* SPDX-License-Identifier: Apache-2.0 */
/* A small job as status pages, for the tests of what the watcher concludes. One file includes it.
 */
#ifndef NSPY_TEST_WATCH_JOB_H
#define NSPY_TEST_WATCH_JOB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "verdict.h"

#define S     1000000000ull
#define RANKS 4u
#define NOW   (1000 * S)
#define LONG  (NOW - 200 * S) /* since then: longer than the limit */
#define WORLD 0xAAAAAAAA00000001ull
#define PAIR  0xBBBBBBBB00000002ull

enum { NAME_REDUCE, NAME_GATHER, NAME_SYNC, NAME_INIT, NAME_SEND, NAMES };

static struct nspy_status pages[RANKS];
static struct nspy_status_comm comms[RANKS][2];
static struct nspy_status_call calls[RANKS][2];
static struct nspy_status_op ops[RANKS][8];
static struct nspy_status_way ways[RANKS][4];
static char names[NAMES][NSPY_STATUS_NAME_BYTES] = {
	"ncclAllReduce", "ncclAllGather", "cudaStreamSynchronize", "ncclCommInitRank", "ncclSend"};
static struct nspy_limits limits;
static struct nspy_verdict verdict;
static uint64_t scratch[1 << 16];

/* Four ranks of one world that have done ten collectives, all at work. */
static int setup(void **state)
{
	(void)state;
	limits = (struct nspy_limits){
		.note_ns = 30 * S,
		.hang_ns = 180 * S,
		.start_ns = 600 * S,
		.confirm_ns = S,
		.warm_up_rounds = 20,
	};
	memset(calls, 0, sizeof(calls));
	memset(ops, 0, sizeof(ops));
	memset(ways, 0, sizeof(ways));
	memset(comms, 0, sizeof(comms));
	for (uint32_t i = 0; i < RANKS; i++) {
		pages[i] = (struct nspy_status){
			.run_id = i + 1,
			.pid = 100 + i,
			.state = NSPY_STATUS_RUNNING,
			.rank = (int32_t)i,
			.world_size = RANKS,
			.published_ns = NOW - S / 2,
			.last_call_ns = NOW - S,
			.rounds = 100,
			.node = "n0",
			.comms = comms[i],
			.calls_open = calls[i],
			.ops = ops[i],
			.ways = ways[i],
			.names = names,
			.name_count = NAMES,
			.comm_count = 1,
		};
		comms[i][0] = (struct nspy_status_comm){
			.key = WORLD,
			.enqueued = 10,
			.nranks = RANKS,
			.rank = (int32_t)i,
			.origin = NSPY_COMM_INIT_RANK,
			.flags = NSPY_COMM_READY | NSPY_COMM_STARTED,
			.name = NSPY_STATUS_NONE,
		};
	}
	return 0;
}

static void wait_in(uint32_t page, unsigned int klass, uint16_t name, uint64_t since)
{
	calls[page][pages[page].call_count++] = (struct nspy_status_call){
		.enter_ns = since,
		.klass = (uint8_t)klass,
		.name = name,
		.comm = NSPY_STATUS_NONE,
	};
	pages[page].last_call_ns = since;
}

static void sync_since(uint32_t page, uint64_t since)
{
	wait_in(page, NSPY_CLASS_SYNC, NAME_SYNC, since);
}

static __attribute__((unused)) void add_op(uint32_t page, uint16_t comm, uint64_t seq,
					   uint16_t name, uint64_t count)
{
	ops[page][pages[page].op_count++] = (struct nspy_status_op){
		.seq = seq,
		.count = count,
		.comm = comm,
		.name = name,
		.klass = NSPY_CLASS_COLL,
		.peer = -1,
		.datatype = 7,
	};
}

static enum nspy_found_id find(void)
{
	struct nspy_arena arena = {(uint8_t *)scratch, sizeof(scratch), 0};

	assert_int_equal(nspy_verdict_find(pages, RANKS, NOW, &limits, &arena, &verdict), 0);
	return verdict.id;
}

static void expect(enum nspy_found_id id, int culprit)
{
	assert_int_equal(find(), id);
	assert_false(verdict.note);
	assert_int_equal(verdict.culprit_count, culprit < 0 ? 0 : 1);
	if (culprit >= 0)
		assert_int_equal(verdict.culprits[0], culprit);
}

/* Ranks 0 to 2 have entered number 11 and wait; rank 3 has not come. */
static __attribute__((unused)) void three_wait_for_rank_3(uint64_t since)
{
	for (uint32_t i = 0; i < 3; i++) {
		comms[i][0].enqueued = 11;
		sync_since(i, since);
	}
	pages[3].last_call_ns = since;
}

#endif
