/* SPDX-License-Identifier: Apache-2.0 */
/* Latches, which are signalled once, and events, which stand for the latch of the newest record. */
#include <stdlib.h>
#include <time.h>

#include "cuda_abi.h"
#include "gpu.h"

struct latch_work {
	struct fake_work work;
	struct fake_latch *latch;
};

struct fake_latch *fake_latch_new(void)
{
	struct fake_latch *latch = calloc(1, sizeof(*latch));

	if (!latch)
		return NULL;
	atomic_init(&latch->refs, 1);
	pthread_cond_init(&latch->cond, NULL);
	return latch;
}

void fake_latch_get(struct fake_latch *latch)
{
	atomic_fetch_add(&latch->refs, 1);
}

void fake_latch_put(struct fake_latch *latch)
{
	if (latch && atomic_fetch_sub(&latch->refs, 1) == 1) {
		pthread_cond_destroy(&latch->cond);
		free(latch);
	}
}

void fake_latch_signal(struct fake_latch *latch)
{
	pthread_mutex_lock(&fake_gpu_lock);
	latch->done = true;
	latch->when = fake_now_ns();
	pthread_cond_broadcast(&latch->cond);
	pthread_mutex_unlock(&fake_gpu_lock);
}

void fake_latch_wait(struct fake_latch *latch)
{
	pthread_mutex_lock(&fake_gpu_lock);
	while (!latch->done)
		pthread_cond_wait(&latch->cond, &fake_gpu_lock);
	pthread_mutex_unlock(&fake_gpu_lock);
}

/* For the host: comes back, too, when the device has failed. */
static void wait_or_fail(struct fake_latch *latch)
{
	struct timespec until;

	pthread_mutex_lock(&fake_gpu_lock);
	while (!latch->done && !atomic_load(&fake_gpu_sticky)) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += 1;
		pthread_cond_timedwait(&latch->cond, &fake_gpu_lock, &until);
	}
	pthread_mutex_unlock(&fake_gpu_lock);
}

static void run_signal(struct fake_work *work, uint64_t ticket)
{
	(void)ticket;
	fake_latch_signal(((struct latch_work *)work)->latch);
}

static void run_wait(struct fake_work *work, uint64_t ticket)
{
	(void)ticket;
	fake_latch_wait(((struct latch_work *)work)->latch);
}

static void free_latch_work(struct fake_work *work)
{
	fake_latch_put(((struct latch_work *)work)->latch);
	free(work);
}

static struct fake_work *latch_work(struct fake_latch *latch,
				    void (*run)(struct fake_work *, uint64_t))
{
	struct latch_work *one = calloc(1, sizeof(*one));

	if (!one)
		abort();
	fake_work_init(&one->work, run, free_latch_work);
	fake_latch_get(latch);
	one->latch = latch;
	return &one->work;
}

struct fake_work *fake_latch_signal_work(struct fake_latch *latch)
{
	return latch_work(latch, run_signal);
}

struct fake_work *fake_latch_wait_work(struct fake_latch *latch)
{
	return latch_work(latch, run_wait);
}

int fake_event_create(struct fake_event **ret_event, unsigned int flags)
{
	struct fake_event *event;

	if (!ret_event || (flags & ~7u))
		return cudaErrorInvalidValue;
	event = calloc(1, sizeof(*event));
	if (!event)
		return cudaErrorMemoryAllocation;
	event->magic = FAKE_EVENT_MAGIC;
	event->flags = flags;
	*ret_event = event;
	return cudaSuccess;
}

static bool is_event(const struct fake_event *event)
{
	return event && event->magic == FAKE_EVENT_MAGIC;
}

int fake_event_destroy(struct fake_event *event)
{
	if (!is_event(event))
		return cudaErrorInvalidResourceHandle;
	event->magic = 0;
	fake_latch_put(event->latch);
	free(event);
	return cudaSuccess;
}

/* Under the lock. */
static int record(struct fake_event *event, struct fake_stream *stream)
{
	struct fake_latch *latch;

	if (stream->capture)
		return fake_capture_record(stream, event);
	latch = fake_latch_new();
	if (!latch)
		return cudaErrorMemoryAllocation;
	fake_stream_order(stream);
	fake_stream_enqueue(stream, fake_latch_signal_work(latch));
	fake_latch_put(event->latch);
	event->latch = latch;
	event->capture_id = 0;
	return cudaSuccess;
}

int fake_event_record(struct fake_event *event, struct fake_stream *handle)
{
	struct fake_stream *stream;
	int result = cudaErrorInvalidResourceHandle;

	if (!is_event(event))
		return result;
	pthread_mutex_lock(&fake_gpu_lock);
	stream = fake_stream_find(handle);
	if (stream)
		result = record(event, stream);
	pthread_mutex_unlock(&fake_gpu_lock);
	return result;
}

int fake_event_query(struct fake_event *event)
{
	int result = 0;

	if (!is_event(event))
		return cudaErrorInvalidResourceHandle;
	pthread_mutex_lock(&fake_gpu_lock);
	if (event->capture_id)
		result = cudaErrorCapturedEvent;
	else if (event->latch && !event->latch->done)
		result = cudaErrorNotReady;
	pthread_mutex_unlock(&fake_gpu_lock);
	return result ? result : atomic_load(&fake_gpu_sticky);
}

int fake_event_sync(struct fake_event *event)
{
	struct fake_latch *latch = NULL;
	int result = 0;

	if (!is_event(event))
		return cudaErrorInvalidResourceHandle;
	pthread_mutex_lock(&fake_gpu_lock);
	if (event->capture_id) {
		result = cudaErrorCapturedEvent;
	} else if (event->latch) {
		latch = event->latch;
		fake_latch_get(latch);
	}
	pthread_mutex_unlock(&fake_gpu_lock);
	if (latch) {
		wait_or_fail(latch);
		fake_latch_put(latch);
	}
	return result ? result : atomic_load(&fake_gpu_sticky);
}

int fake_event_elapsed(float *ret_ms, struct fake_event *from, struct fake_event *to)
{
	int result = cudaSuccess;

	if (!ret_ms)
		return cudaErrorInvalidValue;
	if (!is_event(from) || !is_event(to))
		return cudaErrorInvalidResourceHandle;
	pthread_mutex_lock(&fake_gpu_lock);
	if (!from->latch || !to->latch || ((from->flags | to->flags) & cudaEventDisableTiming))
		result = cudaErrorInvalidResourceHandle;
	else if (!from->latch->done || !to->latch->done)
		result = cudaErrorNotReady;
	else
		*ret_ms = (float)((double)(int64_t)(to->latch->when - from->latch->when) / 1e6);
	pthread_mutex_unlock(&fake_gpu_lock);
	return result;
}
