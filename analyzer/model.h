/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the traces of a job say, gathered: processes, communicators, the place where each rank
 * stands. Detectors read the model and never change it.
 *
 * Times are nanoseconds of the wall clock (CLOCK_REALTIME), aligned: processes that share a boot
 * share the monotonic clock and are exact against each other; hosts among each other are as good as
 * their system time.
 *
 * Ownership: everything belongs to the model and lives until nspy_model_free.
 */
#ifndef NSPY_MODEL_H
#define NSPY_MODEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cells.h"
#include "kept.h"
#include "map.h"
#include "net.h"
#include "prof.h"
#include "timed.h"
#include "trace_reader.h"
#include "trace_signal.h"
#include "util.h"

/* Bounds on what one trace can make us keep. */
#define NSPY_FNS_MAX     1024u /* names of functions in all traces; fits NSPY_CELL_FN_BITS */
#define NSPY_FN_IDS_MAX  4096u
#define NSPY_MEMBERS_MAX 65536u
#define NSPY_PEERS_MAX   65536u
#define NSPY_THREADS_MAX 65536u
#define NSPY_ERRORS_MAX  64u /* distinct (function, code) of a process */
#define NSPY_STALLS_MAX  32u /* long blocking calls kept of a process */
#define NSPY_FACTS_MAX   1024u
#define NSPY_NOTES_MAX   16u

/* A call that blocks shorter than this is never kept as a stall. */
#define NSPY_STALL_MIN_NS NSPY_NS_PER_S

#define NSPY_NO_RANK             (-1)
#define NSPY_CLOCK_ERROR_UNKNOWN UINT64_MAX

enum nspy_model_lib { NSPY_MODEL_NCCL, NSPY_MODEL_CUDART, NSPY_MODEL_OTHER };

/* A function, by name, over all traces. Id 0 means unknown. */
struct nspy_fn {
	char *name;
	uint8_t klass;  /* enum nspy_fn_class */
	uint8_t lib;    /* enum nspy_model_lib */
	bool fallible;  /* returns a result code */
	uint8_t spent;  /* enum nspy_spent */
	bool device;    /* waits for all streams of the device */
	bool replays;   /* runs a graph */
	uint16_t canon; /* id of the function that does the same to peers (Bcast = Broadcast) */
};

/* What a thread spends time in a call on. */
enum nspy_spent { NSPY_SPENT_NCCL, NSPY_SPENT_WAITING, NSPY_SPENT_OTHER, NSPY_SPENT_KINDS };

struct nspy_fact {
	char *key;
	char *value;
};

/* A call with its thread; rec.fn is a model function id, times are aligned. */
struct nspy_placed_call {
	uint32_t thread; /* serial, 0 = none */
	uint32_t tid;    /* 0 = unknown */
	struct nspy_rec rec;
};

struct nspy_thread {
	uint32_t serial;
	uint64_t next_index;                 /* records of this thread seen */
	uint64_t spent_ns[NSPY_SPENT_KINDS]; /* in calls that are no part of others */
	uint64_t ops;                        /* collectives and messages */
	bool has_last;
	struct nspy_rec last; /* latest call that was not made inside another one */
	bool has_busy;
	struct nspy_rec busy; /* latest such call that does something (no query, no poll) */
	uint64_t abort_ns;    /* its first abort call, 0 = none */
	uint32_t abort_comm;
	struct nspy_str text; /* text record under construction */
};

struct nspy_error {
	uint16_t fn;
	int16_t code;
	uint64_t count;
	uint64_t first_ns; /* when the first one returned */
	uint32_t comm;     /* process-local index at the first one */
	uint32_t thread;
	uint32_t callno;
	char *text; /* ncclGetLastError of the first one that has it, or NULL */
};

/* Memory obtained through the CUDA runtime, and the first request that was refused. */
#define NSPY_MEMORY_PIECES_MAX (1u << 20)
struct nspy_memory {
	struct nspy_map pieces; /* address -> bytes, as pointer-sized number */
	uint64_t live_bytes;
	uint64_t refused; /* requests that failed for want of memory */
	uint64_t refused_ns;
	uint64_t refused_bytes; /* size of the first one */
	uint64_t live_then;     /* held when it was refused */
	size_t pieces_then;
	uint32_t refused_thread;
	uint16_t refused_fn;
	bool nested;    /* asked for by NCCL itself */
	bool recovered; /* as much was obtained later */
};

