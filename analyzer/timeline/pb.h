/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing messages of the protobuf wire format into memory of fixed size: varints, 64-bit numbers,
 * texts and messages inside messages. A field for which there is no room is left out whole, so
 * what is there is always a valid message.
 *
 * context: any thread.
 */
#ifndef NSPY_TIMELINE_PB_H
#define NSPY_TIMELINE_PB_H

#include <stddef.h>
#include <stdint.h>

#define NSPY_PB_BYTES      8192u
#define NSPY_PB_TEXT_BYTES 1024u /* longer texts are cut, between characters */

struct nspy_pb {
	size_t used;
	uint8_t data[NSPY_PB_BYTES];
};

static inline void nspy_pb_init(struct nspy_pb *pb)
{
	pb->used = 0;
}

void nspy_pb_number(struct nspy_pb *pb, unsigned int field, uint64_t value);
void nspy_pb_fixed64(struct nspy_pb *pb, unsigned int field, uint64_t value);
/* Control characters and what is not UTF-8 are replaced. */
void nspy_pb_text(struct nspy_pb *pb, unsigned int field, const char *text);
void nspy_pb_message(struct nspy_pb *pb, unsigned int field, const struct nspy_pb *inner);

#endif
