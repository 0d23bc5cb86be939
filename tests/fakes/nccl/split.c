/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children of communicators. The parent's ranks tell each other their colour and key; everything
 * else about the child follows from that, so no further rendezvous is needed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct vote {
	int32_t color, key;
};

struct child_args {
	struct ncclComm *parent;
	ncclComm_t *newcomm;
	int color, key;
	int ordinal;
	bool shrink, abort;
	int *members; /* shrink: the parent's ranks that stay */
	int member_count;
};

static ncclResult_t from_exchange(int error)
{
	if (error == 0)
		return ncclSuccess;
	return error == -ECONNRESET ? ncclRemoteError : ncclInternalError;
}

static void log_child(const struct ncclComm *comm, const struct child_args *args, const char *what)
{
	fake_info(FAKE_LOG_INIT,
		  "%s comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId %lx parent %p "
		  "splitCount %d color %d key %d - Init %s",
		  args->shrink ? "ncclCommShrink" : "ncclCommSplit", (const void *)comm, comm->rank,
		  comm->nranks, comm->device, comm->device,
		  (unsigned long)(0x10 + comm->device) << 12, (void *)args->parent,
		  args->shrink ? 0 : args->ordinal, args->color, args->key, what);
}

/* Every rank of the child computes the same. */
static uint64_t child_hash(uint64_t parent, const struct child_args *args)
{
	int32_t parts[3] = {args->shrink, args->ordinal, args->color};

	return fake_hash(parent, parts, sizeof(parts));
}

/* members: the parent's ranks in the order of the child's. */
static ncclResult_t build(struct ncclComm *comm, const struct child_args *args, const int *members,
			  int count)
{
	struct ncclComm *parent = args->parent;
	ncclResult_t result;

	comm->nranks = count;
	for (int i = 0; i < count; i++) {
		if (members[i] == parent->rank)
			comm->rank = i;
	}
	comm->id = child_hash(parent->id, args);
	comm->hash = child_hash(parent->hash, args);
	log_child(comm, args, "START");
	result = fake_comm_allocate(comm);
	if (result != ncclSuccess)
		return result;
	for (int i = 0; i < count; i++) {
		comm->peers[i] = parent->peers[members[i]];
		comm->peers[i].rank = i;
	}
	fake_links_register(comm);
	fake_rail_connect(comm);
	fake_info(FAKE_LOG_INIT | FAKE_LOG_NET, "Assigned NET plugin %s to comm",
		  fake_network_name());
	fake_info(FAKE_LOG_INIT, "Using network %s", fake_network_name());
	fake_log_topology(comm);
	log_child(comm, args, "COMPLETE");
	return ncclSuccess;
}

/* The parent's ranks of this colour, by key and then by rank. */
static int choose(const struct vote *votes, int nranks, int color, int *ret_members)
{
	int count = 0;

	for (int i = 0; i < nranks; i++) {
		int at = count;

		if (votes[i].color != color)
			continue;
		while (at > 0 && votes[ret_members[at - 1]].key > votes[i].key) {
			ret_members[at] = ret_members[at - 1];
			at--;
		}
		ret_members[at] = i;
		count++;
	}
	return count;
}

static ncclResult_t split(struct ncclComm *comm, const struct child_args *args)
{
	struct ncclComm *parent = args->parent;
	struct fake_team team = {
		.comm = parent, .kind = FAKE_KIND_BOOT, .size = parent->nranks, .me = parent->rank};
	struct vote *votes = calloc((size_t)parent->nranks, sizeof(*votes));
	int *members = calloc((size_t)parent->nranks, sizeof(*members));
	ncclResult_t result;
	int count;

	if (!votes || !members)
		abort();
	votes[parent->rank] = (struct vote){args->color, args->key};
	result = from_exchange(fake_tree_all_gather(&team, votes, sizeof(*votes)));
	if (result == ncclSuccess && args->color == NCCL_SPLIT_NOCOLOR) {
		fake_info(FAKE_LOG_INIT,
			  "Rank %d has color with NCCL_SPLIT_NOCOLOR, not creating a new "
			  "communicator",
			  parent->rank);
	} else if (result == ncclSuccess) {
		count = choose(votes, parent->nranks, args->color, members);
		result = build(comm, args, members, count);
	}
	free(votes);
	free(members);
	return result;
}

/* Those who stay agree, by meeting, that they all are there. */
static ncclResult_t shrink(struct ncclComm *comm, const struct child_args *args)
{
	struct ncclComm *parent = args->parent;
	struct fake_team team = {.comm = parent,
				 .kind = FAKE_KIND_BOOT,
				 .members = args->members,
				 .size = args->member_count};
	char *present = calloc(1, (size_t)args->member_count);
	ncclResult_t result;

	if (!present)
		abort();
	if (args->abort)
		fake_comm_revoke(parent);
	while (args->members[team.me] != parent->rank)
		team.me++;
	present[team.me] = 1;
	result = from_exchange(fake_tree_all_gather(&team, present, 1));
	free(present);
	return result == ncclSuccess ? build(comm, args, args->members, args->member_count)
				     : result;
}

