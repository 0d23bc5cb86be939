/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of what goes over the network: rails (a network card as a provider offers it) and, on
 * each, peers. Counters only ever rise; the writer thread takes their difference once a second.
 * Nothing is ever removed, so the hot path needs no lock: at most NSPY_RAILS_MAX rails and
 * NSPY_NET_PEERS_MAX peers are kept apart, the rest is counted together.
 *
 * context: any thread unless said otherwise; nothing allocates after the first use.
 */
#ifndef NSPY_TRAFFIC_H
#define NSPY_TRAFFIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric_abi.h"
#include "trace_net.h"

#define NSPY_RAILS_MAX     32u
#define NSPY_NET_PEERS_MAX 4096u
#define NSPY_PEER_SLOTS    8192u /* a power of two; never more than half full */
#define NSPY_FLIGHT_SLOTS  4096u /* operations under way, by context; a power of two */
#define NSPY_POLL_CELLS    256u
#define NSPY_NET_NAME      64u

struct nspy_peer {
	_Atomic uint32_t state; /* 0 free, 1 being filled in, 2 in use */
	uint32_t role;          /* enum nspy_net_peer_role */
	uint32_t id;
	uint32_t rail;
	uint64_t key; /* fi_addr_t, or the endpoint it is connected through */
	_Atomic uint64_t counter[NSPY_NET_COUNTER_COUNT];
	uint64_t last[NSPY_NET_COUNTER_COUNT]; /* as last published; writer thread only */
	char name[NSPY_NET_NAME];
};

/* An operation that has been posted and not yet completed. */
struct nspy_flight {
	_Atomic uint64_t context; /* 0 = none */
	_Atomic uint64_t ticks;
	_Atomic(struct nspy_peer *) peer;
	uint64_t reserved;
};

struct nspy_poll_cell {
	_Alignas(64) _Atomic uint64_t polls; /* stored, not added: one poller each, usually */
	_Atomic uint32_t used;
	_Atomic uint32_t rail; /* + 1 */
	uint64_t last;         /* writer thread only */
};

struct nspy_rail {
	_Atomic uint32_t state; /* 0 free, 1 being filled in, 2 in use */
	uint32_t id;
	_Atomic uint32_t sight; /* enum nspy_net_sight */
	_Atomic uint32_t domains;
	uint64_t speed;
	char provider[NSPY_NET_NAME];
	char fabric[NSPY_NET_NAME];
	char domain[NSPY_NET_NAME];
	char nic[NSPY_NET_NAME];
	char address[NSPY_NET_NAME]; /* of an endpoint of ours */
	_Atomic uint32_t address_state;
	struct nspy_peer *any;
	struct nspy_peer *other;
	struct nspy_flight *flights; /* NSPY_FLIGHT_SLOTS, or NULL */
};

struct nspy_traffic {
	_Atomic uint32_t peers;
	_Atomic uint64_t peers_refused;
	struct nspy_rail rails[NSPY_RAILS_MAX];
	struct nspy_peer any[NSPY_RAILS_MAX];
	struct nspy_peer other[NSPY_RAILS_MAX];
	struct nspy_poll_cell cells[NSPY_POLL_CELLS];
	struct nspy_peer slots[NSPY_PEER_SLOTS];
};

/* NULL before the first use, or if there is no memory. */
extern struct nspy_traffic *nspy_traffic;
/* Makes the tables. false: no memory. */
bool nspy_traffic_start(void);

struct nspy_rail_names {
	const char *provider, *fabric, *domain, *nic; /* NULL = "" */
	uint64_t speed;
};
/* The rail of that name, made if need be; NULL if there are too many. Cold. */
struct nspy_rail *nspy_rail_get(const struct nspy_rail_names *names, enum nspy_net_sight sight);
/* Keeps the first address of ours that is told. */
void nspy_rail_address(struct nspy_rail *rail, uint32_t format, const void *addr, size_t bytes);

/* Never NULL: beyond the limit it is the rail's "other". */
struct nspy_peer *nspy_peer_add(struct nspy_rail *rail, uint64_t key, const char *name);
void nspy_peer_rename(struct nspy_peer *peer, const char *name);
/* An address in words: 10.0.0.1:7471, [fe80::1]:7471, EFA's GID and queue pair, else hexadecimal.
 */
void nspy_address_text(uint32_t format, const void *addr, size_t bytes, char *ret, size_t room);

/* A place to count polls of a queue of that rail. */
struct nspy_poll_cell *nspy_poll_cell_get(struct nspy_rail *rail);
void nspy_poll_cell_put(struct nspy_poll_cell *cell);

static inline void nspy_traffic_add(struct nspy_peer *peer, enum nspy_net_counter counter,
				    uint64_t n)
{
	atomic_fetch_add_explicit(&peer->counter[counter], n, memory_order_relaxed);
}

static inline uint64_t nspy_traffic_mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ULL;
	return x ^ (x >> 32);
}

/* The peer if it is known already, else NULL. */
static inline struct nspy_peer *nspy_peer_known(const struct nspy_rail *rail, uint64_t key)
{
	uint64_t at = nspy_traffic_mix(key + rail->id * 0x9e3779b97f4a7c15ULL);

	for (uint32_t i = 0; i < NSPY_PEER_SLOTS; i++) {
		struct nspy_peer *peer = &nspy_traffic->slots[(at + i) & (NSPY_PEER_SLOTS - 1)];
		uint32_t state = atomic_load_explicit(&peer->state, memory_order_acquire);

		if (state == 0)
			return NULL;
		if (state == 2 && peer->key == key && peer->rail == rail->id)
			return peer;
	}
	return NULL;
}

/* The name is worked out by whoever knows it: addresses come from address vectors. */
static inline struct nspy_peer *nspy_peer_get(struct nspy_rail *rail, uint64_t key)
{
	struct nspy_peer *peer = nspy_peer_known(rail, key);

	return __builtin_expect(peer != 0, 1) ? peer : nspy_peer_add(rail, key, "");
}

static inline struct nspy_flight *nspy_flight_at(const struct nspy_rail *rail, const void *context)
{
	uint64_t at = nspy_traffic_mix((uintptr_t)context);

	return &rail->flights[at & (NSPY_FLIGHT_SLOTS - 1)];
}

#endif
