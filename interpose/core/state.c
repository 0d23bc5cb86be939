/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "state.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "account.h"
#include "api_schema.h"
#include "clock.h"
#include "comm.h"
#include "core.h"
#include "facts.h"
#include "mode.h"
#include "say.h"
#include "segment.h"
#include "trace_encode.h"

#define HEARTBEAT_NS       10000000000ull
#define OPEN_NOTEWORTHY_NS 1000000000ull /* shorter calls are not worth a chunk */
#define COMMS_MAX          2048u
#define OPEN_MAX           256u
#define MIB                (1ull << 20)
/* With NCCLSPY_DIR unset, /tmp is used, which is often small: all processes of a node together. */
#define NODE_LOCAL_QUOTA (16 * MIB)

static struct buffers {
	struct nspy_comm_rec comms[COMMS_MAX];
	struct nspy_open_call open[OPEN_MAX];
	uint8_t payload[NSPY_RAW_BYTES_MAX];
} * buf;

static uint64_t last_write_ns;
static uint64_t last_open_hash;

static uint64_t quota_bytes(void)
{
	const struct nspy_identity *id = &nspy_core.id;
	uint64_t quota = nspy_core.env.NCCLSPY_DISK * MIB;
	uint64_t world = id->world_size > 0 ? (uint64_t)id->world_size : 1;
	uint64_t local = id->local_world_size > 0 ? (uint64_t)id->local_world_size : world;
	uint64_t share = nspy_core.env.NCCLSPY_DISK_JOB * MIB / world;

	if (share < quota)
		quota = share;
	if (id->node_local && NODE_LOCAL_QUOTA / local < quota)
		quota = NODE_LOCAL_QUOTA / local;
	return quota;
}

/*
 * A consistent copy of one entry of a thread's open-call stack, or false if it ended or changed
 * meanwhile. The thread lowers depth before it rewrites an entry and raises it afterwards, and
 * callno never repeats: an entry with the same callno on both sides of a look at depth is whole.
 * Hidden from ThreadSanitizer, which cannot know that a torn copy is thrown away.
 */
__attribute__((no_sanitize("thread"))) static bool copy_entry(const struct nspy_slot *slot,
							      uint32_t i,
							      struct nspy_open_call *ret)
{
	const volatile uint32_t *callno = &slot->open[i].callno;
	const volatile uint64_t *from = (const volatile uint64_t *)&slot->open[i];
	uint64_t *to = (uint64_t *)&ret->rec;
	uint32_t before = *callno;

	nspy_load_barrier();
	if (i >= atomic_load_explicit(&slot->depth, memory_order_acquire))
		return false;
	for (size_t k = 0; k < sizeof(ret->rec) / sizeof(*to); k++)
		to[k] = from[k];
	ret->thread_serial = slot->serial;
	ret->tid = slot->tid;
	nspy_load_barrier();
	if (i >= atomic_load_explicit(&slot->depth, memory_order_acquire))
		return false;
	return *callno == before && ret->rec.callno == before;
}

size_t nspy_state_copy_open(const struct nspy_slot *slot, struct nspy_open_call *out, size_t room)
{
	size_t n = 0;

	for (uint32_t i = 0; i < NSPY_OPEN_DEPTH_MAX && n < room; i++)
		if (copy_entry(slot, i, &out[n]))
			n++;
	return n;
}

static size_t collect_open(uint64_t now_ns, uint64_t older_than_ns)
{
	struct nspy_clock_piece pieces[NSPY_CLOCK_PIECES];
	uint32_t piece_count = nspy_clock_pieces(nspy_core.head, pieces);
	size_t n = 0;

	for (uint32_t i = 0; i < nspy_slot_total(); i++) {
		const struct nspy_slot *slot = nspy_slot_at(i);
		size_t first = n, kept = n;

		if (atomic_load_explicit(&slot->state, memory_order_acquire) != NSPY_SLOT_USED)
			continue;
		n += nspy_state_copy_open(slot, &buf->open[n], OPEN_MAX - n);
		for (; first < n; first++) {
			struct nspy_rec *rec = &buf->open[first].rec;

			rec->enter = nspy_clock_to_ns(pieces, piece_count, rec->enter);
			rec->leave = 0;
			rec->flags |= NSPY_CALL_OPEN;
			if (rec->enter + older_than_ns <= now_ns)
				buf->open[kept++] = buf->open[first];
		}
		n = kept;
	}
	return n;
}

