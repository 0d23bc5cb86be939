/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers, calls and results. */
#include "trainjob.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Contributions are 1, 2 or 3: their sums over 64 ranks are exact in every type used here. */
#define PERIOD 3

static int contribution(int member, int tag, size_t i)
{
	return 1 + (int)(((size_t)member + (size_t)tag + i) % PERIOD);
}

void job_check_cuda(struct rank *rank, cudaError_t result, const char *what)
{
	if (result == cudaSuccess)
		return;
	job_say(rank, "%s failed: %s (%d)", what, cudaGetErrorString(result), (int)result);
	exit(EXIT_CUDA);
}

void job_check_nccl(struct rank *rank, ncclComm_t comm, ncclResult_t result, const char *what)
{
	/* with nothing in progress this only asks, as careful applications do */
	if (comm && rank->options->nonblocking &&
	    (result == ncclSuccess || result == ncclInProgress)) {
		do {
			if (ncclCommGetAsyncError(comm, &result) != ncclSuccess)
				result = ncclInternalError;
			if (result == ncclInProgress)
				job_sleep_ns(200000);
		} while (result == ncclInProgress);
	}
	if (result == ncclSuccess || (!comm && result == ncclInProgress))
		return;
	job_say(rank, "%s failed: %s (%d): %s", what, ncclGetErrorString(result), (int)result,
		ncclGetLastError(comm));
	exit(EXIT_NCCL);
}

static size_t type_bytes(ncclDataType_t datatype)
{
	static const unsigned char bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

	return bytes[datatype];
}

/* Blocks in the send and the receive buffer. */
static size_t send_blocks(const struct step_op *op, int size)
{
	bool many = op->op == FAKE_OP_REDUCE_SCATTER || op->op == FAKE_OP_ALL_TO_ALL ||
		    op->op == FAKE_OP_SCATTER;

	return many ? (size_t)size : 1;
}

static size_t recv_blocks(const struct step_op *op, int size)
{
	bool many = op->op == FAKE_OP_ALL_GATHER || op->op == FAKE_OP_ALL_TO_ALL ||
		    op->op == FAKE_OP_GATHER;

	return many ? (size_t)size : 1;
}

static void store(const struct step_op *op, void *at, size_t i, double value)
{
	union {
		float f;
		uint32_t bits;
	} narrow = {.f = (float)value};

	switch (op->datatype) {
	case ncclFloat32:
		((float *)at)[i] = (float)value;
		break;
	case ncclFloat64:
		((double *)at)[i] = value;
		break;
	case ncclInt64:
		((int64_t *)at)[i] = (int64_t)value;
		break;
	case ncclInt32:
		((int32_t *)at)[i] = (int32_t)value;
		break;
	default: /* bfloat16; small whole numbers need no rounding */
		((uint16_t *)at)[i] = (uint16_t)(narrow.bits >> 16);
	}
}

static double load(const struct step_op *op, const void *at, size_t i)
{
	union {
		float f;
		uint32_t bits;
	} narrow;

	switch (op->datatype) {
	case ncclFloat32:
		return (double)((const float *)at)[i];
	case ncclFloat64:
		return ((const double *)at)[i];
	case ncclInt64:
		return (double)((const int64_t *)at)[i];
	case ncclInt32:
		return ((const int32_t *)at)[i];
	default:
		narrow.bits = (uint32_t)((const uint16_t *)at)[i] << 16;
		return (double)narrow.f;
	}
}

/* Room for what faults may make of an operation: all blocks, the widest type, a larger count. */
static size_t room(const struct rank *rank, const struct step_op *op)
{
	return (size_t)rank->comms[op->comm].size * (op->count + 64) * 8;
}

void job_allocate_buffers(struct rank *rank)
{
	for (int n = 0; n < rank->op_count; n++) {
		struct step_op *op = &rank->ops[n];
		const struct job_comm *comm = &rank->comms[op->comm];
		size_t count = op->count * send_blocks(op, comm->size);

		op->room = room(rank, op);
		job_inject(rank, FAKE_OP_MALLOC, comm->name, NULL);
		job_check_cuda(rank, cudaMalloc(&op->send, op->room), "cudaMalloc");
		job_check_cuda(rank, cudaMalloc(&op->recv, op->room), "cudaMalloc");
		for (size_t i = 0; i < count; i++)
			store(op, op->send, i, contribution(comm->rank, op->tag, i));
	}
}

