/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups. Operations of a thread collect until its outermost group ends; then communicators are
 * created, split or destroyed (each in a thread, since they wait for one another), and after that
 * one plan per communicator is launched. The group returns the last error of a member.
 */
#include <stdlib.h>

#include "internal.h"

static __thread int depth;
static __thread ncclResult_t error;
static __thread struct fake_task *tasks, **tasks_tail;
static __thread struct fake_job *jobs, **jobs_tail;

void fake_group_start(void)
{
	if (depth++ == 0) {
		error = ncclSuccess;
		tasks = NULL;
		tasks_tail = &tasks;
		jobs = NULL;
		jobs_tail = &jobs;
	}
}

ncclResult_t fake_group_note(ncclResult_t result)
{
	if (depth > 0 && result != ncclSuccess && result != ncclInProgress)
		error = result;
	return result;
}

void fake_task_free(struct fake_task *task)
{
	fake_comm_put(task->comm);
	free(task);
}

void fake_group_add_task(struct fake_task *task)
{
	fake_comm_get(task->comm);
	task->next = NULL;
	*tasks_tail = task;
	tasks_tail = &task->next;
}

static void free_job(struct fake_job *job)
{
	fake_comm_put(job->comm);
	free(job->args);
	free(job);
}

static void *run_job(void *arg)
{
	struct fake_job *job = arg;

	job->result = job->run(job);
	return NULL;
}

/* Nonblocking: the state of the communicator tells how it went. */
static void *run_detached(void *arg)
{
	struct fake_job *job = arg;
	struct ncclComm *comm = job->comm;

	job->result = job->run(job);
	pthread_mutex_lock(&comm->lock);
	atomic_store(&comm->async, job->result);
	comm->jobs--;
	pthread_cond_broadcast(&comm->changed);
	pthread_mutex_unlock(&comm->lock);
	free_job(job);
	return NULL;
}

static void start_detached(struct fake_job *job)
{
	pthread_t thread;

	pthread_mutex_lock(&job->comm->lock);
	job->comm->jobs++;
	atomic_store(&job->comm->async, ncclInProgress);
	pthread_mutex_unlock(&job->comm->lock);
	if (pthread_create(&thread, NULL, run_detached, job) != 0)
		abort();
	pthread_detach(thread);
}

static ncclResult_t run_blocking(struct fake_job *list)
{
	ncclResult_t result = ncclSuccess;
	pthread_t threads[FAKE_FAULT_RANKS];
	int count = 0, i = 0;

	for (struct fake_job *job = list; job; job = job->next)
		count++;
	if (count == 1) {
		run_job(list);
	} else {
		for (struct fake_job *job = list; job && i < FAKE_FAULT_RANKS; job = job->next) {
			if (pthread_create(&threads[i++], NULL, run_job, job) != 0)
				abort();
		}
		while (i > 0)
			pthread_join(threads[--i], NULL);
	}
	while (list) {
		struct fake_job *job = list;

		list = job->next;
		if (job->result != ncclSuccess)
			result = job->result;
		free_job(job);
	}
	return result;
}

static ncclResult_t run_jobs(struct fake_job *list)
{
	struct fake_job *blocking = NULL, **tail = &blocking;
	bool detached = false;
	ncclResult_t result;

	while (list) {
		struct fake_job *job = list;

		list = job->next;
		job->next = NULL;
		if (job->foreground || job->comm->blocking) {
			*tail = job;
			tail = &job->next;
		} else {
			start_detached(job);
			detached = true;
		}
	}
	result = blocking ? run_blocking(blocking) : ncclSuccess;
	if (result != ncclSuccess)
		return result;
	return detached ? ncclInProgress : ncclSuccess;
}

/* Takes the tasks of one communicator out of the list, in order. */
static struct fake_task *extract(struct fake_task **list, const struct ncclComm *comm)
{
	struct fake_task *found = NULL, **tail = &found;

	while (*list) {
		struct fake_task *task = *list;

		if (task->comm != comm) {
			list = &task->next;
			continue;
		}
		*list = task->next;
		task->next = NULL;
		*tail = task;
		tail = &task->next;
	}
	return found;
}

