/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workload: some ranks that do the communication of a training job, step by step. main.c reads
 * the command line, parent.c starts and watches the ranks, environment.c
 * says what each finds in its environment, rank.c is a rank, pattern.c says what a
 * step consists of, operation.c carries operations out, inject.c does to them what NSPY_FAKE says.
 */
#ifndef TRAINJOB_H
#define TRAINJOB_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fault_script.h"
#include "nccl_abi.h"

/* Absent when this runs with real libraries. */
#pragma weak fakeSetThreadRank
#pragma weak fakeCudaCompute

#define MAX_RANKS    256
#define MAX_COMMS    24
#define MAX_STEP_OPS 256
#define NAME_BYTES   32
#define MAX_ENV      32

/* Exit codes; --help lists them. */
enum exit_code {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_WRONG_DATA = 3,
	EXIT_CUDA = 4,
	EXIT_NCCL = 5,
	EXIT_ASYNC = 6,
	EXIT_HUNG = 7,
	EXIT_NO_PROGRESS = 124,
};

enum pattern { PATTERN_DP, PATTERN_TP, PATTERN_PP, PATTERN_EP, PATTERN_MIX };

struct job_options {
	int ranks;
	int ranks_per_process;
	int node_size;
	long steps;
	enum pattern pattern;
	size_t count;
	double compute_ms;
	bool compute_on_gpu;
	double timeout_s, grace_s, watchdog_s;
	int abort_status; /* of a rank whose watchdog aborted; -1 = as the reason says */
	const char *launcher;
	const char *env[MAX_ENV]; /* RANKS:NAME=VALUE */
	int env_count;
	long checkpoint_every;
	double checkpoint_ms;
	int extra_comms;
	bool graph, nonblocking, verify, quiet, abort_at_end;
	/* of one process of the job */
	int rank, world;
	const char *id_file, *progress_file;
};

/* Where the ranks tell the parent how far they are. A mapped file. */
struct job_progress {
	_Atomic uint64_t steps[MAX_RANKS];
	_Atomic uint64_t calls[MAX_RANKS];
};

struct job_comm {
	ncclComm_t handle;
	char name[NAME_BYTES];
	int rank, size;
};

/* One call of a step. */
struct step_op {
	enum fake_op op;
	int comm;
	size_t count;
	ncclDataType_t datatype;
	ncclRedOp_t redop;
	int peer;  /* or root */
	int tag;   /* the same on all ranks of the communicator; makes the data differ */
	int group; /* calls in a row with the same number > 0 form a group */
	void *send, *recv;
	size_t room; /* bytes of each buffer */
};

struct rank {
	const struct job_options *options;
	int world_rank;
	int local_rank;
	struct job_progress *progress;
	struct job_comm comms[MAX_COMMS];
	int comm_count;
	struct step_op ops[MAX_STEP_OPS];
	int op_count;
	cudaStream_t stream;
	cudaGraphExec_t graph;
	long step; /* from 1 */
	bool captured;
	pthread_t watchdog;
	atomic_bool finished;
	atomic_int in_library; /* the main thread is between job_enter and job_leave */
	atomic_bool aborting;
	unsigned int random;
	int told[FAKE_ACT_VERSION]; /* how often a fault was reported */
};

/* main.c */
void job_say(const struct rank *rank, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void job_sleep_ns(uint64_t ns);
uint64_t job_now_ns(void);

/* parent.c: the exit status of the job */
int job_run_parent(const struct job_options *options, char **argv);

/* environment.c: for the process that begins with that rank; called in the child */
void job_set_environment(const struct job_options *options, int rank);
bool job_env_valid(const char *text);

/* rank.c: runs the ranks of this process; its exit status */
int job_run_process(const struct job_options *options);

/* watchdog.c: aborts the communicators of a rank that is stuck or has an asynchronous error */
void job_watchdog_start(struct rank *rank);
void job_watchdog_stop(struct rank *rank);
/*
 * The main thread says when it uses communicators, so that they are not freed under its hands. Once
 * the watchdog aborts, job_enter does not return.
 */
void job_enter(struct rank *rank);
void job_leave(struct rank *rank);

/* comms.c: creates world and what the pattern needs besides */
void job_create_comms(struct rank *rank, const ncclUniqueId *id);
void job_destroy_comms(struct rank *rank);

/* pattern.c: fills in rank->ops for its communicators */
void job_build_step(struct rank *rank);

/* operation.c */
void job_allocate_buffers(struct rank *rank);
void job_free_buffers(struct rank *rank);
/* One step's calls, with the faults of the script. */
void job_issue_step(struct rank *rank);
void job_clear_results(struct rank *rank);
/* Number of wrong elements. */
size_t job_verify_step(struct rank *rank);
void job_check_cuda(struct rank *rank, cudaError_t result, const char *what);
/* Waits for a nonblocking communicator; ends the process on a failure. */
void job_check_nccl(struct rank *rank, ncclComm_t comm, ncclResult_t result, const char *what);

/* inject.c */
enum verdict { VERDICT_GO, VERDICT_SKIP, VERDICT_SWAP };
/*
 * What the script says about this occurrence: may sleep, hang or end the process, and may change
 * the call. op is NULL for what is not a collective, send or recv.
 */
enum verdict job_inject(struct rank *rank, enum fake_op kind, const char *comm, struct step_op *op);

#endif
