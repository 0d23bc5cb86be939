/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "trace_net.h"

#define COUNTERS_MAX 256u /* a newer version may have more than we know */

static struct nspy_net_text get_text(struct nspy_get *g)
{
	size_t bytes = nspy_get_limited(g, NSPY_NET_TEXT_MAX);
	const uint8_t *text = nspy_get_bytes(g, bytes);

	return (struct nspy_net_text){(const char *)text, text ? bytes : 0};
}

static uint32_t get_u32(struct nspy_get *g)
{
	return (uint32_t)nspy_get_limited(g, UINT32_MAX);
}

static int32_t get_i32(struct nspy_get *g)
{
	return (int32_t)nspy_unzigzag(nspy_get_limited(g, UINT32_MAX));
}

static void get_rail(struct nspy_get *g, struct nspy_net_rail *rail)
{
	rail->id = get_u32(g);
	rail->sight = get_u32(g);
	rail->domains = get_u32(g);
	rail->speed = nspy_get_varint(g);
	rail->provider = get_text(g);
	rail->fabric = get_text(g);
	rail->domain = get_text(g);
	rail->nic = get_text(g);
	rail->address = get_text(g);
}

static void get_peer(struct nspy_get *g, struct nspy_net_peer *peer)
{
	peer->id = get_u32(g);
	peer->rail = get_u32(g);
	peer->role = get_u32(g);
	peer->address = get_text(g);
}

static void get_event(struct nspy_get *g, struct nspy_net_event *event)
{
	*event = (struct nspy_net_event){.when_ns = nspy_get_varint(g)};
	event->what = get_u32(g);
	event->rail = get_u32(g);
	event->peer = get_u32(g);
	event->error = get_i32(g);
	event->provider = get_i32(g);
	event->value_count = (uint32_t)nspy_get_limited(g, NSPY_NET_VALUES_MAX);
	for (uint32_t i = 0; i < event->value_count; i++)
		event->values[i] = nspy_get_varint(g);
	event->text = get_text(g);
	event->more = get_text(g);
}

static void get_memory(struct nspy_get *g, struct nspy_net_memory *memory)
{
	memory->when_ns = nspy_get_varint(g);
	memory->layer = get_u32(g);
	memory->registrations = nspy_get_varint(g);
	memory->bytes = nspy_get_varint(g);
	memory->live = nspy_get_varint(g);
	memory->live_bytes = nspy_get_varint(g);
	memory->failures = nspy_get_varint(g);
	memory->no_memory = nspy_get_varint(g);
	memory->largest = nspy_get_varint(g);
	memory->largest_since = nspy_get_varint(g);
}

static void get_device(struct nspy_get *g, struct nspy_net_device *device)
{
	device->name = get_text(g);
	device->driver = get_text(g);
	device->state = get_text(g);
}

static void get_second(struct nspy_get *g, struct nspy_net_second *second)
{
	second->when_ns = nspy_get_varint(g);
	second->span_ns = nspy_get_varint(g);
	second->width = (uint32_t)nspy_get_limited(g, COUNTERS_MAX);
	second->rows = *g;
}

int nspy_net_next(const uint8_t *payload, size_t bytes, size_t *cursor, struct nspy_net_record *ret)
{
	struct nspy_net_record record = {0};
	struct nspy_get g, body;
	const uint8_t *head, *data;
	size_t length;

	if (*cursor >= bytes)
		return -ENODATA;
	g = (struct nspy_get){payload + *cursor, payload + bytes, false};
	head = nspy_get_bytes(&g, 5);
	length = head ? nspy_le32_load(head + 1) : 0;
	data = nspy_get_bytes(&g, length);
	if (!head || !data)
		return -EBADMSG;
	body = (struct nspy_get){data, data + length, false};
	record.kind = head[0];
	switch (record.kind) {
	case NSPY_NET_RAIL:
		get_rail(&body, &record.rail);
		break;
	case NSPY_NET_PEER:
		get_peer(&body, &record.peer);
		break;
	case NSPY_NET_SECOND:
		get_second(&body, &record.second);
		break;
	case NSPY_NET_EVENT:
		get_event(&body, &record.event);
		break;
	case NSPY_NET_MEMORY:
		get_memory(&body, &record.memory);
		break;
	case NSPY_NET_DEVICE:
		get_device(&body, &record.device);
		break;
	default:
		break;
	}
	if (body.bad)
		return -EBADMSG;
	*cursor = (size_t)(g.at - payload);
	*ret = record;
	return 0;
}

int nspy_net_next_row(struct nspy_net_second *second, struct nspy_net_row *ret)
{
	struct nspy_get *g = &second->rows;
	struct nspy_net_row row = {0};

	if (nspy_get_left(g) == 0)
		return -ENODATA;
	row.peer = get_u32(g);
	for (uint32_t i = 0; i < second->width; i++) {
		uint64_t value = nspy_get_varint(g);

		if (i < NSPY_NET_COUNTER_COUNT)
			row.counter[i] = value;
	}
	if (g->bad)
		return -EBADMSG;
	*ret = row;
	return 0;
}
