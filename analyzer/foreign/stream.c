/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "util.h"

#define RAW_BYTES (128u << 10)
/* A log of one repeated line packs a few hundred to one; beyond this it was made to hurt. */
#define BOMB_RATIO 1000u
#define BOMB_FROM  (1ull << 30)

enum packing { PLAIN, GZIP, ZSTD };

struct nspy_stream {
	int fd;
	const uint8_t *memory;
	size_t memory_left;
	enum packing packing;
	uint8_t *raw;
	size_t raw_at, raw_bytes;
	bool raw_end;
	bool mid_frame; /* inside a packed member: an end here is a cut */
	uint64_t in, out;
	z_stream z;
	ZSTD_DStream *zstd;
	char *peek;
	size_t peek_at, peek_bytes;
	char error[160];
};

static void fail(struct nspy_stream *s, const char *what)
{
	if (!s->error[0])
		(void)snprintf(s->error, sizeof(s->error), "%s at offset %" PRIu64, what,
			       s->packing == PLAIN ? s->out : s->in);
}

static void refill(struct nspy_stream *s)
{
	ssize_t got;

	if (s->raw_at < s->raw_bytes || s->raw_end)
		return;
	s->raw_at = s->raw_bytes = 0;
	if (s->fd < 0) {
		got = (ssize_t)(s->memory_left < RAW_BYTES ? s->memory_left : RAW_BYTES);
		if (got)
			memcpy(s->raw, s->memory, (size_t)got);
		s->memory += got;
		s->memory_left -= (size_t)got;
	} else {
		do {
			got = read(s->fd, s->raw, RAW_BYTES);
		} while (got < 0 && errno == EINTR);
	}
	if (got < 0)
		fail(s, strerror(errno));
	if (got <= 0)
		s->raw_end = true;
	else
		s->raw_bytes = (size_t)got;
}

static void start(struct nspy_stream *s)
{
	refill(s);
	if (s->raw_bytes >= 2 && s->raw[0] == 0x1f && s->raw[1] == 0x8b) {
		s->packing = GZIP;
		if (inflateInit2(&s->z, 15 + 16) != Z_OK)
			fail(s, "cannot unpack");
	} else if (s->raw_bytes >= 4 && memcmp(s->raw, "\x28\xb5\x2f\xfd", 4) == 0) {
		s->packing = ZSTD;
		s->zstd = ZSTD_createDStream();
		if (!s->zstd)
			fail(s, "cannot unpack");
	}
	s->peek = nspy_xmalloc(NSPY_STREAM_PEEK);
	while (s->peek_bytes < NSPY_STREAM_PEEK) {
		size_t at = s->peek_bytes, got;

		s->peek_bytes = 0; /* not yet to be served */
		got = nspy_stream_read(s, s->peek + at, NSPY_STREAM_PEEK - at);
		s->peek_bytes = at + got;
		/* A pipe is not waited for: what is there now decides. */
		if (!got || (s->fd >= 0 && s->packing == PLAIN))
			break;
	}
}

static struct nspy_stream *new_stream(int fd)
{
	struct nspy_stream *s = nspy_xcalloc(1, sizeof(*s));

	s->fd = fd;
	s->raw = nspy_xmalloc(RAW_BYTES);
	return s;
}

int nspy_stream_open(const char *path, struct nspy_stream **ret_stream)
{
	int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	*ret_stream = new_stream(fd);
	start(*ret_stream);
	return 0;
}

struct nspy_stream *nspy_stream_memory(const void *data, size_t bytes)
{
	struct nspy_stream *s = new_stream(-1);

	s->memory = data;
	s->memory_left = bytes;
	start(s);
	return s;
}

void nspy_stream_close(struct nspy_stream *s)
{
	if (!s)
		return;
	if (s->packing == GZIP)
		inflateEnd(&s->z);
	ZSTD_freeDStream(s->zstd);
	if (s->fd >= 0)
		close(s->fd);
	free(s->peek);
	free(s->raw);
	free(s);
}

