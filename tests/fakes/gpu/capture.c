/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture. The origin stream is lane 0 of the graph; a stream that waits for an event which
 * was recorded in the capture joins it as a further lane and has to be joined again before the
 * end, by an event too.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda_abi.h"
#include "gpu.h"

#define LANES 64

struct fake_capture {
	struct fake_capture *next;
	uint64_t id;
	struct fake_graph *graph;
	struct fake_stream *streams[LANES];
	bool joined[LANES];
	int mode;
	pthread_t thread;
	bool invalid;
};

static struct fake_capture *captures;
static uint64_t next_id = 1;
static __thread int thread_mode = FAKE_CAPTURE_GLOBAL;

int fake_capture_exchange_mode(int *mode)
{
	int wanted;

	if (!mode || *mode < FAKE_CAPTURE_GLOBAL || *mode > FAKE_CAPTURE_RELAXED)
		return cudaErrorInvalidValue;
	wanted = *mode;
	*mode = thread_mode;
	thread_mode = wanted;
	return cudaSuccess;
}

static bool forbids(const struct fake_capture *capture)
{
	bool own = pthread_equal(capture->thread, pthread_self());

	if (thread_mode == FAKE_CAPTURE_RELAXED || capture->mode == FAKE_CAPTURE_RELAXED)
		return false;
	if (thread_mode == FAKE_CAPTURE_THREAD_LOCAL || capture->mode == FAKE_CAPTURE_THREAD_LOCAL)
		return own;
	return true;
}

int fake_capture_forbids(void)
{
	int result = cudaSuccess;

	pthread_mutex_lock(&fake_gpu_lock);
	for (struct fake_capture *one = captures; one; one = one->next) {
		if (forbids(one)) {
			one->invalid = true;
			result = cudaErrorStreamCaptureUnsupported;
		}
	}
	pthread_mutex_unlock(&fake_gpu_lock);
	return result;
}

int fake_capture_invalidate(struct fake_stream *stream)
{
	stream->capture->invalid = true;
	return cudaErrorStreamCaptureUnsupported;
}

static int begin(struct fake_stream *stream, int mode)
{
	struct fake_capture *capture;

	if (stream->capture)
		return cudaErrorStreamCaptureInvalidated;
	capture = calloc(1, sizeof(*capture));
	if (!capture)
		return cudaErrorMemoryAllocation;
	capture->graph = fake_graph_new();
	if (!capture->graph) {
		free(capture);
		return cudaErrorMemoryAllocation;
	}
	capture->id = next_id++;
	capture->mode = mode;
	capture->thread = pthread_self();
	capture->graph->lanes = 1;
	capture->streams[0] = stream;
	capture->next = captures;
	captures = capture;
	stream->capture = capture;
	stream->lane = 0;
	return cudaSuccess;
}

int fake_capture_begin(struct fake_stream *handle, int mode)
{
	struct fake_stream *stream;
	int result = cudaErrorInvalidResourceHandle;

	if (mode < FAKE_CAPTURE_GLOBAL || mode > FAKE_CAPTURE_RELAXED)
		return cudaErrorInvalidValue;
	if (!handle || handle == FAKE_STREAM_LEGACY)
		return cudaErrorStreamCaptureUnsupported;
	pthread_mutex_lock(&fake_gpu_lock);
	stream = fake_stream_find(handle);
	if (stream)
		result = begin(stream, mode);
	pthread_mutex_unlock(&fake_gpu_lock);
	return result;
}

static bool all_joined(const struct fake_capture *capture)
{
	for (int lane = 1; lane < capture->graph->lanes; lane++) {
		if (!capture->joined[lane])
			return false;
	}
	return true;
}

static void unlink_capture(struct fake_capture *capture)
{
	for (struct fake_capture **link = &captures; *link; link = &(*link)->next) {
		if (*link == capture) {
			*link = capture->next;
			break;
		}
	}
	for (int lane = 0; lane < capture->graph->lanes; lane++)
		capture->streams[lane]->capture = NULL;
}

static int end(struct fake_stream *stream, struct fake_graph **ret_graph)
{
	struct fake_capture *capture = stream->capture;
	int result = cudaSuccess;

	if (!capture)
		return cudaErrorInvalidValue;
	if (capture->streams[0] != stream)
		return cudaErrorStreamCaptureUnmatched;
	if (capture->mode != FAKE_CAPTURE_RELAXED &&
	    !pthread_equal(capture->thread, pthread_self()))
		return cudaErrorStreamCaptureWrongThread;
	if (capture->invalid)
		result = cudaErrorStreamCaptureInvalidated;
	else if (!all_joined(capture))
		result = cudaErrorStreamCaptureUnjoined;
	unlink_capture(capture);
	if (result == cudaSuccess) {
		*ret_graph = capture->graph;
	} else {
		*ret_graph = NULL;
		fake_graph_put(capture->graph);
	}
	free(capture);
	return result;
}

