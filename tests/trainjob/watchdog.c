/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What training frameworks do against hangs: a thread looks at the communicators now and then, and
 * when one has an error, or a step takes too long, aborts them all, which frees the main thread.
 */
#include "trainjob.h"

#include <stdlib.h>
#include <unistd.h>

#define LOOK_EVERY_NS 100000000u

static ncclResult_t look(struct rank *rank)
{
	for (int i = 0; i < rank->comm_count; i++) {
		ncclResult_t error = ncclSuccess;

		if (ncclCommGetAsyncError(rank->comms[i].handle, &error) != ncclSuccess)
			continue;
		if (error != ncclSuccess && error != ncclInProgress)
			return error;
	}
	return ncclSuccess;
}

void job_enter(struct rank *rank)
{
	atomic_fetch_add(&rank->in_library, 1);
	if (!atomic_load(&rank->aborting))
		return;
	atomic_fetch_sub(&rank->in_library, 1);
	for (;;)
		pause();
}

void job_leave(struct rank *rank)
{
	atomic_fetch_sub(&rank->in_library, 1);
}

/* The main thread gets a second to come out of a call; if it is stuck in there, so be it. */
static void stop_main_thread(struct rank *rank)
{
	atomic_store(&rank->aborting, true);
	for (int i = 0; i < 100 && atomic_load(&rank->in_library) > 0; i++)
		job_sleep_ns(10000000);
}

/* One group, since one communicator's kernels may be stuck behind another's. */
static void __attribute__((noreturn)) abort_all(struct rank *rank, int status)
{
	stop_main_thread(rank);
	ncclGroupStart();
	for (int i = rank->comm_count - 1; i >= 0; i--)
		ncclCommAbort(rank->comms[i].handle);
	ncclGroupEnd();
	job_say(rank, "aborted its communicators");
	_exit(rank->options->abort_status >= 0 ? rank->options->abort_status : status);
}

static void *watch(void *arg)
{
	struct rank *rank = arg;
	uint64_t seen = UINT64_MAX, since = job_now_ns();
	uint64_t patience = (uint64_t)(rank->options->watchdog_s * 1e9);

	if (fakeSetThreadRank)
		fakeSetThreadRank(rank->world_rank);
	while (!atomic_load(&rank->finished)) {
		uint64_t step = atomic_load(&rank->progress->steps[rank->world_rank]);
		ncclResult_t error = look(rank);

		if (step != seen) {
			seen = step;
			since = job_now_ns();
		}
		if (error != ncclSuccess) {
			job_say(rank, "asynchronous error: %s (%d)", ncclGetErrorString(error),
				(int)error);
			abort_all(rank, EXIT_ASYNC);
		}
		if (job_now_ns() - since > patience) {
			job_say(rank, "no progress after step %lu", (unsigned long)step);
			abort_all(rank, EXIT_HUNG);
		}
		job_sleep_ns(LOOK_EVERY_NS);
	}
	return NULL;
}

void job_watchdog_start(struct rank *rank)
{
	if (rank->options->watchdog_s <= 0)
		return;
	if (pthread_create(&rank->watchdog, NULL, watch, rank) != 0)
		exit(EXIT_FAILED);
	pthread_setname_np(rank->watchdog, "watchdog");
}

void job_watchdog_stop(struct rank *rank)
{
	if (rank->options->watchdog_s <= 0)
		return;
	atomic_store(&rank->finished, true);
	pthread_join(rank->watchdog, NULL);
}
