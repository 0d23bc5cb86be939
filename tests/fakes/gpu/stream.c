/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams. Each has a queue and, from its first work on, a thread that works it off in order. The
 * legacy stream (handle NULL or 1) waits for all blocking streams and they wait for it, as the
 * CUDA documentation describes.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda_abi.h"
#include "gpu.h"

static struct fake_stream *streams;
static struct fake_stream *legacy[FAKE_GPU_MAX];
static __thread struct fake_stream *per_thread[FAKE_GPU_MAX];
static uint64_t next_id = 1;

static void run_entry(struct fake_entry *entry)
{
	entry->work->run(entry->work, entry->ticket);
	fake_work_put(entry->work);
	free(entry);
}

static void free_stream(struct fake_stream *stream)
{
	stream->magic = 0;
	pthread_cond_destroy(&stream->work);
	pthread_cond_destroy(&stream->idle);
	free(stream);
}

static void *work_off(void *arg)
{
	struct fake_stream *stream = arg;

	fake_gpu_select(stream->device);
	pthread_mutex_lock(&fake_gpu_lock);
	for (;;) {
		struct fake_entry *entry;

		while (!stream->head && !stream->closing)
			pthread_cond_wait(&stream->work, &fake_gpu_lock);
		entry = stream->head;
		if (!entry)
			break;
		stream->head = entry->next;
		if (!stream->head)
			stream->tail = &stream->head;
		pthread_mutex_unlock(&fake_gpu_lock);
		run_entry(entry);
		pthread_mutex_lock(&fake_gpu_lock);
		stream->completed++;
		pthread_cond_broadcast(&stream->idle);
	}
	free_stream(stream);
	pthread_mutex_unlock(&fake_gpu_lock);
	return NULL;
}

static void start_thread(struct fake_stream *stream)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 256 << 10);
	if (pthread_create(&thread, &attr, work_off, stream) != 0)
		abort();
	pthread_setname_np(thread, "fake-stream");
	pthread_attr_destroy(&attr);
	stream->has_thread = true;
}

void fake_stream_enqueue(struct fake_stream *stream, struct fake_work *work)
{
	struct fake_entry *entry = malloc(sizeof(*entry));

	if (!entry)
		abort();
	*entry = (struct fake_entry){.work = work};
	if (work->ticket)
		entry->ticket = work->ticket(work);
	*stream->tail = entry;
	stream->tail = &entry->next;
	stream->submitted++;
	if (!stream->has_thread)
		start_thread(stream);
	pthread_cond_signal(&stream->work);
}

/* A stream nobody can name: helpers of graphs, and the start of every other stream. */
struct fake_stream *fake_stream_private(int device)
{
	struct fake_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->magic = FAKE_STREAM_MAGIC;
	stream->flags = cudaStreamNonBlocking;
	stream->device = device;
	stream->id = next_id++;
	stream->tail = &stream->head;
	pthread_cond_init(&stream->work, NULL);
	pthread_cond_init(&stream->idle, NULL);
	return stream;
}

static struct fake_stream *list_stream(unsigned int flags, int priority, int device)
{
	struct fake_stream *stream = fake_stream_private(device);

	if (!stream)
		return NULL;
	stream->flags = flags;
	stream->priority = priority;
	stream->next = streams;
	streams = stream;
	return stream;
}

struct fake_stream *fake_stream_find(struct fake_stream *stream)
{
	int device = fake_gpu_current();
	struct fake_stream **slot = NULL;

	if (!stream || stream == FAKE_STREAM_LEGACY)
		slot = &legacy[device];
	else if (stream == FAKE_STREAM_PER_THREAD)
		slot = &per_thread[device];
	if (slot) {
		if (!*slot)
			*slot = list_stream(0, 0, device);
		return *slot;
	}
	for (struct fake_stream *one = streams; one; one = one->next) {
		if (one == stream)
			return one;
	}
	return NULL;
}

static bool is_legacy(const struct fake_stream *stream)
{
	return stream == legacy[stream->device];
}

/* Blocking streams and the legacy stream of a device wait for each other. */
static bool waits_for(const struct fake_stream *stream, const struct fake_stream *other)
{
	if (other == stream || other->device != stream->device)
		return false;
	if ((stream->flags | other->flags) & cudaStreamNonBlocking)
		return false;
	return is_legacy(stream) || is_legacy(other);
}

void fake_stream_order(struct fake_stream *stream)
{
	for (struct fake_stream *other = streams; other; other = other->next) {
		struct fake_latch *latch;

		if (!waits_for(stream, other) || other->submitted == other->completed)
			continue;
		latch = fake_latch_new();
		if (!latch)
			abort();
		fake_stream_enqueue(other, fake_latch_signal_work(latch));
		fake_stream_enqueue(stream, fake_latch_wait_work(latch));
		fake_latch_put(latch);
	}
}

int fake_stream_submit(struct fake_stream *handle, struct fake_work *work)
{
	struct fake_stream *stream;
	int result = atomic_load(&fake_gpu_sticky);

	pthread_mutex_lock(&fake_gpu_lock);
	stream = fake_stream_find(handle);
	if (!stream)
		result = cudaErrorInvalidResourceHandle;
	else if (result == 0 && stream->capture)
		result = fake_capture_add(stream, work);
	else if (result == 0) {
		fake_stream_order(stream);
		fake_stream_enqueue(stream, work);
		work = NULL;
	}
	pthread_mutex_unlock(&fake_gpu_lock);
	if (work)
		fake_work_put(work);
	return result;
}

