/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: making, checking, stopping and freeing them. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "internal.h"

/*
 * What NCCL takes of the device for a communicator at once (measured with 2.30.7: pieces of 10 MiB,
 * much more with the first operations). Through the runtime if the program has it, as a build of
 * NCCL does that is linked with the shared one: then an interposer sees it.
 */
#define DEVICE_BYTES (10u << 20)

/* Not a weak reference, which would never be empty where an interposer exports the name. */
typedef int malloc_fn(void **address, size_t bytes);

static malloc_fn *find_cuda_malloc(void)
{
	static const char *const names[] = {"libcudart.so.13", "libcudart.so.12"};
	void *runtime = NULL;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !runtime; i++)
		runtime = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
	if (!runtime)
		return NULL;
	dlclose(runtime);
	return (malloc_fn *)(uintptr_t)dlsym(RTLD_DEFAULT, "cudaMalloc");
}

static bool blocking_by_default(void)
{
	const char *value = getenv("NCCL_COMM_BLOCKING");

	return !value || *value != '0';
}

/* A field that the caller's structure has; older ones are shorter. */
#define HAS_FIELD(config, field)                                                                   \
	((config)->size >= offsetof(ncclConfig_t, field) + sizeof((config)->field))

void fake_config_apply(struct ncclComm *comm, const ncclConfig_t *config)
{
	const char *forced = getenv("NCCL_COMM_BLOCKING");

	if (config && HAS_FIELD(config, blocking) && config->blocking != NCCL_CONFIG_UNDEF_INT &&
	    !(forced && *forced))
		comm->blocking = config->blocking != 0;
	if (config && HAS_FIELD(config, commName) && config->commName)
		snprintf(comm->name, sizeof(comm->name), "%s", config->commName);
}

ncclResult_t fake_config_check(const ncclConfig_t *config)
{
	if (!config)
		return ncclSuccess;
	if (config->magic != NCCL_CONFIG_MAGIC) {
		WARN("init.cc", "ncclConfig_t argument not initialized via "
				"NCCL_CONFIG_INITIALIZER");
		return ncclInvalidArgument;
	}
	if (HAS_FIELD(config, blocking) && config->blocking != NCCL_CONFIG_UNDEF_INT &&
	    config->blocking != 0 && config->blocking != 1) {
		WARN("init.cc", "Invalid config blocking attribute value %d", config->blocking);
		return ncclInvalidArgument;
	}
	return ncclSuccess;
}

struct ncclComm *fake_comm_new(int nranks, int rank, const ncclConfig_t *config,
			       const struct ncclComm *parent)
{
	struct ncclComm *comm = calloc(1, sizeof(*comm));
	int known = fake_thread_rank();

	if (!comm)
		abort();
	comm->magic = FAKE_COMM_MAGIC;
	atomic_init(&comm->refs, 1);
	comm->nranks = nranks;
	comm->rank = rank;
	comm->device = parent ? parent->device : fake_gpu_current();
	comm->world_rank = parent ? parent->world_rank : known >= 0 ? known : rank;
	comm->blocking = parent && !config ? parent->blocking : blocking_by_default();
	fake_config_apply(comm, config);
	pthread_mutex_init(&comm->lock, NULL);
	pthread_cond_init(&comm->changed, NULL);
	comm->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (comm->stop_fd < 0)
		abort();
	return comm;
}

static ncclResult_t take_device_memory(struct ncclComm *comm)
{
	int before = fake_gpu_current();
	int error = fake_gpu_select(comm->device);
	malloc_fn *cuda_malloc = find_cuda_malloc();

	fake_memory_unscripted(true);
	if (error == 0)
		error = cuda_malloc ? cuda_malloc(&comm->buffers, DEVICE_BYTES)
				    : fake_memory_alloc(&comm->buffers, DEVICE_BYTES,
							FAKE_MEMORY_DEVICE);
	fake_memory_unscripted(false);
	fake_gpu_select(before);
	if (error == 0)
		return ncclSuccess;
	comm->buffers = NULL;
	WARN("include/alloc.h", "Cuda failure 'out of memory'");
	WARN("include/alloc.h", "Failed to CUDA calloc %u bytes", DEVICE_BYTES);
	return ncclUnhandledCudaError;
}

/* What depends on the number of ranks. */
ncclResult_t fake_comm_allocate(struct ncclComm *comm)
{
	size_t n = (size_t)comm->nranks;

	comm->peers = calloc(n, sizeof(*comm->peers));
	for (int kind = 0; kind < FAKE_KINDS; kind++) {
		comm->out[kind] = calloc(n, sizeof(struct fake_link *));
		comm->in[kind] = calloc(n, sizeof(struct fake_link *));
		if (!comm->out[kind] || !comm->in[kind])
			return ncclSystemError;
	}
	if (comm->nranks > 1)
		fake_shm_open(comm);
	return comm->peers ? take_device_memory(comm) : ncclSystemError;
}

