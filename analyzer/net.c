/* SPDX-License-Identifier: Apache-2.0 */
#include "net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "util.h"

static char *copy_text(struct nspy_net_text text)
{
	char *copy = nspy_xstrndup(text.text ? text.text : "", text.bytes);

	nspy_clean(copy);
	return copy;
}

static void set_text(char **place, struct nspy_net_text text)
{
	free(*place);
	*place = copy_text(text);
}

/* --- ingest --- */

static void take_rail(struct nspy_net_view *net, const struct nspy_net_rail *rail)
{
	struct nspy_net_rail_view *view;

	if (rail->id >= NSPY_NET_RAILS_KEPT)
		return;
	if (rail->id >= net->rail_count) {
		net->rails = nspy_xrealloc(net->rails, rail->id + 1, sizeof(*net->rails));
		memset(net->rails + net->rail_count, 0,
		       (rail->id + 1 - net->rail_count) * sizeof(*net->rails));
		net->rail_count = rail->id + 1;
	}
	view = &net->rails[rail->id];
	view->known = true;
	view->sight = rail->sight;
	view->speed = rail->speed;
	set_text(&view->provider, rail->provider);
	set_text(&view->fabric, rail->fabric);
	set_text(&view->domain, rail->domain);
	set_text(&view->nic, rail->nic);
	set_text(&view->address, rail->address);
}

static void take_peer(struct nspy_net_view *net, const struct nspy_net_peer *peer)
{
	struct nspy_net_peer_view *view;

	if (peer->id >= NSPY_NET_PEERS_KEPT)
		return;
	if (peer->id >= net->peer_count) {
		net->peers = nspy_xrealloc(net->peers, peer->id + 1,
					   sizeof(struct nspy_net_peer_view *));
		memset(net->peers + net->peer_count, 0,
		       (peer->id + 1 - net->peer_count) * sizeof(struct nspy_net_peer_view *));
		net->peer_count = peer->id + 1;
	}
	if (!net->peers[peer->id])
		net->peers[peer->id] = nspy_xcalloc(1, sizeof(*view));
	view = net->peers[peer->id];
	view->rail = peer->rail;
	view->role = peer->role;
	set_text(&view->address, peer->address);
}

static void add_counters(uint64_t *sums, const uint64_t *more)
{
	for (int i = 0; i < NSPY_NET_COUNTER_COUNT; i++) {
		if (i != NSPY_NET_TIME_MAX)
			sums[i] += more[i];
		else if (sums[i] < more[i])
			sums[i] = more[i];
	}
}

uint64_t nspy_net_bytes(const uint64_t *counter)
{
	return counter[NSPY_NET_SEND_BYTES] + counter[NSPY_NET_WRITE_BYTES] +
	       counter[NSPY_NET_READ_BYTES];
}

uint64_t nspy_net_operations(const uint64_t *counter)
{
	return counter[NSPY_NET_SENDS] + counter[NSPY_NET_WRITES] + counter[NSPY_NET_READS];
}

static void rate_rails(struct nspy_net_view *net, const uint64_t *bytes, uint64_t span_ns)
{
	for (size_t i = 0; i < net->rail_count; i++) {
		double rate = span_ns ? (double)bytes[i] * 1e9 / (double)span_ns : 0;

		if (!bytes[i])
			continue;
		net->rails[i].busy_ns += span_ns;
		if (rate > net->rails[i].peak)
			net->rails[i].peak = rate;
	}
}

static int take_second(struct nspy_net_view *net, struct nspy_net_second *second)
{
	uint64_t bytes[NSPY_NET_RAILS_KEPT] = {0};
	struct nspy_net_row row;
	int rc;

	while ((rc = nspy_net_next_row(second, &row)) == 0) {
		struct nspy_net_peer_view *peer =
			row.peer < net->peer_count ? net->peers[row.peer] : NULL;

		if (!peer)
			continue;
		add_counters(peer->counter, row.counter);
		if (!nspy_net_bytes(row.counter))
			continue;
		peer->busy_ns += second->span_ns;
		if (peer->rail < net->rail_count)
			bytes[peer->rail] += nspy_net_bytes(row.counter);
	}
	rate_rails(net, bytes, second->span_ns);
	return rc == -ENODATA ? 0 : rc;
}

static void take_event(struct nspy_net_view *net, const struct nspy_net_event *event,
		       int64_t offset)
{
	struct nspy_net_event_view *view;

	if (net->event_count >= NSPY_NET_EVENTS_KEPT)
		return;
	net->events = nspy_grow(net->events, net->event_count, &net->event_capacity,
				sizeof(*net->events));
	view = &net->events[net->event_count++];
	*view = (struct nspy_net_event_view){
		.when_ns = event->when_ns + (uint64_t)offset,
		.what = event->what,
		.rail = event->rail,
		.peer = event->peer,
		.error = event->error,
		.provider = event->provider,
		.text = copy_text(event->text),
		.more = copy_text(event->more),
	};
	memcpy(view->value, event->values, sizeof(view->value));
}

