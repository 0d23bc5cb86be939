/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "gather.h"

#include <string.h>
#include <sys/mman.h>

#include "assemble.h"
#include "clock.h"
#include "comm.h"
#include "context.h"
#include "core.h"
#include "part.h"
#include "ring.h"
#include "segment.h"
#include "trace_prof.h"

#define SECOND_NS     1000000000ull
#define CHUNK_NS      5000000000ull
#define PAYLOAD_BYTES (128u << 10)
#define ROOM_BYTES    1024u /* a record and what describes its communicator */

static struct {
	uint64_t run_id; /* of the recording that this belongs to */
	bool failed;
	struct nspy_prof_buffer out;
	uint64_t first_ns, last_ns; /* of what out holds */
	uint64_t next_chunk, next_join, last_waits;
	uint64_t told_events; /* started and stopped, as last written */
	uint32_t piece_count;
	struct nspy_clock_piece pieces[NSPY_CLOCK_PIECES];
	uint8_t described[NSPY_PROF_CONTEXTS]; /* in out */
	uint8_t known[NSPY_PROF_CONTEXTS];     /* described in some chunk, as it is now */
	struct nspy_comm_rec *comms;           /* NSPY_COMMS_MAX of them */
} pub;

static uint64_t to_ns(uint64_t ticks)
{
	return nspy_clock_to_ns(pub.pieces, pub.piece_count, ticks);
}

/* Of a length of time rather than a point of it. */
static uint64_t span_ns(uint64_t ticks)
{
	uint64_t base = pub.pieces[pub.piece_count - 1].base_ticks;

	return to_ns(base + ticks) - to_ns(base);
}

static bool flush(uint64_t now_ns)
{
	struct nspy_chunk_info info = {.kind = NSPY_CHUNK_PROF};
	struct nspy_prof_sums sums = {.when_ns = now_ns};
	bool ok;

	nspy_assemble_sums(sums.counter);
	(void)nspy_prof_put_sums(&pub.out, &sums);
	info.first_ns = pub.first_ns && pub.first_ns < now_ns ? pub.first_ns : now_ns;
	info.last_ns = pub.last_ns > now_ns ? pub.last_ns : now_ns;
	ok = nspy_segment_write(&info, pub.out.data, pub.out.used);
	/* Refused by the disk: given up. */
	pub.out.used = 0;
	pub.first_ns = pub.last_ns = 0;
	memset(pub.described, 0, sizeof(pub.described));
	pub.told_events = sums.counter[NSPY_PROF_SUM_STARTED] + sums.counter[NSPY_PROF_SUM_STOPPED];
	pub.next_chunk = now_ns + CHUNK_NS;
	return ok;
}

static void make_room(void)
{
	if (pub.out.used + ROOM_BYTES > pub.out.capacity)
		(void)flush(nspy_monotonic_ns());
}

/* Every chunk describes the communicators that it speaks of. */
static void describe(uint32_t id)
{
	uint32_t i = id % NSPY_PROF_CONTEXTS;
	const struct nspy_prof_context *context = &nspy_prof_contexts[i];

	if (!id || pub.described[i] || atomic_load(&context->id) != id)
		return;
	make_room();
	(void)nspy_prof_put_comm(&pub.out, &(struct nspy_prof_comm){
						   .id = id,
						   .comm = context->joined ? context->joined - 1
									   : NSPY_COMM_INDEX_NONE,
						   .when_ns = to_ns(context->ticks),
						   .hash = atomic_load(&context->hash),
						   .api = context->api,
						   .mask = context->ours_mask,
						   .nranks = context->nranks,
						   .rank = context->rank,
						   .nodes = context->nodes,
						   .name = {context->name, strlen(context->name)},
					   });
	pub.described[i] = pub.known[i] = 1;
}

static uint64_t after(uint64_t ticks, uint64_t start_ns)
{
	uint64_t ns = ticks ? to_ns(ticks) : 0;

	return ns > start_ns ? ns - start_ns : 0;
}