static uint64_t hash_open(size_t count)
{
	uint64_t hash = 0;

	for (size_t i = 0; i < count; i++) {
		const uint64_t id[2] = {buf->open[i].thread_serial, buf->open[i].rec.callno};

		hash = nspy_hash(id, sizeof(id), hash + 1);
	}
	return hash;
}

static void fill_state(struct nspy_state *state, uint64_t now_ns)
{
	memset(state, 0, sizeof(*state));
	state->when_ns = now_ns;
	state->calls = nspy_core.calls_of_gone_threads;
	state->threads_seen = nspy_core.thread_serial;
	for (int i = 0; i < NSPY_LOSS_COUNT; i++)
		state->loss[i] = nspy_core.head->loss[i];
	for (uint32_t i = 0; i < nspy_slot_total(); i++) {
		const struct nspy_slot *slot = nspy_slot_at(i);

		if (slot->state == NSPY_SLOT_FREE)
			continue;
		state->calls += slot->calls;
		state->loss[NSPY_LOSS_RECORDS_NO_PAGE] += slot->lost;
	}
}

static long encode_state(uint64_t now_ns, size_t open_count, bool with_comms, uint8_t *out,
			 size_t bytes)
{
	struct nspy_state state;

	fill_state(&state, now_ns);
	state.open_count = open_count;
	if (with_comms)
		state.comm_count = nspy_comm_snapshot(buf->comms, COMMS_MAX);
	for (size_t i = 0; i < state.comm_count; i++) {
		if (!buf->comms[i].when)
			buf->comms[i].when = now_ns;
		buf->comms[i].kind = NSPY_REC_COMM;
	}
	return nspy_state_encode(&state, buf->comms, buf->open, out, bytes);
}

static bool write_state(enum nspy_chunk_kind kind, uint64_t now_ns, size_t open_count,
			bool with_comms)
{
	struct nspy_chunk_info info = {.kind = kind, .first_ns = now_ns, .last_ns = now_ns};
	long bytes =
		encode_state(now_ns, open_count, with_comms, buf->payload, sizeof(buf->payload));

	return bytes >= 0 && nspy_segment_write(&info, buf->payload, (size_t)bytes);
}

static long make_ident(uint8_t *out, size_t bytes)
{
	return nspy_facts_copy(out, bytes);
}

static long make_schema(uint8_t *out, size_t bytes)
{
	if (NSPY_SCHEMA_TEXT_BYTES > bytes)
		return -1;
	/* NOLINTNEXTLINE(bugprone-not-null-terminated-result): a payload has a length instead */
	memcpy(out, nspy_schema_text, NSPY_SCHEMA_TEXT_BYTES);
	return NSPY_SCHEMA_TEXT_BYTES;
}

static long make_checkpoint(uint8_t *out, size_t bytes)
{
	uint64_t now = nspy_monotonic_ns();

	return encode_state(now, 0, true, out, bytes);
}

static long make_account(uint8_t *out, size_t bytes)
{
	return nspy_account_matters() ? nspy_account_encode(out, bytes) : 0;
}

bool nspy_state_start(void)
{
	static const struct nspy_segment_heads heads = {
		.ident = make_ident,
		.schema = make_schema,
		.checkpoint = make_checkpoint,
		.account = make_account,
	};
	void *p = mmap(NULL, sizeof(*buf), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);

	buf = p == MAP_FAILED ? NULL : p;
	last_write_ns = 0;
	last_open_hash = 0;
	return buf && nspy_segment_start(&heads, quota_bytes());
}