void job_free_buffers(struct rank *rank)
{
	for (int n = 0; n < rank->op_count; n++) {
		job_check_cuda(rank, cudaFree(rank->ops[n].send), "cudaFree");
		job_check_cuda(rank, cudaFree(rank->ops[n].recv), "cudaFree");
	}
}

void job_clear_results(struct rank *rank)
{
	for (int n = 0; n < rank->op_count; n++) {
		struct step_op *op = &rank->ops[n];

		memset(op->recv, 0xff,
		       op->count * type_bytes(op->datatype) *
			       recv_blocks(op, rank->comms[op->comm].size));
	}
}

static double combine(const struct step_op *op, int size, size_t i)
{
	double result = contribution(0, op->tag, i);

	for (int member = 1; member < size; member++) {
		double one = contribution(member, op->tag, i);

		if (op->redop == ncclMax)
			result = one > result ? one : result;
		else if (op->redop == ncclMin)
			result = one < result ? one : result;
		else
			result += one;
	}
	return result;
}

/* What element i of the receive buffer has to be. */
static double expected(const struct step_op *op, const struct job_comm *comm, size_t i)
{
	size_t block = i / op->count, rest = i % op->count;
	size_t mine = (size_t)comm->rank * op->count + rest;

	switch (op->op) {
	case FAKE_OP_REDUCE_SCATTER:
		return combine(op, comm->size, mine);
	case FAKE_OP_ALL_GATHER:
	case FAKE_OP_GATHER:
		return contribution((int)block, op->tag, rest);
	case FAKE_OP_ALL_TO_ALL:
		return contribution((int)block, op->tag, mine);
	case FAKE_OP_SCATTER:
		return contribution(op->peer, op->tag, mine);
	case FAKE_OP_BROADCAST:
		return contribution(op->peer, op->tag, i);
	default:
		return combine(op, comm->size, i);
	}
}

/* A receive does not know the tag of its send: the first element tells it, the rest has to follow.
 */
static size_t verify_p2p(const struct step_op *op)
{
	double first = load(op, op->recv, 0);
	size_t wrong = !(first == 1 || first == 2 || first == 3);

	for (size_t i = 1; i < op->count && !wrong; i++)
		wrong += load(op, op->recv, i) != 1 + ((int)first - 1 + (int)(i % PERIOD)) % PERIOD;
	return wrong;
}

/* Is there a result here, and is it exact? */
static bool has_result(const struct step_op *op, const struct job_comm *comm)
{
	if (op->datatype == ncclBfloat16 && comm->size * PERIOD > 256)
		return false;
	if (op->op == FAKE_OP_REDUCE || op->op == FAKE_OP_GATHER)
		return comm->rank == op->peer;
	return op->op != FAKE_OP_SEND;
}

size_t job_verify_step(struct rank *rank)
{
	size_t wrong = 0;

	for (int n = 0; n < rank->op_count; n++) {
		const struct step_op *op = &rank->ops[n];
		const struct job_comm *comm = &rank->comms[op->comm];
		size_t count = op->count * recv_blocks(op, comm->size), bad = 0;

		if (!has_result(op, comm))
			continue;
		if (op->op == FAKE_OP_RECV)
			bad = verify_p2p(op);
		for (size_t i = 0; op->op != FAKE_OP_RECV && i < count; i++)
			bad += load(op, op->recv, i) != expected(op, comm, i);
		if (bad)
			job_say(rank, "wrong data: %s #%d of \"%s\", %zu of %zu elements",
				fake_op_name(op->op), n, comm->name, bad, count);
		wrong += bad;
	}
	return wrong;
}

