/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of a training job on a cluster, for tests of the analyzer at sizes no test machine has.
 * Hosts queue operations on streams; streams run them in order; a collective ends when all its
 * members' streams have come to it, a message when both ends have. What follows from a fault (who
 * waits for whom, until when) is therefore computed, not written down. The same seed gives the same
 * bytes.
 *
 * Times within the model are nanoseconds of true time since the start of the job. Each node's
 * clocks differ from it by an offset (system time only) and a drift; they are applied when traces
 * are written. Errors end the program: this is a test tool.
 */
#ifndef NSPY_SIM_H
#define NSPY_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracegen.h"

#define SIM_MS 1000000u
#define SIM_S  1000000000ull

#define SIM_DATATYPE 7 /* ncclFloat32 */

enum sim_group { SIM_WORLD, SIM_TP, SIM_PP, SIM_DP, SIM_EP, SIM_GROUPS };

enum sim_do { SIM_LOAD, SIM_COMPUTE, SIM_COLL, SIM_SEND, SIM_RECV, SIM_SYNC };

/* One line of the program of a pipeline stage. */
struct sim_op {
	enum sim_do what;
	enum sim_group group;
	const char *fn;
	uint64_t count; /* elements */
	uint64_t ns;    /* how long it takes once it can run */
	int to;         /* messages: next stage 1, stage before -1 */
	bool stuck;     /* the network never carries it */
};

#define SIM_OPS_MAX 96u
struct sim_program {
	struct sim_op ops[SIM_OPS_MAX];
	size_t count;
};

/* An instance of a group; members' streams come to its operations one by one. */
struct sim_comm {
	enum sim_group group;
	int first, stride, size; /* rank of member i is first + i * stride */
	uint64_t key;
	int arrived;
	uint64_t latest_ns; /* arrival of the last of them */
	uint64_t took_ns;
	uint64_t signature; /* of the first of them */
	bool broken;        /* members passed different things: never ends */
};

struct sim_queued {
	struct sim_op op;
	uint64_t ready_ns; /* when the host had queued it */
	bool counted;      /* the communicator knows that the stream is here */
	uint64_t came_ns;  /* since when */
};

/* What a rank's card sent to another rank within a second. */
struct sim_sent {
	uint64_t second;
	int to;
	uint64_t operations, bytes, time_ns, longest_ns;
};

/* A collective as the GPU and NCCL's threads saw it; times of the job. */
struct sim_kernel {
	enum sim_group group;
	const char *fn;
	uint64_t seq, count;
	uint64_t queued_ns, start_ns, end_ns;
	uint64_t saw_start_ns, saw_end_ns; /* NCCL's thread, on the host */
};

enum sim_state { SIM_RUNS, SIM_SYNCS, SIM_STUCK, SIM_DEAD, SIM_DONE };

struct sim_rank {
	struct nspy_tg_rank *trace;
	int rank, node, stage;
	uint64_t host_ns, gpu_ns;
	uint64_t step;
	size_t at; /* in the program */
	enum sim_state state;
	uint64_t random;
	struct sim_queued queue[2 * SIM_OPS_MAX];
	size_t head, tail;
	struct sim_comm *comms[SIM_GROUPS]; /* NULL where it has none */
	uint32_t index[SIM_GROUPS];         /* of its trace */
	uint64_t sends[2], recvs[2];        /* so far, with the stage before and the next */
	uint64_t seqs[SIM_GROUPS];          /* collectives so far */
	uint64_t sync_ns;                   /* when it began to wait for the device */
	struct sim_sent *sent;              /* by second */
	size_t sent_count, sent_capacity;
	struct sim_kernel *kernels; /* in order; with sim.gpu */
	size_t kernel_count, kernel_capacity;
};

/* What goes wrong. The order is that of sim_kinds. */
enum sim_kind {
	SIM_CLEAN,
	SIM_HANG,
	SIM_HANG_MALLOC,
	SIM_STOPPED,
	SIM_GRAPH_HANG,
	SIM_NETWORK,
	SIM_KILLED,
	SIM_CRASHED,
	SIM_MISSING,
	SIM_SPLIT_MEMBER,
	SIM_COUNT,
	SIM_CALL,
	SIM_SKIPPED,
	SIM_ORDER,
	SIM_P2P,
	SIM_P2P_ALONE,
	SIM_ERROR,
	SIM_OOM,
	SIM_SLOW_RANK,
	SIM_SLOW_HOST,
	SIM_SLOW_LINK,
	SIM_SLOW_GPU,
	SIM_PAUSE,
	SIM_CHECKPOINT,
	SIM_IO,
	SIM_SLOW_PAIR,
	SIM_KINDS
};