int fake_capture_end(struct fake_stream *handle, struct fake_graph **ret_graph)
{
	struct fake_stream *stream;
	int result = cudaErrorInvalidResourceHandle;

	if (!ret_graph)
		return cudaErrorInvalidValue;
	pthread_mutex_lock(&fake_gpu_lock);
	stream = fake_stream_find(handle);
	if (stream)
		result = end(stream, ret_graph);
	pthread_mutex_unlock(&fake_gpu_lock);
	return result;
}

int fake_capture_status(struct fake_stream *handle, int *ret_status, uint64_t *ret_id,
			struct fake_graph **ret_graph)
{
	struct fake_stream *stream;
	int result = cudaSuccess;

	if (!ret_status)
		return cudaErrorInvalidValue;
	pthread_mutex_lock(&fake_gpu_lock);
	stream = fake_stream_find(handle);
	*ret_status = FAKE_CAPTURE_NONE;
	if (!stream) {
		result = cudaErrorInvalidResourceHandle;
	} else if (stream->capture) {
		*ret_status =
			stream->capture->invalid ? FAKE_CAPTURE_INVALIDATED : FAKE_CAPTURE_ACTIVE;
		if (ret_id)
			*ret_id = stream->capture->id;
		if (ret_graph)
			*ret_graph = stream->capture->graph;
	}
	pthread_mutex_unlock(&fake_gpu_lock);
	return result;
}

static int append(struct fake_stream *stream, const struct fake_node *node)
{
	struct fake_capture *capture = stream->capture;

	if (capture->invalid)
		return cudaErrorStreamCaptureInvalidated;
	capture->joined[stream->lane] = false;
	return fake_graph_append(capture->graph, node);
}

/* The graph takes a reference of its own; the caller keeps its one. */
int fake_capture_add(struct fake_stream *stream, struct fake_work *work)
{
	struct fake_node node = {.kind = FAKE_NODE_WORK, .lane = stream->lane, .work = work};
	int result = append(stream, &node);

	if (result == cudaSuccess)
		fake_work_get(work);
	return result;
}

int fake_capture_record(struct fake_stream *stream, struct fake_event *event)
{
	struct fake_graph *graph = stream->capture->graph;
	struct fake_node node = {
		.kind = FAKE_NODE_SIGNAL, .lane = stream->lane, .signal = graph->signals};
	int result = append(stream, &node);

	if (result == cudaSuccess) {
		event->capture_id = stream->capture->id;
		event->signal = graph->signals++;
		event->lane = stream->lane;
	}
	return result;
}

static struct fake_capture *find(uint64_t id)
{
	struct fake_capture *one = captures;

	while (one && one->id != id)
		one = one->next;
	return one;
}

static int join(struct fake_capture *capture, struct fake_stream *stream)
{
	if (capture->graph->lanes == LANES)
		return cudaErrorNotSupported;
	stream->capture = capture;
	stream->lane = capture->graph->lanes++;
	capture->streams[stream->lane] = stream;
	return cudaSuccess;
}

/* Did the lane do anything after this signal? */
static bool is_last(const struct fake_graph *graph, int lane, int signal)
{
	for (int i = graph->node_count - 1; i >= 0; i--) {
		const struct fake_node *node = &graph->nodes[i];

		if (node->lane == lane)
			return node->kind == FAKE_NODE_SIGNAL && node->signal == signal;
	}
	return false;
}

int fake_capture_wait(struct fake_stream *stream, struct fake_event *event)
{
	struct fake_node node = {.kind = FAKE_NODE_WAIT, .signal = event->signal};
	struct fake_capture *capture = event->capture_id ? find(event->capture_id) : NULL;
	int result = cudaSuccess;

	if (event->capture_id && !capture)
		return cudaErrorCapturedEvent;
	if (!event->capture_id && !event->latch)
		return cudaSuccess;
	if (stream->capture && stream->capture != capture) {
		stream->capture->invalid = true;
		return cudaErrorStreamCaptureIsolation;
	}
	if (!stream->capture)
		result = join(capture, stream);
	node.lane = stream->lane;
	if (result == cudaSuccess)
		result = append(stream, &node);
	if (result == cudaSuccess && is_last(capture->graph, event->lane, event->signal))
		capture->joined[event->lane] = true;
	return result;
}
