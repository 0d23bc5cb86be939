/* SPDX-License-Identifier: Apache-2.0 */
/* The communicators of a job: the world, and groups of it as the pattern wants them. */
#include "trainjob.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ncclConfig_t config_for(const struct rank *rank, const char *name)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.blocking = !rank->options->nonblocking;
	config.commName = name;
	return config;
}

static void note(struct rank *rank, struct job_comm *comm, const char *what)
{
	job_check_nccl(rank, comm->handle, ncclCommUserRank(comm->handle, &comm->rank), what);
	job_check_nccl(rank, comm->handle, ncclCommCount(comm->handle, &comm->size), what);
}

static void create_world(struct rank *rank, const ncclUniqueId *id)
{
	struct job_comm *world = &rank->comms[rank->comm_count++];
	ncclConfig_t config = config_for(rank, "world");

	snprintf(world->name, sizeof(world->name), "world");
	if (job_inject(rank, FAKE_OP_INIT, world->name, NULL) == VERDICT_SKIP) {
		/* alive, and never there */
		for (;;)
			pause();
	}
	job_check_nccl(rank, NULL,
		       ncclCommInitRankConfig(&world->handle, rank->options->ranks, *id,
					      rank->world_rank, &config),
		       "ncclCommInitRankConfig");
	job_check_nccl(rank, world->handle, ncclSuccess, "ncclCommInitRankConfig");
	note(rank, world, "world");
}

/* All ranks of one colour; key is the rank, so they keep their order. */
static void split(struct rank *rank, const char *name, int color)
{
	struct job_comm *world = &rank->comms[0], *child = &rank->comms[rank->comm_count++];
	ncclConfig_t config = config_for(rank, name);

	snprintf(child->name, sizeof(child->name), "%s", name);
	job_inject(rank, FAKE_OP_SPLIT, name, NULL);
	job_check_nccl(
		rank, world->handle,
		ncclCommSplit(world->handle, color, rank->world_rank, &child->handle, &config),
		"ncclCommSplit");
	job_check_nccl(rank, child->handle, ncclSuccess, "ncclCommSplit");
	note(rank, child, name);
}

/* The largest group of at most that many ranks that divides the job evenly. */
static int group_size(int ranks, int most)
{
	int size = ranks < most ? ranks : most;

	while (ranks % size)
		size--;
	return size;
}

void job_create_comms(struct rank *rank, const ncclUniqueId *id)
{
	enum pattern pattern = rank->options->pattern;
	int size = group_size(rank->options->ranks, pattern == PATTERN_PP ? 4 : 2);
	int me = rank->world_rank;
	char name[NAME_BYTES];

	create_world(rank, id);
	if (pattern == PATTERN_TP || pattern == PATTERN_MIX)
		split(rank, "tp", me / size);
	if (pattern == PATTERN_PP)
		split(rank, "pp", me / size);
	if (pattern == PATTERN_MIX)
		split(rank, "pp", me % size);
	if (pattern == PATTERN_EP || pattern == PATTERN_MIX)
		split(rank, "ep", me % size);
	if (pattern != PATTERN_DP)
		split(rank, "dp", me % size);
	for (int i = 0; i < rank->options->extra_comms; i++) {
		snprintf(name, sizeof(name), "extra%d", i);
		split(rank, name, 0);
	}
}

/* Children first. */
void job_destroy_comms(struct rank *rank)
{
	for (int i = rank->comm_count - 1; i >= 0; i--) {
		ncclComm_t handle = rank->comms[i].handle;

		if (rank->options->abort_at_end) {
			job_check_nccl(rank, NULL, ncclCommAbort(handle), "ncclCommAbort");
			continue;
		}
		job_check_nccl(rank, handle, ncclCommFinalize(handle), "ncclCommFinalize");
		job_check_nccl(rank, NULL, ncclCommDestroy(handle), "ncclCommDestroy");
	}
	rank->comm_count = 0;
}
