/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives and point-to-point calls: argument checks, then a task for the group. */
#include <stdlib.h>

#include "internal.h"

/* The name in messages is NCCL's own one, without the prefix. */
struct call {
	const char *name;
	enum fake_op op;
	const void *send;
	void *recv;
	size_t count;
	ncclDataType_t datatype;
	bool reduces, has_root;
	ncclRedOp_t redop;
	int peer;
	ncclComm_t comm;
	cudaStream_t stream;
};

static ncclResult_t check_redop(const struct call *call)
{
	int user = (int)call->redop - ncclNumOps;

	if (call->redop < ncclSum) {
		WARN("misc/argcheck.cc", "%s : invalid reduction operation %d", call->name,
		     (int)call->redop);
		return ncclInvalidArgument;
	}
	if (user < 0)
		return ncclSuccess;
	if (user >= call->comm->redop_count || !call->comm->redops[user].user) {
		WARN("misc/argcheck.cc", "%s : reduction operation %d unknown to this communicator",
		     call->name, (int)call->redop);
		return ncclInvalidArgument;
	}
	if (call->comm->redops[user].datatype != call->datatype) {
		WARN("enqueue.cc", "Data type supplied to user-created ncclRedOp_t does not match "
				   "type given to reduction operation");
		return ncclInvalidArgument;
	}
	return ncclSuccess;
}

static ncclResult_t check(const struct call *call)
{
	ncclResult_t result = fake_comm_check(call->comm, call->name, "comm");

	if (result == ncclSuccess)
		result = fake_comm_ready(call->comm, call->name);
	if (result != ncclSuccess)
		return result;
	if (call->has_root && (call->peer < 0 || call->peer >= call->comm->nranks)) {
		WARN("misc/argcheck.cc", "%s : invalid root %d (root should be in the 0..%d range)",
		     call->name, call->peer, call->comm->nranks);
		return ncclInvalidArgument;
	}
	if (fake_datatype_bytes(call->datatype) == 0) {
		WARN("misc/argcheck.cc", "%s : invalid type %d", call->name, (int)call->datatype);
		return ncclInvalidArgument;
	}
	return call->reduces ? check_redop(call) : ncclSuccess;
}

static struct fake_task *make_task(const struct call *call)
{
	struct fake_task *task = calloc(1, sizeof(*task));
	int user = (int)call->redop - ncclNumOps;

	if (!task)
		abort();
	*task = (struct fake_task){.comm = call->comm,
				   .stream = (struct fake_stream *)call->stream,
				   .op = call->op,
				   .send = call->send,
				   .recv = call->recv,
				   .count = call->count,
				   .datatype = call->datatype,
				   .peer = call->peer};
	if (user >= 0)
		task->redop = call->comm->redops[user];
	else
		task->redop.op = call->redop;
	return task;
}

/* Nothing to move: NCCL accepts it and launches nothing, except for send and recv. */
static bool is_empty(const struct call *call)
{
	return call->count == 0 && call->op != FAKE_OP_SEND && call->op != FAKE_OP_RECV;
}

static ncclResult_t enqueue(const struct call *call)
{
	struct fake_task *task;
	ncclResult_t result = check(call);

	if (result != ncclSuccess)
		return result;
	fake_info(FAKE_LOG_COLL,
		  "%s: opCount %lx sendbuff %p recvbuff %p count %zu datatype %d op %d root %d "
		  "comm %p [nranks=%d] stream %p",
		  call->name, (unsigned long)atomic_fetch_add(&call->comm->op_count, 1), call->send,
		  call->recv, call->count, (int)call->datatype, (int)call->redop, call->peer,
		  (void *)call->comm, call->comm->nranks, (void *)call->stream);
	if (is_empty(call))
		return ncclSuccess;
	task = make_task(call);
	result = fake_call_fault(call->comm, call->op, task);
	if (result == ncclSuccess)
		fake_group_add_task(task);
	else
		free(task);
	return result;
}

static ncclResult_t issue(const struct call *call)
{
	ncclResult_t result, end;

	fake_group_start();
	result = fake_group_note(enqueue(call));
	end = fake_group_end();
	return result != ncclSuccess ? result : end;
}

FAKE_NCCL_API(ncclResult_t, AllReduce,
	      (const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
	       ncclComm_t comm, cudaStream_t stream))
{
	struct call call = {.name = "AllReduce",
			    .op = FAKE_OP_ALL_REDUCE,
			    .send = send,
			    .recv = recv,
			    .count = count,
			    .datatype = datatype,
			    .reduces = true,
			    .redop = op,
			    .comm = comm,
			    .stream = stream};

	return issue(&call);
}

