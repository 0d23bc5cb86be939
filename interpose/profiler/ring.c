/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "ring.h"

#include <stddef.h>
#include <sys/mman.h>

#define RINGS_BYTES (NSPY_PROF_RINGS * sizeof(struct nspy_raw_ring))

struct nspy_raw_ring *nspy_raw_rings;

/* The thread's ring + 1; 0 = none yet. */
static __thread uint8_t own_ring __attribute__((tls_model("initial-exec")));
static _Atomic uint32_t next_ring;

bool nspy_raw_start(void)
{
	struct nspy_raw_ring *rings, *expected = NULL;

	if (__atomic_load_n(&nspy_raw_rings, __ATOMIC_ACQUIRE))
		return true;
	rings = mmap(NULL, RINGS_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (rings == MAP_FAILED)
		return false;
	if (madvise(rings, RINGS_BYTES, MADV_WIPEONFORK) < 0 ||
	    !__atomic_compare_exchange_n(&nspy_raw_rings, &expected, rings, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		munmap(rings, RINGS_BYTES);
	return expected != NULL || __atomic_load_n(&nspy_raw_rings, __ATOMIC_ACQUIRE) == rings;
}

struct nspy_raw *nspy_raw_take(uint64_t *ret_position, unsigned int *ret_ring)
{
	struct nspy_raw_ring *ring = __atomic_load_n(&nspy_raw_rings, __ATOMIC_ACQUIRE);
	uint64_t at;

	if (nspy_unlikely(!ring))
		return NULL;
	if (nspy_unlikely(!own_ring))
		own_ring = (uint8_t)(1 + atomic_fetch_add_explicit(&next_ring, 1,
								   memory_order_relaxed) %
						 NSPY_PROF_RINGS);
	*ret_ring = own_ring - 1u;
	ring += *ret_ring;
	at = atomic_load_explicit(&ring->head, memory_order_relaxed);
	do {
		/* Acquire: the reader has done with what lies there. */
		uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);

		if (nspy_unlikely((int64_t)(at - tail) >= (int64_t)NSPY_PROF_RING_SLOTS)) {
			atomic_fetch_add_explicit(&ring->dropped, 1, memory_order_relaxed);
			return NULL;
		}
	} while (!atomic_compare_exchange_weak_explicit(
		&ring->head, &at, at + 1, memory_order_relaxed, memory_order_relaxed));
	*ret_position = at;
	/* The reader has had these lines. */
	__builtin_prefetch(&ring->slot[(at + 4) % NSPY_PROF_RING_SLOTS], 1);
	return &ring->slot[at % NSPY_PROF_RING_SLOTS];
}

bool nspy_raw_end(uint64_t handle, uint64_t ticks)
{
	struct nspy_raw_ring *rings = __atomic_load_n(&nspy_raw_rings, __ATOMIC_ACQUIRE);
	uint64_t position = handle & NSPY_HANDLE_POSITION, open = NSPY_RAW_OPEN(position);
	struct nspy_raw *raw;

	if (!rings)
		return false;
	raw = &rings[nspy_handle_ring(handle)].slot[position % NSPY_PROF_RING_SLOTS];
	/* Only this very event's word has this value, whatever else has come to lie there. */
	return atomic_compare_exchange_strong_explicit(&raw->end, &open, ticks,
						       memory_order_release, memory_order_relaxed);
}

struct nspy_raw *nspy_raw_peek(unsigned int index)
{
	struct nspy_raw_ring *ring = nspy_raw_rings + index;
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
	struct nspy_raw *raw = &ring->slot[tail % NSPY_PROF_RING_SLOTS];

	/* Taken but not filled in yet: its thread will come back to it. */
	return atomic_load_explicit(&raw->turn, memory_order_acquire) == tail + 1 ? raw : NULL;
}

void nspy_raw_read(unsigned int index)
{
	struct nspy_raw_ring *ring = nspy_raw_rings + index;
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
}

uint64_t nspy_raw_level(void)
{
	uint64_t most = 0;

	for (unsigned int i = 0; i < NSPY_PROF_RINGS; i++) {
		const struct nspy_raw_ring *ring = nspy_raw_rings + i;
		uint64_t level = atomic_load_explicit(&ring->head, memory_order_relaxed) -
				 atomic_load_explicit(&ring->tail, memory_order_relaxed);

		most = level > most ? level : most;
	}
	return most;
}

uint64_t nspy_raw_dropped(void)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < NSPY_PROF_RINGS; i++)
		sum += atomic_load_explicit(&nspy_raw_rings[i].dropped, memory_order_relaxed);
	return sum;
}
