/* SPDX-License-Identifier: Apache-2.0 */
#include "test_world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct world_shared {
	atomic_int id_number;
	ncclUniqueId id;
	atomic_int arrived, round;
	atomic_int gathered;
};

static void nap(void)
{
	struct timespec time = {0, 1000000};

	nanosleep(&time, NULL);
}

void world_fail(const struct world *world, const char *file, int line, const char *what)
{
	fprintf(stderr, "rank %d of %d, seed %llu: %s:%d: %s\n", world->rank, world->size,
		(unsigned long long)world->seed, file, line, what);
	fflush(NULL);
	_exit(1);
}

void world_nccl(const struct world *world, const char *file, int line, const char *what,
		ncclResult_t result)
{
	char text[512];

	if (result == ncclSuccess)
		return;
	snprintf(text, sizeof(text), "%s = %d, %s", what, (int)result, ncclGetLastError(NULL));
	world_fail(world, file, line, text);
}

void world_cuda(const struct world *world, const char *file, int line, const char *what,
		cudaError_t result)
{
	char text[512];

	if (result == cudaSuccess)
		return;
	snprintf(text, sizeof(text), "%s = %d, %s", what, (int)result, cudaGetErrorString(result));
	world_fail(world, file, line, text);
}

void world_id(struct world *world, ncclUniqueId *ret_id)
{
	world_barrier(world);
	if (world->rank == 0) {
		NCCL(ncclGetUniqueId(ret_id));
		world->shared->id = *ret_id;
	}
	world_barrier(world);
	*ret_id = world->shared->id;
}

void world_barrier(struct world *world)
{
	struct world_shared *shared = world->shared;
	int round = atomic_load(&shared->round);

	if (atomic_fetch_add(&shared->arrived, 1) == world->size - 1) {
		atomic_store(&shared->arrived, 0);
		atomic_fetch_add(&shared->round, 1);
		return;
	}
	while (atomic_load(&shared->round) == round)
		nap();
}

void world_gather(struct world *world, int count)
{
	atomic_fetch_add(&world->shared->gathered, 1);
	while (atomic_load(&world->shared->gathered) < count)
		nap();
}

uint64_t world_random(uint64_t *state, uint64_t below)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (*state >> 33) % below;
}

static void run_rank(struct world *world, world_fn fn, bool with_comm)
{
	ncclUniqueId id;
	char text[16];
	int result;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(text, sizeof(text), "%d", world->rank);
	setenv("RANK", text, 1);
	setenv("NSPY_FAKE_GPUS", "16", 1);
	CUDA(cudaSetDevice(world->rank));
	CUDA(cudaStreamCreateWithFlags(&world->stream, cudaStreamNonBlocking));
	if (with_comm) {
		world_id(world, &id);
		NCCL(ncclCommInitRank(&world->comm, world->size, id, world->rank));
	}
	result = fn(world);
	if (with_comm && result == 0 && world->comm)
		NCCL(ncclCommDestroy(world->comm));
	CUDA(cudaStreamDestroy(world->stream));
	fflush(NULL);
	exit(result);
}

/* A hang is a failure too: the children get a minute. */
static int reap(const pid_t *pids, int size, int dying_rank)
{
	int failed = 0;

	for (int i = 0; i < size; i++) {
		int status = 0, waited = 0;

		while (waitpid(pids[i], &status, WNOHANG) == 0) {
			if (++waited == 60000) {
				fprintf(stderr, "rank %d hangs\n", i);
				kill(pids[i], SIGKILL);
			}
			nap();
		}
		if (status != 0 && i != dying_rank) {
			fprintf(stderr, "rank %d ended with wait status %#x\n", i,
				(unsigned int)status);
			failed++;
		}
	}
	return failed;
}

static int run(struct world *model, world_fn fn, bool with_comm, int dying_rank)
{
	pid_t pids[64];
	int failed;

	model->shared = mmap(NULL, sizeof(*model->shared), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (model->shared == MAP_FAILED)
		abort();
	fflush(NULL);
	for (int i = 0; i < model->size; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			model->rank = i;
			run_rank(model, fn, with_comm);
		}
		if (pids[i] < 0)
			abort();
	}
	failed = reap(pids, model->size, dying_rank);
	munmap(model->shared, sizeof(*model->shared));
	return failed;
}

int world_run(int size, uint64_t seed, world_fn fn, void *arg)
{
	struct world model = {.size = size, .seed = seed, .arg = arg};

	return run(&model, fn, true, -1);
}

int world_run_bare(int size, uint64_t seed, world_fn fn, void *arg)
{
	struct world model = {.size = size, .seed = seed, .arg = arg};

	return run(&model, fn, false, -1);
}

int world_run_dying(int size, uint64_t seed, world_fn fn, void *arg, int dying_rank)
{
	struct world model = {.size = size, .seed = seed, .arg = arg};

	return run(&model, fn, true, dying_rank);
}
