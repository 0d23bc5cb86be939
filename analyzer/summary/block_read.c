/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "block_parts.h"

struct place {
	struct nspy_chunk_info info;
	enum nspy_block_form form;
	const uint8_t *body; /* what lies among the bodies */
	size_t head_bytes, calls;
	uint8_t width[NSPY_BLOCK_COLUMNS];
};

struct nspy_block_reader {
	struct place *places;
	size_t count, at;
	const uint8_t *planes[NSPY_BLOCK_COLUMNS][8]; /* where the next chunk's begin */
	uint8_t *payload;                             /* put together again */
};

static uint64_t get_zigzag(struct nspy_get *g)
{
	return (uint64_t)nspy_unzigzag(nspy_get_varint(g));
}

static void get_info(struct nspy_get *g, const struct nspy_chunk_info *before,
		     struct nspy_chunk_info *info)
{
	info->kind = (uint32_t)nspy_get_limited(g, UINT16_MAX);
	info->flags = (uint32_t)nspy_get_limited(g, UINT32_MAX);
	info->sequence = (uint32_t)(before->sequence + get_zigzag(g));
	info->segment = (uint32_t)(before->segment + get_zigzag(g));
	info->run_id = before->run_id ^ nspy_get_varint(g);
	info->first_ns = before->last_ns + get_zigzag(g);
	info->last_ns = info->first_ns + get_zigzag(g);
	info->mono_to_real_ns = (int64_t)((uint64_t)before->mono_to_real_ns + get_zigzag(g));
	info->thread_serial = (uint32_t)(before->thread_serial + get_zigzag(g));
	info->records = (uint32_t)nspy_get_limited(g, NSPY_CHUNK_RECORDS_MAX);
	info->first_index = before->first_index + before->records + get_zigzag(g);
	info->raw_bytes = (uint32_t)nspy_get_limited(g, NSPY_CHUNK_RAW_BYTES_MAX);
}

static void get_form(struct nspy_get *g, struct place *place)
{
	uint64_t form = nspy_get_limited(g, NSPY_FORM_SHARED);

	place->form = (enum nspy_block_form)form;
	if (place->form != NSPY_FORM_PARTS)
		return;
	place->head_bytes = (size_t)nspy_get_limited(g, place->info.raw_bytes);
	place->calls = (size_t)nspy_get_limited(g, NSPY_CHUNK_RECORDS_MAX);
}

/* Head, widths and planes must make up the payload exactly. */
static void get_body(struct nspy_get *g, struct place *place)
{
	size_t whole = place->head_bytes + NSPY_BLOCK_COLUMNS;
	const uint8_t *width;

	place->body = nspy_get_bytes(g, place->form == NSPY_FORM_SHARED  ? 8
					: place->form == NSPY_FORM_PARTS ? place->head_bytes
									 : place->info.raw_bytes);
	if (place->form != NSPY_FORM_PARTS)
		return;
	width = nspy_get_bytes(g, NSPY_BLOCK_COLUMNS);
	for (int c = 0; width && c < NSPY_BLOCK_COLUMNS; c++) {
		place->width[c] = width[c];
		g->bad |= width[c] > 8;
		whole += place->calls * width[c];
	}
	g->bad |= whole != place->info.raw_bytes;
}

static void get_planes(struct nspy_get *g, struct nspy_block_reader *reader)
{
	for (int c = 0; c < NSPY_BLOCK_COLUMNS; c++) {
		for (unsigned int k = 0; k < 8; k++) {
			size_t bytes = 0;

			for (size_t i = 0; i < reader->count; i++) {
				const struct place *place = &reader->places[i];

				bytes += place->form == NSPY_FORM_PARTS && place->width[c] > k
						 ? place->calls
						 : 0;
			}
			reader->planes[c][k] = nspy_get_bytes(g, bytes);
		}
	}
}

static int parse(struct nspy_block_reader *reader, const uint8_t *payload, size_t bytes)
{
	struct nspy_get g = {payload, payload + bytes, false};
	struct nspy_chunk_info before = {0};
	size_t most = 1;

	reader->count = (size_t)nspy_get_limited(&g, NSPY_BLOCK_CHUNKS_MAX);
	if (g.bad || reader->count > bytes)
		return -EBADMSG;
	reader->places = calloc(reader->count + 1, sizeof(*reader->places));
	if (!reader->places)
		return -ENOMEM;
	for (size_t i = 0; i < reader->count && !g.bad; i++) {
		get_info(&g, &before, &reader->places[i].info);
		get_form(&g, &reader->places[i]);
		before = reader->places[i].info;
		if (reader->places[i].form == NSPY_FORM_PARTS && before.raw_bytes > most)
			most = before.raw_bytes;
	}
	for (size_t i = 0; i < reader->count && !g.bad; i++)
		get_body(&g, &reader->places[i]);
	if (!g.bad)
		get_planes(&g, reader);
	if (g.bad || nspy_get_left(&g))
		return -EBADMSG;
	reader->payload = malloc(most);
	return reader->payload ? 0 : -ENOMEM;
}

int nspy_block_open(const uint8_t *payload, size_t bytes, struct nspy_block_reader **ret)
{
	struct nspy_block_reader *reader = calloc(1, sizeof(*reader));
	int rc = reader ? parse(reader, payload, bytes) : -ENOMEM;

	if (rc < 0)
		nspy_block_close(reader);
	else
		*ret = reader;
	return rc;
}

void nspy_block_close(struct nspy_block_reader *reader)
{
	if (!reader)
		return;
	free(reader->places);
	free(reader->payload);
	free(reader);
}

static const uint8_t *put_together(struct nspy_block_reader *reader, const struct place *place)
{
	uint8_t *at = reader->payload;

	memcpy(at, place->body, place->head_bytes);
	at += place->head_bytes;
	for (int c = 0; c < NSPY_BLOCK_COLUMNS; c++) {
		*at++ = place->width[c];
		for (unsigned int k = 0; k < place->width[c]; k++) {
			memcpy(at, reader->planes[c][k], place->calls);
			reader->planes[c][k] += place->calls;
			at += place->calls;
		}
	}
	return reader->payload;
}

int nspy_block_next(struct nspy_block_reader *reader, struct nspy_chunk_info *ret_info,
		    const uint8_t **ret_payload, uint64_t *ret_shared)
{
	const struct place *place = &reader->places[reader->at];

	if (reader->at == reader->count)
		return -ENODATA;
	reader->at++;
	*ret_info = place->info;
	*ret_shared = 0;
	*ret_payload = place->body;
	if (place->form == NSPY_FORM_SHARED) {
		*ret_shared = nspy_le64_load(place->body);
		*ret_payload = NULL;
	} else if (place->form == NSPY_FORM_PARTS) {
		*ret_payload = put_together(reader, place);
	}
	return 0;
}
