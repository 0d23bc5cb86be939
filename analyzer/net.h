/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process did on the network below NCCL, gathered from its NET chunks: rails, peers,
 * registrations, and what went wrong. Times are aligned like all others of the model.
 *
 * Ownership: everything belongs to the process and lives until nspy_net_done.
 */
#ifndef NSPY_NET_H
#define NSPY_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_net.h"

/* Bounds on what a trace can make us keep. */
#define NSPY_NET_RAILS_KEPT   64u
#define NSPY_NET_PEERS_KEPT   16384u
#define NSPY_NET_EVENTS_KEPT  4096u
#define NSPY_NET_DEVICES_KEPT 256u

struct nspy_net_rail_view {
	bool known;
	uint32_t sight; /* enum nspy_net_sight */
	uint64_t speed; /* bit/s, 0 = not known */
	char *provider, *fabric, *domain, *nic, *address;
	uint64_t counter[NSPY_NET_COUNTER_COUNT]; /* of all its peers; TIME_MAX is the largest */
	uint64_t busy_ns;                         /* of seconds in which data went over it */
	double peak;                              /* bytes per second in the busiest of them */
};

struct nspy_net_peer_view {
	uint32_t rail;
	uint32_t role; /* enum nspy_net_peer_role */
	char *address;
	uint64_t counter[NSPY_NET_COUNTER_COUNT];
	uint64_t busy_ns;
};

struct nspy_net_event_view {
	uint64_t when_ns;
	uint32_t what;
	uint32_t rail, peer; /* or NSPY_NET_NONE */
	int32_t error, provider;
	uint64_t value[NSPY_NET_VALUES_MAX];
	char *text, *more;
};

struct nspy_net_device_view {
	char *name, *driver, *state;
};

struct nspy_net_view {
	struct nspy_net_rail_view *rails; /* by id */
	size_t rail_count;
	struct nspy_net_peer_view **peers; /* by id, NULL holes */
	size_t peer_count;
	struct nspy_net_event_view *events;
	size_t event_count, event_capacity;
	struct nspy_net_device_view *devices;
	size_t device_count, device_capacity;
	struct nspy_net_memory memory[NSPY_NET_LAYER_COUNT];
};

/* Adds a NET payload; offset is added to its times. -EBADMSG: the rest of it cannot be read. */
int nspy_net_ingest(struct nspy_net_view *net, const uint8_t *payload, size_t bytes,
		    int64_t offset);
void nspy_net_done(struct nspy_net_view *net);

/* NULL for an id that was never described. */
const struct nspy_net_rail_view *nspy_net_rail(const struct nspy_net_view *net, uint32_t id);
const struct nspy_net_peer_view *nspy_net_peer(const struct nspy_net_view *net, uint32_t id);

/* "rdmap0s6" if it is known, else what the provider calls it, else the provider. */
const char *nspy_net_rail_name(const struct nspy_net_rail_view *rail);
/* Whether any part of "verbs;ofi_rxm" is that provider. */
bool nspy_net_is(const char *provider, const char *part);
bool nspy_net_is_socket(const char *provider);
bool nspy_net_is_rdma(const char *provider);
/* Any RDMA device whose driver begins so; NULL = any. */
bool nspy_net_has_device(const struct nspy_net_view *net, const char *driver);

/* Of counters: what was sent, written or read, and in how many operations. */
uint64_t nspy_net_bytes(const uint64_t *counter);
uint64_t nspy_net_operations(const uint64_t *counter);

const char *nspy_net_counter_name(enum nspy_net_counter counter);
const char *nspy_net_event_name(uint32_t what);
const char *nspy_net_sight_name(uint32_t sight);
/* "No route to host", "cannot allocate memory", or libfabric's own beyond 256; never NULL. */
const char *nspy_net_error_name(int error);
/* What a provider's own completion status means, or NULL. */
const char *nspy_net_status_name(const char *provider, int status);

#endif