static void put_op(const struct nspy_prof_live_op *op, bool cut)
{
	uint64_t start_ns = to_ns(op->start);
	struct nspy_prof_op out = {
		.comm = op->context,
		.what = op->what,
		.flags = (op->captured ? NSPY_PROF_CAPTURED : 0u) | (cut ? NSPY_PROF_CUT : 0u),
		.func = op->func,
		.algo = op->algo,
		.proto = op->proto,
		.datatype = op->datatype,
		.channels = op->channels,
		.peer = op->peer,
		.seq = op->seq,
		.count = op->count,
		.start_ns = start_ns,
		.queued_ns = after(op->stop, start_ns),
		.proxies = op->proxies,
		.proxy_first_ns = after(op->proxy_first, start_ns),
		.proxy_last_ns = after(op->proxy_last, start_ns),
		.kernels = op->kernels,
		.kernel_first_ns = after(op->kernel_first, start_ns),
		.kernel_last_ns = after(op->kernel_last, start_ns),
		.gpu_kernels = op->gpu_kernels,
		.gpu_ns = op->gpu_last - op->gpu_first,
		.gpu_start_ns = op->gpu_first,
	};
	uint64_t end_ns;

	describe(op->context);
	make_room();
	describe(op->context); /* again, if that was a new chunk */
	(void)nspy_prof_put_op(&pub.out, &out);
	end_ns = start_ns + out.queued_ns;
	if (out.proxy_last_ns > out.queued_ns || out.kernel_last_ns > out.queued_ns)
		end_ns = start_ns + (out.proxy_last_ns > out.kernel_last_ns ? out.proxy_last_ns
									    : out.kernel_last_ns);
	if (!pub.first_ns || start_ns < pub.first_ns)
		pub.first_ns = start_ns;
	if (end_ns > pub.last_ns)
		pub.last_ns = end_ns;
}

static void put_wait(uint32_t context, int32_t peer, const uint64_t *counter)
{
	static const uint32_t times = 1u << NSPY_PROF_SEND_GPU_WAIT |
				      1u << NSPY_PROF_SEND_PEER_WAIT | 1u << NSPY_PROF_SEND_WAIT |
				      1u << NSPY_PROF_RECV_WAIT | 1u << NSPY_PROF_RECV_FLUSH_WAIT |
				      1u << NSPY_PROF_RECV_GPU_WAIT;
	uint64_t now_ns = nspy_monotonic_ns();
	struct nspy_prof_wait out = {
		.comm = context ? context : NSPY_PROF_NONE,
		.peer = peer,
		.when_ns = now_ns,
		.span_ns = now_ns - pub.last_waits,
	};

	for (uint32_t i = 0; i < NSPY_PROF_WAIT_COUNT; i++)
		out.counter[i] = times >> i & 1 ? span_ns(counter[i]) : counter[i];
	describe(context);
	make_room();
	describe(context);
	(void)nspy_prof_put_wait(&pub.out, &out);
}

static void put_waits(uint64_t now_ns)
{
	nspy_assemble_waits(put_wait);
	pub.last_waits = now_ns;
}

/* --- which of our communicators it is --- */

static bool is_taken(uint32_t comm)
{
	for (uint32_t i = 0; i < NSPY_PROF_CONTEXTS; i++) {
		if (atomic_load(&nspy_prof_contexts[i].state) == NSPY_PROF_CONTEXT_OPEN &&
		    nspy_prof_contexts[i].joined == comm + 1)
			return true;
	}
	return false;
}

/*
 * NCCL starts its plugin while a communicator is being made, so ours has become ready since. Two
 * of the same form made at the same time cannot be told apart here: neither is joined, and the
 * hash, which other ranks may have joined, is all that is known.
 */
static bool may_be(const struct nspy_prof_context *context, const struct nspy_comm_rec *rec)
{
	return rec->flags & NSPY_COMM_READY &&
	       !(rec->flags & (NSPY_COMM_GONE | NSPY_COMM_FAILED)) && rec->when >= context->ticks &&
	       (context->rank < 0 || rec->rank == context->rank) &&
	       (context->nranks < 0 || rec->nranks == context->nranks) && !is_taken(rec->comm);
}

static bool join(struct nspy_prof_context *context, size_t comms)
{
	const struct nspy_comm_rec *found = NULL;

	for (size_t i = 0; i < comms; i++) {
		if (!may_be(context, &pub.comms[i]))
			continue;
		if (found)
			return false;
		found = &pub.comms[i];
	}
	if (!found)
		return false;
	context->joined = found->comm + 1;
	return true;
}

static bool wants_join(const struct nspy_prof_context *context)
{
	return atomic_load_explicit(&context->state, memory_order_acquire) ==
		       NSPY_PROF_CONTEXT_OPEN &&
	       !context->joined;
}

static void join_all(void)
{
	size_t comms = 0;
	bool progress = true;

	/* What one is joined to, no other can be: again until nothing more follows. */
	while (progress) {
		progress = false;
		for (uint32_t i = 0; i < NSPY_PROF_CONTEXTS; i++) {
			if (!wants_join(&nspy_prof_contexts[i]))
				continue;
			if (!comms)
				comms = nspy_comm_snapshot(pub.comms, NSPY_COMMS_MAX);
			if (!comms || !join(&nspy_prof_contexts[i], comms))
				continue;
			pub.described[i] = pub.known[i] = 0;
			progress = true;
		}
	}
}

