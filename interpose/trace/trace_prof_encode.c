/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "trace_prof.h"

/* Each record: u8 kind, u32 bytes that follow, then the fields. */
#define HEAD_BYTES 5u

static struct nspy_put begin(const struct nspy_prof_buffer *b)
{
	uint8_t *end = b->data + b->capacity;

	if (b->capacity - b->used < HEAD_BYTES)
		return (struct nspy_put){end, end, true};
	return (struct nspy_put){b->data + b->used + HEAD_BYTES, end, false};
}

static int finish(struct nspy_prof_buffer *b, const struct nspy_put *w, enum nspy_prof_kind kind)
{
	uint8_t *head = b->data + b->used;

	if (w->bad)
		return -ENOBUFS;
	head[0] = (uint8_t)kind;
	nspy_le32_store(head + 1, (uint32_t)((size_t)(w->at - head) - HEAD_BYTES));
	b->used = (size_t)(w->at - b->data);
	return 0;
}

int nspy_prof_put_comm(struct nspy_prof_buffer *b, const struct nspy_prof_comm *comm)
{
	struct nspy_put w = begin(b);
	size_t bytes = comm->name.bytes < NSPY_PROF_TEXT_BYTES_MAX ? comm->name.bytes
								   : NSPY_PROF_TEXT_BYTES_MAX;

	nspy_put_varint(&w, comm->id);
	nspy_put_varint(&w, comm->comm);
	nspy_put_varint(&w, comm->when_ns);
	nspy_put_varint(&w, comm->hash);
	nspy_put_varint(&w, comm->api);
	nspy_put_varint(&w, comm->mask);
	nspy_put_varint(&w, nspy_zigzag(comm->nranks));
	nspy_put_varint(&w, nspy_zigzag(comm->rank));
	nspy_put_varint(&w, nspy_zigzag(comm->nodes));
	nspy_put_varint(&w, bytes);
	if (bytes)
		nspy_put_copy(&w, comm->name.text, bytes);
	return finish(b, &w, NSPY_PROF_COMM);
}

int nspy_prof_put_op(struct nspy_prof_buffer *b, const struct nspy_prof_op *op)
{
	struct nspy_put w = begin(b);

	nspy_put_varint(&w, op->comm);
	nspy_put_varint(&w, op->what);
	nspy_put_varint(&w, op->flags);
	nspy_put_varint(&w, op->func);
	nspy_put_varint(&w, op->algo);
	nspy_put_varint(&w, op->proto);
	nspy_put_varint(&w, op->datatype);
	nspy_put_varint(&w, op->channels);
	nspy_put_varint(&w, nspy_zigzag(op->peer));
	nspy_put_varint(&w, op->seq);
	nspy_put_varint(&w, op->count);
	nspy_put_varint(&w, op->start_ns);
	nspy_put_varint(&w, op->queued_ns);
	nspy_put_varint(&w, op->proxies);
	nspy_put_varint(&w, op->proxy_first_ns);
	nspy_put_varint(&w, op->proxy_last_ns);
	nspy_put_varint(&w, op->kernels);
	nspy_put_varint(&w, op->kernel_first_ns);
	nspy_put_varint(&w, op->kernel_last_ns);
	nspy_put_varint(&w, op->gpu_kernels);
	nspy_put_varint(&w, op->gpu_ns);
	nspy_put_varint(&w, op->gpu_start_ns);
	return finish(b, &w, NSPY_PROF_OP);
}

/* Not inline: gcc 12 warns of a store that cannot happen. */
static __attribute__((noinline)) void put_counters(struct nspy_put *w, const uint64_t *counter,
						   uint32_t count)
{
	nspy_put_varint(w, count);
	for (uint32_t i = 0; i < count; i++)
		nspy_put_varint(w, counter[i]);
}

int nspy_prof_put_wait(struct nspy_prof_buffer *b, const struct nspy_prof_wait *wait)
{
	struct nspy_put w = begin(b);

	nspy_put_varint(&w, wait->comm);
	nspy_put_varint(&w, nspy_zigzag(wait->peer));
	nspy_put_varint(&w, wait->when_ns);
	nspy_put_varint(&w, wait->span_ns);
	put_counters(&w, wait->counter, NSPY_PROF_WAIT_COUNT);
	return finish(b, &w, NSPY_PROF_WAIT);
}

int nspy_prof_put_sums(struct nspy_prof_buffer *b, const struct nspy_prof_sums *sums)
{
	struct nspy_put w = begin(b);

	nspy_put_varint(&w, sums->when_ns);
	put_counters(&w, sums->counter, NSPY_PROF_SUM_COUNT);
	return finish(b, &w, NSPY_PROF_SUMS);
}
