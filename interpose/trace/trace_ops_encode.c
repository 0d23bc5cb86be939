/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "trace_bytes.h"
#include "trace_encode.h"
#include "trace_ops.h"
#include "trace_raw.h"

#define HASH_SLOTS (2u * NSPY_CHUNK_RECORDS_MAX) /* power of two, at most half full */

struct scratch {
	uint64_t column[NSPY_COL_COUNT][NSPY_CHUNK_RECORDS_MAX];
	struct nspy_template templates[NSPY_CHUNK_TEMPLATES_MAX];
	uint16_t hash[HASH_SLOTS]; /* template index + 1, 0 = empty */
	uint32_t template_count;
	uint32_t call_count;
};

size_t nspy_ops_scratch_bytes(void)
{
	return sizeof(struct scratch);
}

size_t nspy_ops_bound(size_t count)
{
	/* Worst case per record: a template of its own, a side record's bytes, all planes. */
	return 64 + count * (48 + 3 + NSPY_REC_BYTES + 8 * NSPY_COL_COUNT);
}

static uint32_t template_hash(const struct nspy_template *t)
{
	uint64_t h = t->count * 0x9E3779B97F4A7C15ULL;

	h ^= ((uint64_t)t->comm << 32 | (uint32_t)t->peer) * 0xC2B2AE3D27D4EB4FULL;
	h ^= ((uint64_t)t->fn << 48 | (uint64_t)(uint16_t)t->result << 32 |
	      (uint64_t)t->flags << 24 | (uint64_t)t->datatype << 16 | (uint64_t)t->redop << 8 |
	      t->has_seq) *
	     0x165667B19E3779F9ULL;
	return (uint32_t)((h ^ h >> 32) & (HASH_SLOTS - 1));
}

static bool same_family(const struct nspy_template *a, const struct nspy_template *b)
{
	if (a->comm != b->comm || a->has_seq != b->has_seq ||
	    (a->flags & NSPY_CALL_PEER_SEQ) != (b->flags & NSPY_CALL_PEER_SEQ))
		return false;
	return !(a->flags & NSPY_CALL_PEER_SEQ) || (a->peer == b->peer && a->fn == b->fn);
}

/* Families are few where it matters; the search is bounded so that odd chunks stay linear. */
static uint32_t find_family(const struct scratch *s, const struct nspy_template *t)
{
	uint32_t limit = s->template_count < 256 ? s->template_count : 256;

	for (uint32_t i = 0; i < limit; i++)
		if (s->templates[i].family == i && same_family(&s->templates[i], t))
			return i;
	return s->template_count;
}

static uint32_t template_of(struct scratch *s, const struct nspy_rec *rec)
{
	struct nspy_template t = {
		.count = rec->count,
		.comm = rec->comm,
		.peer = rec->peer,
		.fn = rec->fn,
		.result = rec->result,
		.flags = rec->flags,
		.datatype = rec->datatype,
		.redop = rec->redop,
		.has_seq = rec->seq != 0,
	};
	uint32_t slot = template_hash(&t);

	for (; s->hash[slot]; slot = (slot + 1) & (HASH_SLOTS - 1))
		if (nspy_template_same(&s->templates[s->hash[slot] - 1], &t))
			return s->hash[slot] - 1u;
	t.family = find_family(s, &t);
	s->templates[s->template_count] = t;
	s->hash[slot] = (uint16_t)(s->template_count + 1);
	return s->template_count++;
}

/* What the decoder knows about the record before the one at hand. */
struct running {
	uint64_t leave;
	uint32_t group;
	uint32_t callno;
};

static uint64_t residual(uint64_t value, uint64_t predicted)
{
	return nspy_zigzag((int64_t)(value - predicted));
}

