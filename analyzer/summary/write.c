/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "block.h"
#include "summary_parts.h"
#include "trace_bytes.h"
#include "trace_encode.h"

#define LEVEL            12
#define BYTES_PIECE      (512u << 10)
#define SHARED_BYTES_MIN 512u

struct nspy_summary_writer {
	char *path, *temporary;
	int fd;
	uint64_t made_ns, bytes;
	struct nspy_packer *packer;
	uint8_t *out;
	size_t out_bytes;
	struct nspy_map shared; /* id -> struct nspy_shared * */
	uint32_t files;
};

static int put(struct nspy_summary_writer *w, const uint8_t *data, size_t bytes)
{
	while (bytes > 0) {
		ssize_t n = write(w->fd, data, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		bytes -= (size_t)n;
		w->bytes += (uint64_t)n;
	}
	return 0;
}

static int put_chunk(struct nspy_summary_writer *w, struct nspy_chunk_info info,
		     const uint8_t *payload, size_t bytes, const size_t *ends, size_t end_count)
{
	long packed;

	info.flags = NSPY_CHUNK_IN_SUMMARY;
	packed = nspy_chunk_pack_sections(w->packer, &info, payload, bytes, ends, end_count, w->out,
					  w->out_bytes);
	return packed < 0 ? (int)packed : put(w, w->out, (size_t)packed);
}

static int put_head(struct nspy_summary_writer *w, bool last)
{
	uint8_t payload[32];
	struct nspy_put p = {payload, payload + sizeof(payload), false};

	nspy_put_varint(&p, NSPY_SUMMARY_VERSION);
	nspy_put_varint(&p, w->made_ns);
	nspy_put_varint(&p, last);
	return put_chunk(w, (struct nspy_chunk_info){.kind = NSPY_CHUNK_SUMMARY}, payload,
			 (size_t)(p.at - payload), NULL, 0);
}

int nspy_summary_create(const char *path, uint64_t made_ns, struct nspy_summary_writer **ret)
{
	struct nspy_summary_writer *w = nspy_xcalloc(1, sizeof(*w));
	int rc;

	w->path = nspy_xstrdup(path);
	w->temporary = nspy_xasprintf("%s.%ld.tmp", path, (long)getpid());
	w->made_ns = made_ns;
	w->packer = nspy_packer_new(LEVEL);
	w->out_bytes = nspy_chunk_bound(NSPY_CHUNK_RAW_BYTES_MAX) + 64u * (NSPY_BLOCK_PLANES + 2);
	w->out = nspy_xmalloc(w->out_bytes);
	w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	rc = w->fd < 0 ? -errno : !w->packer ? -ENOMEM : put_head(w, false);
	if (rc < 0)
		nspy_summary_drop(w);
	else
		*ret = w;
	return rc;
}

static void writer_free(struct nspy_summary_writer *w)
{
	for (size_t i = 0; i < w->shared.capacity; i++) {
		struct nspy_shared *shared = w->shared.slots[i].value;

		if (shared)
			free(shared->payload);
		free(shared);
	}
	nspy_map_done(&w->shared);
	nspy_packer_free(w->packer);
	free(w->out);
	free(w->path);
	free(w->temporary);
	free(w);
}

void nspy_summary_drop(struct nspy_summary_writer *w)
{
	if (w->fd >= 0) {
		close(w->fd);
		unlink(w->temporary);
	}
	writer_free(w);
}

/* --- payloads that many have --- */

static int put_shared(struct nspy_summary_writer *w, uint64_t id, const struct nspy_shared *shared)
{
	return put_chunk(w, (struct nspy_chunk_info){.kind = NSPY_CHUNK_SHARED, .first_index = id},
			 shared->payload, shared->bytes, NULL, 0);
}

/* 0: it is not shared. Errors show at the next write, too. */
static uint64_t share(struct nspy_summary_writer *w, const struct nspy_chunk_info *info,
		      const uint8_t *payload, int *rc)
{
	struct nspy_shared *shared;
	uint64_t id;

	if (!payload || info->kind != NSPY_CHUNK_SCHEMA || info->raw_bytes < SHARED_BYTES_MIN)
		return 0;
	id = XXH64(payload, info->raw_bytes, 0) | 1;
	shared = nspy_map_get(&w->shared, id);
	if (shared)
		return shared->bytes == info->raw_bytes &&
				       memcmp(shared->payload, payload, info->raw_bytes) == 0
			       ? id
			       : 0;
	shared = nspy_xcalloc(1, sizeof(*shared));
	shared->bytes = info->raw_bytes;
	shared->payload = nspy_xmalloc(info->raw_bytes);
	memcpy(shared->payload, payload, info->raw_bytes);
	nspy_map_put(&w->shared, id, shared);
	*rc = put_shared(w, id, shared);
	return id;
}

/* --- files --- */

static int put_file(struct nspy_summary_writer *w, const struct nspy_summary_file *file,
		    bool recoded, const struct nspy_block *lead)
{
	struct nspy_file_head head = {.kind = file->kind,
				      .life = file->life,
				      .recoded = recoded,
				      .bytes = file->bytes,
				      .name = file->name,
				      .job = file->job,
				      .name_bytes = strlen(file->name),
				      .job_bytes = strlen(file->job)};
	struct nspy_chunk_info info = {.kind = NSPY_CHUNK_FILE,
				       .sequence = w->files,
				       .segment = file->segment,
				       .run_id = file->run_id};
	struct nspy_str payload = {0};
	size_t ends[NSPY_BLOCK_PLANES + 2], end_count, bytes;
	uint8_t *block;
	int rc;

	nspy_file_head_store(&payload, &head);
	if (lead && lead->count) {
		bytes = nspy_block_encode(lead, &block, ends, &end_count);
		nspy_str_addn(&payload, (const char *)block, bytes);
		free(block);
	}
	rc = put_chunk(w, info, (const uint8_t *)payload.text, payload.bytes, NULL, 0);
	nspy_str_done(&payload);
	return rc;
}

static int put_block(struct nspy_summary_writer *w, const struct nspy_summary_file *file,
		     struct nspy_block *block)
{
	struct nspy_chunk_info info = {.kind = NSPY_CHUNK_BLOCK,
				       .sequence = w->files,
				       .segment = file->segment,
				       .run_id = file->run_id};
	size_t ends[NSPY_BLOCK_PLANES + 2], end_count, bytes;
	uint8_t *payload;
	int rc;

	if (!block->count)
		return 0;
	bytes = nspy_block_encode(block, &payload, ends, &end_count);
	rc = put_chunk(w, info, payload, bytes, ends, end_count);
	free(payload);
	nspy_block_done(block);
	return rc;
}

/* All chunks of a segment that has no damage, in blocks; 1 if it has, or does not fit. */
static int gather(struct nspy_summary_writer *w, struct nspy_reader *reader,
		  struct nspy_block **blocks, size_t *count)
{
	size_t capacity = 0;
	struct nspy_chunk_info info;
	const uint8_t *payload;
	int rc, written = 0;

	while ((rc = nspy_reader_next(reader, &info, &payload)) == 0) {
		uint64_t shared = share(w, &info, payload, &written);

		if (written < 0)
			return written;
		if (info.raw_bytes > NSPY_BLOCK_BYTES_MAX)
			return 1;
		/* The first chunk stands alone: it tells whose file it is. */
		if (*count < 2 || !nspy_block_fits(&(*blocks)[*count - 1], info.raw_bytes)) {
			*blocks = nspy_grow(*blocks, *count, &capacity, sizeof(**blocks));
			(*blocks)[(*count)++] = (struct nspy_block){0};
		}
		nspy_block_add(&(*blocks)[*count - 1], &info, payload, shared);
	}
	return rc == -ENODATA ? 0 : rc == -ENOMEM ? rc : 1;
}

int nspy_summary_add_chunks(struct nspy_summary_writer *w, struct nspy_summary_file file,
			    struct nspy_reader *reader)
{
	struct nspy_block *blocks = NULL;
	size_t count = 0;
	int rc = gather(w, reader, &blocks, &count);

	if (rc == 0)
		rc = put_file(w, &file, true, count ? &blocks[0] : NULL);
	for (size_t i = 1; i < count && rc == 0; i++)
		rc = put_block(w, &file, &blocks[i]);
	for (size_t i = 0; i < count; i++)
		nspy_block_done(&blocks[i]);
	free(blocks);
	w->files += rc == 0;
	return rc;
}

int nspy_summary_add_bytes(struct nspy_summary_writer *w, struct nspy_summary_file file,
			   const uint8_t *data)
{
	int rc = put_file(w, &file, false, NULL);

	for (uint64_t at = 0; at < file.bytes && rc == 0; at += BYTES_PIECE) {
		struct nspy_chunk_info info = {.kind = NSPY_CHUNK_BYTES,
					       .sequence = w->files,
					       .segment = file.segment,
					       .run_id = file.run_id,
					       .first_index = at};
		uint64_t left = file.bytes - at;

		rc = put_chunk(w, info, data + at, left < BYTES_PIECE ? left : BYTES_PIECE, NULL,
			       0);
	}
	w->files++;
	return rc;
}

int nspy_summary_commit(struct nspy_summary_writer *w, uint64_t *ret_bytes)
{
	int rc = 0;

	/* Once more: nobody's names are to depend on one place. */
	for (size_t i = 0; i < w->shared.capacity && rc == 0; i++) {
		if (w->shared.slots[i].value)
			rc = put_shared(w, w->shared.slots[i].key, w->shared.slots[i].value);
	}
	if (rc == 0)
		rc = put_head(w, true);
	if (rc == 0 && fsync(w->fd) < 0 && errno != EINVAL)
		rc = -errno;
	if (rc == 0 && rename(w->temporary, w->path) < 0)
		rc = -errno;
	if (rc < 0) {
		nspy_summary_drop(w);
		return rc;
	}
	*ret_bytes = w->bytes;
	close(w->fd);
	writer_free(w);
	return 0;
}
