/* SPDX-License-Identifier: Apache-2.0 */
/* What each operation moves. Runs on a stream's thread. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Up to here latency counts and trees are used; above, everybody talks to everybody. */
#define SMALL (128u << 10)

static struct fake_team team_of(const struct fake_task *task, enum fake_kind kind)
{
	return (struct fake_team){.comm = task->comm,
				  .kind = kind,
				  .size = task->comm->nranks,
				  .me = task->comm->rank,
				  .slow_ns = task->slow_ns};
}

static void *room_for(size_t bytes)
{
	void *room = malloc(bytes ? bytes : 1);

	if (!room)
		abort();
	return room;
}

static void copy(void *to, const void *from, size_t bytes)
{
	if (to != from && bytes > 0)
		memmove(to, from, bytes);
}

static size_t block_bytes(const struct fake_task *task)
{
	return task->count * fake_datatype_bytes(task->datatype);
}

static int all_reduce(const struct fake_task *task)
{
	struct fake_team team = team_of(task, FAKE_KIND_COLL);
	int result;

	fake_reduce_prepare(task->recv, task->send, task->count, task->datatype, &task->redop,
			    team.size);
	result = fake_tree_reduce(&team, 0, task->recv, task->count, task->datatype,
				  fake_reduce_combine(&task->redop));
	if (result)
		return result;
	if (team.me == 0)
		fake_reduce_finish(task->recv, task->count, task->datatype, &task->redop,
				   team.size);
	return fake_tree_broadcast(&team, 0, task->recv, block_bytes(task));
}

static int reduce(const struct fake_task *task)
{
	struct fake_team team = team_of(task, FAKE_KIND_COLL);
	bool root = team.me == task->peer;
	void *acc = root ? task->recv : room_for(block_bytes(task));
	int result;

	fake_reduce_prepare(acc, task->send, task->count, task->datatype, &task->redop, team.size);
	result = fake_chain_reduce(&team, task->peer, acc, task->count, task->datatype,
				   fake_reduce_combine(&task->redop));
	if (root && result == 0)
		fake_reduce_finish(acc, task->count, task->datatype, &task->redop, team.size);
	if (!root)
		free(acc);
	return result;
}

static int broadcast(const struct fake_task *task)
{
	struct fake_team team = team_of(task, FAKE_KIND_COLL);

	if (team.me == task->peer)
		copy(task->recv, task->send, block_bytes(task));
	return fake_chain_broadcast(&team, task->peer, task->recv, block_bytes(task));
}

/* Sends block i of send to rank i (or the one block to all) and receives theirs in rank order. */
static int swap_blocks(const struct fake_team *team, const char *send, size_t send_step, char *recv,
		       size_t bytes)
{
	struct fake_xfer *xfers = calloc(2 * (size_t)team->size, sizeof(*xfers));
	int count = 0, result;

	if (!xfers)
		abort();
	for (int i = 1; i < team->size; i++) {
		int to = (team->me + i) % team->size;
		int from = (team->me - i + team->size) % team->size;

		xfers[count++] =
			(struct fake_xfer){.peer = to,
					   .send = true,
					   .data = (char *)(uintptr_t)send + (size_t)to * send_step,
					   .bytes = bytes};
		xfers[count++] = (struct fake_xfer){
			.peer = from, .data = recv + (size_t)from * bytes, .bytes = bytes};
	}
	result = fake_exchange(team, xfers, count);
	free(xfers);
	return result;
}

static int all_gather(const struct fake_task *task)
{
	struct fake_team team = team_of(task, FAKE_KIND_COLL);
	size_t bytes = block_bytes(task);
	char *own = (char *)task->recv + (size_t)team.me * bytes;

	copy(own, task->send, bytes);
	if (bytes * (size_t)team.size <= SMALL)
		return fake_tree_all_gather(&team, task->recv, bytes);
	return swap_blocks(&team, own, 0, task->recv, bytes);
}

static int reduce_scatter_small(const struct fake_task *task, struct fake_team *team, char *all)
{
	size_t bytes = block_bytes(task);
	int result = fake_tree_reduce(team, 0, all, task->count * (size_t)team->size,
				      task->datatype, fake_reduce_combine(&task->redop));

	if (result == 0)
		result = fake_tree_scatter(team, all, bytes);
	if (result == 0)
		copy(task->recv, all + (size_t)team->me * bytes, bytes);
	return result;
}

static int reduce_scatter_large(const struct fake_task *task, struct fake_team *team, char *all)
{
	size_t bytes = block_bytes(task);
	char *theirs = room_for(bytes * (size_t)team->size);
	int result = swap_blocks(team, all, bytes, theirs, bytes);

	if (result == 0) {
		copy(theirs + (size_t)team->me * bytes, all + (size_t)team->me * bytes, bytes);
		copy(task->recv, theirs, bytes);
		for (int i = 1; i < team->size; i++)
			fake_reduce(task->recv, theirs + (size_t)i * bytes, task->count,
				    task->datatype, fake_reduce_combine(&task->redop));
	}
	free(theirs);
	return result;
}

