/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "trace_net.h"

/* Each record: u8 kind, u32 bytes that follow, then the fields. */
#define HEAD_BYTES 5u

static struct nspy_put begin(const struct nspy_net_buffer *b)
{
	uint8_t *end = b->data + b->capacity;
	size_t left = b->capacity - b->used;

	if (left < HEAD_BYTES)
		return (struct nspy_put){end, end, true};
	return (struct nspy_put){b->data + b->used + HEAD_BYTES, end, false};
}

static int finish(struct nspy_net_buffer *b, const struct nspy_put *w, enum nspy_net_kind kind)
{
	uint8_t *head = b->data + b->used;

	if (w->bad)
		return -ENOBUFS;
	head[0] = (uint8_t)kind;
	nspy_le32_store(head + 1, (uint32_t)((size_t)(w->at - head) - HEAD_BYTES));
	b->used = (size_t)(w->at - b->data);
	return 0;
}

/* Not inline: gcc 12 warns of a store that cannot happen. */
static __attribute__((noinline)) void put_length(struct nspy_put *w, size_t bytes)
{
	nspy_put_varint(w, bytes);
}

static void put_text(struct nspy_put *w, const struct nspy_net_text *text)
{
	size_t bytes = text->bytes < NSPY_NET_TEXT_MAX ? text->bytes : NSPY_NET_TEXT_MAX;

	put_length(w, bytes);
	if (bytes)
		nspy_put_copy(w, text->text, bytes);
}

int nspy_net_put_rail(struct nspy_net_buffer *b, const struct nspy_net_rail *rail)
{
	struct nspy_put w = begin(b);

	nspy_put_varint(&w, rail->id);
	nspy_put_varint(&w, rail->sight);
	nspy_put_varint(&w, rail->domains);
	nspy_put_varint(&w, rail->speed);
	put_text(&w, &rail->provider);
	put_text(&w, &rail->fabric);
	put_text(&w, &rail->domain);
	put_text(&w, &rail->nic);
	put_text(&w, &rail->address);
	return finish(b, &w, NSPY_NET_RAIL);
}

int nspy_net_put_peer(struct nspy_net_buffer *b, const struct nspy_net_peer *peer)
{
	struct nspy_put w = begin(b);

	nspy_put_varint(&w, peer->id);
	nspy_put_varint(&w, peer->rail);
	nspy_put_varint(&w, peer->role);
	put_text(&w, &peer->address);
	return finish(b, &w, NSPY_NET_PEER);
}

int nspy_net_put_event(struct nspy_net_buffer *b, const struct nspy_net_event *event)
{
	struct nspy_put w = begin(b);
	uint32_t count =
		event->value_count < NSPY_NET_VALUES_MAX ? event->value_count : NSPY_NET_VALUES_MAX;

	nspy_put_varint(&w, event->when_ns);
	nspy_put_varint(&w, event->what);
	nspy_put_varint(&w, event->rail);
	nspy_put_varint(&w, event->peer);
	nspy_put_varint(&w, nspy_zigzag(event->error));
	nspy_put_varint(&w, nspy_zigzag(event->provider));
	nspy_put_varint(&w, count);
	for (uint32_t i = 0; i < count; i++)
		nspy_put_varint(&w, event->values[i]);
	put_text(&w, &event->text);
	put_text(&w, &event->more);
	return finish(b, &w, NSPY_NET_EVENT);
}

int nspy_net_put_memory(struct nspy_net_buffer *b, const struct nspy_net_memory *memory)
{
	struct nspy_put w = begin(b);

	nspy_put_varint(&w, memory->when_ns);
	nspy_put_varint(&w, memory->layer);
	nspy_put_varint(&w, memory->registrations);
	nspy_put_varint(&w, memory->bytes);
	nspy_put_varint(&w, memory->live);
	nspy_put_varint(&w, memory->live_bytes);
	nspy_put_varint(&w, memory->failures);
	nspy_put_varint(&w, memory->no_memory);
	nspy_put_varint(&w, memory->largest);
	nspy_put_varint(&w, memory->largest_since);
	return finish(b, &w, NSPY_NET_MEMORY);
}

int nspy_net_put_device(struct nspy_net_buffer *b, const struct nspy_net_device *device)
{
	struct nspy_put w = begin(b);

	put_text(&w, &device->name);
	put_text(&w, &device->driver);
	put_text(&w, &device->state);
	return finish(b, &w, NSPY_NET_DEVICE);
}

int nspy_net_put_second(struct nspy_net_buffer *b, const struct nspy_net_second *second)
{
	struct nspy_put w = begin(b);
	size_t at = b->used;
	int rc;

	nspy_put_varint(&w, second->when_ns);
	nspy_put_varint(&w, second->span_ns);
	nspy_put_varint(&w, NSPY_NET_COUNTER_COUNT);
	rc = finish(b, &w, NSPY_NET_SECOND);
	if (rc == 0)
		b->open = at;
	return rc;
}

int nspy_net_put_row(struct nspy_net_buffer *b, const struct nspy_net_row *row)
{
	struct nspy_put w = {b->data + b->used, b->data + b->capacity, false};
	uint8_t *head = b->data + b->open;

	nspy_put_varint(&w, row->peer);
	for (int i = 0; i < NSPY_NET_COUNTER_COUNT; i++)
		nspy_put_varint(&w, row->counter[i]);
	if (w.bad)
		return -ENOBUFS;
	b->used = (size_t)(w.at - b->data);
	nspy_le32_store(head + 1, (uint32_t)((size_t)(w.at - head) - HEAD_BYTES));
	return 0;
}
