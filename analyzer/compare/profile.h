/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept of a run in order to compare it with others: some hundred numbers, a few KiB as a
 * baseline file. Times are nanoseconds of the host's clock: they are never those of a GPU.
 */
#ifndef NSPY_COMPARE_PROFILE_H
#define NSPY_COMPARE_PROFILE_H

#include <stdbool.h>

#include "model.h"
#include "stats.h"

struct cJSON;

enum nspy_metric_kind {
	NSPY_METRIC_STEP,    /* from one step to the next */
	NSPY_METRIC_WAIT,    /* per step and rank: the host waited for its GPU */
	NSPY_METRIC_CALLS,   /* per step and rank: inside NCCL's calls */
	NSPY_METRIC_OTHER,   /* per step and rank: neither */
	NSPY_METRIC_SPREAD,  /* of an operation: from its first arrival to its last */
	NSPY_METRIC_START,   /* the job's communicator was created in so long; one sample a run */
	NSPY_METRIC_TIME,    /* of an operation: until the host saw it end, at most */
	NSPY_METRIC_NETWORK, /* of an operation of a network card: from posting to completion */
	NSPY_METRIC_KINDS,
};

struct nspy_metric {
	enum nspy_metric_kind kind;
	char *key; /* what aligns runs: kind, operation, sizes, shape of the communicator */
	struct nspy_summary ns;
	double per_step;  /* how often in a step */
	double bus_bytes; /* TIME: bytes that bus bandwidth counts; else 0 */
};

/* One kind of operation: how often, how much. */
struct nspy_mix {
	char *key;
	double per_step; /* of one rank; per run if no steps were found */
	double bytes;    /* of one */
};

struct nspy_run_host {
	char *name;
	double charged_ns; /* per step: others waited for its ranks, all of them added up */
};

struct nspy_run {
	char *job;
	char *directory; /* of the job's traces; NULL for a run of a baseline file */
	uint64_t start_ns;
	int64_t ranks, nodes;
	uint64_t steps;       /* compared; 0 = no pattern was found */
	uint64_t step_length; /* operations of the job's communicator in one */
	double lost_ns;       /* per step: waited for late ranks, all ranks added up */
	struct nspy_metric *metrics;
	size_t metric_count, metric_capacity;
	struct nspy_mix *mix;
	size_t mix_count, mix_capacity;
	struct nspy_fact *facts; /* software, hardware, settings; what most ranks have */
	size_t fact_count, fact_capacity;
	struct nspy_run_host *hosts;
	size_t host_count, host_capacity;
};

struct nspy_runs {
	struct nspy_run *items;
	size_t count, capacity;
};

/* The profile of a loaded model's newest attempt. False if it has no operation. */
bool nspy_profile_make(const struct nspy_model *model, struct nspy_run *ret);
struct nspy_metric *nspy_run_metric(const struct nspy_run *run, const char *key);
const char *nspy_run_fact(const struct nspy_run *run, const char *key);
const struct nspy_run_host *nspy_run_host(const struct nspy_run *run, const char *name);
struct nspy_run *nspy_runs_add(struct nspy_runs *runs);
void nspy_run_done(struct nspy_run *run);
void nspy_runs_done(struct nspy_runs *runs);

/* Adding parts; texts are copied and cleaned. */
struct nspy_metric *nspy_run_add_metric(struct nspy_run *run, enum nspy_metric_kind kind,
					const char *key);
struct nspy_mix *nspy_run_add_mix(struct nspy_run *run, const char *key);
void nspy_run_add_fact(struct nspy_run *run, const char *key, const char *value);
struct nspy_run_host *nspy_run_add_host(struct nspy_run *run, const char *name);

/* --- baseline files: JSON, "ncclspy.baseline/1" --- */

#define NSPY_BASELINE_BYTES_MAX (64u << 20)
#define NSPY_RUNS_MAX           1000u

struct cJSON *nspy_runs_json(const struct nspy_runs *runs);
/* Adds the runs of a document. 0, or -EINVAL with a reason of at most error_bytes. */
int nspy_runs_parse(const char *text, size_t bytes, struct nspy_runs *runs, char *error,
		    size_t error_bytes);
/* 0 or negative errno; replaces the file as a whole. */
int nspy_runs_save(const struct nspy_runs *runs, const char *path);
/* Does the file begin like a baseline? */
bool nspy_runs_is_baseline(const char *path);

const char *nspy_metric_kind_name(enum nspy_metric_kind kind);

#endif
