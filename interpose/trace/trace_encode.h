/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing chunks. Everything encodes into buffers the caller owns; nothing allocates, prints or
 * makes a system call, so the same code serves the writer thread inside a job, the launcher and
 * the tests.
 *
 * Errors (negative): -ENOBUFS the output buffer is too small, -EINVAL a limit of trace_format.h is
 * exceeded, -EIO zstd failed.
 */
#ifndef NSPY_TRACE_ENCODE_H
#define NSPY_TRACE_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#include "trace_reader.h"

/* Workspace the compressor needs, from nspy_packer_bytes(); 8-byte aligned, owned by the caller. */
struct nspy_packer;
size_t nspy_packer_bytes(void);
struct nspy_packer *nspy_packer_init(void *workspace, size_t bytes);

/*
 * Packs one chunk (header and compressed payload) into out. Taken from info: kind, flags,
 * sequence, segment, run_id, first_ns, last_ns, mono_to_real_ns, thread_serial, records,
 * first_index. Returns the bytes written or a negative error. out needs at most
 * nspy_chunk_bound(raw_bytes) bytes.
 */
size_t nspy_chunk_bound(size_t raw_bytes);
long nspy_chunk_pack(struct nspy_packer *packer, const struct nspy_chunk_info *info,
		     const uint8_t *payload, size_t raw_bytes, uint8_t *out, size_t out_bytes);

/*
 * For programs that may allocate: a compressor of that level, to be freed; NULL without memory.
 * What is packed with sections begins a new table of symbols at each end[i] (rising, <= raw_bytes):
 * parts of different kinds do not spoil each other's.
 */
struct nspy_packer *nspy_packer_new(int level);
void nspy_packer_free(struct nspy_packer *packer);
long nspy_chunk_pack_sections(struct nspy_packer *packer, const struct nspy_chunk_info *info,
			      const uint8_t *payload, size_t raw_bytes, const size_t *ends,
			      size_t end_count, uint8_t *out, size_t out_bytes);

/*
 * Encodes records (times in ns, at most NSPY_CHUNK_RECORDS_MAX) of one thread as an OPS payload.
 * scratch: nspy_ops_scratch_bytes() bytes, 8-byte aligned. out: nspy_ops_bound(count) is enough.
 * Returns the bytes written or a negative error.
 */
size_t nspy_ops_scratch_bytes(void);
size_t nspy_ops_bound(size_t count);
long nspy_ops_encode(const union nspy_any_rec *records, size_t count, void *scratch, uint8_t *out,
		     size_t out_bytes);

/* Encodes a STATE or END payload. */
long nspy_state_encode(const struct nspy_state *state, const struct nspy_comm_rec *comms,
		       const struct nspy_open_call *open_calls, uint8_t *out, size_t out_bytes);

/*
 * Appends a key/value pair to an IDENT payload of *used bytes. Keys are 1 to 255 bytes; a value
 * longer than NSPY_TEXT_BYTES_MAX is cut. -ENOBUFS leaves the payload as it was.
 */
int nspy_ident_put(uint8_t *payload, size_t capacity, size_t *used, const char *key,
		   const char *value);

#endif
