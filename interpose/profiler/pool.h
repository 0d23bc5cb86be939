/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of one size, found by a 64-bit key, in the order in which they were added. Memory is given
 * once; nothing here can fail but for want of a free node. One thread.
 */
#ifndef NSPY_PROFILER_POOL_H
#define NSPY_PROFILER_POOL_H

#include <stddef.h>
#include <stdint.h>

/* How a node begins. Numbers of nodes count from 1; 0 = none. */
struct nspy_node {
	uint64_t key;
	uint32_t next; /* in its bucket, or in the list of free ones */
	uint32_t older, newer;
};

struct nspy_pool {
	uint8_t *nodes;
	uint32_t *buckets;
	size_t node_bytes;
	uint32_t count; /* a power of two */
	uint32_t free, oldest, newest;
};

/* Bytes that a pool of `count` nodes needs, and a pool in them. */
size_t nspy_pool_bytes(uint32_t count, size_t node_bytes);
void nspy_pool_init(struct nspy_pool *pool, void *memory, uint32_t count, size_t node_bytes);

void *nspy_pool_find(const struct nspy_pool *pool, uint64_t key);
/* A node, zero but for its head; NULL if none is free. */
void *nspy_pool_add(struct nspy_pool *pool, uint64_t key);
void nspy_pool_remove(struct nspy_pool *pool, struct nspy_node *node);

/* In order of age; NULL at the end. */
void *nspy_pool_oldest(const struct nspy_pool *pool);
void *nspy_pool_next(const struct nspy_pool *pool, const struct nspy_node *node);

#endif
