/* SPDX-License-Identifier: Apache-2.0 */
#include "pb.h"

#include <stdlib.h>
#include <string.h>

#include "text.h"

/* Types of the wire format. */
enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

#define HEAD_BYTES_MAX 20u /* a key and a length, or a number */

static size_t put_varint(uint8_t *at, uint64_t value)
{
	size_t used = 0;

	for (; value >= 0x80; value >>= 7)
		at[used++] = (uint8_t)(value | 0x80);
	at[used++] = (uint8_t)value;
	return used;
}

static void put(struct nspy_pb *pb, const uint8_t *head, size_t head_bytes, const void *data,
		size_t bytes)
{
	if (head_bytes + bytes > sizeof(pb->data) - pb->used)
		return;
	memcpy(pb->data + pb->used, head, head_bytes);
	if (bytes)
		memcpy(pb->data + pb->used + head_bytes, data, bytes);
	pb->used += head_bytes + bytes;
}

static void put_bytes(struct nspy_pb *pb, unsigned int field, const void *data, size_t bytes)
{
	uint8_t head[HEAD_BYTES_MAX];
	size_t used = put_varint(head, (uint64_t)field << 3 | WIRE_BYTES);

	used += put_varint(head + used, bytes);
	put(pb, head, used, data, bytes);
}

void nspy_pb_number(struct nspy_pb *pb, unsigned int field, uint64_t value)
{
	uint8_t head[HEAD_BYTES_MAX];
	size_t used = put_varint(head, (uint64_t)field << 3 | WIRE_VARINT);

	used += put_varint(head + used, value);
	put(pb, head, used, NULL, 0);
}

void nspy_pb_fixed64(struct nspy_pb *pb, unsigned int field, uint64_t value)
{
	uint8_t head[HEAD_BYTES_MAX];
	size_t used = put_varint(head, (uint64_t)field << 3 | WIRE_FIXED64);

	for (unsigned int i = 0; i < 8; i++)
		head[used++] = (uint8_t)(value >> 8 * i);
	put(pb, head, used, NULL, 0);
}

void nspy_pb_text(struct nspy_pb *pb, unsigned int field, const char *text)
{
	size_t bytes = strlen(text);
	char *clean;

	if (bytes > NSPY_PB_TEXT_BYTES) {
		bytes = NSPY_PB_TEXT_BYTES;
		while (bytes && ((unsigned char)text[bytes] & 0xC0) == 0x80)
			bytes--;
	}
	clean = nspy_xstrndup(text, bytes);
	nspy_clean(clean);
	put_bytes(pb, field, clean, strlen(clean));
	free(clean);
}

void nspy_pb_message(struct nspy_pb *pb, unsigned int field, const struct nspy_pb *inner)
{
	put_bytes(pb, field, inner->data, inner->used);
}
