/* SPDX-License-Identifier: Apache-2.0 */
/* A few NCCL calls through pointers, however the caller came by them. */
#ifndef NSPY_SESSION_H
#define NSPY_SESSION_H

#include <stddef.h>
#include <stdio.h>

#define SESSION_OK   0
#define FLOAT32      7
#define ALL_DEVICES  2 /* communicators that ncclCommInitAll makes in these tests */
#define NAME_UNKNOWN "?"

struct session_id {
	char bytes[128];
};

struct session_calls {
	int (*get_version)(int *version);
	int (*get_unique_id)(struct session_id *id);
	int (*init_rank)(void **comm, int nranks, struct session_id id, int rank);
	int (*init_all)(void **comms, int devices, const int *list);
	int (*all_reduce)(const void *send, void *receive, size_t count, int datatype, int op,
			  void *comm, void *stream);
	int (*destroy)(void *comm);
};

/* What the client libraries export, once for each route to NCCL. */
typedef int client_version_fn(void);
typedef void *client_open_fn(void);
typedef int client_reduce_fn(void *comm, int times);
typedef int client_close_fn(void *comm);
typedef int client_leave_open_fn(void);

static inline int session_version(const struct session_calls *calls)
{
	int version = 0;

	return calls->get_version(&version) == 0 ? version : -1;
}

/* A communicator of one rank, NULL if that fails. */
static inline void *session_open(const struct session_calls *calls)
{
	struct session_id id;
	void *comm = NULL;

	if (calls->get_unique_id(&id) != 0 || calls->init_rank(&comm, 1, id, 0) != 0)
		return NULL;
	return comm;
}

static inline int session_reduce(const struct session_calls *calls, void *comm, int times)
{
	static __thread float in, out;
	int rc = 0;

	while (rc == 0 && times-- > 0)
		rc = calls->all_reduce(&in, &out, 1, FLOAT32, 0, comm, NULL);
	return rc;
}

static inline int session(const struct session_calls *calls, int times)
{
	void *comm = session_open(calls);

	if (!comm)
		return -1;
	return session_reduce(calls, comm, times) | calls->destroy(comm);
}

/* Communicators of several ranks, left as they are: the process has them when it ends. */
static inline int session_leave_open(const struct session_calls *calls)
{
	void *comms[ALL_DEVICES] = {NULL};

	return calls->init_all(comms, ALL_DEVICES, NULL);
}

#endif
