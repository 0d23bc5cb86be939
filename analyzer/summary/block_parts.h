/* SPDX-License-Identifier: Apache-2.0 */
/* Between block.c and block_read.c: how a block lies in its payload. */
#ifndef NSPY_BLOCK_PARTS_H
#define NSPY_BLOCK_PARTS_H

#include "trace_bytes.h"

#define NSPY_BLOCK_COLUMNS    7
#define NSPY_BLOCK_INFO_BYTES 140u /* 15 varints at most */

enum nspy_block_form {
	NSPY_FORM_PLAIN = 0,  /* the payload */
	NSPY_FORM_PARTS = 1,  /* an OPS payload's head; its columns lie with those of the others */
	NSPY_FORM_SHARED = 2, /* the id of a payload kept elsewhere */
};

/* An OPS payload: calls 0 = not taken apart. */
struct nspy_ops_parts {
	size_t head_bytes;
	size_t calls;
	uint8_t width[NSPY_BLOCK_COLUMNS];
	const uint8_t *planes[NSPY_BLOCK_COLUMNS];
};

#endif