/*
 * Runs as a job of the child (of the parent if there will be none). While a nonblocking child is
 * being made its parent is busy too. The caller sees the handle only now, as with NCCL: in a group
 * at its end, else when the parent is no longer busy.
 */
static ncclResult_t run_child(struct fake_job *job)
{
	struct child_args *args = job->args;
	struct ncclComm *comm = job->comm, *parent = args->parent;
	ncclResult_t result = args->shrink ? shrink(comm, args) : split(comm, args);
	int busy = ncclInProgress;

	free(args->members);
	if (comm != parent && (result == ncclSuccess || !comm->blocking))
		__atomic_store_n(args->newcomm, comm, __ATOMIC_RELEASE);
	else if (comm != parent)
		fake_comm_put(comm);
	if (comm != parent)
		atomic_compare_exchange_strong(&parent->async, &busy, (int)result);
	fake_comm_put(parent);
	return result;
}

static ncclResult_t start_child(const struct child_args *what, const ncclConfig_t *config)
{
	struct child_args *args = calloc(1, sizeof(*args));
	struct fake_job *job = calloc(1, sizeof(*job));
	struct ncclComm *comm = what->parent;

	if (!args || !job)
		abort();
	*args = *what;
	*what->newcomm = NULL;
	if (what->color != NCCL_SPLIT_NOCOLOR)
		comm = fake_comm_new(0, -1, config, what->parent);
	if (!comm->blocking)
		atomic_store(&what->parent->async, ncclInProgress);
	fake_comm_get(what->parent);
	*job = (struct fake_job){.comm = comm, .run = run_child, .args = args};
	return fake_group_add_job(job);
}

/* A revoked or failed parent may still have children; one that is busy may not. */
static ncclResult_t check_parent(struct ncclComm *parent, const char *what,
				 const ncclComm_t *newcomm, const ncclConfig_t *config)
{
	ncclResult_t result = fake_comm_check(parent, what, "comm");

	if (result == ncclSuccess && !newcomm) {
		WARN("misc/argcheck.cc", "%s : %s argument is NULL", what, "newcomm");
		return ncclInvalidArgument;
	}
	if (result == ncclSuccess)
		result = fake_config_check(config);
	if (result == ncclSuccess && atomic_load(&parent->async) == ncclInProgress)
		result = fake_comm_ready(parent, what);
	if (result == ncclSuccess)
		result = fake_call_fault(parent, FAKE_OP_SPLIT, NULL);
	return result;
}

FAKE_NCCL_API(ncclResult_t, CommSplit,
	      (ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config))
{
	struct child_args args = {.parent = comm, .newcomm = newcomm, .color = color, .key = key};
	ncclResult_t result = check_parent(comm, "CommSplit", newcomm, config);

	if (result == ncclSuccess && color < NCCL_SPLIT_NOCOLOR) {
		WARN("init.cc", "CommSplit : invalid color %d", color);
		result = ncclInvalidArgument;
	}
	if (result != ncclSuccess)
		return fake_group_note(result);
	args.ordinal = ++comm->splits;
	return start_child(&args, config);
}

static bool contains(const int *list, int count, int value)
{
	for (int i = 0; i < count; i++) {
		if (list[i] == value)
			return true;
	}
	return false;
}

FAKE_NCCL_API(ncclResult_t, CommShrink,
	      (ncclComm_t comm, int *exclude, int exclude_count, ncclComm_t *newcomm,
	       ncclConfig_t *config, int flags))
{
	struct child_args args = {.parent = comm, .newcomm = newcomm, .shrink = true};
	ncclResult_t result = check_parent(comm, "CommShrink", newcomm, config);

	if (result == ncclSuccess &&
	    (!exclude || exclude_count <= 0 || contains(exclude, exclude_count, comm->rank))) {
		WARN("init.cc", "CommShrink : %s argument is invalid", "excludeRanksList");
		result = ncclInvalidArgument;
	}
	if (result != ncclSuccess)
		return fake_group_note(result);
	args.abort = flags & NCCL_SHRINK_ABORT;
	args.members = calloc((size_t)comm->nranks, sizeof(int));
	if (!args.members)
		abort();
	for (int i = 0; i < comm->nranks; i++) {
		if (!contains(exclude, exclude_count, i))
			args.members[args.member_count++] = i;
	}
	args.ordinal = ++comm->shrinks;
	return start_child(&args, config);
}
