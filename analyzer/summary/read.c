/* SPDX-License-Identifier: Apache-2.0 */
/* The files in a summary as they were. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "summary_parts.h"
#include "trace_bytes.h"

#define ORIGINAL_BYTES_MAX (256u << 20)

int nspy_file_head_load(const uint8_t *payload, size_t bytes, struct nspy_file_head *ret)
{
	struct nspy_get g = {payload, payload + bytes, false};

	ret->kind = (uint32_t)nspy_get_limited(&g, NSPY_SUMMARY_PROBLEM);
	ret->life = (uint32_t)nspy_get_limited(&g, NSPY_LIFE_GONE);
	ret->recoded = nspy_get_limited(&g, 1) != 0;
	ret->bytes = nspy_get_limited(&g, ORIGINAL_BYTES_MAX);
	ret->name_bytes = (size_t)nspy_get_limited(&g, NSPY_SUMMARY_TEXT_MAX);
	ret->name = (const char *)nspy_get_bytes(&g, ret->name_bytes);
	ret->job_bytes = (size_t)nspy_get_limited(&g, NSPY_SUMMARY_TEXT_MAX);
	ret->job = (const char *)nspy_get_bytes(&g, ret->job_bytes);
	ret->lead = g.at;
	ret->lead_bytes = nspy_get_left(&g);
	return g.bad ? -EBADMSG : 0;
}

void nspy_file_head_store(struct nspy_str *to, const struct nspy_file_head *head)
{
	uint8_t numbers[64];
	struct nspy_put w = {numbers, numbers + sizeof(numbers), false};

	nspy_put_varint(&w, head->kind);
	nspy_put_varint(&w, head->life);
	nspy_put_varint(&w, head->recoded);
	nspy_put_varint(&w, head->bytes);
	nspy_put_varint(&w, head->name_bytes);
	nspy_str_addn(to, (const char *)numbers, (size_t)(w.at - numbers));
	nspy_str_addn(to, head->name, head->name_bytes);
	w.at = numbers;
	nspy_put_varint(&w, head->job_bytes);
	nspy_str_addn(to, (const char *)numbers, (size_t)(w.at - numbers));
	nspy_str_addn(to, head->job, head->job_bytes);
}

/* --- chunks of a file --- */

struct chunks {
	const struct nspy_summary_file *file;
	struct nspy_reader *inner; /* of the summary's own chunks */
	struct nspy_block_reader *block;
	bool lead_only;
};

static void chunks_done(void *context)
{
	struct chunks *chunks = context;

	nspy_block_close(chunks->block);
	nspy_reader_free(chunks->inner);
	free(chunks);
}

static uint64_t chunks_offset(const void *context)
{
	const struct chunks *chunks = context;

	return chunks->file->begin + nspy_reader_offset(chunks->inner);
}

/* Opens the next block; -ENODATA if there is none. */
static int next_block(struct chunks *chunks)
{
	struct nspy_chunk_info info;
	struct nspy_file_head head;
	const uint8_t *payload;
	int rc = nspy_reader_next(chunks->inner, &info, &payload);

	if (rc < 0)
		return rc;
	if (info.sequence != chunks->file->number || !(info.flags & NSPY_CHUNK_IN_SUMMARY))
		return 0; /* found in a damaged place: not of this file */
	if (info.kind == NSPY_CHUNK_FILE) {
		rc = nspy_file_head_load(payload, info.raw_bytes, &head);
		if (rc == 0 && head.lead_bytes)
			rc = nspy_block_open(head.lead, head.lead_bytes, &chunks->block);
		return rc;
	}
	return info.kind == NSPY_CHUNK_BLOCK
		       ? nspy_block_open(payload, info.raw_bytes, &chunks->block)
		       : 0;
}

