/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans: what one group of calls does on one communicator, as one piece of work on a stream.
 * Plans of a communicator run one after the other in the order of their launches, also when they
 * are on different streams; a graph's plans get their turn when the graph is launched.
 */
#include <errno.h>
#include <stdlib.h>

#include "cuda_abi.h"

#include "internal.h"

struct plan {
	struct fake_work work;
	struct ncclComm *comm;
	struct fake_task *tasks;
};

static uint64_t draw_ticket(struct fake_work *work)
{
	struct plan *plan = (struct plan *)work;

	return atomic_fetch_add(&plan->comm->issued, 1);
}

static int wait_for_turn(struct ncclComm *comm, uint64_t ticket)
{
	int stopped;

	pthread_mutex_lock(&comm->lock);
	while (comm->finished != ticket && !atomic_load(&comm->stopped))
		pthread_cond_wait(&comm->changed, &comm->lock);
	stopped = atomic_load(&comm->stopped);
	pthread_mutex_unlock(&comm->lock);
	return stopped;
}

static bool is_p2p(const struct fake_task *task)
{
	return task->op == FAKE_OP_SEND || task->op == FAKE_OP_RECV;
}

static int run_faults(struct ncclComm *comm, const struct fake_task *task)
{
	if (task->gpu_fault) {
		fake_gpu_fail(task->gpu_fault);
		return -EIO;
	}
	if (task->async_error)
		atomic_store(&comm->async, task->async_error);
	if (task->stall || task->async_error)
		return fake_rest(comm, UINT64_MAX);
	return fake_rest(comm, task->late_ns);
}

static int run_p2p(struct plan *plan)
{
	struct fake_task **tasks;
	int count = 0, result;

	for (struct fake_task *task = plan->tasks; task; task = task->next)
		count += is_p2p(task);
	if (count == 0)
		return 0;
	tasks = calloc((size_t)count, sizeof(struct fake_task *));
	if (!tasks)
		abort();
	count = 0;
	for (struct fake_task *task = plan->tasks; task; task = task->next) {
		if (is_p2p(task))
			tasks[count++] = task;
	}
	result = fake_p2p_run(plan->comm, tasks, count);
	free(tasks);
	return result;
}

static int run_tasks(struct plan *plan)
{
	int result = fake_rest(plan->comm, fake_gpu_kernel_ns());

	for (struct fake_task *task = plan->tasks; task && result == 0; task = task->next)
		result = run_faults(plan->comm, task);
	for (struct fake_task *task = plan->tasks; task && result == 0; task = task->next) {
		if (!is_p2p(task))
			result = fake_collective_run(task);
	}
	return result ? result : run_p2p(plan);
}

static void run_plan(struct fake_work *work, uint64_t ticket)
{
	struct plan *plan = (struct plan *)work;
	struct ncclComm *comm = plan->comm;

	if (!wait_for_turn(comm, ticket) && !atomic_load(&fake_gpu_sticky))
		run_tasks(plan);
	pthread_mutex_lock(&comm->lock);
	comm->finished++;
	pthread_cond_broadcast(&comm->changed);
	pthread_mutex_unlock(&comm->lock);
}

static void free_plan(struct fake_work *work)
{
	struct plan *plan = (struct plan *)work;

	while (plan->tasks) {
		struct fake_task *task = plan->tasks;

		plan->tasks = task->next;
		fake_task_free(task);
	}
	fake_comm_put(plan->comm);
	free(plan);
}

/* first waits for what is on the other stream now, or the other way round */
static int join_streams(struct fake_stream *waits, struct fake_stream *other)
{
	struct fake_event *event;
	int result = fake_event_create(&event, cudaEventDisableTiming);

	if (result)
		return result;
	result = fake_event_record(event, other);
	if (result == 0)
		result = fake_stream_wait_event(waits, event);
	fake_event_destroy(event);
	return result;
}

static int submit(struct plan *plan)
{
	struct fake_stream *first = plan->tasks->stream;
	struct fake_stream *others[16];
	int count = 0, result = 0;

	for (struct fake_task *task = plan->tasks; task; task = task->next) {
		int i = 0;

		while (i < count && others[i] != task->stream)
			i++;
		if (task->stream != first && i == count && count < 16)
			others[count++] = task->stream;
	}
	for (int i = 0; i < count && result == 0; i++)
		result = join_streams(first, others[i]);
	if (result) {
		fake_work_put(&plan->work);
		return result;
	}
	result = fake_stream_submit(first, &plan->work);
	for (int i = 0; i < count && result == 0; i++)
		result = join_streams(others[i], first);
	return result;
}

static bool mixes_capture(const struct fake_task *tasks)
{
	int first = FAKE_CAPTURE_NONE, status = FAKE_CAPTURE_NONE;

	fake_capture_status(tasks->stream, &first, NULL, NULL);
	for (const struct fake_task *task = tasks->next; task; task = task->next) {
		fake_capture_status(task->stream, &status, NULL, NULL);
		if (status != first)
			return true;
	}
	return false;
}

ncclResult_t fake_plan_launch(struct ncclComm *comm, struct fake_task *tasks)
{
	struct plan *plan = calloc(1, sizeof(*plan));
	int result;

	if (!plan)
		abort();
	fake_work_init(&plan->work, run_plan, free_plan);
	plan->work.ticket = draw_ticket;
	fake_comm_get(comm);
	plan->comm = comm;
	plan->tasks = tasks;
	if (mixes_capture(tasks)) {
		WARN("enqueue.cc", "Streams given to a communicator within a NCCL group must "
				   "either be all uncaptured or all captured by the same graph.");
		fake_work_put(&plan->work);
		return ncclInvalidUsage;
	}
	result = submit(plan);
	if (result == 0)
		return ncclSuccess;
	WARN("enqueue.cc", "Cuda failure %d", result);
	return ncclUnhandledCudaError;
}
