/* SPDX-License-Identifier: Apache-2.0 */
/* Several ranks for a test: a process each, which meet through a page of shared memory. */
#ifndef FAKE_TEST_WORLD_H
#define FAKE_TEST_WORLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "nccl_abi.h"

struct world {
	int rank, size;
	uint64_t seed;
	ncclComm_t comm; /* of all ranks; NULL if the test creates its own */
	cudaStream_t stream;
	void *arg;
	struct world_shared *shared;
};

/* A rank's part of a test. Returns 0, or what went wrong is told and the rank fails. */
typedef int (*world_fn)(struct world *world);

/* Runs fn in size processes with a communicator of all of them; the number of failed ranks. */
int world_run(int size, uint64_t seed, world_fn fn, void *arg);
/* The same without a communicator. */
int world_run_bare(int size, uint64_t seed, world_fn fn, void *arg);
/* As world_run; a rank ends in this way (a wait status), which is not counted as a failure. */
int world_run_dying(int size, uint64_t seed, world_fn fn, void *arg, int dying_rank);

/* Rank 0 makes an id, the others wait for it. Can be called again for another one. */
void world_id(struct world *world, ncclUniqueId *ret_id);
/* All ranks have to call it. */
void world_barrier(struct world *world);

/* Waits until that many ranks have come here, for when not all are alive any more. */
void world_gather(struct world *world, int count);

/* A number from 0 to below; the same sequence for the same state. */
uint64_t world_random(uint64_t *state, uint64_t below);

/* Fails the rank with the place and the text of the condition. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			world_fail(world, __FILE__, __LINE__, #condition);                         \
	} while (0)
#define NCCL(call) world_nccl(world, __FILE__, __LINE__, #call, call)
#define CUDA(call) world_cuda(world, __FILE__, __LINE__, #call, call)
void world_fail(const struct world *world, const char *file, int line, const char *what)
	__attribute__((noreturn));
void world_nccl(const struct world *world, const char *file, int line, const char *what,
		ncclResult_t result);
void world_cuda(const struct world *world, const char *file, int line, const char *what,
		cudaError_t result);

#endif