static size_t gunzip(struct nspy_stream *s, void *data, size_t bytes)
{
	int rc;

	s->z.next_out = data;
	s->z.avail_out = (uInt)bytes;
	s->z.next_in = s->raw + s->raw_at;
	s->z.avail_in = (uInt)(s->raw_bytes - s->raw_at);
	rc = inflate(&s->z, Z_NO_FLUSH);
	s->in += s->raw_bytes - s->raw_at - s->z.avail_in;
	s->raw_at = s->raw_bytes - s->z.avail_in;
	s->mid_frame = rc != Z_STREAM_END;
	if (rc == Z_STREAM_END)
		inflateReset(&s->z); /* another member may follow */
	else if (rc != Z_OK && rc != Z_BUF_ERROR)
		fail(s, "damaged gzip data");
	return bytes - s->z.avail_out;
}

static size_t unzstd(struct nspy_stream *s, void *data, size_t bytes)
{
	ZSTD_inBuffer in = {s->raw + s->raw_at, s->raw_bytes - s->raw_at, 0};
	ZSTD_outBuffer out = {data, bytes, 0};
	size_t rc = ZSTD_decompressStream(s->zstd, &out, &in);

	s->in += in.pos;
	s->raw_at += in.pos;
	if (ZSTD_isError(rc))
		fail(s, "damaged zstd data");
	s->mid_frame = rc != 0;
	return out.pos;
}

static size_t unpack(struct nspy_stream *s, void *data, size_t bytes)
{
	while (!s->error[0]) {
		size_t before, got;

		refill(s);
		if (s->raw_at == s->raw_bytes && !s->mid_frame)
			return 0;
		before = s->raw_at;
		got = s->packing == GZIP ? gunzip(s, data, bytes) : unzstd(s, data, bytes);
		if (got)
			return got;
		if (s->raw_end && s->raw_at == s->raw_bytes && before == s->raw_at) {
			if (s->mid_frame)
				fail(s, "cut off");
			return 0;
		}
	}
	return 0;
}

static size_t plain(struct nspy_stream *s, void *data, size_t bytes)
{
	size_t left;

	refill(s);
	left = s->raw_bytes - s->raw_at;
	if (left > bytes)
		left = bytes;
	memcpy(data, s->raw + s->raw_at, left);
	s->raw_at += left;
	s->in += left;
	return left;
}

size_t nspy_stream_read(struct nspy_stream *s, void *data, size_t bytes)
{
	size_t got;

	if (s->peek_at < s->peek_bytes) {
		got = s->peek_bytes - s->peek_at;
		if (got > bytes)
			got = bytes;
		memcpy(data, s->peek + s->peek_at, got);
		s->peek_at += got;
		return got;
	}
	if (s->error[0] || bytes == 0)
		return 0;
	if (bytes > (1u << 30))
		bytes = 1u << 30;
	got = s->packing == PLAIN ? plain(s, data, bytes) : unpack(s, data, bytes);
	s->out += got;
	if (s->packing != PLAIN && s->out > BOMB_FROM && s->out / BOMB_RATIO > s->in) {
		fail(s, "unpacks to more than 1000 times its size: given up");
		return 0;
	}
	return got;
}

size_t nspy_stream_peek(struct nspy_stream *s, const char **ret_data)
{
	*ret_data = s->peek + s->peek_at;
	return s->peek_bytes - s->peek_at;
}

char *nspy_stream_all(struct nspy_stream *s, size_t limit, size_t *ret_bytes)
{
	size_t bytes = 0, capacity = 64u << 10, got;
	char *text = nspy_xmalloc(capacity + 1);

	while ((got = nspy_stream_read(s, text + bytes, capacity - bytes)) > 0) {
		bytes += got;
		if (bytes > limit) {
			(void)snprintf(s->error, sizeof(s->error), "more than %zu MiB: not read",
				       limit >> 20);
			break;
		}
		if (bytes == capacity) {
			capacity *= 2;
			text = nspy_xrealloc(text, capacity + 1, 1);
		}
	}
	if (s->error[0]) {
		free(text);
		return NULL;
	}
	text[bytes] = '\0';
	*ret_bytes = bytes;
	return text;
}

const char *nspy_stream_error(const struct nspy_stream *s)
{
	return s->error[0] ? s->error : NULL;
}
