/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "gather.h"

#include <stdio.h>
#include <string.h>

#include "activity.h"
#include "api_ids.h"
#include "clock.h"
#include "comm.h"
#include "core.h"
#include "live.h"
#include "recent.h"
#include "resolve.h"
#include "rhythm.h"
#include "stack.h"
#include "state.h"

#define COMMS_SEEN 1024u /* alive at once that are looked at */

/* When a communicator was last seen to move; by place in the snapshot's order of index. */
struct seen {
	uint32_t index;
	uint64_t enqueued;
	uint64_t first_ns;
	uint64_t when_ns;
};

static struct gather {
	struct nspy_status status;
	char names[NSPY_STATUS_NAMES_MAX][NSPY_STATUS_NAME_BYTES];
	uint16_t name_fn[NSPY_STATUS_NAMES_MAX];
	struct nspy_status_comm comms[NSPY_STATUS_COMMS_MAX];
	uint32_t comm_index[NSPY_STATUS_COMMS_MAX]; /* process-local index of each */
	struct nspy_status_call calls[NSPY_STATUS_CALLS_MAX];
	uint32_t call_index[NSPY_STATUS_CALLS_MAX]; /* process-local communicator of each */
	struct nspy_status_op ops[NSPY_STATUS_OPS_MAX];
	struct nspy_status_way ways[NSPY_STATUS_WAYS_MAX];
	struct nspy_comm_progress progress[COMMS_SEEN];
	struct seen seen[COMMS_SEEN];
	uint8_t chosen[COMMS_SEEN];
	struct nspy_open_call open[NSPY_OPEN_DEPTH_MAX];
	struct nspy_clock_piece pieces[NSPY_CLOCK_PIECES];
	uint32_t piece_count;
} * own;

bool nspy_gather_start(void)
{
	const struct nspy_identity *id = &nspy_core.id;
	struct nspy_status *s;
	const char *slash = strrchr(id->dir, '/');

	own = nspy_live_map_private(sizeof(*own), 0);
	if (!own || !nspy_recent_start())
		return false;
	s = &own->status;
	s->run_id = id->run_id;
	s->pidns = id->pidns;
	s->starttime = id->starttime;
	s->pid = id->pid;
	s->state = NSPY_STATUS_RUNNING;
	s->rank = id->rank;
	s->world_size = id->world_size;
	(void)snprintf(s->node, sizeof(s->node), "%.63s", id->node);
	(void)snprintf(s->job_dir, sizeof(s->job_dir), "%.*s",
		       slash && slash - id->dir < 255 ? (int)(slash - id->dir) : 0, id->dir);
	s->names = own->names;
	s->comms = own->comms;
	s->calls_open = own->calls;
	s->ops = own->ops;
	s->ways = own->ways;
	nspy_activity_start();
	nspy_stack_start();
	return true;
}

/* Word by word, hidden from ThreadSanitizer: a copy that was disturbed is thrown away. */
__attribute__((no_sanitize("thread"))) static void copy_pieces(void)
{
	const volatile struct nspy_live_head *head = nspy_core.head;
	uint32_t made = head->clock_count;
	uint32_t kept = made < NSPY_CLOCK_PIECES ? made : NSPY_CLOCK_PIECES;

	for (uint32_t i = 0; i < kept; i++) {
		const volatile uint64_t *from =
			(const volatile uint64_t *)&head
				->clock[(made - kept + i) % NSPY_CLOCK_PIECES];
		uint64_t *to = (uint64_t *)&own->pieces[i];

		for (size_t k = 0; k < sizeof(own->pieces[i]) / sizeof(*to); k++)
			to[k] = from[k];
	}
	own->piece_count = kept;
}

/* The writer changes the pieces once a second; a copy that it disturbed is taken again. */
static void copy_clock(void)
{
	for (int attempt = 0; attempt < 100; attempt++) {
		uint32_t before =
			atomic_load_explicit(&nspy_core.head->clock_version, memory_order_acquire);

		copy_pieces();
		nspy_load_barrier();
		if (!(before & 1) && before == atomic_load_explicit(&nspy_core.head->clock_version,
								    memory_order_acquire))
			return;
	}
}

static uint64_t to_ns(uint64_t ticks)
{
	return nspy_clock_to_ns(own->pieces, own->piece_count, ticks);
}

