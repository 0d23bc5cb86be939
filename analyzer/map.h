/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table from 64-bit keys to pointers. {0} is an empty one. One thread at a time. */
#ifndef NSPY_MAP_H
#define NSPY_MAP_H

#include <stddef.h>
#include <stdint.h>

struct nspy_map_slot {
	uint64_t key;
	void *value; /* NULL = free */
};

struct nspy_map {
	struct nspy_map_slot *slots;
	size_t capacity; /* power of two, or 0 */
	size_t count;
};

void *nspy_map_get(const struct nspy_map *map, uint64_t key);
/* value must not be NULL; an older value of the key is replaced. */
void nspy_map_put(struct nspy_map *map, uint64_t key, void *value);
/* The value of the key, which is no longer there; NULL if it was not. */
void *nspy_map_take(struct nspy_map *map, uint64_t key);
void nspy_map_done(struct nspy_map *map);

/* Scrambles a number so that near ones fall far apart. */
static inline uint64_t nspy_mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0xD6E8FEB86659FD93ULL;
	x ^= x >> 32;
	x *= 0xD6E8FEB86659FD93ULL;
	return x ^ x >> 32;
}

#endif
