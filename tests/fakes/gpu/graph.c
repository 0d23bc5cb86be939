/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captured graphs and their launches. A launch runs lane 0 on the stream it is launched on and
 * every other lane on a stream of its own; signals between lanes are latches of the launch. The
 * tickets of all captured work are drawn at launch, in the order of the capture.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda_abi.h"
#include "gpu.h"

struct fake_graph_exec {
	struct fake_graph *graph;
	struct fake_stream **helpers; /* of lanes 1 and up */
	int helper_count;
	struct fake_latch *last; /* end of the previous launch */
};

/* Signals first, then one latch per lane for its end. */
struct launch {
	atomic_int refs;
	struct fake_graph *graph;
	struct fake_latch *start, *end;
	struct fake_latch **latches;
	int latch_count;
	uint64_t *tickets;
};

struct lane_work {
	struct fake_work work;
	struct launch *launch;
	int lane;
};

struct fake_graph *fake_graph_new(void)
{
	struct fake_graph *graph = calloc(1, sizeof(*graph));

	if (graph)
		atomic_init(&graph->refs, 1);
	return graph;
}

void fake_graph_put(struct fake_graph *graph)
{
	if (!graph || atomic_fetch_sub(&graph->refs, 1) != 1)
		return;
	for (int i = 0; i < graph->node_count; i++) {
		if (graph->nodes[i].work)
			fake_work_put(graph->nodes[i].work);
	}
	free(graph->nodes);
	free(graph);
}

int fake_graph_append(struct fake_graph *graph, const struct fake_node *node)
{
	if (graph->node_count == graph->node_room) {
		int room = graph->node_room ? 2 * graph->node_room : 64;
		struct fake_node *nodes = realloc(graph->nodes, (size_t)room * sizeof(*nodes));

		if (!nodes)
			return cudaErrorMemoryAllocation;
		graph->nodes = nodes;
		graph->node_room = room;
	}
	graph->nodes[graph->node_count++] = *node;
	return cudaSuccess;
}

static void put_launch(struct launch *launch)
{
	if (atomic_fetch_sub(&launch->refs, 1) != 1)
		return;
	for (int i = 0; i < launch->latch_count; i++)
		fake_latch_put(launch->latches[i]);
	fake_latch_put(launch->start);
	fake_latch_put(launch->end);
	fake_graph_put(launch->graph);
	free(launch->latches);
	free(launch->tickets);
	free(launch);
}

static void run_nodes(struct launch *launch, int lane)
{
	for (int i = 0; i < launch->graph->node_count; i++) {
		struct fake_node *node = &launch->graph->nodes[i];

		if (node->lane != lane)
			continue;
		if (node->kind == FAKE_NODE_WORK)
			node->work->run(node->work, launch->tickets[i]);
		else if (node->kind == FAKE_NODE_SIGNAL)
			fake_latch_signal(launch->latches[node->signal]);
		else
			fake_latch_wait(launch->latches[node->signal]);
	}
}

static void run_lane(struct fake_work *work, uint64_t ticket)
{
	struct lane_work *one = (struct lane_work *)work;
	struct launch *launch = one->launch;
	int signals = launch->graph->signals;

	(void)ticket;
	if (one->lane > 0) {
		fake_latch_wait(launch->start);
		run_nodes(launch, one->lane);
		fake_latch_signal(launch->latches[signals + one->lane]);
		return;
	}
	fake_latch_signal(launch->start);
	run_nodes(launch, 0);
	for (int lane = 1; lane < launch->graph->lanes; lane++)
		fake_latch_wait(launch->latches[signals + lane]);
	fake_latch_signal(launch->end);
}

static void free_lane(struct fake_work *work)
{
	put_launch(((struct lane_work *)work)->launch);
	free(work);
}

static struct fake_work *lane_work(struct launch *launch, int lane)
{
	struct lane_work *one = calloc(1, sizeof(*one));

	if (!one)
		abort();
	fake_work_init(&one->work, run_lane, free_lane);
	atomic_fetch_add(&launch->refs, 1);
	one->launch = launch;
	one->lane = lane;
	return &one->work;
}

static struct launch *new_launch(struct fake_graph *graph)
{
	struct launch *launch = calloc(1, sizeof(*launch));

