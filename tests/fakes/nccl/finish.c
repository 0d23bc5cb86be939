/* SPDX-License-Identifier: Apache-2.0 */
/* Finalize, destroy, abort and revoke, and what a communicator says of itself. */
#include <stdlib.h>
#include <unistd.h>

#include "internal.h"

static ncclResult_t add_job(struct ncclComm *comm, bool foreground,
			    ncclResult_t (*run)(struct fake_job *))
{
	struct fake_job *job = calloc(1, sizeof(*job));

	if (!job)
		abort();
	*job = (struct fake_job){.comm = comm, .run = run, .foreground = foreground};
	return fake_group_add_job(job);
}

static ncclResult_t run_finalize(struct fake_job *job)
{
	fake_comm_drain(job->comm);
	return ncclSuccess;
}

FAKE_NCCL_API(ncclResult_t, CommFinalize, (ncclComm_t comm))
{
	ncclResult_t result;

	if (!comm)
		return ncclSuccess;
	result = fake_comm_check(comm, "CommFinalize", "comm");
	if (result == ncclSuccess)
		result = fake_comm_ready(comm, "ncclCommFinalize");
	if (result != ncclSuccess)
		return fake_group_note(result);
	comm->finalized = true;
	return add_job(comm, false, run_finalize);
}

static void log_end(const struct ncclComm *comm, const char *what)
{
	fake_info(FAKE_LOG_INIT, "comm %p rank %d nranks %d cudaDev %d busId %lx - %s COMPLETE",
		  (const void *)comm, comm->rank, comm->nranks, comm->device,
		  (unsigned long)(0x10 + comm->device) << 12, what);
}

static void wait_for_jobs(struct ncclComm *comm)
{
	pthread_mutex_lock(&comm->lock);
	while (comm->jobs > 0)
		pthread_cond_wait(&comm->changed, &comm->lock);
	pthread_mutex_unlock(&comm->lock);
}

/* These two go on in the background for nobody: the handle is gone when they return. */
static ncclResult_t run_destroy(struct fake_job *job)
{
	wait_for_jobs(job->comm);
	fake_comm_drain(job->comm);
	fake_rail_goodbye(job->comm);
	log_end(job->comm, "Destroy");
	fake_comm_put(job->comm);
	return ncclSuccess;
}

static ncclResult_t run_abort(struct fake_job *job)
{
	fake_comm_stop(job->comm);
	wait_for_jobs(job->comm);
	fake_comm_drain(job->comm);
	log_end(job->comm, "Abort");
	fake_comm_put(job->comm);
	return ncclSuccess;
}

static ncclResult_t end_comm(struct ncclComm *comm, const char *what,
			     ncclResult_t (*run)(struct fake_job *))
{
	ncclResult_t result;

	if (!comm)
		return ncclSuccess;
	result = fake_comm_check(comm, what, "comm");
	if (result == ncclSuccess && comm->destroyed) {
		WARN("init.cc", "comm %p has already been destroyed", (void *)comm);
		result = ncclInvalidArgument;
	}
	if (result != ncclSuccess)
		return fake_group_note(result);
	comm->destroyed = true;
	return add_job(comm, true, run);
}

FAKE_NCCL_API(ncclResult_t, CommDestroy, (ncclComm_t comm))
{
	return end_comm(comm, "CommDestroy", run_destroy);
}

FAKE_NCCL_API(ncclResult_t, CommAbort, (ncclComm_t comm))
{
	return end_comm(comm, "CommAbort", run_abort);
}

ncclResult_t fake_comm_revoke(struct ncclComm *comm)
{
	uint64_t drop;
	int state;

	comm->revoked = true;
	fake_comm_stop(comm);
	fake_comm_drain(comm);
	if (read(comm->stop_fd, &drop, sizeof(drop)) < 0)
		return ncclSystemError;
	atomic_store(&comm->stopped, 0);
	state = atomic_load(&comm->async);
	if (state != ncclInProgress)
		atomic_compare_exchange_strong(&comm->async, &state, ncclSuccess);
	return ncclSuccess;
}

static ncclResult_t run_revoke(struct fake_job *job)
{
	return fake_comm_revoke(job->comm);
}

FAKE_NCCL_API(ncclResult_t, CommRevoke, (ncclComm_t comm, int flags))
{
	ncclResult_t result;

	if (!comm)
		return ncclSuccess;
	result = fake_comm_check(comm, "CommRevoke", "comm");
	if (result == ncclSuccess && flags != 0) {
		WARN("init.cc", "CommRevoke: invalid flags %d", flags);
		result = ncclInvalidArgument;
	}
	if (result != ncclSuccess)
		return fake_group_note(result);
	comm->revoked = true;
	return add_job(comm, false, run_revoke);
}

FAKE_NCCL_API(ncclResult_t, CommGetAsyncError, (ncclComm_t comm, ncclResult_t *error))
{
	ncclResult_t result = fake_comm_check(comm, "CommGetAsyncError", "comm");

	if (result != ncclSuccess)
		return result;
	if (!error) {
		WARN("misc/argcheck.cc", "%s : %s argument is NULL", "ncclGetAsyncError",
		     "asyncError");
		return ncclInvalidArgument;
	}
	*error = (ncclResult_t)atomic_load(&comm->async);
	return ncclSuccess;
}

static ncclResult_t ask(const struct ncclComm *comm, const char *what, const int *out)
{
	ncclResult_t result = fake_comm_check(comm, what, "comm");

	if (result != ncclSuccess)
		return result;
	if (!out) {
		WARN("misc/argcheck.cc", "%s : %s argument is NULL", what, "out");
		return ncclInvalidArgument;
	}
	if (atomic_load(&comm->async) == ncclInProgress) {
		WARN("init.cc", "Attempt to use communicator before the previous operation "
				"returned ncclSuccess");
		return ncclInvalidArgument;
	}
	return ncclSuccess;
}

FAKE_NCCL_API(ncclResult_t, CommCount, (const ncclComm_t comm, int *count))
{
	ncclResult_t result = ask(comm, "CommCount", count);

	if (result == ncclSuccess)
		*count = comm->nranks;
	return result;
}

FAKE_NCCL_API(ncclResult_t, CommCuDevice, (const ncclComm_t comm, int *device))
{
	ncclResult_t result = ask(comm, "CommCuDevice", device);

	if (result == ncclSuccess)
		*device = comm->device;
	return result;
}

FAKE_NCCL_API(ncclResult_t, CommUserRank, (const ncclComm_t comm, int *rank))
{
	ncclResult_t result = ask(comm, "CommUserRank", rank);

	if (result == ncclSuccess)
		*rank = comm->rank;
	return result;
}