/* Every chunk names them all: the latest state of each counts. */
static void take_device(struct nspy_net_view *net, const struct nspy_net_device *device)
{
	struct nspy_net_device_view *view = NULL;

	for (size_t i = 0; i < net->device_count && !view; i++) {
		if (strlen(net->devices[i].name) == device->name.bytes &&
		    memcmp(net->devices[i].name, device->name.text, device->name.bytes) == 0)
			view = &net->devices[i];
	}
	if (!view && net->device_count < NSPY_NET_DEVICES_KEPT) {
		net->devices = nspy_grow(net->devices, net->device_count, &net->device_capacity,
					 sizeof(*net->devices));
		view = &net->devices[net->device_count++];
		*view = (struct nspy_net_device_view){0};
	}
	if (!view)
		return;
	set_text(&view->name, device->name);
	set_text(&view->driver, device->driver);
	set_text(&view->state, device->state);
}

static void sum_rails(struct nspy_net_view *net)
{
	for (size_t i = 0; i < net->rail_count; i++)
		memset(net->rails[i].counter, 0, sizeof(net->rails[i].counter));
	for (size_t i = 0; i < net->peer_count; i++) {
		const struct nspy_net_peer_view *peer = net->peers[i];

		if (peer && peer->rail < net->rail_count)
			add_counters(net->rails[peer->rail].counter, peer->counter);
	}
}

int nspy_net_ingest(struct nspy_net_view *net, const uint8_t *payload, size_t bytes, int64_t offset)
{
	struct nspy_net_record record;
	size_t cursor = 0;
	int rc;

	while ((rc = nspy_net_next(payload, bytes, &cursor, &record)) == 0) {
		switch (record.kind) {
		case NSPY_NET_RAIL:
			take_rail(net, &record.rail);
			break;
		case NSPY_NET_PEER:
			take_peer(net, &record.peer);
			break;
		case NSPY_NET_SECOND:
			rc = take_second(net, &record.second);
			break;
		case NSPY_NET_EVENT:
			take_event(net, &record.event, offset);
			break;
		case NSPY_NET_MEMORY:
			if (record.memory.layer < NSPY_NET_LAYER_COUNT)
				net->memory[record.memory.layer] = record.memory;
			break;
		case NSPY_NET_DEVICE:
			take_device(net, &record.device);
			break;
		default: /* of a newer version */
			break;
		}
		if (rc < 0)
			break;
	}
	sum_rails(net);
	return rc == -ENODATA ? 0 : rc;
}

void nspy_net_done(struct nspy_net_view *net)
{
	for (size_t i = 0; i < net->rail_count; i++) {
		free(net->rails[i].provider);
		free(net->rails[i].fabric);
		free(net->rails[i].domain);
		free(net->rails[i].nic);
		free(net->rails[i].address);
	}
	free(net->rails);
	for (size_t i = 0; i < net->peer_count; i++) {
		if (net->peers[i])
			free(net->peers[i]->address);
		free(net->peers[i]);
	}
	free(net->peers);
	for (size_t i = 0; i < net->event_count; i++) {
		free(net->events[i].text);
		free(net->events[i].more);
	}
	free(net->events);
	for (size_t i = 0; i < net->device_count; i++) {
		free(net->devices[i].name);
		free(net->devices[i].driver);
		free(net->devices[i].state);
	}
	free(net->devices);
	*net = (struct nspy_net_view){0};
}

/* --- looking up --- */

const struct nspy_net_rail_view *nspy_net_rail(const struct nspy_net_view *net, uint32_t id)
{
	return id < net->rail_count && net->rails[id].known ? &net->rails[id] : NULL;
}

const struct nspy_net_peer_view *nspy_net_peer(const struct nspy_net_view *net, uint32_t id)
{
	return id < net->peer_count ? net->peers[id] : NULL;
}

bool nspy_net_has_device(const struct nspy_net_view *net, const char *driver)
{
	for (size_t i = 0; i < net->device_count; i++) {
		if (!driver || strncmp(net->devices[i].driver, driver, strlen(driver)) == 0)
			return true;
	}
	return false;
}

bool nspy_net_is(const char *provider, const char *part)
{
	size_t bytes = strlen(part);

	while (*provider) {
		size_t here = strcspn(provider, ";");

		if (here == bytes && memcmp(provider, part, bytes) == 0)
			return true;
		provider += here + (provider[here] == ';');
	}
	return false;
}

bool nspy_net_is_socket(const char *provider)
{
	return nspy_net_is(provider, "tcp") || nspy_net_is(provider, "sockets") ||
	       nspy_net_is(provider, "udp") || nspy_net_is(provider, "net");
}

bool nspy_net_is_rdma(const char *provider)
{
	return nspy_net_is(provider, "efa") || nspy_net_is(provider, "efa-direct") ||
	       nspy_net_is(provider, "verbs");
}
