/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "across.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "core.h"
#include "event.h"
#include "exchange.h"
#include "live.h"
#include "pace.h"

#define NS_PER_S  1000000000ull
#define FAST_NS   (2 * NS_PER_S)
#define UNEASY_NS (10 * NS_PER_S) /* waits that long make a node post often */
#define POST_MAX  ((size_t)NSPY_LOCAL_PAGES_MAX * NSPY_STATUS_BYTES_MAX)
#define PAGES_MIN 64u
#define ARENA_MIN ((size_t)128 << 10)
#define ARENA_MAX ((size_t)1 << 30)

static struct {
	uint64_t next_post, next_ask, next_digest;
	bool uneasy, was_uneasy;
	struct nspy_pace pace;
	/* Other nodes' pages, as of the last reading. */
	struct nspy_status *pages;
	uint32_t capacity, count;
	struct nspy_arena arena;
	bool small; /* either of them was, at the last reading */
	/* Who leads. */
	uint64_t read_ns;    /* when all files were last read, 0 = never */
	uint64_t lead_ns;    /* since when this node leads, 0 = it does not */
	uint64_t heard_ns;   /* when the digest was last seen to be new */
	uint64_t heard_real; /* what it said */
	bool taken_over;
	uint64_t told_key;      /* in the last digest written */
	uint64_t told_until_ns; /* it stands so long, to be read by every node */
	uint64_t control_sum;   /* of what the last post said of commands */
	uint64_t started_real_ns;
} state;

static uint64_t real_ns(void)
{
	struct timespec real;

	clock_gettime(CLOCK_REALTIME, &real);
	return (uint64_t)real.tv_sec * NS_PER_S + (uint64_t)real.tv_nsec;
}

static uint64_t slow_ns(void)
{
	return nspy_core.env.NCCLSPY_BOARD_S * NS_PER_S;
}

static uint64_t period(void)
{
	return state.uneasy && FAST_NS < slow_ns() ? FAST_NS : slow_ns();
}

/* Nothing new for so long: gone. */
static uint64_t silent_ns(void)
{
	return 7 * slow_ns() / 2 + FAST_NS;
}

void nspy_across_start(uint64_t now_ns)
{
	memset(&state, 0, sizeof(state));
	state.heard_ns = now_ns;
	state.started_real_ns = real_ns();
}

bool nspy_across_wanted(const struct nspy_local *local)
{
	const struct nspy_identity *id = &nspy_core.id;

	if (id->node_local || (id->world_size > 0 && id->local_world_size == id->world_size))
		return false;
	for (uint32_t i = 0; i < local->count; i++) {
		const struct nspy_status *page = &local->pages[i];

		if (page->world_size > 0 && (uint32_t)page->world_size > local->count &&
		    page->comm_count && page->comms[0].nranks > (int32_t)local->count)
			return true;
	}
	return false;
}

/* Long open: a call, or the creation of a communicator, which need not hold up a call. */
static bool waits_long(const struct nspy_status *page, uint64_t before_ns)
{
	for (uint32_t k = 0; k < page->call_count; k++)
		if (page->calls_open[k].enter_ns < before_ns)
			return true;
	for (uint32_t k = 0; k < page->comm_count; k++) {
		const struct nspy_status_comm *comm = &page->comms[k];
		uint32_t over = NSPY_COMM_READY | NSPY_COMM_GONE | NSPY_COMM_FAILED;

		if ((comm->flags & NSPY_COMM_NONBLOCKING) && !(comm->flags & over) &&
		    comm->started_ns < before_ns)
			return true;
	}
	return false;
}

static bool is_uneasy(const struct nspy_local *local, uint64_t now_ns,
		      const struct nspy_limits *limits)
{
	uint64_t wait = limits->hang_ns / 2 < UNEASY_NS ? limits->hang_ns / 2 : UNEASY_NS;

	for (uint32_t i = 0; i < local->count; i++) {
		const struct nspy_status *page = &local->pages[i];

		if (page->dead || page->stopped || waits_long(page, now_ns - wait))
			return true;
	}
	return false;
}