static void add_call(struct scratch *s, struct running *run, const struct nspy_rec *rec)
{
	uint32_t i = s->call_count++;
	uint32_t index = template_of(s, rec);
	struct nspy_template *t = &s->templates[index];
	uint64_t leave = rec->leave ? rec->leave : rec->enter;
	uint64_t gap = rec->enter - run->leave;
	uint64_t duration = leave - rec->enter;

	s->column[NSPY_COL_TEMPLATE][i] = index;
	s->column[NSPY_COL_GAP][i] = residual(gap, t->last_gap);
	s->column[NSPY_COL_DURATION][i] = residual(duration, t->last_duration);
	s->column[NSPY_COL_SEQ][i] = 0;
	if (t->has_seq) {
		struct nspy_template *family = &s->templates[t->family];

		s->column[NSPY_COL_SEQ][i] = residual(rec->seq, family->last_seq + 1);
		family->last_seq = rec->seq;
	}
	s->column[NSPY_COL_ARG][i] = residual(rec->arg, t->last_arg);
	s->column[NSPY_COL_GROUP][i] = nspy_zigzag((int32_t)(rec->group - run->group));
	s->column[NSPY_COL_CALLNO][i] = nspy_zigzag((int32_t)(rec->callno - run->callno - 1));
	t->last_gap = gap;
	t->last_duration = duration;
	t->last_arg = rec->arg;
	*run = (struct running){leave, rec->group, rec->callno};
}

static void put_templates(struct nspy_put *w, const struct scratch *s)
{
	for (uint32_t i = 0; i < s->template_count; i++) {
		const struct nspy_template *t = &s->templates[i];

		nspy_put_varint(w, t->fn);
		nspy_put_u8(w, t->flags);
		nspy_put_u8(w, t->datatype);
		nspy_put_u8(w, t->redop);
		nspy_put_u8(w, t->has_seq);
		nspy_put_varint(w, nspy_zigzag(t->result));
		nspy_put_varint(w, (uint64_t)(uint32_t)(t->comm + 1));
		nspy_put_varint(w, nspy_zigzag(t->peer));
		nspy_put_varint(w, t->count);
		nspy_put_varint(w, t->family);
	}
}

static void put_side(struct nspy_put *w, const union nspy_any_rec *records, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint8_t *p;

		if (records[i].call.kind == NSPY_REC_CALL)
			continue;
		nspy_put_varint(w, i);
		p = nspy_put_room(w, NSPY_REC_BYTES);
		if (p)
			nspy_raw_store(p, &records[i]);
	}
}

static void put_column(struct nspy_put *w, const uint64_t *values, uint32_t count)
{
	uint64_t all = 0;
	unsigned int width = 0;

	for (uint32_t i = 0; i < count; i++)
		all |= values[i];
	for (; all; all >>= 8)
		width++;
	nspy_put_u8(w, (uint8_t)width);
	for (unsigned int k = 0; k < width; k++) {
		uint8_t *plane = nspy_put_room(w, count);

		for (uint32_t i = 0; plane && i < count; i++)
			plane[i] = (uint8_t)(values[i] >> (8 * k));
	}
}

static uint64_t base_time(const union nspy_any_rec *records, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (records[i].call.kind == NSPY_REC_CALL)
			return records[i].call.enter;
	return 0;
}

long nspy_ops_encode(const union nspy_any_rec *records, size_t count, void *scratch, uint8_t *out,
		     size_t out_bytes)
{
	struct scratch *s = scratch;
	struct nspy_put w = {out, out + out_bytes, false};
	struct running run = {.leave = base_time(records, count)};

	if (count > NSPY_CHUNK_RECORDS_MAX)
		return -EINVAL;
	s->template_count = 0;
	s->call_count = 0;
	memset(s->hash, 0, sizeof(s->hash));
	for (size_t i = 0; i < count; i++)
		if (records[i].call.kind == NSPY_REC_CALL)
			add_call(s, &run, &records[i].call);

	nspy_put_varint(&w, count);
	nspy_put_varint(&w, s->template_count);
	nspy_put_varint(&w, count - s->call_count);
	nspy_put_varint(&w, base_time(records, count));
	put_templates(&w, s);
	put_side(&w, records, count);
	for (int c = 0; c < NSPY_COL_COUNT; c++)
		put_column(&w, s->column[c], s->call_count);
	return w.bad ? -ENOBUFS : (long)(w.at - out);
}
