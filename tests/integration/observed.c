/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives whose end the application finds out in its own ways.
 *
 *	observed pairs N   N times: event, ncclAllReduce, event, wait, cudaEventElapsedTime; prints
 *	                   what it measured, in ns, a line each
 *	observed polls N US  N collectives, whose event is asked every US microseconds
 *	observed race N    three threads record, ask and make anew the same events, while nothing
 *	                   that is on the stream can end; then all of it ends
 *
 * The stand-in's collectives take NSPY_FAKE_KERNEL_US.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_abi.h"
#include "nccl_abi.h"

#define EVENTS 8

static ncclComm_t comm;
static cudaStream_t stream, other;
static float data[4];
static _Atomic(cudaEvent_t) events[EVENTS];
static atomic_int users[EVENTS];
static int rounds;

static void must(const char *what, int rc)
{
	if (rc == 0)
		return;
	(void)fprintf(stderr, "observed: %s: %d\n", what, rc);
	_exit(99);
}

static void reduce(void)
{
	must("ncclAllReduce", ncclAllReduce(data, data, 4, ncclFloat32, ncclSum, comm, stream));
}

static void pairs(int count)
{
	cudaEvent_t from, to;

	must("cudaEventCreate", cudaEventCreate(&from));
	must("cudaEventCreate", cudaEventCreate(&to));
	for (int i = 0; i < count; i++) {
		float ms = 0;

		must("cudaEventRecord", cudaEventRecord(from, stream));
		reduce();
		must("cudaEventRecord", cudaEventRecord(to, stream));
		must("cudaEventSynchronize", cudaEventSynchronize(to));
		must("cudaEventElapsedTime", cudaEventElapsedTime(&ms, from, to));
		printf("%.0f\n", (double)ms * 1e6);
	}
}

static void polls(int count, int pause_us)
{
	cudaEvent_t event;

	must("cudaEventCreate", cudaEventCreate(&event));
	for (int i = 0; i < count; i++) {
		reduce();
		must("cudaEventRecord", cudaEventRecord(event, stream));
		while (cudaEventQuery(event) != cudaSuccess)
			usleep((useconds_t)pause_us);
	}
}

/* Uses an event only while it exists, as an application must. */
static void use(unsigned int *random)
{
	int i = (int)(rand_r(random) % EVENTS);
	cudaEvent_t event, fresh;
	int alone = 0;

	if (rand_r(random) % 4 == 0 && atomic_compare_exchange_strong(&users[i], &alone, -1)) {
		must("cudaEventDestroy", cudaEventDestroy(atomic_load(&events[i])));
		must("cudaEventCreate", cudaEventCreate(&fresh));
		atomic_store(&events[i], fresh);
		atomic_store(&users[i], 0);
		return;
	}
	for (alone = atomic_load(&users[i]); alone >= 0;)
		if (atomic_compare_exchange_weak(&users[i], &alone, alone + 1))
			break;
	if (alone < 0)
		return;
	event = atomic_load(&events[i]);
	switch (rand_r(random) % 4) {
	case 0:
		(void)cudaEventRecord(event, stream);
		break;
	case 1:
		(void)cudaEventRecord(event, other);
		break;
	case 2:
		(void)cudaStreamQuery(other);
		break;
	default:
		(void)cudaEventQuery(event);
	}
	atomic_fetch_sub(&users[i], 1);
}

static void *racer(void *seed)
{
	unsigned int random = (unsigned int)(size_t)seed;

	for (int i = 0; i < rounds; i++)
		use(&random);
	return NULL;
}

int main(int argc, char **argv)
{
	ncclUniqueId id;
	pthread_t threads[3];

	if (argc < 3)
		return 2;
	rounds = atoi(argv[2]);
	must("ncclGetUniqueId", ncclGetUniqueId(&id));
	must("ncclCommInitRank", ncclCommInitRank(&comm, 1, id, 0));
	must("cudaStreamCreate", cudaStreamCreate(&stream));
	must("cudaStreamCreate", cudaStreamCreate(&other));
	if (strcmp(argv[1], "pairs") == 0)
		pairs(rounds);
	if (strcmp(argv[1], "polls") == 0 && argc > 3)
		polls(rounds, atoi(argv[3]));
	if (strcmp(argv[1], "race") == 0) {
		for (int i = 0; i < EVENTS; i++) {
			cudaEvent_t event;

			must("cudaEventCreate", cudaEventCreate(&event));
			atomic_store(&events[i], event);
		}
		/* Nothing behind this runs before it has ended. */
		must("fakeCudaCompute", fakeCudaCompute(stream, 1500000));
		reduce();
		for (size_t i = 0; i < 3; i++)
			pthread_create(&threads[i], NULL, racer, (void *)(i + 1));
		for (size_t i = 0; i < 3; i++)
			pthread_join(threads[i], NULL);
		printf("%d\n", cudaStreamQuery(stream));
		must("cudaStreamSynchronize", cudaStreamSynchronize(stream));
	}
	must("ncclCommDestroy", ncclCommDestroy(comm));
	return 0;
}
