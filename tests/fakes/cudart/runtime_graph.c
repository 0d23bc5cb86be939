/* SPDX-License-Identifier: Apache-2.0 */
/* Capture and graphs of the runtime. */
#include "runtime.h"

static struct fake_graph *as_graph(cudaGraph_t graph)
{
	return (struct fake_graph *)graph;
}

static struct fake_graph_exec *as_exec(cudaGraphExec_t exec)
{
	return (struct fake_graph_exec *)exec;
}

STREAM_API(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
	   (stream, mode))
{
	return fake_runtime_note(fake_capture_begin(as_stream(stream), (int)mode));
}

STREAM_API(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph), (stream, graph))
{
	return fake_runtime_note(fake_capture_end(as_stream(stream), (struct fake_graph **)graph));
}

STREAM_API(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
	   (stream, status))
{
	return fake_runtime_note(fake_capture_status(as_stream(stream), (int *)status, NULL, NULL));
}

API cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	return fake_runtime_note(fake_capture_exchange_mode((int *)mode));
}

/* 1 free on launch, 2 upload, 4 device launch, 8 node priority */
API cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
				  unsigned long long flags)
{
	if (flags > 15)
		return fake_runtime_note(cudaErrorInvalidValue);
	return fake_runtime_note(
		fake_graph_instantiate((struct fake_graph_exec **)exec, as_graph(graph)));
}

API cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
	return cudaGraphInstantiateWithFlags(exec, graph, flags);
}

API cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
			cudaGraphExecUpdateResultInfo *info)
{
	int result = exec && graph ? fake_graph_update(as_exec(exec), as_graph(graph))
				   : cudaErrorInvalidValue;

	if (info) {
		*info = (cudaGraphExecUpdateResultInfo){.result = cudaGraphExecUpdateSuccess};
		if (result != cudaSuccess)
			info->result = cudaGraphExecUpdateErrorTopologyChanged;
	}
	return fake_runtime_note(result);
}

STREAM_API(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream), (exec, stream))
{
	return fake_runtime_note(fake_graph_launch(as_exec(exec), as_stream(stream)));
}

API cudaGraphDestroy(cudaGraph_t graph)
{
	if (!graph)
		return fake_runtime_note(cudaErrorInvalidValue);
	fake_graph_put(as_graph(graph));
	return cudaSuccess;
}

API cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	return fake_runtime_note(fake_graph_exec_destroy(as_exec(exec)));
}
