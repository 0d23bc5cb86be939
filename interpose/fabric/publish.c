/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "publish.h"

#include <string.h>
#include <sys/mman.h>

#include "clock.h"
#include "core.h"
#include "devices.h"
#include "events.h"
#include "part.h"
#include "segment.h"
#include "tell.h"
#include "traffic.h"

#define SECOND_NS     1000000000ull
#define CHUNK_NS      5000000000ull
#define PAYLOAD_BYTES (128u << 10)
#define ROOM_BYTES    (16u << 10) /* for rails, devices and memory, which come last */

static struct {
	uint64_t run_id; /* of the recording that this belongs to */
	struct nspy_net_buffer out;
	uint64_t first_ns, last_ns; /* of what out holds; 0 = nothing */
	uint64_t next_second, last_second, next_chunk;
	uint64_t told_memory; /* registrations and failures as last written */
	uint32_t told_rails, told_devices;
	bool urgent;
	uint8_t named[(NSPY_PEER_SLOTS + 2 * NSPY_RAILS_MAX) / 8]; /* peers that out describes */
} pub;

static struct nspy_net_text text_of(const char *text)
{
	return (struct nspy_net_text){text, strlen(text)};
}

static void reset(void)
{
	pub.out.used = 0;
	pub.first_ns = pub.last_ns = 0;
	pub.urgent = false;
	memset(pub.named, 0, sizeof(pub.named));
}

