/* SPDX-License-Identifier: Apache-2.0 */
/* Packing outside of jobs, where time and memory matter less than size. Not in the library. */
#include <errno.h>

#include <zstd.h>

#include "trace_chunk.h"
#include "trace_encode.h"

#define FLUSH_BYTES 64u /* that a section may take more than it would alone */

struct nspy_packer *nspy_packer_new(int level)
{
	ZSTD_CCtx *zstd = ZSTD_createCCtx();

	if (zstd && (ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, level)) ||
		     ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1)))) {
		ZSTD_freeCCtx(zstd);
		return NULL;
	}
	return (struct nspy_packer *)zstd;
}

void nspy_packer_free(struct nspy_packer *packer)
{
	ZSTD_freeCCtx((ZSTD_CCtx *)packer);
}

static size_t compress(ZSTD_CCtx *zstd, const uint8_t *payload, size_t raw_bytes,
		       const size_t *ends, size_t end_count, uint8_t *out, size_t out_bytes)
{
	ZSTD_inBuffer in = {payload, 0, 0};
	ZSTD_outBuffer to = {out, out_bytes, 0};
	size_t rc = ZSTD_CCtx_reset(zstd, ZSTD_reset_session_only);

	if (!ZSTD_isError(rc))
		rc = ZSTD_CCtx_setPledgedSrcSize(zstd, raw_bytes);
	for (size_t i = 0; i <= end_count && !ZSTD_isError(rc); i++) {
		ZSTD_EndDirective how = i < end_count ? ZSTD_e_flush : ZSTD_e_end;

		in.size = i < end_count ? ends[i] : raw_bytes;
		do {
			rc = ZSTD_compressStream2(zstd, &to, &in, how);
		} while (!ZSTD_isError(rc) && rc > 0 && to.pos < to.size);
		if (!ZSTD_isError(rc) && rc > 0)
			return (size_t)-1; /* no room; any error code does */
	}
	return ZSTD_isError(rc) ? rc : to.pos;
}

long nspy_chunk_pack_sections(struct nspy_packer *packer, const struct nspy_chunk_info *info,
			      const uint8_t *payload, size_t raw_bytes, const size_t *ends,
			      size_t end_count, uint8_t *out, size_t out_bytes)
{
	struct nspy_chunk_info full = *info;
	size_t packed, before = 0;

	if (raw_bytes > NSPY_CHUNK_RAW_BYTES_MAX)
		return -EINVAL;
	for (size_t i = 0; i < end_count; i++) {
		if (ends[i] < before || ends[i] > raw_bytes)
			return -EINVAL;
		before = ends[i];
	}
	if (out_bytes < nspy_chunk_bound(raw_bytes) + end_count * FLUSH_BYTES)
		return -ENOBUFS;
	packed = compress((ZSTD_CCtx *)packer, payload, raw_bytes, ends, end_count,
			  out + NSPY_CHUNK_HEADER_BYTES, out_bytes - NSPY_CHUNK_HEADER_BYTES);
	if (ZSTD_isError(packed))
		return -EIO;
	full.packed_bytes = (uint32_t)packed;
	full.raw_bytes = (uint32_t)raw_bytes;
	nspy_chunk_header_store(out, &full);
	return (long)(NSPY_CHUNK_HEADER_BYTES + packed);
}