/* --- the tick --- */

static bool allocate(uint64_t now_ns)
{
	size_t comms = NSPY_COMMS_MAX * sizeof(struct nspy_comm_rec);
	size_t bytes = PAYLOAD_BYTES + comms;
	uint8_t *p;

	if (pub.out.data)
		return true;
	p = pub.failed
		    ? MAP_FAILED
		    : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || !nspy_assemble_start()) {
		pub.failed = true;
		return false;
	}
	pub.comms = (struct nspy_comm_rec *)p;
	pub.out.data = p + comms;
	pub.out.capacity = PAYLOAD_BYTES;
	pub.next_chunk = now_ns + CHUNK_NS;
	pub.last_waits = now_ns;
	return true;
}

/* Contexts that have ended; what is in the rings by now is all there will be of them. */
static bool find_ended(uint8_t *ret_ended)
{
	bool any = false;

	for (uint32_t i = 0; i < NSPY_PROF_CONTEXTS; i++) {
		ret_ended[i] =
			atomic_load_explicit(&nspy_prof_contexts[i].state, memory_order_acquire) ==
			NSPY_PROF_CONTEXT_ENDED;
		any |= ret_ended[i];
	}
	return any;
}

static void release_ended(const uint8_t *ended)
{
	for (uint32_t i = 0; i < NSPY_PROF_CONTEXTS; i++) {
		if (!ended[i])
			continue;
		if (!pub.known[i])
			describe(atomic_load(&nspy_prof_contexts[i].id));
		pub.described[i] = pub.known[i] = 0;
		atomic_store_explicit(&nspy_prof_contexts[i].state, NSPY_PROF_CONTEXT_FREE,
				      memory_order_release);
	}
}

static void describe_new(void)
{
	for (uint32_t i = 0; i < NSPY_PROF_CONTEXTS; i++) {
		if (!pub.known[i] &&
		    atomic_load_explicit(&nspy_prof_contexts[i].state, memory_order_acquire) ==
			    NSPY_PROF_CONTEXT_OPEN)
			describe(atomic_load(&nspy_prof_contexts[i].id));
	}
}

static bool has_news(void)
{
	uint64_t sums[NSPY_PROF_SUM_COUNT];

	nspy_assemble_sums(sums);
	return pub.out.used ||
	       sums[NSPY_PROF_SUM_STARTED] + sums[NSPY_PROF_SUM_STOPPED] != pub.told_events;
}

static bool tick(uint64_t now_ns, bool last)
{
	static uint8_t ended[NSPY_PROF_CONTEXTS];
	bool any_ended;

	/* A forked child that records has our tables, but not our past. */
	if (pub.run_id != nspy_core.id.run_id || !allocate(now_ns))
		return true;
	pub.piece_count = nspy_clock_pieces(nspy_core.head, pub.pieces);
	if (!pub.piece_count)
		return true;
	any_ended = find_ended(ended);
	nspy_assemble_read(last);
	if (last || any_ended || now_ns >= pub.next_join) {
		join_all();
		pub.next_join = now_ns + SECOND_NS;
	}
	nspy_assemble_finished(put_op, ended, last);
	if (last || any_ended || now_ns >= pub.next_chunk) {
		put_waits(now_ns);
		describe_new();
	}
	if (any_ended)
		release_ended(ended);
	if ((!last && now_ns < pub.next_chunk) || !has_news())
		return true;
	return flush(now_ns);
}

/* The rings must not fill up between two ticks. */
static uint64_t period_ns(void)
{
	uint64_t level;
	uint32_t busy;

	if (pub.run_id != nspy_core.id.run_id || !pub.out.data)
		return UINT64_MAX;
	level = nspy_raw_level();
	busy = nspy_assemble_busy();
	if (level > NSPY_PROF_RING_SLOTS / 4)
		return 1000000ull;
	if (busy > NSPY_PROF_RING_SLOTS / 64)
		return 10000000ull;
	return busy ? 40000000ull : UINT64_MAX;
}

bool nspy_prof_gather_start(void)
{
	static const struct nspy_part part = {.tick = tick, .period_ns = period_ns};
	static _Atomic uint32_t begun;

	if (atomic_exchange(&begun, 1) == 0) {
		pub.run_id = nspy_core.id.run_id;
		__atomic_store_n(&nspy_parts[NSPY_PART_PROFILER], &part, __ATOMIC_RELEASE);
		return true;
	}
	/* Another thread may be at it: it is our recording, unless we are a forked child. */
	return !__atomic_load_n(&nspy_parts[NSPY_PART_PROFILER], __ATOMIC_ACQUIRE) ||
	       pub.run_id == nspy_core.id.run_id;
}