/* Index of the function's name in the page; the names of a page are few. */
static uint16_t name_of(uint16_t fn)
{
	struct nspy_status *s = &own->status;
	uint32_t i = 0;

	while (i < s->name_count && own->name_fn[i] != fn)
		i++;
	if (i < s->name_count)
		return (uint16_t)i;
	if (i == NSPY_STATUS_NAMES_MAX || fn >= nspy_fn_count)
		return NSPY_STATUS_NONE;
	own->name_fn[i] = fn;
	(void)snprintf(own->names[i], NSPY_STATUS_NAME_BYTES, "%.31s", nspy_fn_table[fn].name);
	s->name_count++;
	return (uint16_t)i;
}

static uint16_t shown_comm(uint32_t index)
{
	for (uint32_t i = 0; index != NSPY_COMM_INDEX_NONE && i < own->status.comm_count; i++)
		if (own->comm_index[i] == index)
			return (uint16_t)i;
	return NSPY_STATUS_NONE;
}

/* --- communicators --- */

static struct seen *seen_of(uint32_t index)
{
	/* Indices grow and are never used again, so places of the oldest are taken over. */
	struct seen *seen = &own->seen[index % COMMS_SEEN];

	if (seen->index != index)
		*seen = (struct seen){.index = index};
	return seen;
}

static bool is_open(const struct nspy_comm_rec *rec)
{
	if (!(rec->flags & NSPY_COMM_READY))
		return true;
	for (uint32_t i = 0; i < own->status.call_count; i++)
		if (own->call_index[i] == rec->comm)
			return true;
	return false;
}

/* The next to show: open ones first, then those that moved last. */
static long next_comm(size_t count)
{
	long best = -1;
	uint64_t best_score = 0;

	for (size_t i = 0; i < count; i++) {
		const struct nspy_comm_rec *rec = &own->progress[i].rec;
		uint64_t score = is_open(rec) ? UINT64_MAX : 1 + seen_of(rec->comm)->when_ns;

		if (own->chosen[i] || (best >= 0 && score <= best_score))
			continue;
		best = (long)i;
		best_score = score;
	}
	return best;
}

static void show_comm(const struct nspy_comm_progress *p)
{
	struct nspy_status *s = &own->status;
	struct nspy_recent_last last = {.fn = UINT16_MAX};
	uint32_t i = s->comm_count++;

	nspy_recent_last(p->rec.comm, &last);
	own->comm_index[i] = p->rec.comm;
	own->comms[i] = (struct nspy_status_comm){
		.key = p->rec.key,
		.parent_key = p->rec.parent_key,
		.enqueued = p->enqueued,
		.completed = last.completed,
		.captured = p->captured,
		.last_ns = seen_of(p->rec.comm)->when_ns,
		.started_ns = seen_of(p->rec.comm)->first_ns,
		.nranks = p->rec.nranks,
		.rank = p->rec.rank,
		.color = p->rec.color,
		.ordinal = p->rec.ordinal,
		.origin = p->rec.origin,
		.flags = p->rec.flags,
		.async_error = (int16_t)p->async_state,
		.name = last.fn == UINT16_MAX ? NSPY_STATUS_NONE : name_of(last.fn),
		.datatype = last.datatype,
		.redop = last.redop,
		.root = last.root,
		.count = last.count,
	};
}

static void gather_comms(uint64_t now_ns)
{
	struct nspy_status *s = &own->status;
	size_t count = nspy_comm_progress(own->progress, COMMS_SEEN);

	for (size_t i = 0; i < count; i++) {
		struct seen *seen = seen_of(own->progress[i].rec.comm);

		if (!seen->first_ns)
			seen->first_ns = now_ns;
		if (seen->enqueued == own->progress[i].enqueued)
			continue;
		seen->enqueued = own->progress[i].enqueued;
		seen->when_ns = now_ns;
	}
	memset(own->chosen, 0, count);
	s->comm_count = 0;
	while (s->comm_count < NSPY_STATUS_COMMS_MAX) {
		long next = count <= NSPY_STATUS_COMMS_MAX
				    ? (s->comm_count < count ? (long)s->comm_count : -1)
				    : next_comm(count);

		if (next < 0)
			break;
		own->chosen[next] = 1;
		show_comm(&own->progress[next]);
	}
	s->not_shown = (uint32_t)(count - s->comm_count);
}

