/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "trace_prof.h"

#define COUNTERS_MAX 256u /* a newer version may have more than we know */

static uint32_t get_u32(struct nspy_get *g)
{
	return (uint32_t)nspy_get_limited(g, UINT32_MAX);
}

static int32_t get_i32(struct nspy_get *g)
{
	return (int32_t)nspy_unzigzag(nspy_get_limited(g, UINT32_MAX));
}

static void get_comm(struct nspy_get *g, struct nspy_prof_comm *comm)
{
	size_t bytes;

	comm->id = get_u32(g);
	comm->comm = get_u32(g);
	comm->when_ns = nspy_get_varint(g);
	comm->hash = nspy_get_varint(g);
	comm->api = get_u32(g);
	comm->mask = get_u32(g);
	comm->nranks = get_i32(g);
	comm->rank = get_i32(g);
	comm->nodes = get_i32(g);
	bytes = nspy_get_limited(g, NSPY_PROF_TEXT_BYTES_MAX);
	comm->name.text = (const char *)nspy_get_bytes(g, bytes);
	comm->name.bytes = comm->name.text ? bytes : 0;
}

static void get_op(struct nspy_get *g, struct nspy_prof_op *op)
{
	op->comm = get_u32(g);
	op->what = get_u32(g);
	op->flags = get_u32(g);
	op->func = get_u32(g);
	op->algo = get_u32(g);
	op->proto = get_u32(g);
	op->datatype = get_u32(g);
	op->channels = get_u32(g);
	op->peer = get_i32(g);
	op->seq = nspy_get_varint(g);
	op->count = nspy_get_varint(g);
	op->start_ns = nspy_get_varint(g);
	op->queued_ns = nspy_get_varint(g);
	op->proxies = get_u32(g);
	op->proxy_first_ns = nspy_get_varint(g);
	op->proxy_last_ns = nspy_get_varint(g);
	op->kernels = get_u32(g);
	op->kernel_first_ns = nspy_get_varint(g);
	op->kernel_last_ns = nspy_get_varint(g);
	op->gpu_kernels = get_u32(g);
	op->gpu_ns = nspy_get_varint(g);
	if (g->at < g->end) /* not in traces of the first versions */
		op->gpu_start_ns = nspy_get_varint(g);
}

static void get_counters(struct nspy_get *g, uint64_t *counter, uint32_t known)
{
	uint32_t count = (uint32_t)nspy_get_limited(g, COUNTERS_MAX);

	for (uint32_t i = 0; i < count; i++) {
		uint64_t value = nspy_get_varint(g);

		if (i < known)
			counter[i] = value;
	}
}

static void get_body(struct nspy_get *g, struct nspy_prof_record *record)
{
	switch (record->kind) {
	case NSPY_PROF_COMM:
		get_comm(g, &record->comm);
		break;
	case NSPY_PROF_OP:
		get_op(g, &record->op);
		break;
	case NSPY_PROF_WAIT:
		record->wait.comm = get_u32(g);
		record->wait.peer = get_i32(g);
		record->wait.when_ns = nspy_get_varint(g);
		record->wait.span_ns = nspy_get_varint(g);
		get_counters(g, record->wait.counter, NSPY_PROF_WAIT_COUNT);
		break;
	case NSPY_PROF_SUMS:
		record->sums.when_ns = nspy_get_varint(g);
		get_counters(g, record->sums.counter, NSPY_PROF_SUM_COUNT);
		break;
	default:
		break;
	}
}

int nspy_prof_next(const uint8_t *payload, size_t bytes, size_t *cursor,
		   struct nspy_prof_record *ret)
{
	struct nspy_prof_record record = {0};
	struct nspy_get g, body;
	const uint8_t *head, *data;
	size_t length;

	if (*cursor >= bytes)
		return -ENODATA;
	g = (struct nspy_get){payload + *cursor, payload + bytes, false};
	head = nspy_get_bytes(&g, 5);
	length = head ? nspy_le32_load(head + 1) : 0;
	data = nspy_get_bytes(&g, length);
	if (!head || !data)
		return -EBADMSG;
	body = (struct nspy_get){data, data + length, false};
	record.kind = head[0];
	get_body(&body, &record);
	if (body.bad)
		return -EBADMSG;
	*cursor = (size_t)(data + length - payload);
	*ret = record;
	return 0;
}
