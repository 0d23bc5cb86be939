/* SPDX-License-Identifier: Apache-2.0 */
#include "map.h"

#include <stdlib.h>

#include "util.h"

static struct nspy_map_slot *find(const struct nspy_map *map, uint64_t key)
{
	size_t at = (size_t)nspy_mix(key) & (map->capacity - 1);

	while (map->slots[at].value && map->slots[at].key != key)
		at = (at + 1) & (map->capacity - 1);
	return &map->slots[at];
}

void *nspy_map_get(const struct nspy_map *map, uint64_t key)
{
	return map->capacity ? find(map, key)->value : NULL;
}

static void grow(struct nspy_map *map)
{
	struct nspy_map bigger = {.capacity = map->capacity ? map->capacity * 2 : 16};

	bigger.slots = nspy_xcalloc(bigger.capacity, sizeof(*bigger.slots));
	for (size_t i = 0; i < map->capacity; i++) {
		if (map->slots[i].value)
			*find(&bigger, map->slots[i].key) = map->slots[i];
	}
	bigger.count = map->count;
	free(map->slots);
	*map = bigger;
}

void nspy_map_put(struct nspy_map *map, uint64_t key, void *value)
{
	struct nspy_map_slot *slot;

	if (map->count * 4 >= map->capacity * 3)
		grow(map);
	slot = find(map, key);
	if (!slot->value)
		map->count++;
	*slot = (struct nspy_map_slot){key, value};
}

void *nspy_map_take(struct nspy_map *map, uint64_t key)
{
	struct nspy_map_slot *slot = map->capacity ? find(map, key) : NULL;
	void *value = slot ? slot->value : NULL;
	size_t hole, at;

	if (!value)
		return NULL;
	hole = (size_t)(slot - map->slots);
	map->slots[hole].value = NULL;
	map->count--;
	/* Close the gap, so that keys that were pushed past it are found again. */
	for (at = (hole + 1) & (map->capacity - 1); map->slots[at].value;
	     at = (at + 1) & (map->capacity - 1)) {
		size_t home = (size_t)nspy_mix(map->slots[at].key) & (map->capacity - 1);

		if (((at - home) & (map->capacity - 1)) < ((at - hole) & (map->capacity - 1)))
			continue;
		map->slots[hole] = map->slots[at];
		map->slots[at].value = NULL;
		hole = at;
	}
	return value;
}

void nspy_map_done(struct nspy_map *map)
{
	free(map->slots);
	*map = (struct nspy_map){0};
}