bool nspy_state_write_if_due(uint64_t now_ns, bool force)
{
	/* Where nothing survives in live pages, every open call is evidence to be saved. */
	uint64_t older_than = nspy_core.live_on_tmpfs ? OPEN_NOTEWORTHY_NS : 0;
	size_t open_count = collect_open(now_ns, older_than);
	uint64_t hash = hash_open(open_count);

	if (nspy_facts_changed() && !nspy_facts_write())
		return false;
	if (!force && hash == last_open_hash && now_ns < last_write_ns + HEARTBEAT_NS)
		return true;
	if (!write_state(NSPY_CHUNK_STATE, now_ns, open_count, false))
		return false;
	last_open_hash = hash;
	last_write_ns = now_ns;
	return true;
}

bool nspy_state_write_checkpoint(uint64_t now_ns)
{
	size_t open_count = collect_open(now_ns, 0);

	if (nspy_facts_changed() && !nspy_facts_write())
		return false;
	return write_state(NSPY_CHUNK_STATE, now_ns, open_count, true);
}

bool nspy_state_write_end(void)
{
	uint64_t now_ns = nspy_monotonic_ns();

	if (nspy_facts_changed() && !nspy_facts_write())
		return false;
	return write_state(NSPY_CHUNK_END, now_ns, collect_open(now_ns, 0), false);
}

/* Rank 0 speaks for the job; a process that does not know its rank speaks for itself. */
static bool may_speak(void)
{
	return nspy_core.id.rank <= 0 && !nspy_core.unseen;
}

/* <NCCLSPY_DIR>/<job>: what the report command takes. */
static int job_dir_bytes(void)
{
	const char *slash = strrchr(nspy_core.id.dir, '/');

	return slash ? (int)(slash - nspy_core.id.dir) : 0;
}

void nspy_state_say_start(void)
{
	if (nspy_core.env.bad[0])
		nspy_say(NSPY_SAY_WARN, "ignored the unusable setting %s", nspy_core.env.bad);
	if (!may_speak())
		return;
	if (nspy_mode_now() == NSPY_MODE_RECORD)
		nspy_say(NSPY_SAY_INFO, "ncclspy %s records to %.*s%s", NSPY_VERSION,
			 job_dir_bytes(), nspy_core.id.dir,
			 nspy_core.id.node_local ? " (node-local only: NCCLSPY_DIR is not set)"
						 : "");
	else
		nspy_say(
			NSPY_SAY_INFO,
			"ncclspy %s records nothing (NCCLSPY_MODE=%s); to change that: ncclspy-ctl "
			"%.*s on",
			NSPY_VERSION, nspy_mode_name(nspy_mode_now()), job_dir_bytes(),
			nspy_core.id.dir);
}

void nspy_state_say_end(void)
{
	struct nspy_state state;
	uint64_t lost = 0;
	char who[32];

	fill_state(&state, 0);
	for (int i = NSPY_LOSS_RECORDS_NO_PAGE; i <= NSPY_LOSS_RECORDS_RING; i++)
		lost += state.loss[i];
	if (!may_speak() || (nspy_mode_now() != NSPY_MODE_RECORD && !nspy_segment_bytes_written()))
		return;
	/* Without a launcher's variables no process knows its rank at this place. */
	if (nspy_core.id.rank >= 0)
		(void)snprintf(who, sizeof(who), "rank %d", nspy_core.id.rank);
	else
		(void)snprintf(who, sizeof(who), "pid %d", (int)nspy_core.id.pid);
	nspy_say(NSPY_SAY_INFO,
		 "%s: %llu calls, %llu lost, %llu KiB written, %llu ms of CPU in ncclspy's "
		 "threads; report: ncclspy-analyze report %.*s",
		 who, (unsigned long long)state.calls, (unsigned long long)lost,
		 (unsigned long long)nspy_segment_bytes_written() / 1024,
		 (unsigned long long)(nspy_account_thread_ns() / 1000000u), job_dir_bytes(),
		 nspy_core.id.dir);
}
