/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a file as they were before somebody packed them: plain, gzip (all members) or zstd, told
 * by content. Memory does not depend on the file. What unpacks to absurd size is given up.
 * context: one thread per stream. Errors stay: after one, reading returns it again.
 */
#ifndef NSPY_STREAM_H
#define NSPY_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes that can be looked at before reading. */
#define NSPY_STREAM_PEEK (64u << 10)

struct nspy_stream;

/* path "-" is standard input. 0 or negative errno. */
int nspy_stream_open(const char *path, struct nspy_stream **ret_stream);
/* Reads from memory that stays where it is until the stream is closed. */
struct nspy_stream *nspy_stream_memory(const void *data, size_t bytes);
void nspy_stream_close(struct nspy_stream *stream);

/* The first bytes, unpacked; they are still to be read. Valid until the first read. */
size_t nspy_stream_peek(struct nspy_stream *stream, const char **ret_data);
/* Up to `bytes` bytes, 0 at the end or after an error. */
size_t nspy_stream_read(struct nspy_stream *stream, void *data, size_t bytes);
/*
 * Everything, with a NUL behind it, to be freed by the caller; NULL if it is more than limit or
 * cannot be read.
 */
char *nspy_stream_all(struct nspy_stream *stream, size_t limit, size_t *ret_bytes);

/* What went wrong and where, in one line without the path; NULL if nothing did. */
const char *nspy_stream_error(const struct nspy_stream *stream);

#endif
