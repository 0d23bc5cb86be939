/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Little-endian loads and stores, varints and bounds-checked cursors. Fixed-width fields go through
 * memcpy and a byte swap that disappears on little-endian machines; nothing overlays structs on
 * trace bytes.
 *
 * A cursor remembers the first failure: after it every get returns 0 and every put is dropped, so a
 * caller checks once at the end.
 */
#ifndef NSPY_TRACE_BYTES_H
#define NSPY_TRACE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t nspy_le16_load(const uint8_t *p)
{
	uint16_t v;
	memcpy(&v, p, sizeof(v));
	return le16toh(v);
}

static inline uint32_t nspy_le32_load(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static inline uint64_t nspy_le64_load(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static inline void nspy_le16_store(uint8_t *p, uint16_t v)
{
	v = htole16(v);
	memcpy(p, &v, sizeof(v));
}

static inline void nspy_le32_store(uint8_t *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
}

static inline void nspy_le64_store(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

/* Zigzag: small numbers of either sign become small unsigned numbers. */
static inline uint64_t nspy_zigzag(int64_t v)
{
	return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}

static inline int64_t nspy_unzigzag(uint64_t v)
{
	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

struct nspy_get {
	const uint8_t *at;
	const uint8_t *end;
	bool bad;
};

static inline size_t nspy_get_left(const struct nspy_get *g)
{
	return (size_t)(g->end - g->at);
}

/* The next n bytes, or NULL (and bad) if there are fewer. */
static inline const uint8_t *nspy_get_bytes(struct nspy_get *g, size_t n)
{
	const uint8_t *p = g->at;

	if (g->bad || nspy_get_left(g) < n) {
		g->bad = true;
		return NULL;
	}
	g->at += n;
	return p;
}

static inline uint8_t nspy_get_u8(struct nspy_get *g)
{
	const uint8_t *p = nspy_get_bytes(g, 1);

	return p ? *p : 0;
}

/* LEB128, at most 10 bytes; an encoding that overflows 64 bits is bad. */
static inline uint64_t nspy_get_varint(struct nspy_get *g)
{
	uint64_t v = 0;

	for (unsigned int shift = 0; shift < 64; shift += 7) {
		uint8_t b = nspy_get_u8(g);

		if (g->bad || (shift == 63 && b > 1))
			break;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return v;
	}
	g->bad = true;
	return 0;
}

/* A varint that must not exceed max. */
static inline uint64_t nspy_get_limited(struct nspy_get *g, uint64_t max)
{
	uint64_t v = nspy_get_varint(g);

	if (v > max) {
		g->bad = true;
		return 0;
	}
	return v;
}

struct nspy_put {
	uint8_t *at;
	uint8_t *end;
	bool bad;
};

static inline uint8_t *nspy_put_room(struct nspy_put *w, size_t n)
{
	uint8_t *p = w->at;

	if (w->bad || (size_t)(w->end - w->at) < n) {
		w->bad = true;
		return NULL;
	}
	w->at += n;
	return p;
}

static inline void nspy_put_u8(struct nspy_put *w, uint8_t v)
{
	uint8_t *p = nspy_put_room(w, 1);

	if (p)
		*p = v;
}

static inline void nspy_put_copy(struct nspy_put *w, const void *data, size_t n)
{
	uint8_t *p = nspy_put_room(w, n);

	if (p)
		memcpy(p, data, n);
}

static inline void nspy_put_varint(struct nspy_put *w, uint64_t v)
{
	while (v >= 0x80) {
		nspy_put_u8(w, (uint8_t)(v | 0x80));
		v >>= 7;
	}
	nspy_put_u8(w, (uint8_t)v);
}

#endif
