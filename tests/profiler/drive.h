/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives a profiler plugin as NCCL does, in each version of the interface. What a version does not
 * have is left out, as in NCCL.
 */
#ifndef NSPY_TEST_DRIVE_H
#define NSPY_TEST_DRIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler_abi.h"

/* A loaded plugin, or what stands in for it. */
struct drive {
	const struct nspy_profiler_table *table;
	unsigned int version;
};

/* A communicator as the plugin knows it. */
struct drive_comm {
	const struct drive *drive;
	void *context;
	int mask;
	int rank, nranks;
};

union drive_descr {
	struct nspy_descr_v1 v1;
	struct nspy_descr_v2 v2;
	struct nspy_descr_v3 v3;
	struct nspy_descr_v4 v4;
	struct nspy_descr_v5 v5;
	struct nspy_descr_v6 v6;
};

struct drive_op {
	uint64_t seq, count;
	uint8_t channels;
	bool captured; /* 5 and 6 only */
	void *handle;  /* of the operation, while it is alive */
	void *group, *group_api, *api;
};

int drive_init(struct drive_comm *comm, const struct drive *drive, uint64_t hash, int nranks,
	       int rank);
int drive_finalize(struct drive_comm *comm);

/* What an earlier event has left where a handle is expected. Not every plugin overwrites it. */
extern void *drive_stale;

/* Begins and ends the host's part of an AllReduce; the handle stays valid as a parent. */
void drive_coll(const struct drive_comm *comm, struct drive_op *op);
/* A Send to `peer`. */
void drive_send(const struct drive_comm *comm, struct drive_op *op, int peer);
/* By copy engines; version 6. */
void drive_copy(const struct drive_comm *comm, struct drive_op *op);

/* What NCCL's proxy thread does for an operation: `steps` transfers each way on a channel. */
void drive_network(const struct drive_comm *comm, const struct drive_op *op, uint8_t channel,
		   int peer, int steps, unsigned int pause_us);
/* A kernel's channel; times are the GPU's. */
void drive_kernel(const struct drive_comm *comm, const struct drive_op *op, uint8_t channel,
		  uint64_t start, uint64_t stop);

/* Fills in the head of a descriptor of the version. */
void drive_head(unsigned int version, union drive_descr *descr, uint64_t type, void *parent,
		int rank);
struct nspy_proxy_op *drive_proxy_op(unsigned int version, union drive_descr *descr);

#endif
