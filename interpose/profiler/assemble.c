/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "assemble.h"

#include <string.h>
#include <sys/mman.h>

#include "clock.h"
#include "context.h"
#include "core.h"
#include "profiler_abi.h"
#include "ring.h"
#include "trace_prof.h"

#define OPS       8192u
#define EVENTS    16384u
#define WAITS     4096u
#define RETRIES   1024u
#define QUIET_NS  2000000000ull   /* nothing more has come of an operation for so long */
#define KERNEL_NS 600000000000ull /* where its kernel's end is still to come */

/* A record as it was read. */
struct item {
	uint64_t ticks, handle, parent, x, y;
	int32_t peer;
	uint32_t context;
	uint8_t what, flags, state, func, algo, proto, datatype, channels;
};

/* An event below an operation: of the network, or of a kernel. */
struct event {
	struct nspy_node node;
	uint64_t op; /* handle, 0 = none known */
	uint32_t context;
	int32_t peer; /* -1 = not known */
	uint8_t kind, state;
	bool sends, timed;
	uint64_t start, changed;
	uint64_t gpu_start, gpu_stop;
	uint64_t bytes;
	uint64_t wait[NSPY_PROF_WAIT_COUNT];
};

struct wait_row {
	struct nspy_node node; /* key: context << 32 | peer */
	uint64_t counter[NSPY_PROF_WAIT_COUNT];
};

static struct {
	struct nspy_pool ops, events, waits;
	struct item *retry; /* what could not be matched yet */
	uint32_t retries;
	uint32_t read; /* events at the latest reading */
	uint64_t sums[NSPY_PROF_SUM_COUNT];
	uint32_t in_ops; /* operations not finished at the latest look */
} as;

