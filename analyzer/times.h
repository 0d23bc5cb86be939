/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the time of each rank went, as its host saw it, and what those who came late were doing.
 * The parts of a rank's time add up to its life: they are times of the thread that calls NCCL for
 * it. Times are nanoseconds.
 */
#ifndef NSPY_TIMES_H
#define NSPY_TIMES_H

#include "bandwidth.h"
#include "costs.h"

enum nspy_time_part {
	NSPY_TIME_OUTSIDE,   /* in no call that is recorded: computing on the host, data, files */
	NSPY_TIME_LATE_PEER, /* waiting for the device until the last peer had come */
	NSPY_TIME_TRANSFER,  /* so for operations seen alone on their stream, at most */
	NSPY_TIME_QUEUED,    /* the rest of it: behind other work of the stream, or unknown */
	NSPY_TIME_NCCL,      /* in calls of NCCL: creating, queueing */
	NSPY_TIME_CUDA,      /* in other calls: memory, graphs */
	NSPY_TIME_PARTS
};

/* What a late rank was doing while others waited for it. */
struct nspy_activity {
	const struct nspy_proc *proc;
	uint16_t fn; /* model function id; 0 = in no call */
	uint64_t ns; /* waited for it, over all who waited */
};

struct nspy_times {
	uint64_t (*by_proc)[NSPY_TIME_PARTS]; /* by proc->index */
	uint64_t total[NSPY_TIME_PARTS];
	struct nspy_activity *activities; /* of the ranks that cost most; by rank, then time */
	size_t activity_count, activity_capacity;
};

void nspy_times_find(const struct nspy_model *model, const struct nspy_attempt *attempt,
		     const struct nspy_costs *costs, const struct nspy_bandwidth *bandwidth,
		     struct nspy_times *ret);
void nspy_times_done(struct nspy_times *times);

/* "outside", "late_peer", ... as in JSON; and in words. */
const char *nspy_time_part_name(enum nspy_time_part part);
const char *nspy_time_part_words(enum nspy_time_part part);

/* The thread that calls NCCL for a rank, or NULL if none did. */
const struct nspy_thread *nspy_times_thread(const struct nspy_proc *proc);

/* activity.c */
void nspy_activities_find(const struct nspy_model *model, const struct nspy_costs *costs,
			  struct nspy_times *ret);

#endif