struct sim_fault {
	enum sim_kind kind;
	int rank; /* culprit, or one of its node */
	uint64_t step;
	size_t at;       /* place in the program */
	double strength; /* slow ...: added share of a step */
	uint64_t delay_ns;
	uint64_t patience_ns; /* until the job is ended */
	int to_node;          /* slow pair: where its node's data goes to slowly */
};

struct sim {
	uint64_t seed, random;
	int ranks, per_node, nodes;
	int tp, pp, dp, ep;
	uint64_t steps, step_ns, jitter_ns;
	struct sim_fault fault;
	bool clocks;  /* hosts' clocks are off */
	bool net;     /* what goes between nodes is counted, as below libfabric */
	bool gpu;     /* NCCL's profiler interface tells of collectives, with times of the GPU */
	bool polls;   /* hosts ask an event for the end of a step, a watchdog ends them */
	int untraced; /* a rank without a trace, -1 = none */
	int torn;     /* a rank with a trace cut short, -1 = none */
	int64_t *offsets;             /* per node, of its system time */
	double *drifts;               /* per node, 1e-6 = 1 ppm */
	double *gpu_drifts;           /* per rank, of its GPU's clock */
	struct sim_program *programs; /* per stage */
	struct sim_comm *comms;
	size_t comm_count;
	struct sim_rank *all;
	int *work; /* ranks that may be able to go on */
	bool *listed;
	size_t work_count;
	struct nspy_tg tg;
};

extern const char *const sim_kinds[SIM_KINDS];

/* sim_job.c */
uint64_t sim_random(uint64_t *state);
/* Uniform in 0..n-1. */
uint64_t sim_below(uint64_t *state, uint64_t n);
/* Draws a job from the seed; kind < 0 and ranks = 0 draw these too. */
void sim_draw(struct sim *sim, uint64_t seed, int kind, int ranks);
/* A clean job of exactly so many ranks, of at least ops operations each. */
void sim_bulk(struct sim *sim, int ranks, uint64_t ops);
/* Sets the hosts' clocks off, from each other and from their GPUs. */
void sim_draw_clocks(struct sim *sim);
void sim_free(struct sim *sim);

/* sim_run.c */
/* Runs the job to its end, or until nothing moves and its patience is over. */
void sim_run(struct sim *sim);

/* sim_host.c */
/* The host's next action; false if it cannot go on. */
bool sim_host(struct sim *sim, struct sim_rank *r);
/* Its wait for the device, still open when its trace ends. */
void sim_wait_open(struct sim_rank *r);
/* A watchdog gives up on a communicator and ends the process. */
void sim_abort(struct sim_rank *r, enum sim_group group, uint64_t when_ns);
/* Creates all communicators; false if that hangs. */
bool sim_create(struct sim *sim);
/* Whether the rank is one of those that the fault is about. */
bool sim_is_culprit(const struct sim *sim, const struct sim_rank *r);

/* sim_net.c */
/* The communicator's ring leads from one node to another. */
bool sim_crosses(const struct sim *sim, const struct sim_comm *comm);
/* How much longer than usual data takes from one node to another. */
double sim_link_slowness(const struct sim *sim, int from, int to);
/* A collective or message, at its end: what each of its ranks sent to another node. */
void sim_count_ring(struct sim *sim, const struct sim_comm *comm, const struct sim_op *op,
		    uint64_t end_ns);
void sim_count_message(struct sim *sim, struct sim_rank *from, int to, const struct sim_op *op,
		       uint64_t end_ns);
/* Draws where a slow pair leads to. */
void sim_draw_pair(struct sim *sim);
/* The NET payload of the rank's trace, times as its node's clock shows them. */
void sim_put_net(const struct sim *sim, struct sim_rank *r);

/* What traces show of paths between nodes that can be compared with each other. */
struct sim_paths {
	size_t equal;    /* as much was sent, in so many operations that their time is known */
	size_t slow;     /* of these */
	size_t partners; /* other nodes, of the slow ones */
	size_t nodes;    /* of all */
	bool spared;     /* a path of the culprit's node is not slow */
};
void sim_find_paths(const struct sim *sim, struct sim_paths *ret);

/* sim_gpu.c */
/* A collective that its members' streams have come to (came_ns) ends. */
void sim_keep_kernel(struct sim *sim, struct sim_rank *r, const struct sim_queued *q,
		     uint64_t end_ns);
/* The PROF payload of the rank's trace. */
void sim_put_prof(const struct sim *sim, struct sim_rank *r);

/* sim_write.c */
/* CLOCK_MONOTONIC of the node at a time of the job. */
uint64_t sim_shown(const struct sim *sim, int node, uint64_t ns);
void sim_write(struct sim *sim, const char *directory);
/* {"kind": ..., "decidable": ...}: what happened and what a report may be asked to say. */
void sim_truth(const struct sim *sim, const char *path);

#endif
