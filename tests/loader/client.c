/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is linked to NCCL, as a framework's is: it calls the functions by name. */
#include "session.h"

int ncclGetVersion(int *version);
int ncclGetUniqueId(struct session_id *id);
int ncclCommInitRank(void **comm, int nranks, struct session_id id, int rank);
int ncclCommInitAll(void **comms, int devices, const int *list);
int ncclAllReduce(const void *send, void *receive, size_t count, int datatype, int op, void *comm,
		  void *stream);
int ncclCommDestroy(void *comm);

client_version_fn client_version;
client_open_fn client_open;
client_reduce_fn client_reduce;
client_close_fn client_close;
client_leave_open_fn client_leave_open;

/* No tail calls: the return addresses must be in this library. */
static int get_version(int *version)
{
	volatile int rc = ncclGetVersion(version);

	return rc;
}

static int get_unique_id(struct session_id *id)
{
	volatile int rc = ncclGetUniqueId(id);

	return rc;
}

static int init_rank(void **comm, int nranks, struct session_id id, int rank)
{
	volatile int rc = ncclCommInitRank(comm, nranks, id, rank);

	return rc;
}

static int init_all(void **comms, int devices, const int *list)
{
	volatile int rc = ncclCommInitAll(comms, devices, list);

	return rc;
}

static int all_reduce(const void *send, void *receive, size_t count, int datatype, int op,
		      void *comm, void *stream)
{
	volatile int rc = ncclAllReduce(send, receive, count, datatype, op, comm, stream);

	return rc;
}

static int destroy(void *comm)
{
	volatile int rc = ncclCommDestroy(comm);

	return rc;
}

static const struct session_calls calls = {
	get_version, get_unique_id, init_rank, init_all, all_reduce, destroy,
};

int client_version(void)
{
	return session_version(&calls);
}

void *client_open(void)
{
	return session_open(&calls);
}

int client_reduce(void *comm, int times)
{
	return session_reduce(&calls, comm, times);
}

int client_close(void *comm)
{
	return destroy(comm);
}

int client_leave_open(void)
{
	return session_leave_open(&calls);
}