static int reduce_scatter(const struct fake_task *task)
{
	struct fake_team team = team_of(task, FAKE_KIND_COLL);
	size_t total = block_bytes(task) * (size_t)team.size;
	char *all = room_for(total);
	int result;

	fake_reduce_prepare(all, task->send, task->count * (size_t)team.size, task->datatype,
			    &task->redop, team.size);
	if (total <= SMALL)
		result = reduce_scatter_small(task, &team, all);
	else
		result = reduce_scatter_large(task, &team, all);
	if (result == 0)
		fake_reduce_finish(task->recv, task->count, task->datatype, &task->redop,
				   team.size);
	free(all);
	return result;
}

/* These three are point-to-point traffic in NCCL too. */
static int all_to_all(const struct fake_task *task)
{
	struct fake_team team = team_of(task, FAKE_KIND_P2P);
	size_t bytes = block_bytes(task), own = (size_t)team.me * bytes;

	copy((char *)task->recv + own, (const char *)task->send + own, bytes);
	return swap_blocks(&team, task->send, bytes, task->recv, bytes);
}

static int one_with_all(const struct fake_task *task, bool send, char *blocks, char *own)
{
	struct fake_team team = team_of(task, FAKE_KIND_P2P);
	struct fake_xfer *xfers = calloc((size_t)team.size, sizeof(*xfers));
	size_t bytes = block_bytes(task);
	int count = 0, result;

	if (!xfers)
		abort();
	if (team.me != task->peer)
		xfers[count++] = (struct fake_xfer){
			.peer = task->peer, .send = !send, .data = own, .bytes = bytes};
	for (int i = 0; team.me == task->peer && i < team.size; i++) {
		char *block = blocks + (size_t)i * bytes;

		if (i == team.me && send)
			copy(own, block, bytes);
		else if (i == team.me)
			copy(block, own, bytes);
		else
			xfers[count++] = (struct fake_xfer){
				.peer = i, .send = send, .data = block, .bytes = bytes};
	}
	result = fake_exchange(&team, xfers, count);
	free(xfers);
	return result;
}

int fake_collective_run(const struct fake_task *task)
{
	switch (task->op) {
	case FAKE_OP_ALL_REDUCE:
		return all_reduce(task);
	case FAKE_OP_ALL_GATHER:
		return all_gather(task);
	case FAKE_OP_REDUCE_SCATTER:
		return reduce_scatter(task);
	case FAKE_OP_REDUCE:
		return reduce(task);
	case FAKE_OP_BROADCAST:
		return broadcast(task);
	case FAKE_OP_ALL_TO_ALL:
		return all_to_all(task);
	case FAKE_OP_GATHER:
		return one_with_all(task, false, task->recv, (char *)(uintptr_t)task->send);
	case FAKE_OP_SCATTER:
		return one_with_all(task, true, (char *)(uintptr_t)task->send, task->recv);
	default:
		abort();
	}
}

/* The k-th send to oneself goes to the k-th receive from oneself. */
static void copy_to_self(struct ncclComm *comm, struct fake_task *const *tasks, int count)
{
	int from = 0;

	for (int to = 0; to < count; to++) {
		if (tasks[to]->op != FAKE_OP_RECV || tasks[to]->peer != comm->rank)
			continue;
		while (from < count &&
		       (tasks[from]->op != FAKE_OP_SEND || tasks[from]->peer != comm->rank))
			from++;
		if (from == count)
			return;
		copy(tasks[to]->recv, tasks[from]->send, block_bytes(tasks[to]));
		from++;
	}
}

int fake_p2p_run(struct ncclComm *comm, struct fake_task *const *tasks, int count)
{
	struct fake_team team = team_of(tasks[0], FAKE_KIND_P2P);
	struct fake_xfer *xfers = calloc((size_t)count, sizeof(*xfers));
	int used = 0, result;

	if (!xfers)
		abort();
	copy_to_self(comm, tasks, count);
	for (int i = 0; i < count; i++) {
		const struct fake_task *task = tasks[i];
		bool send = task->op == FAKE_OP_SEND;

		if (task->peer == comm->rank)
			continue;
		if (task->slow_ns > team.slow_ns)
			team.slow_ns = task->slow_ns;
		xfers[used++] = (struct fake_xfer){.peer = task->peer,
						   .send = send,
						   .data = send ? (char *)(uintptr_t)task->send
								: task->recv,
						   .bytes = block_bytes(task)};
	}
	result = fake_exchange(&team, xfers, used);
	free(xfers);
	return result;
}
