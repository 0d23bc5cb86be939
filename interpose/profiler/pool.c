/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "pool.h"

#include <string.h>

static struct nspy_node *at(const struct nspy_pool *pool, uint32_t i)
{
	return i ? (struct nspy_node *)(pool->nodes + (size_t)(i - 1) * pool->node_bytes) : NULL;
}

static uint32_t number_of(const struct nspy_pool *pool, const struct nspy_node *node)
{
	return (uint32_t)((size_t)((const uint8_t *)node - pool->nodes) / pool->node_bytes) + 1;
}

static uint32_t *bucket_of(const struct nspy_pool *pool, uint64_t key)
{
	return &pool->buckets[(key * 0x9E3779B97F4A7C15ull >> 32) & (pool->count - 1)];
}

size_t nspy_pool_bytes(uint32_t count, size_t node_bytes)
{
	return count * (node_bytes + sizeof(uint32_t));
}

void nspy_pool_init(struct nspy_pool *pool, void *memory, uint32_t count, size_t node_bytes)
{
	*pool = (struct nspy_pool){
		.nodes = memory,
		.buckets = (uint32_t *)((uint8_t *)memory + count * node_bytes),
		.node_bytes = node_bytes,
		.count = count,
		.free = 1,
	};
	memset(pool->buckets, 0, count * sizeof(uint32_t));
	for (uint32_t i = 1; i <= count; i++)
		at(pool, i)->next = i < count ? i + 1 : 0;
}

void *nspy_pool_find(const struct nspy_pool *pool, uint64_t key)
{
	struct nspy_node *node = at(pool, *bucket_of(pool, key));

	while (node && node->key != key)
		node = at(pool, node->next);
	return node;
}

void *nspy_pool_add(struct nspy_pool *pool, uint64_t key)
{
	uint32_t i = pool->free, *bucket = bucket_of(pool, key);
	struct nspy_node *node = at(pool, i);

	if (!node)
		return NULL;
	pool->free = node->next;
	memset(node, 0, pool->node_bytes);
	node->key = key;
	node->next = *bucket;
	*bucket = i;
	node->older = pool->newest;
	if (pool->newest)
		at(pool, pool->newest)->newer = i;
	else
		pool->oldest = i;
	pool->newest = i;
	return node;
}

void nspy_pool_remove(struct nspy_pool *pool, struct nspy_node *node)
{
	uint32_t i = number_of(pool, node), *link = bucket_of(pool, node->key);

	while (*link != i)
		link = &at(pool, *link)->next;
	*link = node->next;
	if (node->older)
		at(pool, node->older)->newer = node->newer;
	else
		pool->oldest = node->newer;
	if (node->newer)
		at(pool, node->newer)->older = node->older;
	else
		pool->newest = node->older;
	node->next = pool->free;
	pool->free = i;
}

void *nspy_pool_oldest(const struct nspy_pool *pool)
{
	return at(pool, pool->oldest);
}

void *nspy_pool_next(const struct nspy_pool *pool, const struct nspy_node *node)
{
	return at(pool, node->newer);
}
