/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of tests/bench/null_nccl.c. */
#ifndef NSPY_NULL_API_H
#define NSPY_NULL_API_H

#include <stddef.h>

struct null_id {
	char internal[128];
};

int ncclGetVersion(int *version);
int ncclCommInitRank(void **comm, int nranks, struct null_id id, int rank);
int ncclCommDestroy(void *comm);
int ncclAllReduce(const void *send, void *recv, size_t count, int datatype, int op, void *comm,
		  void *stream);
int ncclSend(const void *send, size_t count, int datatype, int peer, void *comm, void *stream);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int cudaMalloc(void **ptr, size_t bytes);
int cudaStreamSynchronize(void *stream);
void null_nccl_mark(void); /* nothing else defines this one */

#endif