static void post(const struct nspy_local *local, uint64_t now_ns)
{
	bool worse = state.uneasy && !state.was_uneasy;
	uint64_t control_sum = 0;
	size_t room = 1;
	long bytes = -ENOBUFS;

	for (uint32_t i = 0; i < local->count; i++)
		control_sum += local->pages[i].control_id;
	state.was_uneasy = state.uneasy;
	if (now_ns < state.next_post && !worse && control_sum == state.control_sum)
		return;
	for (; bytes == -ENOBUFS && room <= POST_MAX; room *= 2) {
		size_t have = room < 32768u ? 32768u : room;
		uint8_t *out = nspy_exchange_room(have);

		if (!out)
			return;
		bytes = nspy_board_encode(local->pages, local->count, local->speaker, out, have);
	}
	if (bytes <= 0)
		return;
	nspy_exchange_post((size_t)bytes);
	state.next_post = now_ns + period();
	state.control_sum = control_sum;
}

void nspy_across_post(const struct nspy_local *local, uint64_t now_ns)
{
	if (nspy_core.id.node_local)
		return;
	state.uneasy = false;
	state.heard_ns = now_ns; /* nobody is listened to meanwhile: that is no silence of theirs */
	state.lead_ns = 0;
	post(local, now_ns);
}

/* --- reading the others --- */

/* false: there is no more memory to be had. */
static bool grow(void)
{
	uint32_t capacity = state.capacity ? 2 * state.capacity : PAGES_MIN;
	size_t bytes = state.arena.bytes ? 2 * state.arena.bytes : ARENA_MIN;
	void *pages, *arena;

	state.small = false;
	if (bytes > ARENA_MAX)
		return false;
	pages = nspy_live_map_private(capacity * sizeof(*state.pages), 0);
	arena = nspy_live_map_private(bytes, 0);
	if (!pages || !arena) {
		if (pages)
			munmap(pages, capacity * sizeof(*state.pages));
		if (arena)
			munmap(arena, bytes);
		return false;
	}
	if (state.pages) {
		munmap(state.pages, state.capacity * sizeof(*state.pages));
		munmap(state.arena.base, state.arena.bytes);
	}
	state.pages = pages;
	state.capacity = capacity;
	state.arena = (struct nspy_arena){arena, bytes, 0};
	state.count = 0;
	return true;
}

/* Pages of this run of the job; files of an earlier one may still lie there. */
static void keep_current(uint64_t now_ns)
{
	uint64_t real = real_ns();
	uint32_t kept = 0;

	for (uint32_t i = 0; i < state.count; i++) {
		struct nspy_status *page = &state.pages[i];
		bool old = page->published_real_ns < state.started_real_ns;

		if (old || strcmp(page->node, nspy_core.id.node) == 0)
			continue;
		nspy_board_shift(page, now_ns, real, 2 * silent_ns());
		state.pages[kept++] = *page;
	}
	state.count = kept;
}

/* A damaged file spoils itself only. */
static void decode_files(void)
{
	const uint8_t *file;
	size_t cursor = 0, bytes;

	state.arena.used = 0;
	state.count = 0;
	while (!state.small && (file = nspy_exchange_next(&cursor, &bytes)) != NULL)
		state.count +=
			nspy_board_decode(file, bytes, &state.arena, &state.pages[state.count],
					  state.capacity - state.count, &state.small);
}

static void read_pages(uint64_t now_ns)
{
	bool heads_only;

	if (!nspy_exchange_pages(&heads_only))
		return;
	do {
		if ((state.small || !state.pages) && !grow())
			break;
		decode_files();
	} while (state.small && state.arena.bytes < ARENA_MAX);
	nspy_exchange_done();
	keep_current(now_ns);
	if (!heads_only) {
		state.read_ns = now_ns;
		return;
	}
	/* Nobody with a lower rank is heard of: this node leads from now on. */
	state.taken_over = true;
	for (uint32_t i = 0; i < state.count; i++)
		if (state.pages[i].published_ns + silent_ns() > now_ns &&
		    state.pages[i].rank < nspy_core.id.rank)
			state.taken_over = false;
	state.heard_ns = now_ns;
	state.count = 0;
}

/*
 * A node that has fallen silent does not run, as far as anybody can tell. If this one cannot write
 * to the directory, others may not be able to either: what they last wrote counts no more.
 */
