/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nodes tell each other through the job's shared directory. A node file is the node's status
 * pages one after the other, that of its speaker first; every page carries its own checksum, so a
 * cut or damaged file gives the pages before the damage. The digest is a text that the leading node
 * writes for all others. Pure functions; reading and writing is exchange.h.
 */
#ifndef NSPY_WATCH_BOARD_H
#define NSPY_WATCH_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_status.h"

#define NSPY_BOARD_OPS    32u /* latest operations of a rank that other nodes get to see */
#define NSPY_DIGEST_BYTES 1024u
#define NSPY_DIGEST_TEXT  400u

/* Encodes pages, the one at first before all others. Bytes, or -ENOBUFS. */
long nspy_board_encode(const struct nspy_status *pages, uint32_t count, uint32_t first,
		       uint8_t *out, size_t bytes);

/*
 * Decodes pages, up to capacity; returns their number. *ret_small is set if the arena or the array
 * was too small for all of them.
 */
uint32_t nspy_board_decode(const uint8_t *data, size_t bytes, struct nspy_status_arena *arena,
			   struct nspy_status *pages, uint32_t capacity, bool *ret_small);

/*
 * Moves a page's times to the clock of this host: by system time, which hosts share. A page that
 * would lie in the future, or further back than slack_ns, is taken to have been published now or
 * slack_ns ago.
 */
void nspy_board_shift(struct nspy_status *page, uint64_t now_ns, uint64_t now_real_ns,
		      uint64_t slack_ns);

struct nspy_digest {
	uint64_t when_real_ns;
	uint64_t key;  /* of what is wrong, 0 = nothing */
	char node[64]; /* that wrote it */
	char text[NSPY_DIGEST_TEXT];
};

/* Bytes of the text. */
size_t nspy_digest_encode(const struct nspy_digest *digest, char out[NSPY_DIGEST_BYTES]);

/* false: cut, damaged or none. */
bool nspy_digest_decode(const char *data, size_t bytes, struct nspy_digest *ret);

#endif
