/* SPDX-License-Identifier: Apache-2.0 */
#include "segment_builder.h"

#include <stdlib.h>
#include <string.h>

#define CAPACITY (256u << 10)

struct builder {
	struct segment *segment;
	struct nspy_packer *packer;
	uint8_t payload[64 << 10];
};

static void add_chunk(struct builder *b, struct nspy_chunk_info info, size_t raw_bytes)
{
	struct segment *s = b->segment;
	long bytes;

	info.sequence = (uint32_t)s->chunks;
	info.run_id = SEGMENT_RUN_ID;
	info.mono_to_real_ns = -5;
	bytes = nspy_chunk_pack(b->packer, &info, b->payload, raw_bytes, s->data + s->bytes,
				CAPACITY - s->bytes);
	if (bytes < 0)
		abort();
	s->bytes += (size_t)bytes;
	s->ends[s->chunks++] = s->bytes;
}

static void add_ident(struct builder *b)
{
	size_t used = 0;

	nspy_ident_put(b->payload, sizeof(b->payload), &used, "job", "unit");
	nspy_ident_put(b->payload, sizeof(b->payload), &used, "rank", "3");
	add_chunk(b, (struct nspy_chunk_info){.kind = NSPY_CHUNK_IDENT}, used);
}

static void add_schema(struct builder *b)
{
	static const char text[] = "fn\t0\tncclAllReduce\tnccl\t1\tncclResult_t\n";

	memcpy(b->payload, text, sizeof(text) - 1);
	add_chunk(b, (struct nspy_chunk_info){.kind = NSPY_CHUNK_SCHEMA}, sizeof(text) - 1);
}

static void add_ops(struct builder *b)
{
	static union nspy_any_rec records[SEGMENT_RECORDS];
	void *scratch = malloc(nspy_ops_scratch_bytes());
	long raw;

	memset(records, 0, sizeof(records));
	for (int i = 0; i < SEGMENT_RECORDS; i++)
		records[i].call = (struct nspy_rec){
			.enter = 1000000ull * (uint64_t)i + 5,
			.leave = 1000000ull * (uint64_t)i + 905,
			.count = 1024,
			.seq = (uint64_t)i + 1,
			.peer = NSPY_PEER_NONE,
			.kind = NSPY_REC_CALL,
			.datatype = 7,
			.callno = (uint32_t)i + 1,
		};
	raw = nspy_ops_encode(records, SEGMENT_RECORDS, scratch, b->payload, sizeof(b->payload));
	free(scratch);
	if (raw < 0)
		abort();
	add_chunk(b,
		  (struct nspy_chunk_info){.kind = NSPY_CHUNK_OPS,
					   .first_ns = 5,
					   .last_ns = 30000000,
					   .thread_serial = 3,
					   .records = SEGMENT_RECORDS,
					   .first_index = 77},
		  (size_t)raw);
}

static void add_state(struct builder *b, enum nspy_chunk_kind kind)
{
	struct nspy_comm_rec comm = {.kind = NSPY_REC_COMM, .nranks = 8, .rank = 3};
	struct nspy_open_call open = {
		.thread_serial = 3,
		.tid = 4242,
		.rec = {.enter = 7, .kind = NSPY_REC_CALL, .flags = NSPY_CALL_OPEN, .callno = 9},
	};
	struct nspy_state state = {
		.when_ns = 123456789,
		.loss = {1, 2, 3, 4, 5, 6, 7},
		.calls = 31,
		.threads_seen = 3,
		.comm_count = 1,
		.open_count = 1,
	};
	long raw = nspy_state_encode(&state, &comm, &open, b->payload, sizeof(b->payload));

	if (raw < 0)
		abort();
	add_chunk(b, (struct nspy_chunk_info){.kind = kind, .last_ns = state.when_ns}, (size_t)raw);
}

struct segment *segment_build(void)
{
	size_t packer_bytes = nspy_packer_bytes();
	struct builder *b = calloc(1, sizeof(*b));
	void *workspace = malloc(packer_bytes);
	struct segment *s = calloc(1, sizeof(*s));

	s->data = malloc(CAPACITY);
	b->segment = s;
	b->packer = nspy_packer_init(workspace, packer_bytes);
	add_ident(b);
	add_schema(b);
	add_state(b, NSPY_CHUNK_STATE);
	add_ops(b);
	add_state(b, NSPY_CHUNK_END);
	free(workspace);
	free(b);
	return s;
}

void segment_free(struct segment *segment)
{
	free(segment->data);
	free(segment);
}