bool nspy_assemble_start(void)
{
	size_t ops = nspy_pool_bytes(OPS, sizeof(struct nspy_prof_live_op));
	size_t events = nspy_pool_bytes(EVENTS, sizeof(struct event));
	size_t waits = nspy_pool_bytes(WAITS, sizeof(struct wait_row));
	uint8_t *p = mmap(NULL, ops + events + waits + RETRIES * sizeof(struct item),
			  PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return false;
	nspy_pool_init(&as.ops, p, OPS, sizeof(struct nspy_prof_live_op));
	nspy_pool_init(&as.events, p + ops, EVENTS, sizeof(struct event));
	nspy_pool_init(&as.waits, p + ops + events, WAITS, sizeof(struct wait_row));
	as.retry = (struct item *)(p + ops + events + waits);
	return true;
}

/* --- operations --- */

static void give_out(struct nspy_prof_live_op *op, nspy_assemble_op *out)
{
	bool cut = op->open || !op->stop || (op->kernels && op->kernels < op->channels);

	as.sums[NSPY_PROF_SUM_OPS]++;
	as.sums[NSPY_PROF_SUM_CUT] += cut;
	out(op, cut);
	nspy_pool_remove(&as.ops, &op->node);
}

static bool start_op(const struct item *raw, unsigned int kind)
{
	struct nspy_prof_live_op *op = nspy_pool_add(&as.ops, raw->handle);

	if (!op) { /* full at once: thousands were begun and none has ended */
		as.sums[NSPY_PROF_SUM_DROPPED]++;
		return true;
	}
	op->context = raw->context;
	op->what = kind == NSPY_RAW_COLL  ? NSPY_PROF_COLL
		   : kind == NSPY_RAW_P2P ? NSPY_PROF_P2P
					  : NSPY_PROF_COPY;
	op->start = op->touched = raw->ticks;
	op->seq = raw->x;
	op->count = raw->y;
	op->peer = raw->peer;
	op->func = raw->func;
	op->algo = raw->algo;
	op->proto = raw->proto;
	op->datatype = raw->datatype;
	op->channels = raw->channels;
	op->captured = raw->flags & NSPY_RAW_CAPTURED;
	return true;
}

static bool stop_op(const struct item *raw)
{
	struct nspy_prof_live_op *op = nspy_pool_find(&as.ops, raw->handle);

	if (!op || op->stop)
		return false;
	op->stop = op->touched = raw->ticks;
	return true;
}

static void child_began(struct nspy_prof_live_op *op, const struct event *event)
{
	uint64_t *first = event->kind == NSPY_RAW_PROXY_OP ? &op->proxy_first : &op->kernel_first;

	op->open++;
	op->touched = event->start;
	if (!*first || event->start < *first)
		*first = event->start;
}

static void child_ended(const struct event *event, uint64_t ticks)
{
	struct nspy_prof_live_op *op = event->op ? nspy_pool_find(&as.ops, event->op) : NULL;
	bool timed = event->gpu_start && event->gpu_stop > event->gpu_start;

	if (event->timed && !timed)
		as.sums[NSPY_PROF_SUM_BAD_TIME]++;
	if (!op)
		return;
	op->open -= op->open > 0;
	op->touched = ticks;
	if (event->kind == NSPY_RAW_PROXY_OP) {
		op->proxies++;
		op->proxy_last = ticks > op->proxy_last ? ticks : op->proxy_last;
		return;
	}
	op->kernels++;
	op->kernel_last = ticks > op->kernel_last ? ticks : op->kernel_last;
	if (!timed)
		return;
	if (!op->gpu_kernels++ || event->gpu_start < op->gpu_first)
		op->gpu_first = event->gpu_start;
	if (event->gpu_stop > op->gpu_last)
		op->gpu_last = event->gpu_stop;
}

/* --- what is below them --- */

/* The oldest is given up if there are too many: it belongs to something that hangs. */
static struct event *add_event(uint64_t handle)
{
	struct event *event = nspy_pool_add(&as.events, handle);

	if (event)
		return event;
	event = nspy_pool_oldest(&as.events);
	as.sums[NSPY_PROF_SUM_DROPPED]++;
	nspy_pool_remove(&as.events, &event->node);
	return nspy_pool_add(&as.events, handle);
}

static bool start_event(const struct item *raw, unsigned int kind, bool last_try)
{
	struct nspy_prof_live_op *op = NULL;
	const struct event *above = NULL;
	bool found;
	struct event *event;

	if (kind == NSPY_RAW_STEP)
		above = nspy_pool_find(&as.events, raw->parent);
	else
		op = nspy_pool_find(&as.ops, raw->parent);
	found = op || above || !raw->parent;
	if (!found && !last_try && nspy_handle_event(raw->parent))
		return false;
	as.sums[NSPY_PROF_SUM_UNMATCHED] += !found;
	as.sums[NSPY_PROF_SUM_FOREIGN] += (raw->flags & NSPY_RAW_FOREIGN) != 0;
	event = add_event(raw->handle);
	event->kind = (uint8_t)(kind == NSPY_RAW_PROXY_STEPS ? NSPY_RAW_PROXY_OP : kind);
	event->context = raw->context;
	event->peer = event->kind == NSPY_RAW_PROXY_OP ? raw->peer : -1;
	event->sends = raw->flags & NSPY_RAW_SENDS;
	event->timed = kind == NSPY_RAW_KERNEL;
	event->start = raw->ticks;
	event->gpu_start = event->timed ? raw->x : 0;
	/* A pool never moves its nodes; that of the parent may have been given up just now. */
	above = kind == NSPY_RAW_STEP ? nspy_pool_find(&as.events, raw->parent) : NULL;
	if (above) {
		event->context = above->context;
		event->peer = above->peer;
		event->sends = above->sends;
	}
	if (op) {
		event->op = raw->parent;
		child_began(op, event);
	}
	return true;
}

/* The counter that a state's time goes to; SENDS = to none. */
static unsigned int counter_of(uint8_t state)
{
	switch (state) {
	case NSPY_PROFILE_SEND_GPU_WAIT:
		return NSPY_PROF_SEND_GPU_WAIT;
	case NSPY_PROFILE_SEND_PEER_WAIT:
		return NSPY_PROF_SEND_PEER_WAIT;
	case NSPY_PROFILE_SEND_WAIT:
		return NSPY_PROF_SEND_WAIT;
	case NSPY_PROFILE_RECV_WAIT:
		return NSPY_PROF_RECV_WAIT;
	case NSPY_PROFILE_RECV_FLUSH_WAIT:
		return NSPY_PROF_RECV_FLUSH_WAIT;
	case NSPY_PROFILE_RECV_GPU_WAIT:
		return NSPY_PROF_RECV_GPU_WAIT;
	default:
		return NSPY_PROF_SENDS;
	}
}

/* A state lasts until the next one, or the end. */
static void leave_state(struct event *event, uint64_t ticks)
{
	unsigned int counter = counter_of(event->state);

	if (counter != NSPY_PROF_SENDS && ticks > event->changed)
		event->wait[counter] += ticks - event->changed;
	event->changed = ticks;
}

static bool stop_event(const struct item *raw);

static bool change_event(const struct item *raw)
{
	struct event *event = nspy_pool_find(&as.events, raw->handle);

	if (!event)
		return false;
	if (event->kind == NSPY_RAW_KERNEL) {
		event->gpu_stop = raw->x;
		return stop_event(raw);
	}
	leave_state(event, raw->ticks);
	event->state = raw->state;
	event->bytes = raw->x > event->bytes ? raw->x : event->bytes;
	return true;
}

static void count_step(struct event *event)
{
	uint64_t key = (uint64_t)event->context << 32 | (uint32_t)event->peer;
	struct wait_row *row = nspy_pool_find(&as.waits, key);

	if (!row)
		row = nspy_pool_add(&as.waits, key);
	if (!row) {
		as.sums[NSPY_PROF_SUM_DROPPED]++;
		return;
	}
	event->wait[event->sends ? NSPY_PROF_SENDS : NSPY_PROF_RECVS] = 1;
	event->wait[event->sends ? NSPY_PROF_SEND_BYTES : NSPY_PROF_RECV_BYTES] = event->bytes;
	for (uint32_t i = 0; i < NSPY_PROF_WAIT_COUNT; i++)
		row->counter[i] += event->wait[i];
}

static bool stop_event(const struct item *raw)
{
	struct event *event = nspy_pool_find(&as.events, raw->handle);

	if (!event)
		return false;
	if (event->kind != NSPY_RAW_STEP) {
		child_ended(event, raw->ticks);
	} else {
		leave_state(event, raw->ticks);
		count_step(event);
	}
	nspy_pool_remove(&as.events, &event->node);
	return true;
}

/* --- the rings --- */

static bool apply(const struct item *raw, bool last_try)
{
	unsigned int kind = nspy_handle_event(raw->handle);
	bool is_op = kind && kind <= NSPY_RAW_COPY;

	switch (raw->what) {
	case NSPY_RAW_START:
		return is_op ? start_op(raw, kind) : start_event(raw, kind, last_try);
	case NSPY_RAW_STOP:
		return is_op ? stop_op(raw) : stop_event(raw);
	default:
		return change_event(raw);
	}
}

static void count(const struct item *raw)
{
	as.sums[NSPY_PROF_SUM_STARTED] += raw->what == NSPY_RAW_START;
	as.sums[NSPY_PROF_SUM_STOPPED] +=
		raw->what == NSPY_RAW_STOP ||
		(raw->what == NSPY_RAW_STATE && nspy_handle_event(raw->handle) == NSPY_RAW_KERNEL);
	as.sums[NSPY_PROF_SUM_STATES] += raw->what == NSPY_RAW_STATE;
}

/*
 * What was told earlier may be found later, if two threads share a ring and one was stopped in the
 * middle of its record. So what matches nothing is tried again after the next reading.
 */
static void take_in(const struct item *raw)
{
	count(raw);
	if (apply(raw, as.retries == RETRIES))
		return;
	if (as.retries < RETRIES)
		memcpy(&as.retry[as.retries++], raw, sizeof(*raw));
	else
		as.sums[NSPY_PROF_SUM_UNMATCHED]++;
}

static void read_one(unsigned int ring)
{
	struct nspy_raw *raw = nspy_raw_peek(ring);
	struct item item = {
		.ticks = raw->ticks,
		.x = raw->x,
		.y = raw->y,
		.peer = raw->peer,
		.context = raw->context,
		.what = raw->what,
		.flags = raw->flags,
		.state = raw->state,
		.func = raw->func,
		.algo = raw->algo,
		.proto = raw->proto,
		.datatype = raw->datatype,
		.channels = raw->channels,
	};
	uint64_t end = NSPY_RAW_READ;

	if (item.what == NSPY_RAW_START) {
		uint64_t position = atomic_load_explicit(&raw->turn, memory_order_relaxed) - 1;

		item.handle = nspy_handle_make(item.state, ring, position);
		item.parent = raw->ref;
		end = atomic_exchange_explicit(&raw->end, NSPY_RAW_READ, memory_order_acq_rel);
	} else {
		item.handle = raw->ref;
	}
	nspy_raw_read(ring);
	take_in(&item);
	if (end >> 63)
		return;
	item.what = NSPY_RAW_STOP;
	item.ticks = end;
	take_in(&item);
}

/* Over all rings the record that was written first, if it was before `limit`. */
static int first_ring(uint64_t limit)
{
	uint64_t earliest = limit;
	int found = -1;

	for (unsigned int i = 0; i < NSPY_PROF_RINGS; i++) {
		const struct nspy_raw *raw = nspy_raw_peek(i);

		if (raw && raw->ticks <= earliest) {
			earliest = raw->ticks;
			found = (int)i;
		}
	}
	return found;
}

static void try_again(uint32_t tries)
{
	for (uint32_t i = 0; i < tries; i++) {
		if (!apply(&as.retry[i], true))
			as.sums[NSPY_PROF_SUM_UNMATCHED]++;
	}
	as.retries -= tries;
	memmove(as.retry, as.retry + tries, as.retries * sizeof(as.retry[0]));
}

void nspy_assemble_read(bool last)
{
	/* Before the rings are looked at: of what was written until now nothing is missed that
	 * something else refers to. */
	uint64_t limit = nspy_ticks();
	uint32_t waiting = as.retries;
	int ring;

	as.read = 0;
	while ((ring = first_ring(limit)) >= 0) {
		read_one((unsigned int)ring);
		as.read++;
	}
	try_again(last ? as.retries : waiting);
}

/* --- what comes out --- */

static uint64_t age_ns(uint64_t ticks, uint64_t now)
{
	const struct nspy_clock_piece *piece =
		&nspy_core.head->clock[(nspy_core.head->clock_count - 1) % NSPY_CLOCK_PIECES];
	uint64_t age = now > ticks ? now - ticks : 0;

	return nspy_hot->clock_source == NSPY_CLOCK_MONOTONIC
		       ? age
		       : (uint64_t)((unsigned __int128)age * piece->mult >> 32);
}

static bool is_finished(const struct nspy_prof_live_op *op, uint64_t now)
{
	const struct nspy_prof_context *context =
		&nspy_prof_contexts[op->context % NSPY_PROF_CONTEXTS];
	bool kernels = context->ours_mask & NSPY_PROFILE_KERNEL_CH && op->channels &&
		       op->what != NSPY_PROF_COPY;

	if (!op->stop || op->open)
		return false;
	if (op->what == NSPY_PROF_COPY || (kernels && op->kernels >= op->channels))
		return true;
	return age_ns(op->touched, now) > (kernels ? KERNEL_NS : QUIET_NS);
}

void nspy_assemble_finished(nspy_assemble_op *out, const uint8_t *ended, bool last)
{
	struct nspy_prof_live_op *op = nspy_pool_oldest(&as.ops), *next;
	uint64_t now = nspy_ticks();
	uint32_t left = 0;

	for (; op; op = next) {
		next = nspy_pool_next(&as.ops, &op->node);
		if (last || ended[op->context % NSPY_PROF_CONTEXTS] || is_finished(op, now))
			give_out(op, out);
		else
			left++;
	}
	/* Room for as many again until the next time. */
	for (op = nspy_pool_oldest(&as.ops); op && left > OPS / 2; op = next) {
		next = nspy_pool_next(&as.ops, &op->node);
		give_out(op, out);
		left--;
	}
	as.in_ops = left;
}

void nspy_assemble_waits(nspy_assemble_wait *out)
{
	struct wait_row *row = nspy_pool_oldest(&as.waits), *next;

	for (; row; row = next) {
		next = nspy_pool_next(&as.waits, &row->node);
		out((uint32_t)(row->node.key >> 32), (int32_t)(uint32_t)row->node.key,
		    row->counter);
		nspy_pool_remove(&as.waits, &row->node);
	}
}

void nspy_assemble_sums(uint64_t *ret)
{
	memcpy(ret, as.sums, sizeof(as.sums));
	ret[NSPY_PROF_SUM_DROPPED] += nspy_raw_dropped();
}

uint32_t nspy_assemble_busy(void)
{
	return as.in_ops > OPS / 4 ? OPS : as.read;
}