	if (!launch)
		abort();
	atomic_init(&launch->refs, 1);
	launch->latch_count = graph->signals + graph->lanes;
	launch->latches = calloc((size_t)launch->latch_count, sizeof(*launch->latches));
	launch->tickets = calloc((size_t)graph->node_count + 1, sizeof(*launch->tickets));
	launch->start = fake_latch_new();
	launch->end = fake_latch_new();
	if (!launch->latches || !launch->tickets || !launch->start || !launch->end)
		abort();
	for (int i = 0; i < launch->latch_count; i++) {
		launch->latches[i] = fake_latch_new();
		if (!launch->latches[i])
			abort();
	}
	atomic_fetch_add(&graph->refs, 1);
	launch->graph = graph;
	return launch;
}

/* The graph of later launches, and a stream for each of its lanes but the first. */
static void take_graph(struct fake_graph_exec *exec, struct fake_graph *graph)
{
	int wanted = graph->lanes - 1;
	struct fake_stream **helpers;

	pthread_mutex_lock(&fake_gpu_lock);
	if (wanted > exec->helper_count) {
		helpers = realloc(exec->helpers, (size_t)wanted * sizeof(struct fake_stream *));
		if (!helpers)
			abort();
		exec->helpers = helpers;
		while (exec->helper_count < wanted) {
			struct fake_stream *one = fake_stream_private(fake_gpu_current());

			if (!one)
				abort();
			exec->helpers[exec->helper_count++] = one;
		}
	}
	pthread_mutex_unlock(&fake_gpu_lock);
	atomic_fetch_add(&graph->refs, 1);
	fake_graph_put(exec->graph);
	exec->graph = graph;
}

int fake_graph_instantiate(struct fake_graph_exec **ret_exec, struct fake_graph *graph)
{
	struct fake_graph_exec *exec;

	if (!ret_exec || !graph)
		return cudaErrorInvalidValue;
	exec = calloc(1, sizeof(*exec));
	if (!exec)
		return cudaErrorMemoryAllocation;
	take_graph(exec, graph);
	*ret_exec = exec;
	return cudaSuccess;
}

static bool same_shape(const struct fake_graph *one, const struct fake_graph *other)
{
	if (one->node_count != other->node_count || one->lanes != other->lanes)
		return false;
	for (int i = 0; i < one->node_count; i++) {
		if (one->nodes[i].kind != other->nodes[i].kind ||
		    one->nodes[i].lane != other->nodes[i].lane)
			return false;
	}
	return true;
}

int fake_graph_update(struct fake_graph_exec *exec, struct fake_graph *graph)
{
	if (!same_shape(exec->graph, graph))
		return cudaErrorGraphExecUpdateFailure;
	take_graph(exec, graph);
	return cudaSuccess;
}
/* Under the lock. */
static void launch(struct fake_graph_exec *exec, struct fake_stream *stream)
{
	struct launch *one = new_launch(exec->graph);

	for (int i = 0; i < exec->graph->node_count; i++) {
		struct fake_work *work = exec->graph->nodes[i].work;

		if (work && work->ticket)
			one->tickets[i] = work->ticket(work);
	}
	fake_stream_order(stream);
	if (exec->last && !exec->last->done)
		fake_stream_enqueue(stream, fake_latch_wait_work(exec->last));
	fake_latch_put(exec->last);
	fake_latch_get(one->end);
	exec->last = one->end;
	for (int lane = 1; lane < exec->graph->lanes; lane++)
		fake_stream_enqueue(exec->helpers[lane - 1], lane_work(one, lane));
	fake_stream_enqueue(stream, lane_work(one, 0));
	put_launch(one);
}

int fake_graph_launch(struct fake_graph_exec *exec, struct fake_stream *handle)
{
	struct fake_stream *stream;
	int result = cudaSuccess;

	if (!exec)
		return cudaErrorInvalidValue;
	pthread_mutex_lock(&fake_gpu_lock);
	stream = fake_stream_find(handle);
	if (!stream)
		result = cudaErrorInvalidResourceHandle;
	else if (stream->capture)
		result = cudaErrorNotSupported;
	else
		launch(exec, stream);
	pthread_mutex_unlock(&fake_gpu_lock);
	return result;
}

/* What has been launched still runs: launches hold the graph, and helpers drain before they go. */
int fake_graph_exec_destroy(struct fake_graph_exec *exec)
{
	if (!exec)
		return cudaErrorInvalidValue;
	pthread_mutex_lock(&fake_gpu_lock);
	for (int i = 0; i < exec->helper_count; i++)
		fake_stream_close(exec->helpers[i]);
	pthread_mutex_unlock(&fake_gpu_lock);
	fake_latch_put(exec->last);
	fake_graph_put(exec->graph);
	free(exec->helpers);
	free(exec);
	return cudaSuccess;
}