static bool begin(uint64_t now_ns)
{
	if (!pub.out.data) {
		uint8_t *p = mmap(NULL, PAYLOAD_BYTES, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			return false;
		pub.out.data = p;
		pub.out.capacity = PAYLOAD_BYTES;
		pub.last_second = now_ns;
	}
	return true;
}

static void touched(uint64_t when_ns)
{
	if (!pub.first_ns || when_ns < pub.first_ns)
		pub.first_ns = when_ns;
	if (when_ns > pub.last_ns)
		pub.last_ns = when_ns;
}

/* --- what closes a chunk --- */

static void put_rails(void)
{
	for (uint32_t i = 0; i < NSPY_RAILS_MAX; i++) {
		const struct nspy_rail *rail = &nspy_traffic->rails[i];
		bool addressed = atomic_load(&rail->address_state) == 2;

		if (atomic_load_explicit(&rail->state, memory_order_acquire) != 2)
			continue;
		(void)nspy_net_put_rail(&pub.out,
					&(struct nspy_net_rail){
						.id = i,
						.sight = atomic_load(&rail->sight),
						.domains = atomic_load(&rail->domains),
						.speed = rail->speed,
						.provider = text_of(rail->provider),
						.fabric = text_of(rail->fabric),
						.domain = text_of(rail->domain),
						.nic = text_of(rail->nic),
						.address = text_of(addressed ? rail->address : ""),
					});
	}
}

static void put_memory(uint64_t now_ns)
{
	for (uint32_t layer = 0; layer < NSPY_NET_LAYER_COUNT; layer++) {
		const struct nspy_memory_sums *sums = &nspy_memory_sums[layer];

		if (!sums->registrations && !sums->failures)
			continue;
		(void)nspy_net_put_memory(&pub.out, &(struct nspy_net_memory){
							    .when_ns = now_ns,
							    .layer = layer,
							    .registrations = sums->registrations,
							    .bytes = sums->bytes,
							    .live = sums->live,
							    .live_bytes = sums->live_bytes,
							    .failures = sums->failures,
							    .no_memory = sums->no_memory,
							    .largest = sums->largest,
							    .largest_since = sums->largest_since,
						    });
	}
}

static void put_devices(void)
{
	for (uint32_t i = 0; i < nspy_device_count(); i++) {
		const struct nspy_device *device = nspy_device_at(i);

		(void)nspy_net_put_device(&pub.out, &(struct nspy_net_device){
							    .name = text_of(device->name),
							    .driver = text_of(device->driver),
							    .state = text_of(device->state),
						    });
	}
}

static bool flush(uint64_t now_ns)
{
	struct nspy_chunk_info info = {.kind = NSPY_CHUNK_NET};
	bool ok;

	put_rails();
	put_devices();
	put_memory(now_ns);
	touched(now_ns);
	info.first_ns = pub.first_ns;
	info.last_ns = pub.last_ns;
	ok = nspy_segment_write(&info, pub.out.data, pub.out.used);
	/* Refused by the disk: given up, the counters go on. */
	reset();
	pub.next_chunk = now_ns + CHUNK_NS;
	return ok;
}

/* --- seconds --- */

static void name_peer(const struct nspy_peer *peer)
{
	uint8_t bit = (uint8_t)(1u << (peer->id % 8));

	if (pub.named[peer->id / 8] & bit)
		return;
	if (nspy_net_put_peer(&pub.out, &(struct nspy_net_peer){
						.id = peer->id,
						.rail = peer->rail,
						.role = peer->role,
						.address = text_of(peer->name),
					}) == 0)
		pub.named[peer->id / 8] |= bit;
}

static uint64_t ticks_to_ns(uint64_t ticks)
{
	const struct nspy_live_head *head = nspy_core.head;
	uint64_t mult = head->clock[(head->clock_count - 1) % NSPY_CLOCK_PIECES].mult;

	return nspy_hot->clock_source == NSPY_CLOCK_MONOTONIC
		       ? ticks
		       : (uint64_t)((unsigned __int128)ticks * mult >> 32);
}

/* What a peer's counters gained. false: nothing. The maximum begins anew. */
static bool gained(struct nspy_peer *peer, uint64_t polls, struct nspy_net_row *row)
{
	uint64_t any = polls;

	row->peer = peer->id;
	for (int i = 0; i < NSPY_NET_COUNTER_COUNT; i++) {
		uint64_t now;

		if (i == NSPY_NET_TIME_MAX) {
			row->counter[i] = ticks_to_ns(atomic_exchange(&peer->counter[i], 0));
			continue;
		}
		now = atomic_load_explicit(&peer->counter[i], memory_order_relaxed);
		row->counter[i] = now - peer->last[i];
		peer->last[i] = now;
		any |= row->counter[i];
	}
	row->counter[NSPY_NET_TIME_SUM] = ticks_to_ns(row->counter[NSPY_NET_TIME_SUM]);
	row->counter[NSPY_NET_POLLS] += polls;
	return any;
}

static uint64_t polls_of(uint32_t rail)
{
	uint64_t gained_polls = 0;

	for (uint32_t i = 0; i < NSPY_POLL_CELLS; i++) {
		struct nspy_poll_cell *cell = &nspy_traffic->cells[i];
		uint64_t now;

		if (atomic_load(&cell->rail) != rail + 1)
			continue;
		now = atomic_load_explicit(&cell->polls, memory_order_relaxed);
		gained_polls += now - cell->last;
		cell->last = now;
	}
	return gained_polls;
}

struct second {
	struct nspy_net_second head;
	bool begun;
};

static void put_row(struct second *second, struct nspy_peer *peer, uint64_t polls)
{
	struct nspy_net_row row;

	if (!gained(peer, polls, &row))
		return;
	/* A row must follow its second: peers are described before, in a first pass. */
	if (!second->begun)
		second->begun = nspy_net_put_second(&pub.out, &second->head) == 0;
	if (second->begun)
		(void)nspy_net_put_row(&pub.out, &row);
}

static bool has_news(const struct nspy_peer *peer)
{
	for (int i = 0; i < NSPY_NET_COUNTER_COUNT; i++) {
		if (i != NSPY_NET_TIME_MAX &&
		    atomic_load_explicit(&peer->counter[i], memory_order_relaxed) != peer->last[i])
			return true;
	}
	return false;
}

static void each_peer(void (*visit)(void *context, struct nspy_peer *peer), void *context)
{
	uint32_t left = atomic_load(&nspy_traffic->peers);

	for (uint32_t i = 0; i < NSPY_PEER_SLOTS && left; i++) {
		struct nspy_peer *peer = &nspy_traffic->slots[i];

		if (atomic_load_explicit(&peer->state, memory_order_acquire) != 2)
			continue;
		left--;
		if (has_news(peer))
			visit(context, peer);
	}
}

/* The rows of one second need at most this: peers that do not fit wait for the next one. */
static bool is_full(void)
{
	return pub.out.used + ROOM_BYTES > pub.out.capacity / 2;
}

static void visit_name(void *context, struct nspy_peer *peer)
{
	(void)context;
	if (!is_full())
		name_peer(peer);
}

static void visit_row(void *context, struct nspy_peer *peer)
{
	struct second *second = context;

	if (pub.named[peer->id / 8] & 1u << (peer->id % 8))
		put_row(second, peer, 0);
}

static void gather_second(uint64_t now_ns)
{
	struct second second = {
		.head = {.when_ns = now_ns, .span_ns = now_ns - pub.last_second},
	};

	each_peer(visit_name, NULL);
	for (uint32_t i = 0; i < NSPY_RAILS_MAX; i++) {
		if (atomic_load(&nspy_traffic->rails[i].state) == 2) {
			name_peer(&nspy_traffic->any[i]);
			name_peer(&nspy_traffic->other[i]);
		}
	}
	for (uint32_t i = 0; i < NSPY_RAILS_MAX; i++) {
		if (atomic_load(&nspy_traffic->rails[i].state) != 2)
			continue;
		put_row(&second, &nspy_traffic->any[i], polls_of(i));
		put_row(&second, &nspy_traffic->other[i], 0);
	}
	each_peer(visit_row, &second);
	if (second.begun)
		touched(now_ns);
	pub.last_second = now_ns;
}

/* --- events --- */

static const struct nspy_peer *peer_by_id(uint32_t id)
{
	if (id < NSPY_PEER_SLOTS)
		return &nspy_traffic->slots[id];
	id -= NSPY_PEER_SLOTS;
	return id < NSPY_RAILS_MAX ? &nspy_traffic->any[id]
				   : &nspy_traffic->other[(id - NSPY_RAILS_MAX) % NSPY_RAILS_MAX];
}

static void gather_events(void)
{
	struct nspy_fabric_event *event;

	while (!is_full() && (event = nspy_fabric_event_take())) {
		struct nspy_net_event out = {
			.when_ns = event->when_ns,
			.what = event->what,
			.rail = event->rail,
			.peer = event->peer,
			.error = event->error,
			.provider = event->provider,
			.value_count = event->value_count,
			.text = text_of(event->text),
			.more = text_of(event->more),
		};

		memcpy(out.values, event->values, sizeof(out.values));
		if (event->peer != NSPY_NET_NONE)
			name_peer(peer_by_id(event->peer));
		(void)nspy_net_put_event(&pub.out, &out);
		touched(event->when_ns);
		pub.urgent |= event->what != NSPY_NET_GETINFO;
		nspy_fabric_tell_event(event, event->peer != NSPY_NET_NONE ? peer_by_id(event->peer)
									   : NULL);
		nspy_fabric_event_done(event);
	}
}

/* Whether there is more to say than what out holds already. */
static bool changed(void)
{
	uint64_t memory = 0;
	uint32_t rails = 0;
	bool news;

	for (uint32_t layer = 0; layer < NSPY_NET_LAYER_COUNT; layer++)
		memory += nspy_memory_sums[layer].registrations + nspy_memory_sums[layer].failures;
	for (uint32_t i = 0; i < NSPY_RAILS_MAX; i++) {
		const struct nspy_rail *rail = &nspy_traffic->rails[i];

		rails += rail->state == 2;
		rails += (uint32_t)(rail->address_state == 2) << 8;
	}
	news = memory != pub.told_memory || rails != pub.told_rails;
	pub.told_memory = memory;
	pub.told_rails = rails;
	return news;
}

static bool tick(uint64_t now_ns, bool last)
{
	bool due;

	/* A forked child that records has our tables, but not our past. */
	if (pub.run_id != nspy_core.id.run_id || !begin(now_ns))
		return true;
	nspy_devices_look();
	gather_events();
	if (last || now_ns >= pub.next_second || is_full()) {
		gather_second(now_ns);
		nspy_tell_rails();
		pub.next_second = now_ns + SECOND_NS;
	}
	due = pub.urgent || is_full() || last || now_ns >= pub.next_chunk;
	if (!due || (!pub.first_ns && !changed()))
		return true;
	return flush(now_ns);
}

void nspy_publish_start(void)
{
	static const struct nspy_part part = {.tick = tick};

	if (__atomic_load_n(&nspy_parts[NSPY_PART_FABRIC], __ATOMIC_ACQUIRE))
		return;
	pub.run_id = nspy_core.id.run_id;
	__atomic_store_n(&nspy_parts[NSPY_PART_FABRIC], &part, __ATOMIC_RELEASE);
}
