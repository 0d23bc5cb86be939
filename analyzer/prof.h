/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL told the recorder as its profiler plugin, gathered from a process's PROF chunks. Exact
 * durations (the GPU's clock) and those of host callbacks are kept apart everywhere.
 *
 * Ownership: everything belongs to the process and lives until nspy_prof_done.
 */
#ifndef NSPY_PROF_H
#define NSPY_PROF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_prof.h"

/* Bounds on what a trace can make us keep. */
#define NSPY_PROF_COMMS_KEPT   4096u
#define NSPY_PROF_KINDS_KEPT   8192u
#define NSPY_PROF_WAITS_KEPT   65536u
#define NSPY_PROF_KERNELS_KEPT 64u /* of a kind of operation */

struct nspy_prof_span {
	uint64_t count, sum_ns, max_ns;
};

struct nspy_prof_comm_view {
	uint32_t id, comm; /* comm: index in the recording, or NSPY_COMM_INDEX_NONE */
	uint64_t hash;
	uint32_t api;
	int32_t nranks, rank;
};

/* When an operation's kernel ran, on the GPU's clock, and when NCCL's thread on the host saw it. */
struct nspy_prof_kernel {
	uint64_t seq; /* of a message, which NCCL does not number: gpu_start_ns */
	uint64_t gpu_start_ns, gpu_ns;
	uint64_t saw_start_ns, saw_end_ns; /* of the trace */
	uint64_t queued_ns; /* from the call until it was seen to run, host callback */
	uint64_t count;     /* elements, as NCCL tells them */
	uint32_t datatype;  /* ncclDataType_t, or NSPY_DATATYPE_NONE */
};

/* Operations of one function on one communicator. */
struct nspy_prof_kind_view {
	uint32_t comm; /* id */
	uint32_t what, func;
	uint64_t ops, captured, cut;
	uint32_t algos, protos;        /* bits of those seen */
	uint32_t channels;             /* most */
	struct nspy_prof_span exact;   /* GPU */
	struct nspy_prof_span network; /* host callback: until the last network operation ended */
	struct nspy_prof_span kernel;  /* host callback: between the kernel's first and last news */
	/* A sample that depends on sequence numbers alone, so that all ranks keep the same. */
	struct nspy_prof_kernel *kernels;
	size_t kernel_count, kernel_capacity;
	uint64_t kernel_mask; /* of hashed sequence numbers; 0 bits are kept */
};

struct nspy_prof_wait_view {
	uint32_t comm; /* id, or NSPY_PROF_NONE */
	int32_t peer;
	uint64_t counter[NSPY_PROF_WAIT_COUNT];
};

struct nspy_prof_view {
	struct nspy_prof_comm_view *comms;
	size_t comm_count, comm_capacity;
	struct nspy_prof_kind_view *kinds;
	size_t kind_count, kind_capacity;
	struct nspy_prof_wait_view *waits;
	size_t wait_count, wait_capacity;
	uint64_t sums[NSPY_PROF_SUM_COUNT]; /* the latest */
};

/* Adds a PROF payload. -EBADMSG: the rest of it cannot be read. */
int nspy_prof_ingest(struct nspy_prof_view *prof, const uint8_t *payload, size_t bytes);
void nspy_prof_done(struct nspy_prof_view *prof);

/* NULL if it was never described. */
const struct nspy_prof_comm_view *nspy_prof_comm_by_id(const struct nspy_prof_view *prof,
						       uint32_t id);

/* Names; "unknown" for numbers of a newer version. */
const char *nspy_prof_func_name(uint32_t func);
const char *nspy_prof_algo_name(uint32_t algo);
const char *nspy_prof_proto_name(uint32_t proto);
const char *nspy_prof_what_name(uint32_t what);
const char *nspy_prof_wait_name(uint32_t counter);
const char *nspy_prof_sum_name(uint32_t sum);

#endif
