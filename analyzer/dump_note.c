/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>

#include "dump.h"
#include "text.h"
#include "trace_note.h"

static void dump_self(const struct nspy_note_self *self, struct nspy_str *text, cJSON *object)
{
	nspy_str_addf(text,
		      "  %" PRIu64 " to %" PRIu64 " ns a call (%" PRIu64 " samples), CPU: watcher "
		      "%" PRIu64 " us, writer %" PRIu64 " us, %" PRIu64 " bytes written",
		      self->warm_ns, self->cold_ns, self->samples, self->watcher_ns / 1000,
		      self->writer_ns / 1000, self->written);
	cJSON_AddNumberToObject(object, "warm_ns", (double)self->warm_ns);
	cJSON_AddNumberToObject(object, "cold_ns", (double)self->cold_ns);
	cJSON_AddNumberToObject(object, "samples", (double)self->samples);
	cJSON_AddNumberToObject(object, "watcher_cpu_ns", (double)self->watcher_ns);
	cJSON_AddNumberToObject(object, "writer_cpu_ns", (double)self->writer_ns);
	cJSON_AddNumberToObject(object, "written_bytes", (double)self->written);
	cJSON_AddNumberToObject(object, "dropped_lines", (double)self->dropped);
}

static void dump_command(const struct nspy_note_command *command, struct nspy_str *text,
			 cJSON *object)
{
	char *copy = nspy_xstrndup(command->text, command->text_bytes);

	nspy_clean(copy);
	nspy_str_addf(text, "  %s", copy);
	cJSON_AddStringToObject(object, "text", copy);
	free(copy);
}

void nspy_dump_note(const struct nspy_dump *dump, const struct nspy_proc *proc, uint64_t when_ns,
		    const uint8_t *payload, size_t bytes)
{
	struct nspy_note note;
	size_t cursor = 0;

	if (dump->comm_key)
		return;
	while (nspy_note_next(payload, bytes, &cursor, &note) == 0) {
		static const char *const kinds[] = {"note", "mode", "hole", "command", "self"};
		const char *kind = kinds[note.kind <= NSPY_NOTE_SELF ? note.kind : 0];
		struct nspy_str text = {0};
		cJSON *object =
			nspy_dump_start(proc, kind,
					note.kind == NSPY_NOTE_HOLE      ? note.hole.from_ns
					: note.kind == NSPY_NOTE_COMMAND ? note.command.taken_ns
									 : when_ns,
					&text);

		if (note.kind == NSPY_NOTE_MODE) {
			nspy_str_addf(&text, "  %s", nspy_mode_name(note.mode.mode));
			cJSON_AddStringToObject(object, "mode", nspy_mode_name(note.mode.mode));
		} else if (note.kind == NSPY_NOTE_HOLE) {
			nspy_str_addf(&text,
				      "  %" PRIu64 " records not kept until %" PRIu64 " ns later",
				      note.hole.records, note.hole.until_ns - note.hole.from_ns);
			cJSON_AddNumberToObject(object, "records", (double)note.hole.records);
			cJSON_AddNumberToObject(object, "ns",
						(double)(note.hole.until_ns - note.hole.from_ns));
		} else if (note.kind == NSPY_NOTE_COMMAND) {
			dump_command(&note.command, &text, object);
		} else if (note.kind == NSPY_NOTE_SELF) {
			dump_self(&note.self, &text, object);
		}
		nspy_dump_put(dump, &text, object);
	}
}
