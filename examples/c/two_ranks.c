/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes, one all-reduce after the other, on GPU 0 and 1.
 *
 *	cc two_ranks.c -o two_ranks -lnccl -lcudart
 *	ncclspy-run -o /tmp/traces -- ./two_ranks
 *	ncclspy-run -o /tmp/traces -- ./two_ranks lose    # rank 1 leaves out an operation: stop it
 *	ncclspy-analyze report /tmp/traces                # with ^C and ask what happened
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda_runtime_api.h>
#include <nccl.h>

#define RANKS    2
#define STEPS    10
#define ELEMENTS 1024

static void cuda_ok(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	(void)fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	exit(1);
}

static void nccl_ok(ncclResult_t result, const char *what)
{
	if (result == ncclSuccess)
		return;
	(void)fprintf(stderr, "%s: %s\n", what, ncclGetErrorString(result));
	exit(1);
}

/* The first rank makes the id, the other gets it through the pipe. */
static void share_id(ncclUniqueId *id, int rank, const int *ends)
{
	if (rank == 0) {
		nccl_ok(ncclGetUniqueId(id), "ncclGetUniqueId");
		if (write(ends[1], id, sizeof(*id)) != sizeof(*id))
			exit(1);
	} else if (read(ends[0], id, sizeof(*id)) != sizeof(*id)) {
		exit(1);
	}
}

static void work(int rank, const int *ends, int lose)
{
	float *buffer, ones[ELEMENTS], sums[ELEMENTS];
	cudaStream_t stream;
	ncclUniqueId id;
	ncclComm_t comm;

	share_id(&id, rank, ends);
	cuda_ok(cudaSetDevice(rank), "cudaSetDevice");
	cuda_ok(cudaStreamCreate(&stream), "cudaStreamCreate");
	cuda_ok(cudaMalloc((void **)&buffer, sizeof(ones)), "cudaMalloc");
	nccl_ok(ncclCommInitRank(&comm, RANKS, id, rank), "ncclCommInitRank");
	for (int i = 0; i < ELEMENTS; i++)
		ones[i] = 1;
	for (int step = 0; step < STEPS; step++) {
		cuda_ok(cudaMemcpy(buffer, ones, sizeof(ones), cudaMemcpyHostToDevice), "copy");
		if (lose && rank == 1 && step == STEPS / 2)
			sleep(3600);
		nccl_ok(ncclAllReduce(buffer, buffer, ELEMENTS, ncclFloat, ncclSum, comm, stream),
			"ncclAllReduce");
		cuda_ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
	}
	cuda_ok(cudaMemcpy(sums, buffer, sizeof(sums), cudaMemcpyDeviceToHost), "copy");
	printf("rank %d: %d steps, sum %g\n", rank, STEPS, sums[ELEMENTS - 1]);
	nccl_ok(ncclCommDestroy(comm), "ncclCommDestroy");
	exit(sums[ELEMENTS - 1] == RANKS ? 0 : 1);
}

int main(int argc, char **argv)
{
	int lose = argc > 1 && strcmp(argv[1], "lose") == 0;
	int ends[2], status, failed = 0;

	if (pipe(ends) < 0)
		return 1;
	/* Before the first call: neither NCCL nor CUDA survives a fork. */
	for (int rank = 0; rank < RANKS; rank++)
		if (fork() == 0)
			work(rank, ends, lose);
	for (int rank = 0; rank < RANKS; rank++)
		failed |= wait(&status) < 0 || status != 0;
	return failed;
}