/* A send to oneself needs its receive in the same group. */
static ncclResult_t check_self(const struct fake_task *list, const struct ncclComm *comm)
{
	int sends = 0, recvs = 0;

	for (; list; list = list->next) {
		sends += list->op == FAKE_OP_SEND && list->peer == comm->rank;
		recvs += list->op == FAKE_OP_RECV && list->peer == comm->rank;
	}
	if (sends == recvs)
		return ncclSuccess;
	WARN("enqueue.cc", sends > recvs ? "Trying to send to self without a matching recv"
					 : "Trying to recv to self without a matching send");
	return ncclInvalidUsage;
}

static void free_tasks(struct fake_task *list)
{
	while (list) {
		struct fake_task *task = list;

		list = task->next;
		fake_task_free(task);
	}
}

static ncclResult_t launch_tasks(struct fake_task *list)
{
	ncclResult_t result = ncclSuccess, one;
	bool nonblocking = false;

	while (list) {
		struct ncclComm *comm = list->comm;
		struct fake_task *mine = extract(&list, comm);

		nonblocking |= !comm->blocking;
		one = check_self(mine, comm);
		if (one == ncclSuccess)
			one = fake_plan_launch(comm, mine);
		else
			free_tasks(mine);
		if (one != ncclSuccess)
			result = one;
	}
	if (result != ncclSuccess)
		return result;
	return nonblocking ? ncclInProgress : ncclSuccess;
}

static void drop_jobs(struct fake_job *list)
{
	while (list) {
		struct fake_job *job = list;

		list = job->next;
		free_job(job);
	}
}

static ncclResult_t close_group(bool launch)
{
	struct fake_task *all_tasks = tasks;
	struct fake_job *all_jobs = jobs;
	ncclResult_t result = error, launched;

	tasks = NULL;
	jobs = NULL;
	error = ncclSuccess;
	if (result != ncclSuccess || !launch) {
		free_tasks(all_tasks);
		drop_jobs(all_jobs);
		return result;
	}
	result = all_jobs ? run_jobs(all_jobs) : ncclSuccess;
	if (result != ncclSuccess && result != ncclInProgress) {
		free_tasks(all_tasks);
		return result;
	}
	launched = all_tasks ? launch_tasks(all_tasks) : ncclSuccess;
	return launched != ncclSuccess ? launched : result;
}

ncclResult_t fake_group_end(void)
{
	if (depth == 0) {
		WARN("group.cc", "ncclGroupEnd: not in a group call.");
		return ncclInvalidUsage;
	}
	if (--depth > 0)
		return ncclSuccess;
	return close_group(true);
}

ncclResult_t fake_group_add_job(struct fake_job *job)
{
	bool own = depth == 0;

	if (own)
		fake_group_start();
	fake_comm_get(job->comm);
	job->next = NULL;
	*jobs_tail = job;
	jobs_tail = &job->next;
	return own ? fake_group_end() : ncclSuccess;
}

FAKE_NCCL_API(ncclResult_t, GroupStart, (void))
{
	fake_group_start();
	return ncclSuccess;
}

FAKE_NCCL_API(ncclResult_t, GroupEnd, (void))
{
	return fake_group_end();
}

/* Launches nothing; the time is a guess, as it is in NCCL. The group is over in any case. */
FAKE_NCCL_API(ncclResult_t, GroupSimulateEnd, (ncclSimInfo_t * info))
{
	ncclResult_t result;
	bool any;

	if (depth == 0) {
		WARN("group.cc", "ncclGroupEnd: not in a group call.");
		return ncclInvalidUsage;
	}
	if (--depth > 0)
		return ncclSuccess;
	any = tasks != NULL;
	result = close_group(false);
	if (info && info->magic != NCCL_SIM_INFO_MAGIC) {
		WARN("group.cc", "ncclSimInfo_t argument not initialized via "
				 "NCCL_SIM_INFO_INITIALIZER");
		return ncclInvalidArgument;
	}
	if (info && any && result == ncclSuccess)
		info->estimatedTime = (float)fake_gpu_kernel_ns() / 1000.0f;
	return result;
}
