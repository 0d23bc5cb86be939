/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks of a trace in the form that a summary keeps: what is alike in all of them lies together,
 * so that it packs better than chunk by chunk. What comes out is, byte for byte, what went in.
 * docs/SUMMARY.md describes the payload.
 *
 * context: one thread per object. The builder ends the program when memory runs out (util.h).
 */
#ifndef NSPY_BLOCK_H
#define NSPY_BLOCK_H

#include "trace_reader.h"
#include "util.h"

#define NSPY_BLOCK_CHUNKS_MAX 4096u
/* Of one block's payload: leaves room below NSPY_CHUNK_RAW_BYTES_MAX for what describes it. */
#define NSPY_BLOCK_BYTES_MAX (NSPY_CHUNK_RAW_BYTES_MAX - (64u << 10))
#define NSPY_BLOCK_PLANES    56u /* 7 columns of at most 8 bytes */

struct nspy_block_chunk {
	struct nspy_chunk_info info;
	uint8_t *payload;
	uint64_t shared; /* id of a payload that is kept elsewhere, 0 = it is here */
};

/* Chunks that are being gathered. {0} is an empty one. */
struct nspy_block {
	struct nspy_block_chunk *chunks;
	size_t count, capacity;
	size_t bytes; /* of all payloads */
};

/* Copies the payload unless it is shared. */
void nspy_block_add(struct nspy_block *block, const struct nspy_chunk_info *info,
		    const uint8_t *payload, uint64_t shared);
/* Whether another chunk of so many bytes has room. */
bool nspy_block_fits(const struct nspy_block *block, size_t bytes);
void nspy_block_done(struct nspy_block *block);

/*
 * The block as a payload; ends: where parts that pack by themselves end, up to
 * NSPY_BLOCK_PLANES + 2 of them. The caller frees *ret_payload.
 */
size_t nspy_block_encode(const struct nspy_block *block, uint8_t **ret_payload, size_t *ends,
			 size_t *ret_end_count);

/* --- reading --- */

struct nspy_block_reader;

/* payload is borrowed until the end. -EBADMSG, -E2BIG, -ENOMEM. */
int nspy_block_open(const uint8_t *payload, size_t bytes, struct nspy_block_reader **ret);
void nspy_block_close(struct nspy_block_reader *reader);
/*
 * The next chunk; *ret_payload is NULL if *ret_shared names a payload that is kept elsewhere, else
 * borrowed until the next call. -ENODATA after the last one, -EBADMSG.
 */
int nspy_block_next(struct nspy_block_reader *reader, struct nspy_chunk_info *ret_info,
		    const uint8_t **ret_payload, uint64_t *ret_shared);

#endif