int fake_stream_create(struct fake_stream **ret_stream, unsigned int flags, int priority)
{
	struct fake_stream *stream;

	if (!ret_stream || (flags & ~1u))
		return cudaErrorInvalidValue;
	if (fake_gpu_count() == 0)
		return cudaErrorNoDevice;
	pthread_mutex_lock(&fake_gpu_lock);
	stream = list_stream(flags, priority, fake_gpu_current());
	pthread_mutex_unlock(&fake_gpu_lock);
	if (!stream)
		return cudaErrorMemoryAllocation;
	*ret_stream = stream;
	return cudaSuccess;
}

/* Under the lock; what is queued still runs. */
void fake_stream_close(struct fake_stream *stream)
{
	stream->closing = true;
	if (stream->has_thread)
		pthread_cond_signal(&stream->work);
	else
		free_stream(stream);
}

int fake_stream_destroy(struct fake_stream *stream)
{
	int result = cudaErrorInvalidResourceHandle;

	pthread_mutex_lock(&fake_gpu_lock);
	for (struct fake_stream **link = &streams; *link; link = &(*link)->next) {
		if (*link == stream && !is_legacy(stream)) {
			*link = stream->next;
			fake_stream_close(stream);
			result = cudaSuccess;
			break;
		}
	}
	pthread_mutex_unlock(&fake_gpu_lock);
	return result;
}

/* Under the lock. Waits for what has been submitted by now. The stream may be destroyed meanwhile
 * by another thread only if the application is broken. */
static void wait_idle(struct fake_stream *stream)
{
	uint64_t target = stream->submitted;

	while (stream->completed < target && !atomic_load(&fake_gpu_sticky))
		pthread_cond_wait(&stream->idle, &fake_gpu_lock);
}

void fake_gpu_fail(int error)
{
	pthread_mutex_lock(&fake_gpu_lock);
	atomic_store(&fake_gpu_sticky, error);
	for (struct fake_stream *stream = streams; stream; stream = stream->next)
		pthread_cond_broadcast(&stream->idle);
	pthread_mutex_unlock(&fake_gpu_lock);
}

int fake_stream_sync(struct fake_stream *handle)
{
	struct fake_stream *stream;
	int result = 0;

	pthread_mutex_lock(&fake_gpu_lock);
	stream = fake_stream_find(handle);
	if (!stream) {
		result = cudaErrorInvalidResourceHandle;
	} else if (stream->capture) {
		result = fake_capture_invalidate(stream);
	} else {
		if (is_legacy(stream))
			fake_stream_order(stream);
		wait_idle(stream);
	}
	pthread_mutex_unlock(&fake_gpu_lock);
	return result ? result : atomic_load(&fake_gpu_sticky);
}

int fake_stream_query(struct fake_stream *handle)
{
	struct fake_stream *stream;
	int result;

	pthread_mutex_lock(&fake_gpu_lock);
	stream = fake_stream_find(handle);
	if (!stream)
		result = cudaErrorInvalidResourceHandle;
	else if (stream->capture)
		result = fake_capture_invalidate(stream);
	else
		result = stream->submitted == stream->completed ? cudaSuccess : cudaErrorNotReady;
	pthread_mutex_unlock(&fake_gpu_lock);
	return result ? result : atomic_load(&fake_gpu_sticky);
}

/*
 * One stream after another; the list may change while this waits, so it starts over until nothing
 * that was submitted before the call is left.
 */
int fake_device_sync(void)
{
	int device = fake_gpu_current();
	struct fake_stream *stream;
	uint64_t newest = 0;

	pthread_mutex_lock(&fake_gpu_lock);
	for (stream = streams; stream; stream = stream->next)
		newest = stream->id > newest ? stream->id : newest;
	stream = streams;
	while (stream) {
		if (stream->device == device && stream->id <= newest && !stream->capture &&
		    stream->submitted != stream->completed && !atomic_load(&fake_gpu_sticky)) {
			wait_idle(stream);
			newest = stream->id > 0 ? stream->id - 1 : 0;
			stream = streams;
			continue;
		}
		stream = stream->next;
	}
	pthread_mutex_unlock(&fake_gpu_lock);
	return atomic_load(&fake_gpu_sticky);
}

int fake_stream_wait_event(struct fake_stream *handle, struct fake_event *event)
{
	struct fake_stream *stream;
	int result = 0;

	if (!event || event->magic != FAKE_EVENT_MAGIC)
		return cudaErrorInvalidResourceHandle;
	pthread_mutex_lock(&fake_gpu_lock);
	stream = fake_stream_find(handle);
	if (!stream)
		result = cudaErrorInvalidResourceHandle;
	else if (stream->capture || event->capture_id)
		result = fake_capture_wait(stream, event);
	else if (event->latch && !event->latch->done)
		fake_stream_enqueue(stream, fake_latch_wait_work(event->latch));
	pthread_mutex_unlock(&fake_gpu_lock);
	return result;
}
