/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is given out piece by piece and taken back as a whole. */
#ifndef NSPY_WATCH_ARENA_H
#define NSPY_WATCH_ARENA_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct nspy_arena {
	uint8_t *base; /* aligned to 8 */
	size_t bytes, used;
};

/* count zeroed objects of that size, aligned to 8; NULL if there is no room. */
static inline void *nspy_arena_take(struct nspy_arena *arena, size_t count, size_t size)
{
	size_t want = (count * size + 7) & ~(size_t)7;
	uint8_t *p = arena->base + arena->used;

	if (want > arena->bytes - arena->used)
		return NULL;
	arena->used += want;
	memset(p, 0, want);
	return p;
}

#endif
