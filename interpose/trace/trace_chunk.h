/* SPDX-License-Identifier: Apache-2.0 */
/* The chunk header as bytes. Internal to the library; the layout is in docs/TRACE_FORMAT.md. */
#ifndef NSPY_TRACE_CHUNK_H
#define NSPY_TRACE_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "trace_reader.h"

#define NSPY_CHUNK_PREFIX_BYTES 16u /* what every chunk starts with, whatever its version */

/* Writes NSPY_CHUNK_HEADER_BYTES bytes. */
void nspy_chunk_header_store(uint8_t *p, const struct nspy_chunk_info *info);

/* Whether a chunk could begin here (NSPY_CHUNK_PREFIX_BYTES readable bytes). */
bool nspy_chunk_prefix_ok(const uint8_t *p);

/*
 * Reads a header of NSPY_CHUNK_HEADER_BYTES bytes. -EBADMSG: not a header or damaged;
 * -EPROTONOSUPPORT: a newer version or an unknown incompatible flag; -E2BIG: lengths over limits.
 */
int nspy_chunk_header_load(const uint8_t *p, struct nspy_chunk_info *ret);

#endif
