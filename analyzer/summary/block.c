/* SPDX-License-Identifier: Apache-2.0 */
#include "block.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "block_parts.h"

/* Smaller parts are better off with what surrounds them. */
#define PART_BYTES_MIN 1024u

void nspy_block_add(struct nspy_block *block, const struct nspy_chunk_info *info,
		    const uint8_t *payload, uint64_t shared)
{
	struct nspy_block_chunk *chunk;

	block->chunks =
		nspy_grow(block->chunks, block->count, &block->capacity, sizeof(*block->chunks));
	chunk = &block->chunks[block->count++];
	*chunk = (struct nspy_block_chunk){.info = *info, .shared = shared};
	if (shared)
		return;
	chunk->payload = nspy_xmalloc((size_t)info->raw_bytes + 1);
	memcpy(chunk->payload, payload, info->raw_bytes);
	block->bytes += info->raw_bytes;
}

bool nspy_block_fits(const struct nspy_block *block, size_t bytes)
{
	return block->count < NSPY_BLOCK_CHUNKS_MAX / 4 &&
	       block->bytes + bytes <= NSPY_BLOCK_BYTES_MAX;
}

void nspy_block_done(struct nspy_block *block)
{
	for (size_t i = 0; i < block->count; i++)
		free(block->chunks[i].payload);
	free(block->chunks);
	*block = (struct nspy_block){0};
}

/* --- an OPS payload taken apart --- */

static void skip_templates(struct nspy_get *g, uint64_t count)
{
	for (uint64_t i = 0; i < count && !g->bad; i++) {
		(void)nspy_get_varint(g);
		(void)nspy_get_bytes(g, 4);
		for (int k = 0; k < 5; k++)
			(void)nspy_get_varint(g);
	}
}

/* Where the columns begin and what they are. False if it is not of that form to the last byte. */
static bool take_apart(const struct nspy_block_chunk *chunk, struct nspy_ops_parts *ret)
{
	const uint8_t *payload = chunk->payload;
	struct nspy_get g = {payload, payload + chunk->info.raw_bytes, false};
	uint64_t records, templates, sides;

	if (chunk->info.kind != NSPY_CHUNK_OPS || chunk->shared)
		return false;
	records = nspy_get_limited(&g, NSPY_CHUNK_RECORDS_MAX);
	templates = nspy_get_limited(&g, NSPY_CHUNK_TEMPLATES_MAX);
	sides = nspy_get_limited(&g, records);
	(void)nspy_get_varint(&g);
	skip_templates(&g, templates);
	for (uint64_t i = 0; i < sides && !g.bad; i++) {
		(void)nspy_get_varint(&g);
		(void)nspy_get_bytes(&g, NSPY_REC_BYTES);
	}
	if (g.bad)
		return false;
	ret->head_bytes = (size_t)(g.at - payload);
	ret->calls = (size_t)(records - sides);
	for (int c = 0; c < NSPY_BLOCK_COLUMNS; c++) {
		ret->width[c] = nspy_get_u8(&g);
		ret->planes[c] =
			ret->width[c] > 8 ? NULL : nspy_get_bytes(&g, ret->width[c] * ret->calls);
		if (g.bad || ret->width[c] > 8)
			return false;
	}
	return nspy_get_left(&g) == 0;
}

/* --- writing --- */

static void put_zigzag(struct nspy_put *w, uint64_t difference)
{
	nspy_put_varint(w, nspy_zigzag((int64_t)difference));
}

static void put_info(struct nspy_put *w, const struct nspy_block_chunk *chunk,
		     struct nspy_chunk_info *before)
{
	const struct nspy_chunk_info *info = &chunk->info;

