/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_note.h"

#include <errno.h>

#define HEAD_BYTES 5u /* kind and length */

const char *nspy_mode_name(uint32_t mode)
{
	static const char *const names[] = {
		[NSPY_MODE_RECORD] = "record",
		[NSPY_MODE_WATCH] = "watch",
		[NSPY_MODE_OFF] = "off",
	};

	return mode < sizeof(names) / sizeof(names[0]) ? names[mode] : "?";
}

static void put_self(struct nspy_put *w, const struct nspy_note_self *self)
{
	nspy_put_varint(w, self->when_ns);
	nspy_put_varint(w, self->warm_ns);
	nspy_put_varint(w, self->cold_ns);
	nspy_put_varint(w, self->samples);
	nspy_put_varint(w, self->watcher_ns);
	nspy_put_varint(w, self->writer_ns);
	nspy_put_varint(w, self->written);
	nspy_put_varint(w, self->dropped);
}

static void put_command(struct nspy_put *w, const struct nspy_note_command *command)
{
	nspy_put_varint(w, command->id);
	nspy_put_varint(w, command->taken_ns);
	nspy_put_varint(w, command->text_bytes);
	nspy_put_copy(w, command->text, command->text_bytes);
}

void nspy_note_put(struct nspy_put *w, const struct nspy_note *note)
{
	uint8_t *head = nspy_put_room(w, HEAD_BYTES);

	switch (note->kind) {
	case NSPY_NOTE_MODE:
		nspy_put_varint(w, note->mode.mode);
		nspy_put_varint(w, note->mode.since_ns);
		break;
	case NSPY_NOTE_HOLE:
		nspy_put_varint(w, note->hole.from_ns);
		nspy_put_varint(w, note->hole.until_ns);
		nspy_put_varint(w, note->hole.records);
		break;
	case NSPY_NOTE_COMMAND:
		put_command(w, &note->command);
		break;
	case NSPY_NOTE_SELF:
		put_self(w, &note->self);
		break;
	default:
		w->bad = true;
	}
	if (w->bad)
		return;
	head[0] = (uint8_t)note->kind;
	nspy_le32_store(head + 1, (uint32_t)(w->at - head) - HEAD_BYTES);
}

static void get_self(struct nspy_get *g, struct nspy_note_self *self)
{
	self->when_ns = nspy_get_varint(g);
	self->warm_ns = nspy_get_varint(g);
	self->cold_ns = nspy_get_varint(g);
	self->samples = nspy_get_varint(g);
	self->watcher_ns = nspy_get_varint(g);
	self->writer_ns = nspy_get_varint(g);
	self->written = nspy_get_varint(g);
	self->dropped = nspy_get_varint(g);
}

static void get_command(struct nspy_get *g, struct nspy_note_command *command)
{
	const uint8_t *text;

	command->id = nspy_get_varint(g);
	command->taken_ns = nspy_get_varint(g);
	command->text_bytes = nspy_get_limited(g, NSPY_NOTE_TEXT_MAX);
	text = nspy_get_bytes(g, command->text_bytes);
	command->text = (const char *)text;
}

int nspy_note_next(const uint8_t *payload, size_t bytes, size_t *cursor, struct nspy_note *ret)
{
	struct nspy_get all = {payload + *cursor, payload + bytes, false}, g;
	const uint8_t *length, *fields;

	if (*cursor == bytes)
		return -ENODATA;
	*ret = (struct nspy_note){.kind = nspy_get_u8(&all)};
	length = nspy_get_bytes(&all, sizeof(uint32_t));
	fields = length ? nspy_get_bytes(&all, nspy_le32_load(length)) : NULL;
	if (!fields)
		return -EBADMSG;
	g = (struct nspy_get){fields, all.at, false};
	*cursor = (size_t)(all.at - payload);
	switch (ret->kind) {
	case NSPY_NOTE_MODE:
		ret->mode.mode = (uint32_t)nspy_get_limited(&g, UINT32_MAX);
		ret->mode.since_ns = nspy_get_varint(&g);
		break;
	case NSPY_NOTE_HOLE:
		ret->hole.from_ns = nspy_get_varint(&g);
		ret->hole.until_ns = nspy_get_varint(&g);
		ret->hole.records = nspy_get_varint(&g);
		break;
	case NSPY_NOTE_COMMAND:
		get_command(&g, &ret->command);
		break;
	case NSPY_NOTE_SELF:
		get_self(&g, &ret->self);
		break;
	default:
		break;
	}
	return g.bad ? -EBADMSG : 0;
}
