/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of fields are those of perfetto's protos/perfetto/trace. */
#include "perfetto.h"

#include <string.h>

#include "pb.h"

enum { TRACE_PACKET = 1 };
enum {
	PACKET_CLOCK_SNAPSHOT = 6,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_FLAGS = 13,
	PACKET_TRACK_DESCRIPTOR = 60,
};
enum { FLAG_CLEARED = 1, FLAG_NEEDS_INTERNED = 2 };
enum {
	EVENT_CATEGORY_IID = 3,
	EVENT_ARG = 4,
	EVENT_TYPE = 9,
	EVENT_NAME_IID = 10,
	EVENT_TRACK = 11,
	EVENT_NAME = 23,
	EVENT_VALUE = 44,
	EVENT_FLOW = 47,
};
enum { ARG_NAME_IID = 1, ARG_INT = 4, ARG_TEXT = 6 };
enum { INTERNED_CATEGORIES = 1, INTERNED_NAMES = 2, INTERNED_ARGS = 3 };
enum { TRACK_UUID = 1, TRACK_NAME, TRACK_PROCESS, TRACK_PARENT = 5, TRACK_COUNTER = 8 };
enum { TRACK_DESCRIPTION = 14 };
enum { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum { COUNTER_UNIT_NAME = 6 };
enum { SNAPSHOT_CLOCK = 1, CLOCK_ID = 1, CLOCK_TIME = 2 };
enum { CLOCK_IS_REALTIME = 1, CLOCK_IS_BOOTTIME = 6 };

#define SEQUENCE        1u
#define END_BYTES       40u /* more than any end of a slice takes */
#define NAME_OF_FN(fn)  ((uint64_t)(fn) + 1)
#define PACKET_HEAD_MAX 16u

static const char *const categories[NSPY_CATEGORY_END] = {
	[NSPY_CATEGORY_NCCL] = "nccl",       [NSPY_CATEGORY_WAIT] = "wait",
	[NSPY_CATEGORY_HOST] = "host",       [NSPY_CATEGORY_OPERATION] = "operation",
	[NSPY_CATEGORY_ARRIVAL] = "arrival", [NSPY_CATEGORY_PROFILER] = "profiler",
	[NSPY_CATEGORY_FINDING] = "finding",
};

static const char *const arg_names[NSPY_ARG_END] = {
	[NSPY_ARG_COMM] = "communicator",
	[NSPY_ARG_SEQ] = "seq",
	[NSPY_ARG_PEER] = "peer",
	[NSPY_ARG_BYTES] = "bytes",
	[NSPY_ARG_RESULT] = "result",
	[NSPY_ARG_OPEN] = "never_returned",
	[NSPY_ARG_CAPTURED] = "captured",
	[NSPY_ARG_ARRIVED] = "arrived",
	[NSPY_ARG_LAST_RANK] = "last_rank",
	[NSPY_ARG_SOURCE] = "source",
	[NSPY_ARG_EXACT_NS] = "exact_gpu_ns",
	[NSPY_ARG_CHANNELS] = "channels",
	[NSPY_ARG_PRIORITY] = "priority",
	[NSPY_ARG_SUMMARY] = "summary",
	[NSPY_ARG_CULPRITS] = "culprits",
	[NSPY_ARG_REFERENCE] = "reference",
};

static void write_packet(struct nspy_perfetto *p, const struct nspy_pb *packet)
{
	uint8_t key = TRACE_PACKET << 3 | 2, length[PACKET_HEAD_MAX];
	size_t used = 0, bytes = packet->used;

	length[used++] = key;
	for (; bytes >= 0x80; bytes >>= 7)
		length[used++] = (uint8_t)(bytes | 0x80);
	length[used++] = (uint8_t)bytes;
	(void)fwrite(length, 1, used, p->out);
	(void)fwrite(packet->data, 1, packet->used, p->out);
	p->bytes += used + packet->used;
}

static void begin_packet(struct nspy_pb *packet, unsigned int flags)
{
	nspy_pb_init(packet);
	nspy_pb_number(packet, PACKET_SEQUENCE, SEQUENCE);
	nspy_pb_number(packet, PACKET_FLAGS, flags);
}

static void intern(struct nspy_pb *interned, unsigned int field, uint64_t iid, const char *name)
{
	struct nspy_pb entry;

	nspy_pb_init(&entry);
	nspy_pb_number(&entry, 1, iid);
	nspy_pb_text(&entry, 2, name);
	nspy_pb_message(interned, field, &entry);
}

static void put_clock(struct nspy_pb *snapshot, unsigned int id, uint64_t ns)
{
	struct nspy_pb clock;

	nspy_pb_init(&clock);
	nspy_pb_number(&clock, CLOCK_ID, id);
	nspy_pb_number(&clock, CLOCK_TIME, ns);
	nspy_pb_message(snapshot, SNAPSHOT_CLOCK, &clock);
}

void nspy_perfetto_begin(struct nspy_perfetto *p, FILE *out, const struct nspy_model *model,
			 uint64_t start_ns)
{
	struct nspy_pb packet, inner;

	p->out = out;
	/* The format's own clock is taken for the wall clock, so that a viewer can show UTC. */
	nspy_pb_init(&inner);
	put_clock(&inner, CLOCK_IS_BOOTTIME, start_ns);
	put_clock(&inner, CLOCK_IS_REALTIME, start_ns);
	begin_packet(&packet, FLAG_CLEARED);
	nspy_pb_message(&packet, PACKET_CLOCK_SNAPSHOT, &inner);
	write_packet(p, &packet);

	nspy_pb_init(&inner);
	for (unsigned int i = 1; i < NSPY_CATEGORY_END; i++)
		intern(&inner, INTERNED_CATEGORIES, i, categories[i]);
	for (unsigned int i = 1; i < NSPY_ARG_END; i++)
		intern(&inner, INTERNED_ARGS, i, arg_names[i]);
	begin_packet(&packet, FLAG_NEEDS_INTERNED);
	nspy_pb_message(&packet, PACKET_INTERNED, &inner);
	write_packet(p, &packet);

	for (size_t i = 0; i < model->fn_count; i++) {
		const char *name = model->fns[i].name;

		nspy_pb_init(&inner);
		intern(&inner, INTERNED_NAMES, NAME_OF_FN(i), name ? name : "unknown call");
		begin_packet(&packet, FLAG_NEEDS_INTERNED);
		nspy_pb_message(&packet, PACKET_INTERNED, &inner);
		write_packet(p, &packet);
	}
}

/* --- tracks --- */

static uint64_t begin_track(struct nspy_perfetto *p, struct nspy_pb *track, uint64_t parent,
			    const char *name, const char *description)
{
	nspy_pb_init(track);
	nspy_pb_number(track, TRACK_UUID, ++p->tracks);
	nspy_pb_text(track, TRACK_NAME, name);
	if (parent)
		nspy_pb_number(track, TRACK_PARENT, parent);
	if (description)
		nspy_pb_text(track, TRACK_DESCRIPTION, description);
	return p->tracks;
}

static void write_track(struct nspy_perfetto *p, const struct nspy_pb *track)
{
	struct nspy_pb packet;

	begin_packet(&packet, FLAG_NEEDS_INTERNED);
	nspy_pb_message(&packet, PACKET_TRACK_DESCRIPTOR, track);
	write_packet(p, &packet);
}

uint64_t nspy_perfetto_track(struct nspy_perfetto *p, uint64_t parent, const char *name,
			     const char *description)
{
	struct nspy_pb track;
	uint64_t id = begin_track(p, &track, parent, name, description);

	write_track(p, &track);
	return id;
}

uint64_t nspy_perfetto_process(struct nspy_perfetto *p, uint64_t pid, const char *name,
			       const char *description)
{
	struct nspy_pb track, process;
	uint64_t id = begin_track(p, &track, 0, name, description);

	nspy_pb_init(&process);
	nspy_pb_number(&process, PROCESS_PID, pid);
	nspy_pb_text(&process, PROCESS_NAME, name);
	nspy_pb_message(&track, TRACK_PROCESS, &process);
	write_track(p, &track);
	return id;
}

uint64_t nspy_perfetto_counter(struct nspy_perfetto *p, uint64_t parent, const char *name,
			       const char *unit)
{
	struct nspy_pb track, counter;
	uint64_t id = begin_track(p, &track, parent, name, NULL);

	nspy_pb_init(&counter);
	nspy_pb_text(&counter, COUNTER_UNIT_NAME, unit);
	nspy_pb_message(&track, TRACK_COUNTER, &counter);
	write_track(p, &track);
	return id;
}

/* --- events --- */

void nspy_perfetto_arg(struct nspy_perfetto_event *event, enum nspy_perfetto_arg_name name,
		       int64_t number)
{
	if (event->arg_count < NSPY_PERFETTO_ARGS_MAX)
		event->args[event->arg_count++] =
			(struct nspy_perfetto_arg){.name = name, .number = number};
}

void nspy_perfetto_text(struct nspy_perfetto_event *event, enum nspy_perfetto_arg_name name,
			const char *text)
{
	if (event->arg_count < NSPY_PERFETTO_ARGS_MAX)
		event->args[event->arg_count++] =
			(struct nspy_perfetto_arg){.name = name, .text = text};
}

static void put_args(struct nspy_pb *inner, const struct nspy_perfetto_event *event)
{
	for (size_t i = 0; i < event->arg_count; i++) {
		const struct nspy_perfetto_arg *arg = &event->args[i];
		struct nspy_pb note;

		nspy_pb_init(&note);
		nspy_pb_number(&note, ARG_NAME_IID, arg->name);
		if (arg->text)
			nspy_pb_text(&note, ARG_TEXT, arg->text);
		else
			nspy_pb_number(&note, ARG_INT, (uint64_t)arg->number);
		nspy_pb_message(inner, EVENT_ARG, &note);
	}
}

static void make_event(struct nspy_pb *packet, const struct nspy_perfetto_event *event)
{
	struct nspy_pb inner;
	uint64_t bits;

	nspy_pb_init(&inner);
	nspy_pb_number(&inner, EVENT_TYPE, event->type);
	nspy_pb_number(&inner, EVENT_TRACK, event->track);
	if (event->category)
		nspy_pb_number(&inner, EVENT_CATEGORY_IID, event->category);
	if (event->name)
		nspy_pb_text(&inner, EVENT_NAME, event->name);
	else if (event->type == NSPY_PERFETTO_BEGIN)
		nspy_pb_number(&inner, EVENT_NAME_IID, NAME_OF_FN(event->fn));
	if (event->type == NSPY_PERFETTO_COUNTER) {
		memcpy(&bits, &event->value, sizeof(bits));
		nspy_pb_fixed64(&inner, EVENT_VALUE, bits);
	}
	if (event->flow)
		nspy_pb_fixed64(&inner, EVENT_FLOW, event->flow);
	put_args(&inner, event);
	begin_packet(packet, FLAG_NEEDS_INTERNED);
	nspy_pb_number(packet, PACKET_TIMESTAMP, event->when_ns);
	nspy_pb_message(packet, PACKET_TRACK_EVENT, &inner);
}

bool nspy_perfetto_put(struct nspy_perfetto *p, const struct nspy_perfetto_event *event)
{
	struct nspy_pb packet;

	make_event(&packet, event);
	if (p->bytes + packet.used + PACKET_HEAD_MAX + (p->open + 1) * END_BYTES > p->limit) {
		p->left_out++;
		return false;
	}
	write_packet(p, &packet);
	if (event->type == NSPY_PERFETTO_BEGIN) {
		p->slices++;
		p->open++;
	} else {
		p->events++;
	}
	return true;
}

void nspy_perfetto_end(struct nspy_perfetto *p, uint64_t track, uint64_t when_ns)
{
	const struct nspy_perfetto_event event = {
		.type = NSPY_PERFETTO_END, .track = track, .when_ns = when_ns};
	struct nspy_pb packet;

	make_event(&packet, &event);
	write_packet(p, &packet);
	p->open--;
}

void nspy_lanes_put(struct nspy_perfetto *p, struct nspy_lanes *lanes,
		    struct nspy_perfetto_event *event, uint64_t end_ns)
{
	size_t i = 0;

	while (i < lanes->count && lanes->lane[i].end_ns > event->when_ns)
		i++;
	if (i == NSPY_PERFETTO_LANES_MAX) {
		p->left_out++;
		return;
	}
	if (i == lanes->count) {
		lanes->count++;
		lanes->lane[i].track = nspy_perfetto_track(p, lanes->parent, lanes->name, NULL);
	}
	event->type = NSPY_PERFETTO_BEGIN;
	event->track = lanes->lane[i].track;
	if (end_ns < event->when_ns) {
		end_ns = event->when_ns;
		p->moved++;
	}
	lanes->lane[i].end_ns = end_ns;
	if (nspy_perfetto_put(p, event))
		nspy_perfetto_end(p, event->track, end_ns);
}