/* Point-to-point traffic of a member with one peer (a rank of the communicator). */
#define NSPY_PEER_RING 16u
struct nspy_way {
	uint64_t last; /* highest ordinal */
	uint64_t seen; /* calls; fewer than last if some were lost */
	uint64_t last_enter_ns;
	uint64_t bytes;
	uint32_t sum; /* of the signatures of all ordinals, each mixed with its ordinal */
	uint32_t thread;
	uint32_t group;
	uint32_t ring[NSPY_PEER_RING]; /* the same of the last ones, at ordinal % size */
};

struct nspy_peer {
	int32_t peer;
	struct nspy_way send;
	struct nspy_way recv;
};

/*
 * An operation that was seen to be over: the host waited for its stream right after. Nobody can
 * have left before all had entered, which bounds how far clocks are apart. Times of the trace.
 */
#define NSPY_TOGETHER_MAX 48u
struct nspy_together {
	uint64_t seq;
	uint64_t enter_ns, leave_ns;
};

/* A rank's part in a communicator. */
struct nspy_member {
	struct nspy_proc *proc;
	struct nspy_comm *comm;   /* NULL until linked, or if the communicator has no key */
	struct nspy_comm_rec rec; /* as last written, times of the trace */
	bool known;               /* rec is filled in */
	uint32_t id;              /* among all of the model, once known */
	uint32_t maker;           /* thread that created it, 0 = not seen */
	uint64_t started_ns;      /* 0 = not seen */
	uint64_t ready_ns;
	uint64_t gone_ns;
	uint64_t failed_ns;
	struct nspy_cells *cells; /* while loading: table of the loading thread */
	uint64_t cells_key;
	uint64_t last_seq;            /* highest collective entered */
	struct nspy_placed_call last; /* that collective */
	uint64_t ops;
	uint64_t bytes;
	struct nspy_together *together; /* sampled; only with several clocks */
	size_t together_count;
	uint64_t together_mask;   /* of hashed operation numbers; 0 bits are kept */
	struct nspy_timed *timed; /* operations that the host saw end, or NULL */
	struct nspy_peer **peers; /* by rank, NULL where nothing was exchanged */
	size_t peer_count;
};

struct nspy_comm {
	uint64_t key;   /* as matched: epoch mixed in if needed */
	uint64_t shown; /* as in the traces */
	uint64_t parent_key;
	uint64_t id_hash;
	int32_t nranks; /* -1 = unknown */
	uint16_t origin;
	uint32_t ordinal;
	struct nspy_member **members; /* by rank, then by process */
	size_t member_count;
	size_t member_capacity;
	size_t rank_count; /* distinct known ranks */
	struct nspy_cells cells;
	struct nspy_attempt *attempt;
	uint64_t low_seq; /* lowest and highest last_seq of the members that take part */
	uint64_t high_seq;
	uint64_t mixed_seq;   /* first operation whose signatures differ, 0 = none */
	uint64_t mixed_count; /* how many differ */
};

enum nspy_proc_state {
	NSPY_PROC_COMPLETE, /* its trace is closed */
	NSPY_PROC_RUNNING,
	NSPY_PROC_CUT, /* neither */
};

enum nspy_file_kind { NSPY_FILE_SEGMENT, NSPY_FILE_LIVE, NSPY_FILE_EXIT };

struct nspy_summary_index;
struct nspy_summary_file;

struct nspy_input_file {
	char *path;
	enum nspy_file_kind kind;
	uint32_t segment; /* segment number */
	uint64_t bytes;
	const struct nspy_summary_file *kept; /* it lies in a summary, or NULL */
};

/* What reading a file met with. */
struct nspy_trouble {
	char *path;
	int error;       /* negative errno */
	uint64_t offset; /* of the damage */
	bool truncated;
	bool fatal; /* nothing of the file could be used */
};

