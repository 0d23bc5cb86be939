/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a stream. A carriage return ends a line too (progress bars), a missing newline at the
 * end does no harm, and of a line without end only the first part is kept.
 */
#ifndef NSPY_LINES_H
#define NSPY_LINES_H

#include "../foreign/stream.h"

/* Longer lines are cut: NCCL cuts its own at 1 KiB, JSON envelopes rarely pass 16 KiB. */
#define NSPY_LINE_MAX (64u << 10)

struct nspy_line {
	char *text; /* may be changed by whom it is given to; text[bytes] is NUL */
	size_t bytes;
	uint64_t number; /* from 1 */
	bool cut;
};

typedef void nspy_line_fn(void *arg, struct nspy_line *line);

/* Calls fn for each line that is not empty. Returns the number of lines that were cut. */
uint64_t nspy_lines_each(struct nspy_stream *stream, nspy_line_fn *fn, void *arg);

/* Takes terminal escapes out of a line, in place. */
void nspy_line_strip_escapes(struct nspy_line *line);

#endif