/* --- open calls --- */

static void add_call(const struct nspy_open_call *open)
{
	struct nspy_status *s = &own->status;
	const struct nspy_rec *rec = &open->rec;

	own->call_index[s->call_count] = rec->comm;
	own->calls[s->call_count++] = (struct nspy_status_call){
		.enter_ns = to_ns(rec->enter),
		.seq = rec->seq,
		.count = rec->count,
		.tid = open->tid,
		.peer = rec->peer,
		.comm = NSPY_STATUS_NONE, /* its place is known later */
		.name = name_of(rec->fn),
		.klass = rec->fn < nspy_fn_count ? nspy_fn_table[rec->fn].klass : 0,
		.datatype = rec->datatype,
		.redop = rec->redop,
		.flags = rec->flags,
	};
}

static void gather_calls(void)
{
	struct nspy_status *s = &own->status;

	s->call_count = 0;
	s->calls = nspy_core.calls_of_gone_threads;
	for (uint32_t i = 0; i < nspy_slot_total(); i++) {
		const struct nspy_slot *slot = nspy_slot_at(i);
		size_t n;

		if (atomic_load_explicit(&slot->state, memory_order_acquire) == NSPY_SLOT_FREE)
			continue;
		s->calls += atomic_load_explicit(&slot->calls, memory_order_relaxed);
		if (!atomic_load_explicit(&slot->depth, memory_order_relaxed))
			continue;
		n = nspy_state_copy_open(slot, own->open, NSPY_OPEN_DEPTH_MAX);
		for (size_t k = 0; k < n && s->call_count < NSPY_STATUS_CALLS_MAX; k++)
			add_call(&own->open[k]);
	}
}

/* --- what was done lately --- */

static void gather_ops(void)
{
	struct nspy_status *s = &own->status;

	s->op_count = 0;
	for (uint32_t i = 0; i < nspy_recent_count(); i++) {
		const struct nspy_recent_op *from = nspy_recent_op(i);
		uint16_t comm = shown_comm(from->comm);

		if (comm == NSPY_STATUS_NONE)
			continue;
		own->ops[s->op_count] = from->op;
		own->ops[s->op_count].comm = comm;
		own->ops[s->op_count++].name = name_of(from->fn);
	}
}

static void gather_ways(void)
{
	struct nspy_status *s = &own->status;

	s->way_count = 0;
	for (uint32_t i = 0; i < nspy_recent_way_count(); i++) {
		const struct nspy_recent_way *from = nspy_recent_way(i);
		struct nspy_status_way *way = &own->ways[s->way_count];
		uint16_t comm = shown_comm(from->comm);

		if (comm == NSPY_STATUS_NONE ||
		    !nspy_comm_p2p_counts(from->comm, from->peer, &way->sent, &way->received))
			continue;
		way->comm = comm;
		way->peer = from->peer;
		s->way_count++;
	}
}

static uint64_t lost_records(void)
{
	uint64_t lost = 0;

	for (int i = NSPY_LOSS_RECORDS_NO_PAGE; i <= NSPY_LOSS_RECORDS_NO_SLOT; i++)
		lost += nspy_core.head->loss[i];
	return lost;
}

struct nspy_status *nspy_gather(uint64_t now_ns)
{
	struct nspy_status *s = &own->status;
	struct timespec real;

	copy_clock();
	s->name_count = 0;
	gather_calls();
	gather_comms(now_ns);
	nspy_recent_read(own->pieces, own->piece_count);
	for (uint32_t i = 0; i < s->call_count; i++)
		own->calls[i].comm = shown_comm(own->call_index[i]);
	gather_ops();
	gather_ways();
	s->graph_launches = atomic_load_explicit(&nspy_hot->graph_launches, memory_order_relaxed);
	s->rounds = nspy_recent_totals()->rounds;
	s->longest_wait_ns = nspy_recent_totals()->longest_wait_ns;
	nspy_rhythm_tell(s);
	s->last_call_ns = nspy_recent_totals()->last_leave_ns;
	s->lost = lost_records();
	nspy_stack_look(s);
	nspy_activity_look(s, nspy_recent_totals()->last_tid, now_ns);
	clock_gettime(CLOCK_REALTIME, &real);
	s->published_ns = now_ns;
	s->published_real_ns = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
	s->sequence++;
	return s;
}