static void mark_silent(uint64_t now_ns)
{
	bool refused = nspy_exchange_refused();
	uint32_t kept = 0;

	for (uint32_t i = 0; i < state.count; i++) {
		struct nspy_status *page = &state.pages[i];
		bool silent = !page->dead && page->state == NSPY_STATUS_RUNNING &&
			      page->published_ns + silent_ns() < now_ns;

		if (silent && refused)
			continue;
		page->silent = page->silent || silent;
		state.pages[kept++] = *page;
	}
	state.count = kept;
}

/* --- leading and following --- */

static bool has_rank_0(const struct nspy_local *local)
{
	for (uint32_t i = 0; i < local->count; i++)
		if (local->pages[i].rank == 0)
			return true;
	return false;
}

/* Local pages first, so that indices of both sorts hold for the whole. */
static void join(const struct nspy_local *local, struct nspy_view *ret)
{
	uint32_t room;

	if (!state.pages && !grow())
		return;
	while (state.capacity < state.count + local->count && !state.small) {
		uint32_t count = state.count;

		if (!grow() || state.count < count)
			return; /* the next reading fills it again */
	}
	room = state.capacity - state.count;
	if (room < local->count)
		return;
	memcpy(&state.pages[state.count], local->pages, local->count * sizeof(*state.pages));
	ret->pages = state.pages;
	ret->count = state.count + local->count;
	ret->whole = true;
}

static void lead(const struct nspy_local *local, uint64_t now_ns, struct nspy_view *ret)
{
	read_pages(now_ns);
	mark_silent(now_ns);
	if (now_ns >= state.next_ask && nspy_exchange_ask_pages(false))
		state.next_ask = now_ns + period();
	if (!state.lead_ns)
		state.lead_ns = now_ns;
	/* If our own reading is stuck, silence says nothing of the others. */
	if (state.read_ns && state.read_ns + silent_ns() > now_ns)
		join(local, ret);
	else
		ret->judge = state.lead_ns + silent_ns() < now_ns;
}

static void follow(uint64_t now_ns, struct nspy_status *own, struct nspy_view *ret)
{
	struct nspy_digest digest;

	read_pages(now_ns);
	if (nspy_exchange_digest(&digest) && digest.when_real_ns > state.heard_real &&
	    digest.when_real_ns >= state.started_real_ns) {
		state.heard_real = digest.when_real_ns;
		state.heard_ns = now_ns;
		nspy_event_hear(&digest, own);
	}
	if (now_ns >= state.next_ask) {
		nspy_exchange_ask_digest();
		state.next_ask = now_ns + period();
	}
	if (state.heard_ns + silent_ns() < now_ns)
		(void)nspy_exchange_ask_pages(true);
	/* Neither a digest nor files to be had: the directory does not answer. */
	ret->judge = state.heard_ns + 2 * silent_ns() < now_ns;
}

void nspy_across_look(const struct nspy_local *local, uint64_t now_ns,
		      const struct nspy_limits *limits, struct nspy_status *own,
		      struct nspy_view *ret)
{
	bool hurry;

	*ret = (struct nspy_view){.pages = local->pages, .count = local->count, .judge = true};
	hurry = nspy_pace_hurry(&state.pace, local->pages, local->count, now_ns);
	state.uneasy = hurry || is_uneasy(local, now_ns, limits);
	/* The others post now. */
	if (state.uneasy && !state.was_uneasy && state.next_ask > now_ns + FAST_NS / 2)
		state.next_ask = now_ns + FAST_NS / 2;
	post(local, now_ns);
	if (has_rank_0(local) || state.taken_over)
		lead(local, now_ns, ret);
	else
		follow(now_ns, own, ret);
}

void nspy_across_tell(uint64_t now_ns)
{
	struct nspy_digest digest = {.when_real_ns = real_ns()};

	nspy_event_digest(&digest);
	if (digest.key == state.told_key && now_ns < state.next_digest)
		return;
	/* What does not last is told to every node all the same. */
	if (!digest.key && state.told_key && now_ns < state.told_until_ns)
		return;
	if (digest.key && digest.key != state.told_key)
		state.told_until_ns = now_ns + slow_ns() + FAST_NS;
	state.told_key = digest.key;
	state.next_digest = now_ns + period();
	(void)snprintf(digest.node, sizeof(digest.node), "%.63s", nspy_core.id.node);
	nspy_exchange_post_digest(&digest);
}