FAKE_NCCL_API(ncclResult_t, Reduce,
	      (const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
	       int root, ncclComm_t comm, cudaStream_t stream))
{
	struct call call = {.name = "Reduce",
			    .op = FAKE_OP_REDUCE,
			    .send = send,
			    .recv = recv,
			    .count = count,
			    .datatype = datatype,
			    .reduces = true,
			    .redop = op,
			    .has_root = true,
			    .peer = root,
			    .comm = comm,
			    .stream = stream};

	return issue(&call);
}

FAKE_NCCL_API(ncclResult_t, Broadcast,
	      (const void *send, void *recv, size_t count, ncclDataType_t datatype, int root,
	       ncclComm_t comm, cudaStream_t stream))
{
	struct call call = {.name = "Broadcast",
			    .op = FAKE_OP_BROADCAST,
			    .send = send,
			    .recv = recv,
			    .count = count,
			    .datatype = datatype,
			    .has_root = true,
			    .peer = root,
			    .comm = comm,
			    .stream = stream};

	return issue(&call);
}

/* Goes through the exported name, as in NCCL: an interposer sees a call within a call. */
FAKE_NCCL_API(ncclResult_t, Bcast,
	      (void *buffer, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
	       cudaStream_t stream))
{
	return ncclBroadcast(buffer, buffer, count, datatype, root, comm, stream);
}

FAKE_NCCL_API(ncclResult_t, ReduceScatter,
	      (const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
	       ncclComm_t comm, cudaStream_t stream))
{
	struct call call = {.name = "ReduceScatter",
			    .op = FAKE_OP_REDUCE_SCATTER,
			    .send = send,
			    .recv = recv,
			    .count = count,
			    .datatype = datatype,
			    .reduces = true,
			    .redop = op,
			    .comm = comm,
			    .stream = stream};

	return issue(&call);
}

FAKE_NCCL_API(ncclResult_t, AllGather,
	      (const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclComm_t comm,
	       cudaStream_t stream))
{
	struct call call = {.name = "AllGather",
			    .op = FAKE_OP_ALL_GATHER,
			    .send = send,
			    .recv = recv,
			    .count = count,
			    .datatype = datatype,
			    .comm = comm,
			    .stream = stream};

	return issue(&call);
}

FAKE_NCCL_API(ncclResult_t, AlltoAll,
	      (const void *send, void *recv, size_t count, ncclDataType_t datatype, ncclComm_t comm,
	       cudaStream_t stream))
{
	struct call call = {.name = "AlltoAll",
			    .op = FAKE_OP_ALL_TO_ALL,
			    .send = send,
			    .recv = recv,
			    .count = count,
			    .datatype = datatype,
			    .comm = comm,
			    .stream = stream};

	return issue(&call);
}

FAKE_NCCL_API(ncclResult_t, Gather,
	      (const void *send, void *recv, size_t count, ncclDataType_t datatype, int root,
	       ncclComm_t comm, cudaStream_t stream))
{
	struct call call = {.name = "Gather",
			    .op = FAKE_OP_GATHER,
			    .send = send,
			    .recv = recv,
			    .count = count,
			    .datatype = datatype,
			    .has_root = true,
			    .peer = root,
			    .comm = comm,
			    .stream = stream};

	return issue(&call);
}

FAKE_NCCL_API(ncclResult_t, Scatter,
	      (const void *send, void *recv, size_t count, ncclDataType_t datatype, int root,
	       ncclComm_t comm, cudaStream_t stream))
{
	struct call call = {.name = "Scatter",
			    .op = FAKE_OP_SCATTER,
			    .send = send,
			    .recv = recv,
			    .count = count,
			    .datatype = datatype,
			    .has_root = true,
			    .peer = root,
			    .comm = comm,
			    .stream = stream};

	return issue(&call);
}

FAKE_NCCL_API(ncclResult_t, Send,
	      (const void *send, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
	       cudaStream_t stream))
{
	struct call call = {.name = "Send",
			    .op = FAKE_OP_SEND,
			    .send = send,
			    .count = count,
			    .datatype = datatype,
			    .has_root = true,
			    .peer = peer,
			    .comm = comm,
			    .stream = stream};

	return issue(&call);
}

FAKE_NCCL_API(ncclResult_t, Recv,
	      (void *recv, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
	       cudaStream_t stream))
{
	struct call call = {.name = "Recv",
			    .op = FAKE_OP_RECV,
			    .recv = recv,
			    .count = count,
			    .datatype = datatype,
			    .has_root = true,
			    .peer = peer,
			    .comm = comm,
			    .stream = stream};

	return issue(&call);
}