struct nspy_exit {
	bool known;
	bool has_code;
	int code;
	int signal; /* 0 = none */
	uint64_t real_ns;
	/* The first signal that asked it to end, seen by its launcher or its own handler. */
	int asked; /* 0 = none seen */
	bool asked_launcher;
	int64_t asked_by; /* pid of the sender, 0 = not known */
	uint64_t asked_ns;
	/* What its own handler noted of the crash that ended it; number 0 = nothing. */
	struct nspy_signal_note crash;
};

struct nspy_proc {
	uint32_t index;
	uint64_t run_id;
	const struct nspy_proc *whole; /* the process that this is a part of (parts.h), or NULL */
	size_t part_count;             /* judged through that many parts */
	struct nspy_attempt *attempt;
	struct nspy_input_file *files;
	size_t file_count, file_capacity;
	char *base;                               /* path without ".NNN.nspy" */
	const struct nspy_summary_index *summary; /* that its files lie in, or NULL */
	uint32_t life;                            /* enum nspy_life, if they do */
	bool doubled; /* it is in another input too, which was not taken */

	struct nspy_fact *facts; /* IDENT and later facts */
	size_t fact_count, fact_capacity;
	int64_t rank; /* global rank, NSPY_NO_RANK = unknown */
	int64_t world;
	int64_t pid;
	uint32_t epoch; /* n-th start of the same ranks, from 0; see attempt.h */
	char **notes;   /* free texts of the recorder */
	size_t note_count;

	uint16_t *fn_map; /* trace function id -> model function id */
	size_t fn_map_count;
	uint8_t type_bytes[256];

	int64_t clock_offset; /* added to the trace's times: use nspy_proc_when */
	double clock_rate;    /* and so much per ns since clock_base_ns, for a clock that drifts */
	uint64_t clock_base_ns; /* time of the trace */
	bool has_clock;
	uint32_t clock;             /* processes of the same clock are exact to each other */
	int64_t clock_corrected_ns; /* part of clock_offset that corrects the system time */
	uint64_t clock_error_ns;    /* against the first clock, after alignment */
	uint64_t start_ns;          /* from IDENT, else of the first chunk */
	uint64_t first_ns;
	uint64_t evidence_ns; /* latest sign of life in the trace */
	uint64_t end_ns;      /* until when it is known what the process did */
	enum nspy_proc_state state;
	bool ended_clean; /* an END chunk or a live file that says so */
	bool torn;        /* its files were cut off: what it did last is not known */
	struct nspy_exit exit;

	uint64_t loss[NSPY_LOSS_COUNT];
	uint64_t records;
	uint64_t calls; /* as counted by the recorder */
	uint64_t ops;   /* collectives and p2p calls */
	uint64_t bytes; /* their payload */
	uint64_t captured;
	uint64_t replays; /* of graphs, whatever they hold */
	uint64_t unnumbered;
	uint64_t unplaced; /* operations on communicators never described */
	uint64_t packed_bytes;
	bool live_read;
	uint64_t live_records; /* records that only the live pages had */

	struct nspy_thread *threads;
	size_t thread_count, thread_capacity;
	struct nspy_member **members; /* by communicator index, NULL holes */
	size_t member_count, member_capacity;
	struct nspy_open_call *open; /* of the latest checkpoint, as in the trace */
	size_t open_count;
	uint64_t open_when_ns;          /* of the trace's clock */
	struct nspy_placed_call *waits; /* outermost calls still open at the end */
	size_t wait_count;
	struct nspy_placed_call busy; /* latest call that does something, over all threads */
	struct nspy_placed_call *stalls;
	size_t stall_count, stall_capacity;
	uint64_t longest_sync_ns; /* longest completed blocking call */
	uint64_t sync_ns;         /* all time spent waiting for the device */
	uint64_t abort_ns;        /* first abort call, 0 = none */
	uint32_t abort_comm;
	struct nspy_error *errors;
	size_t error_count, error_capacity;
	uint64_t cuda_errors;
	struct nspy_memory memory;
	struct nspy_net_view net;
	struct nspy_account account; /* of a part: see nspy_proc_account */
	struct nspy_prof_view prof;
	struct nspy_trouble *troubles;
	size_t trouble_count, trouble_capacity;
};

