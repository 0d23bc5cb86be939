/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What collectives spent on the GPU: transfer, and waiting for the rank that came last.
 *
 * A collective's kernel runs from when its own GPU got to it until the data of all ranks are there.
 * Where nobody can leave before all have come, the kernel of the rank that came last is the
 * shortest: it found the others waiting, so all of its time is transfer, and what the others' took
 * longer is waiting. Whether its host or its GPU was late shows in how long its kernel stood in the
 * queue: a host that is late finds an idle GPU. Each duration is a difference on one GPU's clock,
 * so clocks need not agree.
 *
 * From NCCL's profiler interface with kernel events (prof.h), of a sample of operations that is the
 * same on all ranks. Operations with a root, messages and replays of graphs are left out.
 *
 * Times are nanoseconds. Ownership: nspy_gpu_time_done; processes and communicators are the
 * model's.
 */
#ifndef NSPY_GPU_TIME_H
#define NSPY_GPU_TIME_H

#include "model.h"

/* One function, communicator and size. */
struct nspy_gpu_series {
	const struct nspy_comm *comm; /* NULL: NCCL's could not be joined with one of ours */
	uint64_t hash;                /* NCCL's */
	int32_t nranks;
	uint32_t func;  /* enum nspy_prof_func */
	uint64_t bytes; /* as in the call; 0 = not known */
	size_t ops;     /* operations of the sample seen on two ranks or more */
	size_t partial; /* of these, not on all: their transfer is an upper bound */
	uint64_t transfer_median_ns, transfer_max_ns;
	size_t slow;        /* operations whose transfer took twice the median or longer */
	uint64_t kernel_ns; /* of all ranks and operations */
	uint64_t wait_ns;   /* the part of it spent waiting for the last rank */
	size_t late;        /* operations in which ranks waited for long */
	size_t last_ops;    /* of these, those in which the rank below alone was last */
	size_t last_busy;   /* of these, those it had called long before: its GPU was busy */
	const struct nspy_proc *last; /* NULL: no single rank was */
	double busbw; /* bytes a second, of the median transfer; 0 = size not known */
};

struct nspy_gpu_time {
	struct nspy_gpu_series *series; /* most waiting for one rank first, then most GPU time */
	size_t count, capacity;
};

void nspy_gpu_time_find(const struct nspy_attempt *attempt, struct nspy_gpu_time *ret);
void nspy_gpu_time_done(struct nspy_gpu_time *time);

#endif
