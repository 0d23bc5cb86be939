/* SPDX-License-Identifier: Apache-2.0 */
/* Source of the format: POSIX.1-2017, pax, ustar headers. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "support.h"

#define BLOCK 512u

static void sum(char *block)
{
	unsigned int total = 0;

	memset(block + 148, ' ', 8);
	for (size_t i = 0; i < BLOCK; i++)
		total += (unsigned char)block[i];
	(void)snprintf(block + 148, 8, "%06o", total);
}

/* Names are ours and shorter than the field and its prefix. */
static void header(char *block, const char *name, size_t bytes, uint64_t now_s)
{
	memset(block, 0, BLOCK);
	(void)snprintf(block + 345, 155, "%.*s", (int)strlen(NSPY_SUPPORT_ROOT) - 1,
		       NSPY_SUPPORT_ROOT);
	memcpy(block, name, strnlen(name, 99));
	(void)snprintf(block + 100, 8, "%07o", 0600u);
	(void)snprintf(block + 108, 8, "%07o", 0u);
	(void)snprintf(block + 116, 8, "%07o", 0u);
	(void)snprintf(block + 124, 12, "%011zo", bytes);
	(void)snprintf(block + 136, 12, "%011" PRIo64, now_s);
	block[156] = '0';
	(void)snprintf(block + 257, 6, "ustar");
	(void)memset(block + 263, '0', 2); /* version "00", without an end */
	sum(block);
}

static bool put(gzFile file, const char *data, size_t bytes)
{
	while (bytes) {
		unsigned int piece = bytes < (1u << 30) ? (unsigned int)bytes : 1u << 30;

		if (gzwrite(file, data, piece) != (int)piece)
			return false;
		data += piece;
		bytes -= piece;
	}
	return true;
}

static bool put_all(const struct nspy_support *s, gzFile file, uint64_t now_s)
{
	static const char zeros[2 * BLOCK];
	char block[BLOCK];
	bool ok = true;

	for (size_t i = 0; ok && i < s->entry_count; i++) {
		const struct nspy_support_entry *e = &s->entries[i];

		header(block, e->name, e->bytes, now_s);
		ok = put(file, block, BLOCK) && put(file, e->data, e->bytes) &&
		     put(file, zeros, (BLOCK - e->bytes % BLOCK) % BLOCK);
	}
	return ok && put(file, zeros, sizeof(zeros));
}

int nspy_support_pack(const struct nspy_support *s, const char *path, uint64_t now_s)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), rc = 0;
	gzFile file;

	if (fd < 0)
		return -errno;
	file = gzdopen(fd, "wb6");
	if (!file) {
		close(fd);
		rc = -ENOMEM;
	} else {
		errno = 0;
		if (!put_all(s, file, now_s))
			rc = errno ? -errno : -EIO;
		if (gzclose(file) != Z_OK && rc == 0)
			rc = errno ? -errno : -EIO;
	}
	if (rc < 0)
		unlink(path);
	return rc;
}
