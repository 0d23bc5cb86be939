/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes on disk per operation, chunk headers included.
 *
 * steady: a training step of 24 operations over two communicators, repeated; gaps with a standard
 *	   deviation of 10 us, durations with one of 1 us, in nanoseconds
 * worst:  nothing repeats: sizes, peers, communicators, streams and times are random
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "trace_encode.h"

#define OPERATIONS 200000u
#define PER_CHUNK  1020u /* what the writer thread puts into one */

static uint64_t random_state = 42;

static uint64_t random_u64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static double random_normal(void)
{
	double u = ((double)(random_u64() >> 11) + 1) / 9007199254740993.0;
	double v = (double)(random_u64() >> 11) / 9007199254740992.0;

	return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

static void steady(struct nspy_rec *rec, size_t i, uint64_t *now, uint64_t seq[2])
{
	size_t k = i % 24;

	*now += (uint64_t)(300000 + 5000 * (double)k + 10000 * random_normal());
	*rec = (struct nspy_rec){
		.enter = *now,
		.leave = *now + (uint64_t)(15000 + 500 * (double)k + 1000 * random_normal()),
		.count = 4096ull << (k % 10),
		.arg = 0x7f31c0000000,
		.seq = ++seq[k % 3 == 0],
		.comm = k % 3 == 0,
		.peer = NSPY_PEER_NONE,
		.fn = (uint16_t)(24 + k % 4),
		.kind = NSPY_REC_CALL,
		.datatype = 9,
		.redop = 0,
		.callno = (uint32_t)i + 1,
	};
	*now = rec->leave;
}

static void worst(struct nspy_rec *rec, size_t i, uint64_t *now, uint64_t seq[2])
{
	(void)seq;
	*now += random_u64() % 1000000000;
	*rec = (struct nspy_rec){
		.enter = *now,
		.leave = *now + random_u64() % 100000000,
		.count = random_u64() >> 34,
		.arg = 0x7f0000000000 | (random_u64() >> 32),
		.seq = random_u64() % 1000000,
		.comm = (uint32_t)(random_u64() % 64),
		.peer = (int32_t)(random_u64() % 4096),
		.fn = (uint16_t)(24 + random_u64() % 16),
		.kind = NSPY_REC_CALL,
		.datatype = (uint8_t)(random_u64() % 12),
		.redop = (uint8_t)(random_u64() % 5),
		.callno = (uint32_t)i + 1,
		.group = (uint32_t)(i / 4),
	};
	*now = rec->leave;
}

typedef void make_fn(struct nspy_rec *rec, size_t i, uint64_t *now, uint64_t seq[2]);

static double bytes_per_operation(make_fn *make)
{
	static union nspy_any_rec records[PER_CHUNK];
	size_t packer_bytes = nspy_packer_bytes(), payload_bytes = nspy_ops_bound(PER_CHUNK);
	struct nspy_packer *packer = nspy_packer_init(malloc(packer_bytes), packer_bytes);
	void *scratch = malloc(nspy_ops_scratch_bytes());
	uint8_t *payload = malloc(payload_bytes);
	uint8_t *out = malloc(nspy_chunk_bound(payload_bytes));
	uint64_t now = 1000000000000, seq[2] = {0}, total = 0;

	for (size_t i = 0; i < OPERATIONS; i += PER_CHUNK) {
		struct nspy_chunk_info info = {.kind = NSPY_CHUNK_OPS, .records = PER_CHUNK};
		long raw, packed;

		memset(records, 0, sizeof(records));
		for (size_t k = 0; k < PER_CHUNK; k++)
			make(&records[k].call, i + k, &now, seq);
		raw = nspy_ops_encode(records, PER_CHUNK, scratch, payload, payload_bytes);
		if (raw < 0)
			bench_die("encoding failed");
		packed = nspy_chunk_pack(packer, &info, payload, (size_t)raw, out,
					 nspy_chunk_bound(payload_bytes));
		if (packed < 0)
			bench_die("packing failed");
		total += (uint64_t)packed;
	}
	free(scratch);
	free(payload);
	free(out);
	return (double)total / (double)((OPERATIONS + PER_CHUNK - 1) / PER_CHUNK * PER_CHUNK);
}

int main(void)
{
	bench_print("trace", "trace_bytes_per_op_steady", bytes_per_operation(steady), "bytes",
		    "64-byte record in memory");
	bench_print("trace", "trace_bytes_per_op_worst", bytes_per_operation(worst), "bytes",
		    "64-byte record in memory");
	return 0;
}
