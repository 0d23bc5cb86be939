/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest libnccl.so.2 (with two CUDA calls): nothing is done, only the wrapper's part is
 * left. */
#include <stddef.h>
#include <string.h>

struct null_id {
	char internal[128];
};
static int comms[64]; /* one handle for each unique id's first byte */

int ncclGetVersion(int *version);
int ncclCommInitRank(void **comm, int nranks, struct null_id id, int rank);
int ncclCommDestroy(void *comm);
int ncclCommCount(const void *comm, int *count);
int ncclCommUserRank(const void *comm, int *rank);
const char *ncclGetLastError(void *comm);
const char *ncclGetErrorString(int result);
int ncclAllReduce(const void *send, void *recv, size_t count, int datatype, int op, void *comm,
		  void *stream);
int ncclSend(const void *send, size_t count, int datatype, int peer, void *comm, void *stream);

int ncclGroupStart(void);
int ncclGroupEnd(void);
int cudaMalloc(void **ptr, size_t bytes);
int cudaStreamSynchronize(void *stream);

void null_nccl_mark(void);

void null_nccl_mark(void)
{
}

int ncclGetVersion(int *version)
{
	*version = 22809;
	return 0;
}

int ncclCommInitRank(void **comm, int nranks, struct null_id id, int rank)
{
	(void)nranks;
	(void)rank;
	*comm = &comms[(unsigned char)id.internal[0] % 64];
	return 0;
}

int ncclCommDestroy(void *comm)
{
	(void)comm;
	return 0;
}

int ncclCommCount(const void *comm, int *count)
{
	(void)comm;
	*count = 8;
	return 0;
}

int ncclCommUserRank(const void *comm, int *rank)
{
	(void)comm;
	*rank = 0;
	return 0;
}

const char *ncclGetLastError(void *comm)
{
	(void)comm;
	return "";
}

const char *ncclGetErrorString(int result)
{
	return result ? "error" : "no error";
}

int ncclAllReduce(const void *send, void *recv, size_t count, int datatype, int op, void *comm,
		  void *stream)
{
	(void)send;
	(void)recv;
	(void)count;
	(void)datatype;
	(void)op;
	(void)comm;
	(void)stream;
	return 0;
}

int ncclSend(const void *send, size_t count, int datatype, int peer, void *comm, void *stream)
{
	(void)send;
	(void)count;
	(void)datatype;
	(void)peer;
	(void)comm;
	(void)stream;
	return 0;
}

int ncclGroupStart(void)
{
	return 0;
}

int ncclGroupEnd(void)
{
	return 0;
}

int cudaMalloc(void **ptr, size_t bytes)
{
	(void)bytes;
	*ptr = &comms[0];
	return 0;
}

int cudaStreamSynchronize(void *stream)
{
	(void)stream;
	return 0;
}
