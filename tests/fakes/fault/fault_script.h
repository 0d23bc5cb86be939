/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scripted faults: one variable, NSPY_FAKE, read alike by the stand-in libraries and by the
 * workload. Rules are separated by ';', the words of a rule by ',':
 *
 *	rank=3,op=all_reduce,nth=41,do=hang;rank=2,do=delay:500ms
 *
 * What concerns the calls an application makes (it does not call, calls late, calls with wrong
 * arguments, dies) is done by the workload, before the library is called, because an interposer
 * sits between the two and has to see it. What goes wrong inside a library (a stuck kernel, a slow
 * link, an asynchronous error, no memory) is done by the stand-ins. README.md has the grammar.
 */
#ifndef FAKE_FAULT_SCRIPT_H
#define FAKE_FAULT_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_FAULT_RULES 32
#define FAKE_FAULT_RANKS 256

/* The operations that a rule can name. */
enum fake_op {
	FAKE_OP_ALL_REDUCE,
	FAKE_OP_ALL_GATHER,
	FAKE_OP_REDUCE_SCATTER,
	FAKE_OP_REDUCE,
	FAKE_OP_BROADCAST,
	FAKE_OP_ALL_TO_ALL,
	FAKE_OP_GATHER,
	FAKE_OP_SCATTER,
	FAKE_OP_SEND,
	FAKE_OP_RECV,
	FAKE_OP_INIT,
	FAKE_OP_SPLIT,
	FAKE_OP_MALLOC,
	FAKE_OP_SYNC,
	FAKE_OP_CHECKPOINT,
	FAKE_OP_COMPUTE,
	FAKE_OP_COUNT,
	FAKE_OP_COLL = FAKE_OP_COUNT, /* any collective */
	FAKE_OP_P2P,                  /* send or recv */
	FAKE_OP_ANY,                  /* any collective, send or recv */
};

enum fake_act {
	/* done by the workload */
	FAKE_ACT_DELAY,    /* arg: ns */
	FAKE_ACT_JITTER,   /* arg: ns, a random time up to it */
	FAKE_ACT_HANG,     /* never makes the call */
	FAKE_ACT_SPIN,     /* the same, and burns CPU time meanwhile */
	FAKE_ACT_STOP,     /* SIGSTOP to itself, then makes the call */
	FAKE_ACT_HOLD,     /* arg: number of the file that lets it go on */
	FAKE_ACT_SKIP,     /* leaves the call out and goes on */
	FAKE_ACT_KILL,     /* SIGKILL to itself */
	FAKE_ACT_SEGV,     /* SIGSEGV */
	FAKE_ACT_EXIT,     /* arg: exit status */
	FAKE_ACT_COUNT,    /* arg: element count */
	FAKE_ACT_DATATYPE, /* arg: ncclDataType_t */
	FAKE_ACT_OP,       /* arg: enum fake_op, another collective */
	FAKE_ACT_REDOP,    /* arg: ncclRedOp_t */
	FAKE_ACT_ROOT,     /* arg: rank */
	FAKE_ACT_PEER,     /* arg: rank */
	FAKE_ACT_INVERT,   /* swaps the operation with the next one */
	/* done by the stand-ins */
	FAKE_ACT_HANG_INSIDE, /* the call never returns */
	FAKE_ACT_STALL,       /* the call returns, the kernel never runs */
	FAKE_ACT_LATE,        /* arg: ns by which the kernel starts late */
	FAKE_ACT_SLOW,        /* arg: ns that every message of the operation takes longer */
	FAKE_ACT_ASYNCERR,    /* arg: ncclResult_t */
	FAKE_ACT_GPUFAULT,    /* arg: the CUDA error that the device has from then on */
	FAKE_ACT_FAIL,        /* arg: the code that the call returns */
	FAKE_ACT_OOM,         /* device memory allocation fails */
	FAKE_ACT_VERSION,     /* arg: the version that the library claims to have */
};

struct fake_fault {
	enum fake_act act;
	int64_t arg;
};

/*
 * Reads NSPY_FAKE. Safe to call from several threads and more than once. An unknown word or a bad
 * value is told on stderr with the rule, and the process ends with status 2: a script that is not
 * understood must never look like a clean run.
 */
void fake_fault_load(void);

/* What an occurrence of an operation looks like to the rules. */
struct fake_occurrence {
	enum fake_op op;
	int rank;         /* rank in the job */
	long step;        /* from 1; 0 = not known (the libraries) */
	const char *comm; /* name of the communicator, NULL or "" = has none */
	bool in_library;  /* true: consider only the faults that the stand-ins do */
};

/*
 * Counts this occurrence in every rule that names it and stores the faults that are due, in the
 * order of the script, at most max of them. Returns how many.
 */
int fake_fault_due(const struct fake_occurrence *event, struct fake_fault *ret_faults, int max);

/* The version a rank is told to claim, or otherwise if no rule says anything. */
int fake_fault_version(int rank, int otherwise);

const char *fake_op_name(enum fake_op op);
const char *fake_act_name(enum fake_act act);

#endif
