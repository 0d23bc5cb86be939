/* SPDX-License-Identifier: Apache-2.0 */
#include "lines.h"

#include <stdlib.h>
#include <string.h>

#include "util.h"

#define BLOCK_BYTES (256u << 10)

struct splitter {
	nspy_line_fn *fn;
	void *arg;
	uint64_t number;
	uint64_t cut;
};

/* One line without its newline; progress bars draw several over each other. */
static void give(struct splitter *s, char *text, size_t bytes, bool cut)
{
	struct nspy_line line = {.number = ++s->number, .cut = cut};
	char *end = text + bytes;

	while (text < end) {
		char *cr = memchr(text, '\r', (size_t)(end - text));
		char *stop = cr ? cr : end;
		char kept = *stop;

		if (stop > text) {
			line.text = text;
			line.bytes = (size_t)(stop - text);
			*stop = '\0';
			s->fn(s->arg, &line);
			*stop = kept;
		}
		text = stop + 1;
	}
	s->cut += cut;
}

uint64_t nspy_lines_each(struct nspy_stream *stream, nspy_line_fn *fn, void *arg)
{
	struct splitter s = {.fn = fn, .arg = arg};
	/* Room for what is left of the block before, and a NUL. */
	char *buffer = nspy_xmalloc(NSPY_LINE_MAX + BLOCK_BYTES + 1);
	size_t have = 0, got;
	bool skip = false; /* the rest of a line that was too long */

	while ((got = nspy_stream_read(stream, buffer + have, BLOCK_BYTES)) > 0) {
		char *at = buffer, *end = buffer + have + got, *newline;

		while ((newline = memchr(at, '\n', (size_t)(end - at)))) {
			size_t bytes = (size_t)(newline - at);

			if (skip)
				skip = false;
			else if (bytes > NSPY_LINE_MAX)
				give(&s, at, NSPY_LINE_MAX, true);
			else
				give(&s, at, bytes, false);
			at = newline + 1;
		}
		have = (size_t)(end - at);
		if (have >= NSPY_LINE_MAX || skip) {
			if (!skip)
				give(&s, at, NSPY_LINE_MAX - 1, true);
			skip = true;
			have = 0;
		}
		memmove(buffer, at, have);
	}
	if (have && !skip)
		give(&s, buffer, have, false);
	free(buffer);
	return s.cut;
}

void nspy_line_strip_escapes(struct nspy_line *line)
{
	char *from = line->text, *to = line->text, *end = line->text + line->bytes;

	while (from < end) {
		if (*from != '\x1b') {
			*to++ = *from++;
			continue;
		}
		from++;
		if (from < end && *from == '[') {
			/* CSI: parameters, then one byte from @ to ~ */
			for (from++; from < end && (unsigned char)*from < 0x40; from++)
				;
			from += from < end;
		} else if (from < end && *from == ']') {
			while (from < end && *from != '\a' && *from != '\x1b')
				from++;
			from += from < end && *from == '\a';
		} else {
			from += from < end;
		}
	}
	*to = '\0';
	line->bytes = (size_t)(to - line->text);
}
