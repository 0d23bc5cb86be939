/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_raw.h"

#include <string.h>

#include "trace_bytes.h"

#define KIND_OFFSET 50u

static void store_call(uint8_t *p, const struct nspy_rec *rec)
{
	nspy_le64_store(p + 0, rec->enter);
	nspy_le64_store(p + 8, rec->leave);
	nspy_le64_store(p + 16, rec->count);
	nspy_le64_store(p + 24, rec->arg);
	nspy_le64_store(p + 32, rec->seq);
	nspy_le32_store(p + 40, rec->comm);
	nspy_le32_store(p + 44, (uint32_t)rec->peer);
	nspy_le16_store(p + 48, rec->fn);
	p[50] = rec->kind;
	p[51] = rec->flags;
	p[52] = rec->datatype;
	p[53] = rec->redop;
	nspy_le16_store(p + 54, (uint16_t)rec->result);
	nspy_le32_store(p + 56, rec->callno);
	nspy_le32_store(p + 60, rec->group);
}

static void load_call(const uint8_t *p, struct nspy_rec *rec)
{
	rec->enter = nspy_le64_load(p + 0);
	rec->leave = nspy_le64_load(p + 8);
	rec->count = nspy_le64_load(p + 16);
	rec->arg = nspy_le64_load(p + 24);
	rec->seq = nspy_le64_load(p + 32);
	rec->comm = nspy_le32_load(p + 40);
	rec->peer = (int32_t)nspy_le32_load(p + 44);
	rec->fn = nspy_le16_load(p + 48);
	rec->kind = p[50];
	rec->flags = p[51];
	rec->datatype = p[52];
	rec->redop = p[53];
	rec->result = (int16_t)nspy_le16_load(p + 54);
	rec->callno = nspy_le32_load(p + 56);
	rec->group = nspy_le32_load(p + 60);
}

static void store_comm(uint8_t *p, const struct nspy_comm_rec *rec)
{
	nspy_le64_store(p + 0, rec->when);
	nspy_le64_store(p + 8, rec->key);
	nspy_le64_store(p + 16, rec->parent_key);
	nspy_le64_store(p + 24, rec->handle);
	nspy_le64_store(p + 32, rec->id_hash);
	nspy_le32_store(p + 40, rec->comm);
	nspy_le32_store(p + 44, (uint32_t)rec->nranks);
	nspy_le16_store(p + 48, rec->origin);
	p[50] = rec->kind;
	p[51] = rec->flags;
	nspy_le32_store(p + 52, (uint32_t)rec->color);
	nspy_le32_store(p + 56, (uint32_t)rec->rank);
	nspy_le32_store(p + 60, rec->ordinal);
}

static void load_comm(const uint8_t *p, struct nspy_comm_rec *rec)
{
	rec->when = nspy_le64_load(p + 0);
	rec->key = nspy_le64_load(p + 8);
	rec->parent_key = nspy_le64_load(p + 16);
	rec->handle = nspy_le64_load(p + 24);
	rec->id_hash = nspy_le64_load(p + 32);
	rec->comm = nspy_le32_load(p + 40);
	rec->nranks = (int32_t)nspy_le32_load(p + 44);
	rec->origin = nspy_le16_load(p + 48);
	rec->kind = p[50];
	rec->flags = p[51];
	rec->color = (int32_t)nspy_le32_load(p + 52);
	rec->rank = (int32_t)nspy_le32_load(p + 56);
	rec->ordinal = nspy_le32_load(p + 60);
}

static void store_text(uint8_t *p, const struct nspy_text_rec *rec)
{
	nspy_le64_store(p + 0, rec->when);
	memcpy(p + 8, rec->text, NSPY_TEXT_PIECE_BYTES);
	nspy_le16_store(p + 48, rec->topic);
	p[50] = rec->kind;
	p[51] = rec->flags;
	p[52] = rec->bytes;
	memset(p + 53, 0, 3);
	nspy_le32_store(p + 56, rec->callno);
	nspy_le32_store(p + 60, rec->comm);
}

static void load_text(const uint8_t *p, struct nspy_text_rec *rec)
{
	rec->when = nspy_le64_load(p + 0);
	memcpy(rec->text, p + 8, NSPY_TEXT_PIECE_BYTES);
	rec->topic = nspy_le16_load(p + 48);
	rec->kind = p[50];
	rec->flags = p[51];
	rec->bytes = p[52] <= NSPY_TEXT_PIECE_BYTES ? p[52] : NSPY_TEXT_PIECE_BYTES;
	memset(rec->reserved, 0, sizeof(rec->reserved));
	rec->callno = nspy_le32_load(p + 56);
	rec->comm = nspy_le32_load(p + 60);
}

static void store_done(uint8_t *p, const struct nspy_done_rec *rec)
{
	nspy_le64_store(p, rec->when);
	nspy_le64_store(p + 8, rec->began);
	nspy_le64_store(p + 16, rec->not_done);
	nspy_le64_store(p + 24, rec->gpu_ns);
	nspy_le64_store(p + 32, rec->seq);
	nspy_le32_store(p + 40, rec->comm);
	nspy_le32_store(p + 44, rec->gap);
	nspy_le16_store(p + 48, rec->fn);
	p[50] = rec->kind;
	p[51] = rec->flags;
	nspy_le32_store(p + 52, 0);
	nspy_le32_store(p + 56, rec->callno);
	nspy_le32_store(p + 60, 0);
}

static void load_done(const uint8_t *p, struct nspy_done_rec *rec)
{
	rec->when = nspy_le64_load(p);
	rec->began = nspy_le64_load(p + 8);
	rec->not_done = nspy_le64_load(p + 16);
	rec->gpu_ns = nspy_le64_load(p + 24);
	rec->seq = nspy_le64_load(p + 32);
	rec->comm = nspy_le32_load(p + 40);
	rec->gap = nspy_le32_load(p + 44);
	rec->fn = nspy_le16_load(p + 48);
	rec->kind = p[50];
	rec->flags = p[51];
	rec->callno = nspy_le32_load(p + 56);
}

void nspy_raw_store(uint8_t *p, const union nspy_any_rec *rec)
{
	switch (rec->call.kind) {
	case NSPY_REC_CALL:
		store_call(p, &rec->call);
		break;
	case NSPY_REC_COMM:
		store_comm(p, &rec->comm);
		break;
	case NSPY_REC_TEXT:
		store_text(p, &rec->text);
		break;
	case NSPY_REC_DONE:
		store_done(p, &rec->done);
		break;
	default:
		memset(p, 0, NSPY_REC_BYTES);
	}
}

void nspy_raw_load(const uint8_t *p, union nspy_any_rec *ret)
{
	memset(ret, 0, sizeof(*ret));
	switch (p[KIND_OFFSET]) {
	case NSPY_REC_CALL:
		load_call(p, &ret->call);
		break;
	case NSPY_REC_COMM:
		load_comm(p, &ret->comm);
		break;
	case NSPY_REC_TEXT:
		load_text(p, &ret->text);
		break;
	case NSPY_REC_DONE:
		load_done(p, &ret->done);
		break;
	default:
		break;
	}
}
