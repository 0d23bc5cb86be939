/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_reader.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "trace_chunk.h"
#include "trace_file.h"

struct nspy_reader {
	const uint8_t *data;
	uint8_t *owned; /* data, if it is ours to free */
	size_t bytes;
	size_t at;
	bool truncated;
	ZSTD_DCtx *zstd;
	uint8_t *payload;
	size_t payload_capacity;
	const struct nspy_chunk_source *source; /* or NULL */
	void *context;                          /* of source */
};

static int open_data(const uint8_t *data, size_t bytes, struct nspy_reader **ret)
{
	struct nspy_chunk_info first;
	struct nspy_reader *r;

	if (bytes < NSPY_CHUNK_PREFIX_BYTES || !nspy_chunk_prefix_ok(data))
		return -EBADMSG;
	/* A newer version is refused here, before anything is believed. */
	if (bytes >= NSPY_CHUNK_HEADER_BYTES &&
	    nspy_chunk_header_load(data, &first) == -EPROTONOSUPPORT)
		return -EPROTONOSUPPORT;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->data = data;
	r->bytes = bytes;
	r->zstd = ZSTD_createDCtx();
	if (!r->zstd) {
		free(r);
		return -ENOMEM;
	}
	*ret = r;
	return 0;
}

int nspy_reader_open_memory(const void *data, size_t bytes, struct nspy_reader **ret)
{
	return open_data(data, bytes, ret);
}

int nspy_reader_open_owned(uint8_t *data, size_t bytes, struct nspy_reader **ret)
{
	int rc = open_data(data, bytes, ret);

	if (rc < 0)
		free(data);
	else
		(*ret)->owned = data;
	return rc;
}

int nspy_reader_open(const char *path, struct nspy_reader **ret)
{
	uint8_t *data;
	size_t bytes;
	int rc = nspy_file_read(path, &data, &bytes);

	return rc < 0 ? rc : nspy_reader_open_owned(data, bytes, ret);
}

int nspy_reader_open_source(const struct nspy_chunk_source *source, void *context,
			    struct nspy_reader **ret)
{
	struct nspy_reader *r = calloc(1, sizeof(*r));

	if (!r) {
		source->done(context);
		return -ENOMEM;
	}
	r->source = source;
	r->context = context;
	*ret = r;
	return 0;
}

void nspy_reader_free(struct nspy_reader *r)
{
	if (!r)
		return;
	if (r->source)
		r->source->done(r->context);
	ZSTD_freeDCtx(r->zstd);
	free(r->payload);
	free(r->owned);
	free(r);
}

uint64_t nspy_reader_offset(const struct nspy_reader *r)
{
	return r->source ? r->source->offset(r->context) : r->at;
}

int nspy_reader_truncated(const struct nspy_reader *r)
{
	return r->truncated;
}

/* Moves to the next place after `from` where a chunk could begin, or to the end. */
static void resync(struct nspy_reader *r, size_t from)
{
	static const uint8_t magic[4] = {0x5A, 0x2A, 0x4D, 0x18}; /* NSPY_SKIP_MAGIC */

	while (from + NSPY_CHUNK_PREFIX_BYTES <= r->bytes) {
		const uint8_t *hit = memmem(r->data + from, r->bytes - from, magic, sizeof(magic));

		if (!hit)
			break;
		from = (size_t)(hit - r->data);
		if (from + NSPY_CHUNK_PREFIX_BYTES <= r->bytes && nspy_chunk_prefix_ok(hit)) {
			r->at = from;
			return;
		}
		from++;
	}
	r->at = r->bytes;
}

/* Reports damage at the current place; the next call starts behind it. */
static int damaged(struct nspy_reader *r, size_t resume_from)
{
	size_t at = r->at;

	resync(r, resume_from);
	if (r->at == r->bytes && at + NSPY_CHUNK_HEADER_BYTES > r->bytes)
		r->truncated = true;
	return -EBADMSG;
}

static int reserve(struct nspy_reader *r, size_t bytes)
{
	uint8_t *bigger;

	if (bytes <= r->payload_capacity)
		return 0;
	bigger = realloc(r->payload, bytes);
	if (!bigger)
		return -ENOMEM;
	r->payload = bigger;
	r->payload_capacity = bytes;
	return 0;
}

int nspy_reader_next(struct nspy_reader *r, struct nspy_chunk_info *ret_info,
		     const uint8_t **ret_payload)
{
	struct nspy_chunk_info info;
	size_t left = r->bytes - r->at;
	const uint8_t *chunk;
	size_t whole, got;
	int rc;

	if (r->source)
		return r->source->next(r->context, ret_info, ret_payload);
	if (left == 0)
		return -ENODATA;
	if (left < NSPY_CHUNK_HEADER_BYTES)
		return damaged(r, r->bytes);
	chunk = r->data + r->at;
	rc = nspy_chunk_header_load(chunk, &info);
	if (rc < 0) {
		(void)damaged(r, r->at + 1);
		return rc;
	}
	whole = NSPY_CHUNK_HEADER_BYTES + (size_t)info.packed_bytes;
	if (whole > left) { /* cut off, unless another chunk follows inside */
		rc = damaged(r, r->at + NSPY_CHUNK_HEADER_BYTES);
		if (r->at == r->bytes)
			r->truncated = true;
		return rc;
	}
	rc = reserve(r, (size_t)info.raw_bytes + 1);
	if (rc < 0)
		return rc;
	got = ZSTD_decompressDCtx(r->zstd, r->payload, info.raw_bytes,
				  chunk + NSPY_CHUNK_HEADER_BYTES, info.packed_bytes);
	if (ZSTD_isError(got) || got != info.raw_bytes)
		return damaged(r, r->at + NSPY_CHUNK_HEADER_BYTES);
	info.offset = r->at;
	r->at += whole;
	*ret_info = info;
	*ret_payload = r->payload;
	return 0;
}
