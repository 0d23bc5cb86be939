/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in GPU: host memory, streams as ordered queues that a thread each works off, events,
 * captured graphs. It lives in libcuda.so.1 and is used by the stand-ins of the CUDA runtime and of
 * NCCL, so that those two see the same streams, as they do with a real driver.
 *
 * Results are CUDA error numbers (0 = success); runtime and driver numbers agree for all that are
 * used here. Nothing spins: compute sleeps, everything that waits sleeps on a condition variable.
 *
 * One lock guards all of it. Work runs without the lock.
 */
#ifndef FAKE_GPU_H
#define FAKE_GPU_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_EXPORT       __attribute__((visibility("default")))
#define FAKE_GPU_MAX      64
#define FAKE_STREAM_MAGIC 0x6d727473u
#define FAKE_EVENT_MAGIC  0x746e7665u

/* The handles that are not pointers. */
#define FAKE_STREAM_LEGACY     ((struct fake_stream *)0x1)
#define FAKE_STREAM_PER_THREAD ((struct fake_stream *)0x2)

/*
 * Something that runs on a stream, once or, captured in a graph, many times.
 *
 * ticket: called when the work is put on a stream (or the graph it is in is launched), in the order
 * of the host's calls and under the lock; what it returns is given to run. NULL: 0 is given.
 * free: called when the last reference goes.
 */
struct fake_work {
	void (*run)(struct fake_work *work, uint64_t ticket);
	uint64_t (*ticket)(struct fake_work *work);
	void (*free)(struct fake_work *work);
	atomic_int refs;
};

struct fake_entry {
	struct fake_entry *next;
	struct fake_work *work;
	uint64_t ticket;
};

struct fake_capture;

struct fake_stream {
	uint32_t magic;
	unsigned int flags; /* bit 0: does not synchronise with the legacy stream */
	int priority;
	int device;
	uint64_t id;
	struct fake_stream *next; /* all streams that the application can name */
	struct fake_entry *head, **tail;
	uint64_t submitted, completed;
	bool has_thread, closing;
	pthread_cond_t work, idle;
	struct fake_capture *capture;
	int lane; /* of the capture */
};

/* Signalled once. */
struct fake_latch {
	atomic_int refs;
	bool done;
	uint64_t when; /* CLOCK_MONOTONIC ns */
	pthread_cond_t cond;
};

struct fake_event {
	uint32_t magic;
	unsigned int flags;
	struct fake_latch *latch; /* the newest record, NULL = none */
	uint64_t capture_id;      /* recorded in this capture, 0 = not */
	int signal;               /* which signal of the capture */
	int lane;
};

/* gpu.c */
extern pthread_mutex_t fake_gpu_lock;
/* Of the device: a fault that every later call reports, as real devices do. 0 = none. */
extern atomic_int fake_gpu_sticky;
uint64_t fake_now_ns(void);
void fake_sleep_ns(uint64_t ns);
void fake_work_init(struct fake_work *work, void (*run)(struct fake_work *, uint64_t),
		    void (*release)(struct fake_work *));
void fake_work_get(struct fake_work *work);
void fake_work_put(struct fake_work *work);
/* Rank in the job of the calling thread, as set or from the environment; -1 unknown. */
void fake_set_thread_rank(int rank);
int fake_thread_rank(void);
/* The settings of README.md. */
int fake_gpu_count(void);
int fake_gpu_driver_version(void);
uint64_t fake_gpu_memory_bytes(void);
uint64_t fake_gpu_kernel_ns(void);
int fake_gpu_current(void);
int fake_gpu_select(int device);
void fake_gpu_bus_id(int device, char *ret_text, size_t bytes);
void fake_gpu_uuid(int device, unsigned char ret_uuid[16]);

/* memory.c */
enum fake_memory_kind { FAKE_MEMORY_DEVICE, FAKE_MEMORY_HOST, FAKE_MEMORY_MANAGED };
int fake_memory_alloc(void **ret_ptr, size_t bytes, enum fake_memory_kind kind);
int fake_memory_free(void *ptr);
/* From now on allocations of this thread are a library's own: NSPY_FAKE does not count them. */
void fake_memory_unscripted(bool on);
/* Frees in stream order. */
int fake_memory_free_async(void *ptr, struct fake_stream *stream);
void fake_memory_info(size_t *ret_free, size_t *ret_total);
/* Kind and device of the allocation that ptr points into; false: not one of ours. */
bool fake_memory_find(const void *ptr, enum fake_memory_kind *ret_kind, int *ret_device);

