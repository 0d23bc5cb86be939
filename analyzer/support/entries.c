/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../text.h"
#include "support.h"

/* Of a text that is too long: so much of its beginning and of its end. */
#define HEAD_BYTES (256u << 10)
#define TAIL_BYTES (1u << 20)
/* Header and padding of an entry in the archive. */
#define ENTRY_BYTES 1024u

void nspy_support_note(struct nspy_support *s, const char *status, const char *name,
		       const char *format, ...)
{
	va_list args;
	char *why;

	va_start(args, format);
	if (vasprintf(&why, format, args) < 0)
		why = nspy_xstrdup("?");
	va_end(args);
	nspy_clean(why);
	nspy_str_addf(&s->manifest, "%s\t%s\t%s\n", status, name, why);
	s->left_out += strcmp(status, "ok") != 0;
	free(why);
}

void nspy_support_add(struct nspy_support *s, const char *name, char *data, size_t bytes)
{
	struct nspy_support_entry *entry;

	if (s->used + bytes + ENTRY_BYTES > s->max_bytes) {
		nspy_support_note(s, "left out", name, "%zu bytes: no room below --max-size",
				  bytes);
		free(data);
		return;
	}
	s->entries = nspy_grow(s->entries, s->entry_count, &s->entry_capacity, sizeof(*s->entries));
	entry = &s->entries[s->entry_count++];
	*entry = (struct nspy_support_entry){nspy_xstrdup(name), data, bytes};
	s->used += bytes + ENTRY_BYTES;
	nspy_support_note(s, "ok", name, "%zu bytes", bytes);
}

void nspy_support_add_raw(struct nspy_support *s, const char *name, FILE *raw, const char *kind)
{
	const char *why;
	size_t bytes;
	char *text = nspy_support_clean(s, raw, kind, &bytes, &why);

	(void)fclose(raw);
	if (text)
		nspy_support_add(s, name, text, bytes);
	else
		nspy_support_note(s, "left out", name, "%s", why);
}

/* --- texts of any length --- */

struct ends {
	char *text;
	size_t bytes;
	uint64_t skipped; /* between the first HEAD_BYTES and the rest */
};

static void drop_middle(struct ends *e)
{
	size_t drop = e->bytes - HEAD_BYTES - TAIL_BYTES;

	memmove(e->text + HEAD_BYTES, e->text + HEAD_BYTES + drop, TAIL_BYTES);
	e->bytes -= drop;
	e->skipped += drop;
}

static void read_ends(struct nspy_stream *stream, struct ends *e)
{
	size_t capacity = HEAD_BYTES + 4 * TAIL_BYTES, got;

	*e = (struct ends){nspy_xmalloc(capacity + 1), 0, 0};
	while ((got = nspy_stream_read(stream, e->text + e->bytes, capacity - e->bytes)) > 0) {
		e->bytes += got;
		if (e->bytes == capacity)
			drop_middle(e);
	}
	if (e->bytes > HEAD_BYTES + TAIL_BYTES)
		drop_middle(e);
	/* The redactor takes text only, and behind a NUL it would see nothing. */
	for (size_t i = 0; i < e->bytes; i++) {
		if (!e->text[i])
			e->text[i] = ' ';
	}
	e->text[e->bytes] = '\0';
}

/* Where the tail can begin: at a line, and not within a private key whose first line is cut off. */
static size_t tail_begins(const struct ends *e)
{
	const char *tail = e->text + HEAD_BYTES;
	const char *line = strchr(tail, '\n'), *end = strstr(tail, "-----END ");
	const char *begin = strstr(tail, "-----BEGIN ");

	if (end && (!begin || end < begin))
		line = strchr(end, '\n');
	return line ? (size_t)(line + 1 - e->text) : e->bytes;
}

/* Part of the text, cleaned, onto a string. false: with the reason. */
static bool add_piece(const struct nspy_support *s, struct nspy_str *out, const char *text,
		      size_t bytes, const char **ret_why)
{
	FILE *raw = nspy_support_temporary();
	bool ok = fwrite(text, 1, bytes, raw) == bytes;
	size_t clean_bytes;
	char *clean = NULL;

	*ret_why = "no room for temporary files";
	if (ok)
		clean = nspy_support_clean(s, raw, "text", &clean_bytes, ret_why);
	if (clean)
		nspy_str_addn(out, clean, clean_bytes);
	free(clean);
	(void)fclose(raw);
	return clean != NULL;
}

void nspy_support_add_stream(struct nspy_support *s, const char *name, struct nspy_stream *stream)
{
	const char *peek, *why = NULL;
	size_t bytes = nspy_stream_peek(stream, &peek), tail;
	struct nspy_str out = {0};
	struct ends e;
	bool ok;

	if (memchr(peek, 0, bytes)) {
		nspy_support_note(s, "left out", name,
				  "not text, so secrets in it cannot be found");
		return;
	}
	read_ends(stream, &e);
	if (!e.skipped) {
		ok = add_piece(s, &out, e.text, e.bytes, &why);
	} else {
		size_t head = HEAD_BYTES;

		while (head && e.text[head - 1] != '\n')
			head--;
		tail = tail_begins(&e);
		ok = add_piece(s, &out, e.text, head, &why);
		nspy_str_addf(&out, "[ncclspy: about %" PRIu64 " bytes left out here]\n",
			      e.skipped);
		ok = ok && add_piece(s, &out, e.text + tail, e.bytes - tail, &why);
	}
	bytes = out.bytes;
	if (ok)
		nspy_support_add(s, name, nspy_str_take(&out), bytes);
	else
		nspy_support_note(s, "left out", name, "%s", why);
	if (nspy_stream_error(stream))
		nspy_support_note(s, "cut", name, "%s", nspy_stream_error(stream));
	nspy_str_done(&out);
	free(e.text);
}

const struct nspy_support_entry *nspy_support_find(const struct nspy_support *s, const char *name)
{
	for (size_t i = 0; i < s->entry_count; i++) {
		if (strcmp(s->entries[i].name, name) == 0)
			return &s->entries[i];
	}
	return NULL;
}

bool nspy_support_has(const struct nspy_support *s, const char *prefix)
{
	for (size_t i = 0; i < s->entry_count; i++) {
		if (strncmp(s->entries[i].name, prefix, strlen(prefix)) == 0)
			return true;
	}
	return false;
}

void nspy_support_done(struct nspy_support *s)
{
	for (size_t i = 0; i < s->entry_count; i++) {
		free(s->entries[i].name);
		free(s->entries[i].data);
	}
	free(s->entries);
	free(s->ranks);
	free(s->redactor);
	nspy_str_done(&s->manifest);
}
