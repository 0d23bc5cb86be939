/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_chunk.h"

#include <errno.h>

#define XXH_INLINE_ALL
#include <xxhash.h>
#define ZSTD_STATIC_LINKING_ONLY /* for the static-workspace compressor */
#include <zstd.h>

#include "trace_bytes.h"
#include "trace_encode.h"

#define CHECKSUM_OFFSET 88u
#define ZSTD_LEVEL      1

void nspy_chunk_header_store(uint8_t *p, const struct nspy_chunk_info *info)
{
	nspy_le32_store(p + 0, NSPY_SKIP_MAGIC);
	nspy_le32_store(p + 4, NSPY_CHUNK_HEADER_BYTES - 8);
	nspy_le64_store(p + 8, NSPY_CHUNK_MAGIC);
	nspy_le16_store(p + 16, NSPY_TRACE_VERSION);
	nspy_le16_store(p + 18, (uint16_t)info->kind);
	nspy_le32_store(p + 20, info->flags);
	nspy_le32_store(p + 24, info->sequence);
	nspy_le32_store(p + 28, info->segment);
	nspy_le32_store(p + 32, info->packed_bytes);
	nspy_le32_store(p + 36, info->raw_bytes);
	nspy_le64_store(p + 40, info->run_id);
	nspy_le64_store(p + 48, info->first_ns);
	nspy_le64_store(p + 56, info->last_ns);
	nspy_le64_store(p + 64, (uint64_t)info->mono_to_real_ns);
	nspy_le32_store(p + 72, info->thread_serial);
	nspy_le32_store(p + 76, info->records);
	nspy_le64_store(p + 80, info->first_index);
	nspy_le64_store(p + CHECKSUM_OFFSET, XXH64(p, CHECKSUM_OFFSET, 0));
}

bool nspy_chunk_prefix_ok(const uint8_t *p)
{
	return nspy_le32_load(p) == NSPY_SKIP_MAGIC && nspy_le64_load(p + 8) == NSPY_CHUNK_MAGIC;
}

int nspy_chunk_header_load(const uint8_t *p, struct nspy_chunk_info *ret)
{
	struct nspy_chunk_info info = {0};

	if (!nspy_chunk_prefix_ok(p))
		return -EBADMSG;
	/* The version comes before the checksum: a later format may seal its header otherwise. */
	if (nspy_le16_load(p + 16) > NSPY_TRACE_VERSION)
		return -EPROTONOSUPPORT;
	if (nspy_le32_load(p + 4) != NSPY_CHUNK_HEADER_BYTES - 8 ||
	    nspy_le64_load(p + CHECKSUM_OFFSET) != XXH64(p, CHECKSUM_OFFSET, 0))
		return -EBADMSG;
	info.kind = nspy_le16_load(p + 18);
	info.flags = nspy_le32_load(p + 20);
	info.sequence = nspy_le32_load(p + 24);
	info.segment = nspy_le32_load(p + 28);
	info.packed_bytes = nspy_le32_load(p + 32);
	info.raw_bytes = nspy_le32_load(p + 36);
	info.run_id = nspy_le64_load(p + 40);
	info.first_ns = nspy_le64_load(p + 48);
	info.last_ns = nspy_le64_load(p + 56);
	info.mono_to_real_ns = (int64_t)nspy_le64_load(p + 64);
	info.thread_serial = nspy_le32_load(p + 72);
	info.records = nspy_le32_load(p + 76);
	info.first_index = nspy_le64_load(p + 80);
	if (info.flags & NSPY_CHUNK_FLAGS_INCOMPAT & ~NSPY_CHUNK_FLAGS_KNOWN_INCOMPAT)
		return -EPROTONOSUPPORT;
	if (info.raw_bytes > NSPY_CHUNK_RAW_BYTES_MAX ||
	    info.packed_bytes > NSPY_CHUNK_PACKED_BYTES_MAX ||
	    info.records > NSPY_CHUNK_RECORDS_MAX)
		return -E2BIG;
	*ret = info;
	return 0;
}

/* A chunk is at most 1 MiB, usually far less: a small window keeps the workspace small. */
#define ZSTD_WINDOW_LOG 18

/* The compressor's settings in the form that only the size estimate takes. */
size_t nspy_packer_bytes(void)
{
	ZSTD_compressionParameters c = ZSTD_getCParams(ZSTD_LEVEL, 0, 0);

	c.windowLog = ZSTD_WINDOW_LOG;
	return ZSTD_estimateCCtxSize_usingCParams(c);
}

struct nspy_packer *nspy_packer_init(void *workspace, size_t bytes)
{
	ZSTD_CCtx *zstd = ZSTD_initStaticCCtx(workspace, bytes);

	if (!zstd)
		return NULL;
	if (ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_windowLog, ZSTD_WINDOW_LOG)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1)))
		return NULL;
	return (struct nspy_packer *)zstd;
}

size_t nspy_chunk_bound(size_t raw_bytes)
{
	return NSPY_CHUNK_HEADER_BYTES + ZSTD_compressBound(raw_bytes);
}

long nspy_chunk_pack(struct nspy_packer *packer, const struct nspy_chunk_info *info,
		     const uint8_t *payload, size_t raw_bytes, uint8_t *out, size_t out_bytes)
{
	struct nspy_chunk_info full = *info;
	size_t packed;

	if (raw_bytes > NSPY_CHUNK_RAW_BYTES_MAX)
		return -EINVAL;
	if (out_bytes < nspy_chunk_bound(raw_bytes))
		return -ENOBUFS;
	packed = ZSTD_compress2((ZSTD_CCtx *)packer, out + NSPY_CHUNK_HEADER_BYTES,
				out_bytes - NSPY_CHUNK_HEADER_BYTES, payload, raw_bytes);
	if (ZSTD_isError(packed))
		return -EIO;
	full.packed_bytes = (uint32_t)packed;
	full.raw_bytes = (uint32_t)raw_bytes;
	nspy_chunk_header_store(out, &full);
	return (long)(NSPY_CHUNK_HEADER_BYTES + packed);
}
