/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "traffic.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct nspy_traffic *nspy_traffic;

static void *map_bytes(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

bool nspy_traffic_start(void)
{
	struct nspy_traffic *none = NULL, *made;

	if (__atomic_load_n(&nspy_traffic, __ATOMIC_ACQUIRE))
		return true;
	made = map_bytes(sizeof(*made));
	if (!made)
		return false;
	if (!__atomic_compare_exchange_n(&nspy_traffic, &none, made, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		munmap(made, sizeof(*made));
	return true;
}

/* Printable text only: names end up in reports. */
static void copy_name(char *ret, const char *name)
{
	size_t n = 0;

	for (; name && name[n] && n + 1 < NSPY_NET_NAME; n++)
		ret[n] = (unsigned char)name[n] < 0x20 ? ' ' : name[n];
	ret[n] = '\0';
}

static bool same_name(const char *kept, const char *name)
{
	char cut[NSPY_NET_NAME];

	copy_name(cut, name);
	return strcmp(kept, cut) == 0;
}

static void fill_rail(struct nspy_rail *rail, uint32_t id, const struct nspy_rail_names *names)
{
	rail->id = id;
	rail->speed = names->speed;
	copy_name(rail->provider, names->provider);
	copy_name(rail->fabric, names->fabric);
	copy_name(rail->domain, names->domain);
	copy_name(rail->nic, names->nic);
	rail->any = &nspy_traffic->any[id];
	rail->any->role = NSPY_NET_PEER_ANY;
	rail->any->rail = id;
	rail->any->id = NSPY_PEER_SLOTS + id;
	rail->other = &nspy_traffic->other[id];
	rail->other->role = NSPY_NET_PEER_OTHER;
	rail->other->rail = id;
	rail->other->id = NSPY_PEER_SLOTS + NSPY_RAILS_MAX + id;
	rail->flights = map_bytes(NSPY_FLIGHT_SLOTS * sizeof(*rail->flights));
	atomic_store(&rail->any->state, 2);
	atomic_store(&rail->other->state, 2);
}

struct nspy_rail *nspy_rail_get(const struct nspy_rail_names *names, enum nspy_net_sight sight)
{
	for (uint32_t i = 0; i < NSPY_RAILS_MAX; i++) {
		struct nspy_rail *rail = &nspy_traffic->rails[i];
		uint32_t expected = 0;

		if (atomic_compare_exchange_strong(&rail->state, &expected, 1)) {
			fill_rail(rail, i, names);
			atomic_store(&rail->sight, (uint32_t)sight);
			atomic_store_explicit(&rail->state, 2, memory_order_release);
			return rail;
		}
		if (expected == 2 && same_name(rail->provider, names->provider) &&
		    same_name(rail->fabric, names->fabric) &&
		    same_name(rail->domain, names->domain))
			return rail;
	}
	return NULL;
}

void nspy_rail_address(struct nspy_rail *rail, uint32_t format, const void *addr, size_t bytes)
{
	uint32_t expected = 0;

	if (!atomic_compare_exchange_strong(&rail->address_state, &expected, 1))
		return;
	nspy_address_text(format, addr, bytes, rail->address, sizeof(rail->address));
	atomic_store_explicit(&rail->address_state, 2, memory_order_release);
}

void nspy_peer_rename(struct nspy_peer *peer, const char *name)
{
	if (peer->role == NSPY_NET_PEER_KNOWN && name[0])
		copy_name(peer->name, name);
}

struct nspy_peer *nspy_peer_add(struct nspy_rail *rail, uint64_t key, const char *name)
{
	uint64_t at = nspy_traffic_mix(key + rail->id * 0x9e3779b97f4a7c15ULL);

	for (uint32_t i = 0; i < NSPY_PEER_SLOTS; i++) {
		uint32_t slot = (uint32_t)(at + i) & (NSPY_PEER_SLOTS - 1);
		struct nspy_peer *peer = &nspy_traffic->slots[slot];
		uint32_t expected = 0;

		if (atomic_load(&peer->state) == 2 && peer->key == key && peer->rail == rail->id) {
			nspy_peer_rename(peer, name);
			return peer;
		}
		if (atomic_load(&peer->state) != 0)
			continue;
		if (atomic_fetch_add(&nspy_traffic->peers, 1) >= NSPY_NET_PEERS_MAX) {
			atomic_fetch_sub(&nspy_traffic->peers, 1);
			break;
		}
		if (!atomic_compare_exchange_strong(&peer->state, &expected, 1)) {
			atomic_fetch_sub(&nspy_traffic->peers, 1);
			continue;
		}
		peer->role = NSPY_NET_PEER_KNOWN;
		peer->id = slot;
		peer->rail = rail->id;
		peer->key = key;
		copy_name(peer->name, name);
		atomic_store_explicit(&peer->state, 2, memory_order_release);
		return peer;
	}
	atomic_fetch_add(&nspy_traffic->peers_refused, 1);
	return rail->other;
}

/* --- addresses --- */

struct efa_address { /* prov/efa/src/efa.h */
	uint8_t gid[16];
	uint16_t qpn;
	uint16_t pad;
	uint32_t qkey;
};

static void inet_text(const void *addr, size_t bytes, char *ret, size_t room)
{
	char host[INET6_ADDRSTRLEN];
	struct sockaddr_in6 in6;
	struct sockaddr_in in4;
	uint16_t family;

	memcpy(&family, addr, sizeof(family));
	if (family == AF_INET && bytes >= sizeof(in4)) {
		memcpy(&in4, addr, sizeof(in4));
		(void)inet_ntop(AF_INET, &in4.sin_addr, host, sizeof(host));
		(void)snprintf(ret, room, "%s:%u", host, ntohs(in4.sin_port));
	} else if (family == AF_INET6 && bytes >= sizeof(in6)) {
		memcpy(&in6, addr, sizeof(in6));
		(void)inet_ntop(AF_INET6, &in6.sin6_addr, host, sizeof(host));
		(void)snprintf(ret, room, "[%s]:%u", host, ntohs(in6.sin6_port));
	}
}

void nspy_address_text(uint32_t format, const void *addr, size_t bytes, char *ret, size_t room)
{
	struct efa_address efa;
	char gid[INET6_ADDRSTRLEN];
	size_t n = 0;

	ret[0] = '\0';
	if (!addr || !bytes)
		return;
	if (format >= NSPY_FI_SOCKADDR && format <= NSPY_FI_SOCKADDR_IN6 &&
	    bytes >= sizeof(struct sockaddr_in)) {
		inet_text(addr, bytes, ret, room);
	} else if (format == NSPY_FI_ADDR_STR) {
		(void)snprintf(ret, room, "%.*s", (int)(bytes < 256 ? bytes : 256),
			       (const char *)addr);
	} else if (format == NSPY_FI_ADDR_EFA && bytes >= sizeof(efa)) {
		memcpy(&efa, addr, sizeof(efa));
		(void)inet_ntop(AF_INET6, efa.gid, gid, sizeof(gid));
		(void)snprintf(ret, room, "%s qp %u.%u", gid, efa.qpn, efa.qkey);
	} else {
		for (; n < bytes && n < 24 && 2 * n + 3 < room; n++)
			(void)snprintf(ret + 2 * n, room - 2 * n, "%02x",
				       ((const uint8_t *)addr)[n]);
	}
}

/* --- polls --- */

struct nspy_poll_cell *nspy_poll_cell_get(struct nspy_rail *rail)
{
	for (uint32_t i = 0; i < NSPY_POLL_CELLS; i++) {
		struct nspy_poll_cell *cell = &nspy_traffic->cells[i];
		uint32_t nobody = 0, theirs = 0;

		/* A cell keeps its rail, so that what it has counted stays right. */
		(void)atomic_compare_exchange_strong(&cell->rail, &nobody, rail->id + 1);
		if (atomic_load(&cell->rail) == rail->id + 1 &&
		    atomic_compare_exchange_strong(&cell->used, &theirs, 1))
			return cell;
	}
	/* Shared from here on: two pollers may then count one poll for two. */
	return &nspy_traffic->cells[NSPY_POLL_CELLS - 1];
}

void nspy_poll_cell_put(struct nspy_poll_cell *cell)
{
	atomic_store(&cell->used, 0);
}