	nspy_put_varint(w, info->kind);
	nspy_put_varint(w, info->flags);
	put_zigzag(w, (uint64_t)info->sequence - before->sequence);
	put_zigzag(w, (uint64_t)info->segment - before->segment);
	nspy_put_varint(w, info->run_id ^ before->run_id);
	put_zigzag(w, info->first_ns - before->last_ns);
	put_zigzag(w, info->last_ns - info->first_ns);
	put_zigzag(w, (uint64_t)info->mono_to_real_ns - (uint64_t)before->mono_to_real_ns);
	put_zigzag(w, (uint64_t)info->thread_serial - before->thread_serial);
	nspy_put_varint(w, info->records);
	put_zigzag(w, info->first_index - before->first_index - before->records);
	nspy_put_varint(w, info->raw_bytes);
	*before = *info;
}

static void put_bodies(struct nspy_put *w, const struct nspy_block *block,
		       const struct nspy_ops_parts *parts)
{
	uint8_t id[8];

	for (size_t i = 0; i < block->count; i++) {
		const struct nspy_block_chunk *chunk = &block->chunks[i];

		if (chunk->shared) {
			nspy_le64_store(id, chunk->shared);
			nspy_put_copy(w, id, sizeof(id));
		} else if (parts[i].calls) {
			nspy_put_copy(w, chunk->payload, parts[i].head_bytes);
			nspy_put_copy(w, parts[i].width, NSPY_BLOCK_COLUMNS);
		} else {
			nspy_put_copy(w, chunk->payload, chunk->info.raw_bytes);
		}
	}
}

static void put_planes(struct nspy_put *w, const struct nspy_block *block,
		       const struct nspy_ops_parts *parts, unsigned int c, unsigned int k)
{
	for (size_t i = 0; i < block->count; i++) {
		if (parts[i].calls && parts[i].width[c] > k)
			nspy_put_copy(w, parts[i].planes[c] + k * parts[i].calls, parts[i].calls);
	}
}

static void put_forms(struct nspy_put *w, const struct nspy_block *block,
		      const struct nspy_ops_parts *parts)
{
	struct nspy_chunk_info before = {0};

	nspy_put_varint(w, block->count);
	for (size_t i = 0; i < block->count; i++) {
		put_info(w, &block->chunks[i], &before);
		if (block->chunks[i].shared) {
			nspy_put_varint(w, NSPY_FORM_SHARED);
		} else if (parts[i].calls) {
			nspy_put_varint(w, NSPY_FORM_PARTS);
			nspy_put_varint(w, parts[i].head_bytes);
			nspy_put_varint(w, parts[i].calls);
		} else {
			nspy_put_varint(w, NSPY_FORM_PLAIN);
		}
	}
}

static void end_part(size_t at, size_t *ends, size_t *count)
{
	if (at >= PART_BYTES_MIN + (*count ? ends[*count - 1] : 0))
		ends[(*count)++] = at;
}

size_t nspy_block_encode(const struct nspy_block *block, uint8_t **ret_payload, size_t *ends,
			 size_t *ret_end_count)
{
	struct nspy_ops_parts *parts = nspy_xcalloc(block->count, sizeof(*parts));
	size_t room = 16 + block->bytes + block->count * (NSPY_BLOCK_INFO_BYTES + 8), bytes;
	uint8_t *payload = nspy_xmalloc(room);
	struct nspy_put w = {payload, payload + room, false};

	*ret_end_count = 0;
	for (size_t i = 0; i < block->count; i++) {
		if (!take_apart(&block->chunks[i], &parts[i]))
			parts[i].calls = 0;
	}
	put_forms(&w, block, parts);
	put_bodies(&w, block, parts);
	end_part((size_t)(w.at - payload), ends, ret_end_count);
	for (unsigned int c = 0; c < NSPY_BLOCK_COLUMNS; c++) {
		for (unsigned int k = 0; k < 8; k++) {
			put_planes(&w, block, parts, c, k);
			end_part((size_t)(w.at - payload), ends, ret_end_count);
		}
	}
	bytes = (size_t)(w.at - payload);
	free(parts);
	*ret_payload = payload;
	return bytes;
}
