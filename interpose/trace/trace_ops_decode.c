/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace_bytes.h"
#include "trace_ops.h"
#include "trace_raw.h"
#include "trace_reader.h"

/* A column as it lies in the payload. */
struct column {
	const uint8_t *planes;
	unsigned int width;
};

struct decoder {
	struct nspy_get get;
	size_t records;
	size_t side_records;
	size_t calls;
	uint32_t template_count;
	uint64_t base;
	struct column column[NSPY_COL_COUNT];
	struct nspy_template templates[NSPY_CHUNK_TEMPLATES_MAX];
};

static void get_templates(struct decoder *d)
{
	struct nspy_get *g = &d->get;

	for (uint32_t i = 0; i < d->template_count && !g->bad; i++) {
		struct nspy_template *t = &d->templates[i];

		memset(t, 0, sizeof(*t));
		t->fn = (uint16_t)nspy_get_limited(g, UINT16_MAX);
		t->flags = nspy_get_u8(g);
		t->datatype = nspy_get_u8(g);
		t->redop = nspy_get_u8(g);
		t->has_seq = nspy_get_u8(g);
		t->result = (int16_t)nspy_unzigzag(nspy_get_limited(g, UINT16_MAX));
		t->comm = (uint32_t)nspy_get_limited(g, UINT32_MAX) - 1;
		t->peer = (int32_t)nspy_unzigzag(nspy_get_limited(g, UINT32_MAX));
		t->count = nspy_get_varint(g);
		t->family = (uint32_t)nspy_get_limited(g, i);
	}
}

static void get_side(struct decoder *d, union nspy_any_rec *records)
{
	size_t next = 0;

	for (size_t i = 0; i < d->side_records; i++) {
		size_t at = nspy_get_limited(&d->get, d->records - 1);
		const uint8_t *raw = nspy_get_bytes(&d->get, NSPY_REC_BYTES);

		if (!raw || at < next) {
			d->get.bad = true;
			return;
		}
		nspy_raw_load(raw, &records[at]);
		/* A call hidden among the side records would break the columns. */
		if (records[at].call.kind == NSPY_REC_CALL ||
		    records[at].call.kind == NSPY_REC_NONE)
			d->get.bad = true;
		next = at + 1;
	}
}

static void get_columns(struct decoder *d)
{
	for (int c = 0; c < NSPY_COL_COUNT; c++) {
		unsigned int width = nspy_get_u8(&d->get);

		if (width > 8)
			d->get.bad = true;
		d->column[c].width = width;
		d->column[c].planes = nspy_get_bytes(&d->get, width * d->calls);
	}
}

static inline uint64_t column_value(const struct decoder *d, enum nspy_column c, size_t i)
{
	const uint8_t *p = d->column[c].planes + i;
	uint64_t v = 0;

	for (unsigned int k = 0; k < d->column[c].width; k++, p += d->calls)
		v |= (uint64_t)*p << (8 * k);
	return v;
}

struct running {
	uint64_t leave;
	uint32_t group;
	uint32_t callno;
};

static bool get_call(struct decoder *d, struct running *run, size_t i, struct nspy_rec *rec)
{
	uint64_t index = column_value(d, NSPY_COL_TEMPLATE, i);
	struct nspy_template *t;

	if (index >= d->template_count)
		return false;
	t = &d->templates[index];
	t->last_gap += (uint64_t)nspy_unzigzag(column_value(d, NSPY_COL_GAP, i));
	t->last_duration += (uint64_t)nspy_unzigzag(column_value(d, NSPY_COL_DURATION, i));
	t->last_arg += (uint64_t)nspy_unzigzag(column_value(d, NSPY_COL_ARG, i));
	run->group += (uint32_t)nspy_unzigzag(column_value(d, NSPY_COL_GROUP, i));
	run->callno += 1 + (uint32_t)nspy_unzigzag(column_value(d, NSPY_COL_CALLNO, i));

	rec->enter = run->leave + t->last_gap;
	run->leave = rec->enter + t->last_duration;
	rec->leave = t->flags & NSPY_CALL_OPEN ? 0 : run->leave;
	rec->count = t->count;
	rec->arg = t->last_arg;
	rec->seq = 0;
	if (t->has_seq) {
		struct nspy_template *family = &d->templates[t->family];

		family->last_seq += 1 + (uint64_t)nspy_unzigzag(column_value(d, NSPY_COL_SEQ, i));
		rec->seq = family->last_seq;
	}
	rec->comm = t->comm;
	rec->peer = t->peer;
	rec->fn = t->fn;
	rec->kind = NSPY_REC_CALL;
	rec->flags = t->flags;
	rec->datatype = t->datatype;
	rec->redop = t->redop;
	rec->result = t->result;
	rec->callno = run->callno;
	rec->group = run->group;
	return true;
}

static int get_calls(struct decoder *d, union nspy_any_rec *records)
{
	struct running run = {.leave = d->base};
	size_t call = 0;

	for (size_t i = 0; i < d->records; i++) {
		if (d->side_records && records[i].call.kind != NSPY_REC_NONE)
			continue;
		if (call >= d->calls || !get_call(d, &run, call++, &records[i].call))
			return -EBADMSG;
	}
	return call == d->calls ? 0 : -EBADMSG;
}

static int decode(struct decoder *d, union nspy_any_rec *records, size_t capacity)
{
	d->records = nspy_get_limited(&d->get, NSPY_CHUNK_RECORDS_MAX);
	d->template_count = (uint32_t)nspy_get_limited(&d->get, NSPY_CHUNK_TEMPLATES_MAX);
	d->side_records = nspy_get_limited(&d->get, d->records);
	d->base = nspy_get_varint(&d->get);
	if (d->get.bad)
		return -EBADMSG;
	if (d->records > capacity)
		return -E2BIG;
	d->calls = d->records - d->side_records;
	get_templates(d);
	/* Side records mark their places first; calls fill the rest. */
	if (d->side_records)
		memset(records, 0, d->records * sizeof(*records));
	get_side(d, records);
	get_columns(d);
	if (d->get.bad || nspy_get_left(&d->get))
		return -EBADMSG;
	return get_calls(d, records);
}

int nspy_ops_decode(const uint8_t *payload, size_t bytes, union nspy_any_rec *records,
		    size_t capacity, size_t *ret_count)
{
	struct decoder *d = malloc(sizeof(*d));
	int rc;

	if (!d)
		return -ENOMEM;
	d->get = (struct nspy_get){payload, payload + bytes, false};
	rc = decode(d, records, capacity);
	if (rc == 0)
		*ret_count = d->records;
	free(d);
	return rc;
}
