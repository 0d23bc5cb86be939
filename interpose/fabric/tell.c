/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "tell.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "core.h"
#include "devices.h"
#include "fold.h"
#include "say.h"

#define PAUSE_NS        60000000000ull
#define MIB             ((uint64_t)1 << 20)
#define EFA_UNREACHABLE 15 /* EFA_IO_COMP_STATUS_LOCAL_ERROR_UNREACH_REMOTE */

enum topic { TOPIC_CQ, TOPIC_REACH, TOPIC_REG, TOPIC_EFA, TOPIC_TCP, TOPICS };

/* Whether this topic may speak again, and no other rank of the node has said the same. */
static bool may(enum topic topic, const char *id, const char *words)
{
	static uint64_t next[TOPICS];
	uint64_t now = nspy_monotonic_ns();

	if (now < next[topic])
		return false;
	next[topic] = now + PAUSE_NS;
	return nspy_fold_claim(id, words, now);
}

static void who(char *ret, size_t room)
{
	if (nspy_core.id.rank >= 0)
		(void)snprintf(ret, room, "rank %d (%.40s)", nspy_core.id.rank, nspy_core.id.node);
	else
		(void)snprintf(ret, room, "pid %u (%.40s)", nspy_core.id.pid, nspy_core.id.node);
}

static void tell_completion(const struct nspy_fabric_event *event, const struct nspy_peer *peer)
{
	const struct nspy_rail *rail =
		event->rail < NSPY_RAILS_MAX ? &nspy_traffic->rails[event->rail] : NULL;
	bool efa = rail && strncmp(rail->provider, "efa", 3) == 0;
	bool reach = event->error == EHOSTUNREACH || event->error == ENETUNREACH ||
		     (efa && event->provider == EFA_UNREACHABLE);
	const char *id = reach ? "FABRIC_PEER_UNREACHABLE" : "FABRIC_CQ_ERROR";
	char me[64];

	if (!may(reach ? TOPIC_REACH : TOPIC_CQ, id, event->more))
		return;
	who(me, sizeof(me));
	nspy_say(NSPY_SAY_FAIL, "%s: %s on %s: error %d, %s's own %d%s%s%s%s", id, me,
		 rail && rail->domain[0] ? rail->domain : "the network", event->error,
		 rail && rail->provider[0] ? rail->provider : "the provider", event->provider,
		 event->more[0] ? " " : "", event->more, peer && peer->name[0] ? ", peer " : "",
		 peer ? peer->name : "");
}

static void tell_registration(const struct nspy_fabric_event *event)
{
	uint64_t limit = event->values[NSPY_NET_REG_LIMIT];
	char me[64], bound[48];

	if (!may(TOPIC_REG, "RDMA_REG_MR_FAILED", event->text))
		return;
	who(me, sizeof(me));
	if (limit == NSPY_NET_UNLIMITED || event->values[NSPY_NET_REG_MAY_LOCK])
		(void)snprintf(bound, sizeof(bound), "does not hold");
	else
		(void)snprintf(bound, sizeof(bound), "is %" PRIu64 " KiB", limit / 1024);
	nspy_say(NSPY_SAY_FAIL,
		 "RDMA_REG_MR_FAILED: %s: %s of %" PRIu64 " MiB: cannot allocate memory; %" PRIu64
		 " MiB registered before; the limit of locked memory %s",
		 me, event->text, (event->values[NSPY_NET_REG_BYTES] + MIB - 1) / MIB,
		 event->values[NSPY_NET_REG_LIVE] / MIB, bound);
}

static void tell_getinfo(const struct nspy_fabric_event *event)
{
	char me[64];

	if (event->error != ENODATA || strcmp(event->text, "efa") != 0 || !nspy_device_any("efa") ||
	    !may(TOPIC_EFA, "EFA_PROVIDER_UNAVAILABLE", ""))
		return;
	who(me, sizeof(me));
	nspy_say(NSPY_SAY_FAIL,
		 "EFA_PROVIDER_UNAVAILABLE: %s: libfabric offers no EFA although the host has EFA "
		 "devices",
		 me);
}

void nspy_fabric_tell_event(const struct nspy_fabric_event *event, const struct nspy_peer *peer)
{
	switch ((enum nspy_net_event_kind)event->what) {
	case NSPY_NET_CQ_ERROR:
	case NSPY_NET_POST_FAILED:
		tell_completion(event, peer);
		break;
	case NSPY_NET_REG_FAILED:
		tell_registration(event);
		break;
	case NSPY_NET_GETINFO:
		tell_getinfo(event);
		break;
	default:
		break;
	}
}

static bool is_rdma(const char *provider)
{
	return strstr(provider, "efa") || strstr(provider, "verbs");
}

static bool is_socket(const char *provider)
{
	return strstr(provider, "tcp") || strstr(provider, "sockets") || strstr(provider, "udp") ||
	       strcmp(provider, "net") == 0;
}

void nspy_tell_rails(void)
{
	const char *name = NULL;
	char me[64];

	/* On one node nothing crosses the network. */
	if (!nspy_device_any(NULL) || nspy_core.id.local_world_size <= 0 ||
	    nspy_core.id.world_size <= nspy_core.id.local_world_size)
		return;
	for (uint32_t i = 0; i < NSPY_RAILS_MAX; i++) {
		const struct nspy_rail *rail = &nspy_traffic->rails[i];

		if (atomic_load_explicit(&rail->state, memory_order_acquire) != 2)
			continue;
		if (is_rdma(rail->provider))
			return;
		if (is_socket(rail->provider))
			name = rail->provider;
	}
	if (!name || !may(TOPIC_TCP, "TCP_FALLBACK", name))
		return;
	who(me, sizeof(me));
	nspy_say(NSPY_SAY_FAIL,
		 "TCP_FALLBACK (probable): %s opened libfabric's provider %s although the host has "
		 "RDMA devices",
		 me, name);
}
