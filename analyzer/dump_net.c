/* SPDX-License-Identifier: Apache-2.0 */
/* NET chunks, record by record. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>

#include "dump.h"
#include "net.h"
#include "text.h"

static void add_text(struct nspy_str *s, cJSON *object, const char *name, struct nspy_net_text text)
{
	char *copy = nspy_xstrndup(text.text ? text.text : "", text.bytes);

	nspy_clean(copy);
	if (copy[0])
		nspy_str_addf(s, " %s=%s", name, copy);
	cJSON_AddStringToObject(object, name, copy);
	free(copy);
}

static void add_number(struct nspy_str *s, cJSON *object, const char *name, uint64_t value)
{
	nspy_str_addf(s, " %s=%" PRIu64, name, value);
	cJSON_AddNumberToObject(object, name, (double)value);
}

static void dump_rail(const struct nspy_dump *dump, const struct nspy_proc *proc, uint64_t when,
		      const struct nspy_net_rail *rail)
{
	struct nspy_str s = {0};
	cJSON *object = nspy_dump_start(proc, "rail", when, &s);

	add_number(&s, object, "id", rail->id);
	add_text(&s, object, "provider", rail->provider);
	add_text(&s, object, "fabric", rail->fabric);
	add_text(&s, object, "domain", rail->domain);
	add_text(&s, object, "nic", rail->nic);
	add_text(&s, object, "address", rail->address);
	add_number(&s, object, "domains", rail->domains);
	add_number(&s, object, "bits_per_s", rail->speed);
	nspy_str_addf(&s, " %s", nspy_net_sight_name(rail->sight));
	cJSON_AddStringToObject(object, "sight", nspy_net_sight_name(rail->sight));
	nspy_dump_put(dump, &s, object);
}

static void dump_peer(const struct nspy_dump *dump, const struct nspy_proc *proc, uint64_t when,
		      const struct nspy_net_peer *peer)
{
	static const char *const roles[] = {"known", "any", "other"};
	struct nspy_str s = {0};
	cJSON *object = nspy_dump_start(proc, "peer", when, &s);
	const char *role = peer->role < nspy_array_size(roles) ? roles[peer->role] : "unknown";

	add_number(&s, object, "id", peer->id);
	add_number(&s, object, "rail", peer->rail);
	nspy_str_addf(&s, " %s", role);
	cJSON_AddStringToObject(object, "role", role);
	add_text(&s, object, "address", peer->address);
	nspy_dump_put(dump, &s, object);
}

static void dump_second(const struct nspy_dump *dump, const struct nspy_proc *proc,
			struct nspy_net_second *second)
{
	struct nspy_net_row row;

	while (nspy_net_next_row(second, &row) == 0) {
		struct nspy_str s = {0};
		cJSON *object = nspy_dump_start(proc, "traffic", second->when_ns, &s);

		add_number(&s, object, "span_ns", second->span_ns);
		add_number(&s, object, "peer", row.peer);
		for (int i = 0; i < NSPY_NET_COUNTER_COUNT; i++)
			add_number(&s, object, nspy_net_counter_name((enum nspy_net_counter)i),
				   row.counter[i]);
		nspy_dump_put(dump, &s, object);
	}
}

static void dump_event(const struct nspy_dump *dump, const struct nspy_proc *proc,
		       const struct nspy_net_event *event)
{
	struct nspy_str s = {0};
	cJSON *object = nspy_dump_start(proc, "net_event", event->when_ns, &s);
	cJSON *values = cJSON_CreateArray();

	nspy_str_addf(&s, " %s error=%" PRId32 " provider_error=%" PRId32,
		      nspy_net_event_name(event->what), event->error, event->provider);
	cJSON_AddStringToObject(object, "event", nspy_net_event_name(event->what));
	cJSON_AddNumberToObject(object, "error", event->error);
	cJSON_AddNumberToObject(object, "provider_error", event->provider);
	if (event->rail != NSPY_NET_NONE)
		add_number(&s, object, "rail", event->rail);
	if (event->peer != NSPY_NET_NONE)
		add_number(&s, object, "peer", event->peer);
	add_text(&s, object, "text", event->text);
	add_text(&s, object, "more", event->more);
	for (uint32_t i = 0; i < event->value_count; i++) {
		nspy_str_addf(&s, " %" PRIu64, event->values[i]);
		cJSON_AddItemToArray(values, cJSON_CreateNumber((double)event->values[i]));
	}
	cJSON_AddItemToObject(object, "values", values);
	nspy_dump_put(dump, &s, object);
}

static void dump_memory(const struct nspy_dump *dump, const struct nspy_proc *proc,
			const struct nspy_net_memory *memory)
{
	struct nspy_str s = {0};
	cJSON *object = nspy_dump_start(proc, "memory", memory->when_ns, &s);
	const char *layer = memory->layer == NSPY_NET_VERBS ? "verbs" : "libfabric";

	nspy_str_addf(&s, " %s", layer);
	cJSON_AddStringToObject(object, "layer", layer);
	add_number(&s, object, "registrations", memory->registrations);
	add_number(&s, object, "bytes", memory->bytes);
	add_number(&s, object, "live", memory->live);
	add_number(&s, object, "live_bytes", memory->live_bytes);
	add_number(&s, object, "failures", memory->failures);
	add_number(&s, object, "no_memory", memory->no_memory);
	add_number(&s, object, "largest", memory->largest);
	nspy_dump_put(dump, &s, object);
}

static void dump_device(const struct nspy_dump *dump, const struct nspy_proc *proc, uint64_t when,
			const struct nspy_net_device *device)
{
	struct nspy_str s = {0};
	cJSON *object = nspy_dump_start(proc, "device", when, &s);

	add_text(&s, object, "name", device->name);
	add_text(&s, object, "driver", device->driver);
	add_text(&s, object, "state", device->state);
	nspy_dump_put(dump, &s, object);
}

void nspy_dump_net(const struct nspy_dump *dump, const struct nspy_proc *proc, uint64_t when_ns,
		   const uint8_t *payload, size_t bytes)
{
	struct nspy_net_record record;
	size_t cursor = 0;

	while (!dump->comm_key && nspy_net_next(payload, bytes, &cursor, &record) == 0) {
		switch (record.kind) {
		case NSPY_NET_RAIL:
			dump_rail(dump, proc, when_ns, &record.rail);
			break;
		case NSPY_NET_PEER:
			dump_peer(dump, proc, when_ns, &record.peer);
			break;
		case NSPY_NET_SECOND:
			dump_second(dump, proc, &record.second);
			break;
		case NSPY_NET_EVENT:
			dump_event(dump, proc, &record.event);
			break;
		case NSPY_NET_MEMORY:
			dump_memory(dump, proc, &record.memory);
			break;
		case NSPY_NET_DEVICE:
			dump_device(dump, proc, when_ns, &record.device);
			break;
		default:
			break;
		}
	}
}