/* stream.c; NULL, legacy and per-thread handles are good wherever a stream is */
int fake_stream_create(struct fake_stream **ret_stream, unsigned int flags, int priority);
int fake_stream_destroy(struct fake_stream *stream);
/* Takes over the caller's reference to work, whether or not it succeeds. */
int fake_stream_submit(struct fake_stream *stream, struct fake_work *work);
int fake_stream_sync(struct fake_stream *stream);
int fake_stream_query(struct fake_stream *stream);
int fake_stream_wait_event(struct fake_stream *stream, struct fake_event *event);
int fake_device_sync(void);
/* The device has this error from now on: whoever waits for it is told, nothing runs any more. */
void fake_gpu_fail(int error);
/* Common work. */
int fake_stream_compute(struct fake_stream *stream, uint64_t ns);
int fake_stream_host_func(struct fake_stream *stream, void (*func)(void *), void *arg);
int fake_stream_copy(struct fake_stream *stream, void *to, const void *from, size_t bytes);
int fake_stream_set(struct fake_stream *stream, void *to, int value, size_t bytes);
/* Under the lock: */
struct fake_stream *fake_stream_find(struct fake_stream *stream);
struct fake_stream *fake_stream_private(int device);
void fake_stream_enqueue(struct fake_stream *stream, struct fake_work *work);
void fake_stream_close(struct fake_stream *stream);
/* Makes later work wait for what the legacy stream rules say it has to. */
void fake_stream_order(struct fake_stream *stream);

/* event.c */
struct fake_latch *fake_latch_new(void);
void fake_latch_get(struct fake_latch *latch);
void fake_latch_put(struct fake_latch *latch);
void fake_latch_signal(struct fake_latch *latch);
void fake_latch_wait(struct fake_latch *latch);
/* Work that signals or waits; a reference to the latch is taken. NULL if out of memory. */
struct fake_work *fake_latch_signal_work(struct fake_latch *latch);
struct fake_work *fake_latch_wait_work(struct fake_latch *latch);
int fake_event_create(struct fake_event **ret_event, unsigned int flags);
int fake_event_destroy(struct fake_event *event);
int fake_event_record(struct fake_event *event, struct fake_stream *stream);
int fake_event_query(struct fake_event *event);
int fake_event_sync(struct fake_event *event);
int fake_event_elapsed(float *ret_ms, struct fake_event *from, struct fake_event *to);

/* capture.c */
enum fake_capture_mode { FAKE_CAPTURE_GLOBAL, FAKE_CAPTURE_THREAD_LOCAL, FAKE_CAPTURE_RELAXED };
enum fake_capture_status { FAKE_CAPTURE_NONE, FAKE_CAPTURE_ACTIVE, FAKE_CAPTURE_INVALIDATED };
struct fake_graph;
int fake_capture_begin(struct fake_stream *stream, int mode);
int fake_capture_end(struct fake_stream *stream, struct fake_graph **ret_graph);
int fake_capture_status(struct fake_stream *stream, int *ret_status, uint64_t *ret_id,
			struct fake_graph **ret_graph);
int fake_capture_exchange_mode(int *mode);
/*
 * Calls that a capture in progress forbids (allocation, waiting, queries) ask first. Not 0: the
 * capture is now invalid and the call has to return this.
 */
int fake_capture_forbids(void);
/* Under the lock, for a stream that is being captured: */
int fake_capture_add(struct fake_stream *stream, struct fake_work *work);
int fake_capture_record(struct fake_stream *stream, struct fake_event *event);
int fake_capture_wait(struct fake_stream *stream, struct fake_event *event);
int fake_capture_invalidate(struct fake_stream *stream);

/* graph.c */
enum fake_node_kind { FAKE_NODE_WORK, FAKE_NODE_SIGNAL, FAKE_NODE_WAIT };

struct fake_node {
	enum fake_node_kind kind;
	int lane;
	int signal;
	struct fake_work *work;
};

struct fake_graph {
	atomic_int refs;
	struct fake_node *nodes;
	int node_count, node_room;
	int lanes;
	int signals;
};

struct fake_graph_exec;
struct fake_graph *fake_graph_new(void);
void fake_graph_put(struct fake_graph *graph);
int fake_graph_append(struct fake_graph *graph, const struct fake_node *node);
int fake_graph_instantiate(struct fake_graph_exec **ret_exec, struct fake_graph *graph);
int fake_graph_update(struct fake_graph_exec *exec, struct fake_graph *graph);
int fake_graph_launch(struct fake_graph_exec *exec, struct fake_stream *stream);
int fake_graph_exec_destroy(struct fake_graph_exec *exec);

#endif