void fake_comm_get(struct ncclComm *comm)
{
	atomic_fetch_add(&comm->refs, 1);
}

void fake_comm_put(struct ncclComm *comm)
{
	if (atomic_fetch_sub(&comm->refs, 1) != 1)
		return;
	if (comm->registered)
		fake_links_unregister(comm);
	fake_links_close(comm);
	/* Not by cudaFree, which waits for the device: this may be a thread of a stream. */
	if (comm->buffers)
		fake_memory_free(comm->buffers);
	fake_shm_close(comm);
	pthread_mutex_destroy(&comm->lock);
	pthread_cond_destroy(&comm->changed);
	close(comm->stop_fd);
	free(comm->peers);
	free(comm->redops);
	comm->magic = 0;
	free(comm);
}

void fake_comm_stop(struct ncclComm *comm)
{
	uint64_t one = 1;

	atomic_store(&comm->stopped, 1);
	if (write(comm->stop_fd, &one, sizeof(one)) < 0)
		abort();
	pthread_mutex_lock(&comm->lock);
	pthread_cond_broadcast(&comm->changed);
	pthread_mutex_unlock(&comm->lock);
}

void fake_comm_drain(struct ncclComm *comm)
{
	pthread_mutex_lock(&comm->lock);
	while (comm->finished < atomic_load(&comm->issued))
		pthread_cond_wait(&comm->changed, &comm->lock);
	pthread_mutex_unlock(&comm->lock);
}

ncclResult_t fake_comm_check(const struct ncclComm *comm, const char *what, const char *name)
{
	if (!comm) {
		WARN("misc/argcheck.cc", "%s : %s argument is NULL", what, name);
		return ncclInvalidArgument;
	}
	if (comm->magic != FAKE_COMM_MAGIC) {
		WARN("misc/argcheck.cc", "Error: corrupted comm object detected");
		return ncclInvalidArgument;
	}
	return ncclSuccess;
}

ncclResult_t fake_comm_ready(struct ncclComm *comm, const char *what)
{
	int state = atomic_load(&comm->async);

	if (state == ncclInProgress) {
		WARN("init.cc", "Attempt to use communicator before the previous operation "
				"returned ncclSuccess");
		return ncclInvalidArgument;
	}
	if (comm->revoked) {
		WARN("enqueue.cc", "%s: communicator was revoked", what);
		return ncclInvalidUsage;
	}
	if (comm->finalized) {
		WARN("init.cc", "%s: communicator was finalized", what);
		return ncclInvalidUsage;
	}
	return (ncclResult_t)state;
}

/* What the ranks find when they see each other: versions and doubly used devices. */
ncclResult_t fake_check_peers(struct ncclComm *comm)
{
	const struct fake_peer *me = &comm->peers[comm->rank];

	for (int i = 0; i < comm->nranks; i++) {
		const struct fake_peer *peer = &comm->peers[i];

		if (peer->version != me->version) {
			WARN("init.cc",
			     "Mismatched NCCL version detected : rank %d version %d rank %d "
			     "version %d",
			     i, peer->version, comm->rank, me->version);
			return ncclInvalidUsage;
		}
		if (i != comm->rank && peer->host == me->host && peer->bus_id == me->bus_id) {
			WARN("init.cc",
			     "Duplicate GPU detected : rank %d and rank %d both on CUDA device "
			     "%lx",
			     comm->rank, i, (unsigned long)me->bus_id);
			return ncclInvalidUsage;
		}
	}
	return ncclSuccess;
}

/* Hosts are numbered by their lowest rank. */
void fake_log_topology(struct ncclComm *comm)
{
	int nodes = 0, local_ranks = 0, local_rank = 0;

	for (int i = 0; i < comm->nranks; i++) {
		int j = 0;

		while (comm->peers[j].host != comm->peers[i].host)
			j++;
		nodes += j == i;
		if (comm->peers[i].host != comm->peers[comm->rank].host)
			continue;
		local_rank += i < comm->rank;
		local_ranks++;
	}
	fake_info(FAKE_LOG_INIT,
		  "comm %p rank %d nRanks %d nNodes %d localRanks %d localRank %d MNNVL %d",
		  (void *)comm, comm->rank, comm->nranks, nodes, local_ranks, local_rank, 0);
}