static ncclResult_t call_reduction(struct rank *rank, const struct step_op *op)
{
	ncclComm_t comm = rank->comms[op->comm].handle;

	switch (op->op) {
	case FAKE_OP_ALL_REDUCE:
		return ncclAllReduce(op->send, op->recv, op->count, op->datatype, op->redop, comm,
				     rank->stream);
	case FAKE_OP_REDUCE_SCATTER:
		return ncclReduceScatter(op->send, op->recv, op->count, op->datatype, op->redop,
					 comm, rank->stream);
	default:
		return ncclReduce(op->send, op->recv, op->count, op->datatype, op->redop, op->peer,
				  comm, rank->stream);
	}
}

static ncclResult_t call(struct rank *rank, const struct step_op *op)
{
	ncclComm_t comm = rank->comms[op->comm].handle;

	switch (op->op) {
	case FAKE_OP_ALL_GATHER:
		return ncclAllGather(op->send, op->recv, op->count, op->datatype, comm,
				     rank->stream);
	case FAKE_OP_BROADCAST:
		return ncclBroadcast(op->send, op->recv, op->count, op->datatype, op->peer, comm,
				     rank->stream);
	case FAKE_OP_ALL_TO_ALL:
		return ncclAlltoAll(op->send, op->recv, op->count, op->datatype, comm,
				    rank->stream);
	case FAKE_OP_GATHER:
		return ncclGather(op->send, op->recv, op->count, op->datatype, op->peer, comm,
				  rank->stream);
	case FAKE_OP_SCATTER:
		return ncclScatter(op->send, op->recv, op->count, op->datatype, op->peer, comm,
				   rank->stream);
	case FAKE_OP_SEND:
		return ncclSend(op->send, op->count, op->datatype, op->peer, comm, rank->stream);
	case FAKE_OP_RECV:
		return ncclRecv(op->recv, op->count, op->datatype, op->peer, comm, rank->stream);
	default:
		return call_reduction(rank, op);
	}
}

/* A larger count than the buffers were made for gets larger ones, so that only NCCL is misled. */
static void make_room(struct rank *rank, struct step_op *op)
{
	size_t bytes = (size_t)rank->comms[op->comm].size * op->count * 8;

	if (bytes <= op->room)
		return;
	op->send = calloc(1, bytes);
	op->recv = calloc(1, bytes);
	if (!op->send || !op->recv) {
		job_say(rank, "no memory for %zu elements", op->count);
		exit(EXIT_FAILED);
	}
}

static void issue(struct rank *rank, int n, bool in_group)
{
	struct step_op op = rank->ops[n];
	struct job_comm *comm = &rank->comms[op.comm];

	make_room(rank, &op);
	job_enter(rank);
	job_check_nccl(rank, in_group ? NULL : comm->handle, call(rank, &op), fake_op_name(op.op));
	job_leave(rank);
	atomic_fetch_add(&rank->progress->calls[rank->world_rank], 1);
}

/* As issue, with what the script makes of the call. */
static enum verdict issue_scripted(struct rank *rank, int n, bool in_group, bool may_swap)
{
	struct step_op planned = rank->ops[n];
	enum verdict verdict =
		job_inject(rank, planned.op, rank->comms[planned.comm].name, &rank->ops[n]);

	if (verdict == VERDICT_SWAP && may_swap && n + 1 < rank->op_count &&
	    rank->ops[n + 1].group == planned.group) {
		issue_scripted(rank, n + 1, in_group, false);
		issue(rank, n, in_group);
	} else {
		if (verdict != VERDICT_SKIP)
			issue(rank, n, in_group);
		verdict = VERDICT_GO;
	}
	rank->ops[n] = planned;
	return verdict;
}

void job_issue_step(struct rank *rank)
{
	for (int n = 0; n < rank->op_count; n++) {
		int group = rank->ops[n].group;
		bool in_group = group > 0;
		ncclComm_t comm = rank->comms[rank->ops[n].comm].handle;

		if (in_group && (n == 0 || rank->ops[n - 1].group != group))
			job_check_nccl(rank, NULL, ncclGroupStart(), "ncclGroupStart");
		if (issue_scripted(rank, n, in_group, true) == VERDICT_SWAP)
			n++;
		if (in_group && (n + 1 == rank->op_count || rank->ops[n + 1].group != group)) {
			job_enter(rank);
			job_check_nccl(rank, comm, ncclGroupEnd(), "ncclGroupEnd");
			job_leave(rank);
		}
	}
}
