/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes traces from readable scenarios, for tests of the analyzer: no NCCL, no processes, the same
 * bytes every time. A scenario is a sequence of lines "RANKS VERB ARGUMENTS"; every rank has its
 * own clock, which its verbs move on. README.md in this folder lists the verbs.
 *
 * Errors end the program with a message that names the line: these are test inputs.
 */
#ifndef NSPY_TRACEGEN_H
#define NSPY_TRACEGEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_record.h"
#include "trace_signal.h"

#define NSPY_TG_START_REAL_NS 1764583200000000000ULL /* 2025-12-01 10:00:00 UTC */
#define NSPY_TG_START_MONO_NS 500000000000ULL

enum nspy_tg_fate {
	NSPY_TG_ENDS,     /* closing chunk */
	NSPY_TG_DIES,     /* cut; the last checkpoint holds the open calls */
	NSPY_TG_DIES_LIVE /* cut; live pages hold what the segments lack */
};

struct nspy_tg_comm {
	char name[32];
	int *ranks;
	int nranks;
	char parent[32];
	uint32_t children;
};

struct nspy_tg_peer {
	uint32_t comm;
	int32_t peer;
	uint64_t sends, recvs;
};

struct nspy_tg_fact {
	char *key, *value;
};

/* One process. */
struct nspy_tg_rank {
	int rank;
	int generation; /* n-th start of the job */
	char node[32];
	uint64_t start_ns, now_ns; /* CLOCK_MONOTONIC of the scenario's common clock */
	union nspy_any_rec *records;
	size_t count, capacity;
	size_t drained;              /* records that segments hold, for NSPY_TG_DIES_LIVE */
	struct nspy_comm_rec *comms; /* by local index */
	uint64_t *seqs;
	size_t comm_count, comm_capacity;
	struct nspy_tg_peer *peers;
	size_t peer_count, peer_capacity;
	struct nspy_tg_fact *facts;
	size_t fact_count, fact_capacity;
	struct nspy_rec open;
	bool has_open;
	uint32_t callno, group;
	bool in_group;
	uint64_t lost;
	uint8_t *net; /* NET payload, or NULL */
	size_t net_bytes;
	uint8_t *prof; /* PROF payload, or NULL */
	size_t prof_bytes;
	enum nspy_tg_fate fate;
	bool silent; /* writes no trace */
	char *exit_line;
	uint64_t asked_ns;             /* common clock, 0 = its launcher was not asked to end it */
	uint64_t noted_term;           /* when its own handler got SIGTERM */
	struct nspy_signal_note crash; /* of its own handler */
	uint64_t exit_ns;              /* when it ended, common clock */
	int64_t skew_ns;               /* added to the system time, besides that of its node */
};

struct nspy_tg {
	char job[64];
	struct nspy_tg_rank **ranks; /* all processes, all generations */
	size_t rank_count, rank_capacity;
	int size; /* ranks of a generation */
	int generation;
	struct nspy_tg_comm *comms;
	size_t comm_count, comm_capacity;
	uint64_t jitter_ns;
	uint64_t random;
	bool fixed_ids;  /* unique ids repeat after a restart */
	int share;       /* so many ranks in a row are one process, 0 = each its own */
	bool one_thread; /* and one thread drives them all */
	struct {
		char node[32];
		int64_t skew_ns; /* added to its system time */
	} skews[16];
	size_t skew_count;
};

struct nspy_tg *nspy_tg_new(void);
void nspy_tg_free(struct nspy_tg *tg);
/* Runs the lines of a scenario, up to a line "---" or the end. name is for messages. */
void nspy_tg_run(struct nspy_tg *tg, const char *text, const char *name);
/* Writes all traces below directory/job/node. */
void nspy_tg_write(struct nspy_tg *tg, const char *directory);

/* tracegen_files.c */
void nspy_tg_write_process(const struct nspy_tg *tg, struct nspy_tg_rank **ranks, size_t count,
			   const char *directory);
/* tracegen_live.c: the live pages of a rank, to be freed. */
void *nspy_tg_live_image(const struct nspy_tg *tg, const struct nspy_tg_rank *rank,
			 const uint8_t *ident, size_t ident_bytes, const char *schema,
			 uint64_t run_id, size_t *ret_bytes);
int64_t nspy_tg_offset(const struct nspy_tg *tg, const struct nspy_tg_rank *rank);
uint64_t nspy_tg_hash(const char *text, uint64_t seed);

/* Functions by name: id of the schema below, or -1. */
int nspy_tg_fn(const char *name);
extern const char nspy_tg_schema[];

#endif
