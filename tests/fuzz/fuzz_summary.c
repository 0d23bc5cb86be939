/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole summary, read as the analyzer does: index, first chunks, all chunks, bytes, texts; and
 * the input as one block. Checksums of headers are repaired, or nothing would pass them. Asserted:
 * reading ends, and chunks keep to the format's limits.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "fuzz.h"
#include "summary/block.h"
#include "summary/summary.h"
#include "trace_bytes.h"

static void repair(uint8_t *data, size_t bytes)
{
	for (size_t i = 0; i + NSPY_CHUNK_HEADER_BYTES <= bytes; i++)
		if (nspy_le32_load(data + i) == NSPY_SKIP_MAGIC &&
		    nspy_le64_load(data + i + 8) == NSPY_CHUNK_MAGIC)
			nspy_le64_store(data + i + 88, XXH64(data + i, 88, 0));
}

static void read_chunks(struct nspy_reader *reader)
{
	struct nspy_chunk_info info;
	const uint8_t *payload;
	size_t steps = 0;
	int rc;

	while ((rc = nspy_reader_next(reader, &info, &payload)) != -ENODATA) {
		FUZZ_ASSERT(++steps < (64u << 20));
		if (rc < 0)
			continue;
		FUZZ_ASSERT(info.raw_bytes <= NSPY_CHUNK_RAW_BYTES_MAX);
		FUZZ_ASSERT(info.raw_bytes == 0 || payload[0] + payload[info.raw_bytes - 1] >= 0);
	}
	nspy_reader_free(reader);
}

static void read_file(const struct nspy_summary_file *file)
{
	struct nspy_reader *reader;
	struct nspy_live *live;

	if (nspy_summary_lead(file, &reader) == 0)
		read_chunks(reader);
	if (nspy_summary_reader(file, &reader) == 0)
		read_chunks(reader);
	if (file->bytes < (1u << 20) && nspy_summary_live(file, &live) == 0)
		nspy_live_free(live);
	free(nspy_summary_text(file, 4096));
}

static void read_block(const uint8_t *data, size_t bytes)
{
	struct nspy_block_reader *block;
	struct nspy_chunk_info info;
	const uint8_t *payload;
	uint64_t shared;

	if (nspy_block_open(data, bytes, &block) < 0)
		return;
	while (nspy_block_next(block, &info, &payload, &shared) == 0)
		FUZZ_ASSERT(shared || info.raw_bytes == 0 ||
			    payload[0] + payload[info.raw_bytes - 1] >= 0);
	nspy_block_close(block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char path[] = "/tmp/ncclspy-fuzz-summary-XXXXXX";
	struct nspy_summary_index *summary;
	uint8_t *copy;
	int fd;

	if (bytes > (1u << 18))
		return 0;
	read_block(data, bytes);
	copy = malloc(bytes + 1);
	memcpy(copy, data, bytes);
	repair(copy, bytes);
	fd = mkstemp(path);
	if (fd >= 0 && write(fd, copy, bytes) == (ssize_t)bytes &&
	    nspy_summary_open(path, &summary) == 0) {
		for (size_t i = 0; i < summary->count && i < 64; i++)
			read_file(&summary->files[i]);
		nspy_summary_free(summary);
	}
	if (fd >= 0) {
		unlink(path);
		close(fd);
	}
	free(copy);
	return 0;
}
