/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of a tar archive, read one after the other; nothing is ever unpacked to disk. Whoever
 * made the archive may mean harm: names that lead out of it, links, devices and what is larger than
 * a bundle can be are refused, and that is said.
 *
 * Source of the format: POSIX.1-2017, pax (ustar and extended headers), and the long names of GNU
 * tar's manual. Ownership: the stream is the caller's. context: one thread per archive.
 */
#ifndef NSPY_TAR_H
#define NSPY_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../foreign/stream.h"

/* Of all that is read from one archive, unpacked, in bytes. */
#define NSPY_TAR_BYTES_MAX   (256ull << 20)
#define NSPY_TAR_ENTRIES_MAX 20000u

struct nspy_tar;

struct nspy_tar_entry {
	const char *name; /* until the next call; relative, without ".." and "./" in front */
	uint64_t bytes;
	bool regular; /* a file; else there is no content */
};

/* Do the first bytes look like tar? */
bool nspy_tar_is(const char *data, size_t bytes);
struct nspy_tar *nspy_tar_open(struct nspy_stream *stream);
void nspy_tar_close(struct nspy_tar *tar);
/*
 * The next entry that is not refused; what is left of the last one is skipped. false: the end, or
 * see nspy_tar_error.
 */
bool nspy_tar_next(struct nspy_tar *tar, struct nspy_tar_entry *ret_entry);
/* Content of the entry with a NUL behind it, to be freed by the caller; NULL: too large or cut. */
char *nspy_tar_content(struct nspy_tar *tar, size_t limit, size_t *ret_bytes);
/* Entries refused so far, and the reason for the last one in words (or NULL). */
size_t nspy_tar_refused(const struct nspy_tar *tar, const char **ret_why);
/* Why reading ended before the archive did, or NULL. */
const char *nspy_tar_error(const struct nspy_tar *tar);

#endif