static int chunks_next(void *context, struct nspy_chunk_info *ret_info, const uint8_t **ret_payload)
{
	struct chunks *chunks = context;
	const struct nspy_shared *shared;
	uint64_t id;
	int rc;

	for (;;) {
		rc = chunks->block ? nspy_block_next(chunks->block, ret_info, ret_payload, &id)
				   : -ENODATA;
		if (rc == 0)
			break;
		nspy_block_close(chunks->block);
		chunks->block = NULL;
		if (rc == -ENODATA &&
		    (!chunks->lead_only || nspy_reader_offset(chunks->inner) == 0))
			rc = next_block(chunks);
		if (rc < 0)
			return rc;
	}
	if (!id)
		return 0;
	shared = nspy_map_get(&chunks->file->summary->shared, id);
	if (!shared || shared->bytes != ret_info->raw_bytes)
		return -EBADMSG;
	*ret_payload = shared->payload;
	return 0;
}

static const struct nspy_chunk_source source = {chunks_next, chunks_offset, chunks_done};

static int open_chunks(const struct nspy_summary_file *file, bool lead_only,
		       struct nspy_reader **ret)
{
	struct chunks *chunks = calloc(1, sizeof(*chunks));
	int rc;

	if (!chunks)
		return -ENOMEM;
	chunks->file = file;
	chunks->lead_only = lead_only;
	rc = nspy_summary_chunk(file->summary->path, file->begin,
				lead_only ? file->lead_end : file->end, &chunks->inner);
	if (rc < 0) {
		free(chunks);
		return rc;
	}
	return nspy_reader_open_source(&source, chunks, ret);
}

/* --- bytes of a file --- */

/* What is lost stays zero: readers find the damage there. */
static int read_bytes(const struct nspy_summary_file *file, size_t limit, uint8_t **ret_data)
{
	struct nspy_chunk_info info;
	struct nspy_reader *reader;
	const uint8_t *payload;
	uint8_t *data;
	int rc;

	if (file->bytes > limit)
		return -E2BIG;
	rc = nspy_summary_chunk(file->summary->path, file->begin, file->end, &reader);
	if (rc < 0)
		return rc;
	data = calloc(1, (size_t)file->bytes + 1);
	while (data && (rc = nspy_reader_next(reader, &info, &payload)) != -ENODATA &&
	       rc != -ENOMEM) {
		if (rc == 0 && info.kind == NSPY_CHUNK_BYTES && info.sequence == file->number &&
		    info.first_index <= file->bytes &&
		    info.raw_bytes <= file->bytes - info.first_index)
			memcpy(data + info.first_index, payload, info.raw_bytes);
	}
	nspy_reader_free(reader);
	if (!data)
		return -ENOMEM;
	*ret_data = data;
	return 0;
}

int nspy_summary_reader(const struct nspy_summary_file *file, struct nspy_reader **ret)
{
	uint8_t *data;
	int rc;

	if (file->recoded)
		return open_chunks(file, false, ret);
	rc = read_bytes(file, ORIGINAL_BYTES_MAX, &data);
	return rc < 0 ? rc : nspy_reader_open_owned(data, (size_t)file->bytes, ret);
}

int nspy_summary_lead(const struct nspy_summary_file *file, struct nspy_reader **ret)
{
	return file->recoded ? open_chunks(file, true, ret) : nspy_summary_reader(file, ret);
}

int nspy_summary_live(const struct nspy_summary_file *file, struct nspy_live **ret)
{
	uint8_t *data;
	int rc = read_bytes(file, ORIGINAL_BYTES_MAX, &data);

	if (rc < 0)
		return rc;
	rc = nspy_live_open_memory(data, (size_t)file->bytes, ret);
	free(data);
	return rc;
}

int nspy_summary_bytes(const struct nspy_summary_file *file, uint8_t **ret_data)
{
	return read_bytes(file, ORIGINAL_BYTES_MAX, ret_data);
}

char *nspy_summary_text(const struct nspy_summary_file *file, size_t limit)
{
	uint8_t *data;

	return read_bytes(file, limit, &data) < 0 ? NULL : (char *)data;
}