/* Processes that ran together. */
struct nspy_attempt {
	uint32_t number;          /* from 1, by time */
	struct nspy_proc **procs; /* by rank, then by host and pid */
	size_t proc_count, proc_capacity;
	struct nspy_comm **comms;
	size_t comm_count, comm_capacity;
	struct nspy_comm *world; /* largest communicator, NULL if none */
	int64_t world_size;      /* launcher's or world's number of ranks, -1 unknown */
	uint64_t start_ns, end_ns;
};

struct nspy_model {
	char *job;
	struct nspy_proc **procs;
	size_t proc_count, proc_capacity;
	struct nspy_fn *fns; /* by id */
	size_t fn_count;
	char *type_names[256];
	struct nspy_map result_names; /* lib << 16 | code -> char * */
	struct nspy_comm **comms;
	size_t comm_count, comm_capacity;
	struct nspy_map comm_by_key;
	atomic_uint_fast32_t member_ids; /* given so far */
	struct nspy_member **members;    /* by id, after joining */
	struct nspy_attempt *attempts;   /* in order of time */
	size_t attempt_count;
	bool by_epoch;           /* communicator keys are told apart by epoch */
	size_t clock_count;      /* hosts with a clock of their own */
	uint64_t clock_error_ns; /* how far any two may be apart after alignment */
	uint64_t refused_ops;    /* beyond what is matched */
	pthread_mutex_t lock;    /* names, while threads load */
};

struct nspy_model *nspy_model_new(const char *job);
void nspy_model_free(struct nspy_model *model);

struct nspy_proc *nspy_model_add_proc(struct nspy_model *model, uint64_t run_id);
/* Forgets all that was loaded into a process, keeping its files and identity. */
void nspy_proc_reset(struct nspy_proc *proc);

/* A time of the process's trace on the scale of the model. */
static inline uint64_t nspy_proc_when(const struct nspy_proc *proc, uint64_t ns)
{
	ns += (uint64_t)proc->clock_offset;
	if (__builtin_expect(proc->clock_rate != 0, 0))
		ns += (uint64_t)(int64_t)(proc->clock_rate *
					  (double)(int64_t)(ns - (uint64_t)proc->clock_offset -
							    proc->clock_base_ns));
	return ns;
}

static inline const struct nspy_proc *nspy_proc_whole(const struct nspy_proc *proc)
{
	return proc->whole ? proc->whole : proc;
}

/* The value of a fact, or NULL. */
const char *nspy_proc_fact(const struct nspy_proc *proc, const char *key);
/* Adds or replaces one; texts are cleaned and copied. */
void nspy_proc_set_fact(struct nspy_proc *proc, const char *key, size_t key_bytes,
			const char *value, size_t value_bytes);
const char *nspy_proc_host(const struct nspy_proc *proc);

struct nspy_thread *nspy_proc_thread(struct nspy_proc *proc, uint32_t serial);
/* The member of a process-local communicator index, made if need be; NULL beyond the limit. */
struct nspy_member *nspy_proc_member(struct nspy_proc *proc, uint32_t index);
struct nspy_peer *nspy_member_peer(struct nspy_member *member, int32_t peer);

/* context: threads. Names are cleaned. 0 if the table is full. */
uint16_t nspy_model_fn(struct nspy_model *model, const char *name, enum nspy_model_lib lib,
		       unsigned int klass, bool fallible);
void nspy_model_name_type(struct nspy_model *model, uint8_t type, const char *name);
void nspy_model_name_result(struct nspy_model *model, enum nspy_model_lib lib, int code,
			    const char *name);
const char *nspy_model_result(const struct nspy_model *model, enum nspy_model_lib lib, int code);

static inline const struct nspy_fn *nspy_model_get_fn(const struct nspy_model *model, uint16_t id)
{
	return &model->fns[id < model->fn_count ? id : 0];
}

/* Losses that can hide an operation. */
uint64_t nspy_proc_lost_records(const struct nspy_proc *proc);

#endif
