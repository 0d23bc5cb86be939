/* SPDX-License-Identifier: Apache-2.0 */
/* One attempt of one job, analysed, and its two forms of output. */
#ifndef NSPY_REPORT_H
#define NSPY_REPORT_H

#include <stdio.h>

#include "case.h"
#include "inputs.h"

struct cJSON;

struct nspy_report {
	const struct nspy_model *model;
	const struct nspy_attempt *attempt; /* NULL: the job has no process */
	struct nspy_case c;
	struct nspy_findings findings;
	/* Read at a hang; NULL or empty if there are none. */
	struct nspy_stack_tree *stacks;
	size_t stack_count; /* processes in it */
	struct nspy_texts stack_notes;
};

struct nspy_report_options {
	struct nspy_case_options thresholds;
	uint32_t attempt; /* 0 = the newest */
	bool colour;
};

/* The model must be loaded. */
void nspy_report_make(struct nspy_report *report, const struct nspy_model *model,
		      const struct nspy_report_options *options);
void nspy_report_done(struct nspy_report *report);

/* The finding that the verdict is about: the first one of P0 or P1 not ignored; else NULL. */
const struct nspy_finding *nspy_report_top(const struct nspy_report *report);
/* Most urgent priority of a finding not ignored; 9 if there is none. */
int nspy_report_worst(const struct nspy_report *report);

void nspy_report_print(const struct nspy_report *report, FILE *out, bool colour);
/* Parts of it: top may be NULL. */
void nspy_report_print_verdict(const struct nspy_finding *top, FILE *out, bool colour);
void nspy_report_print_finding(const struct nspy_finding *finding, FILE *out, bool colour);
struct cJSON *nspy_report_finding_json(const struct nspy_finding *finding);
/* An object as analyzer/schema/report.schema.json describes it below "jobs". */
struct cJSON *nspy_report_json(const struct nspy_report *report);

/* Facts about the attempt that both forms give. */
struct nspy_totals {
	uint64_t ops, records, calls, lost, captured, unnumbered, cuda_errors;
	double bytes;
	uint64_t packed_bytes;
	size_t complete, cut, running, salvaged, hosts;
};
void nspy_report_totals(const struct nspy_report *report, struct nspy_totals *ret);
/* What could not be seen: one text per item, owned by the caller. */
void nspy_report_not_seen(const struct nspy_report *report, struct nspy_texts *ret);
/* Remarks that are no findings: gaps in coverage, losses, notes of the recorder. */
void nspy_report_remarks(const struct nspy_report *report, struct nspy_texts *ret_warn,
			 struct nspy_texts *ret_info);

/* "analyzer: PATH: ..." lines for all that could not be read, one per file. */
void nspy_report_problems(const struct nspy_inputs *inputs, FILE *out);
struct cJSON *nspy_report_problems_json(const struct nspy_inputs *inputs);

/* What ncclspy was told and has cost; what it did not keep, at length and in short. */
void nspy_report_account(const struct nspy_report *report, struct nspy_texts *info);
void nspy_report_holes(const struct nspy_report *report, struct nspy_texts *warn);
void nspy_report_not_kept(const struct nspy_report *report, struct nspy_texts *ret);
struct cJSON *nspy_report_account_json(const struct nspy_report *report);

void nspy_texts_free(struct nspy_texts *texts);

/* Stacks beside the traces: fills report->stacks, adds where culprits stand to their findings. */
void nspy_report_read_stacks(struct nspy_report *report);
void nspy_report_stacks_done(struct nspy_report *report);
void nspy_report_print_stacks(const struct nspy_report *report, FILE *out);
struct cJSON *nspy_report_stacks_json(const struct nspy_report *report);

/* Lines about the network of each rank; none if nothing of it was recorded. */
void nspy_report_network(const struct nspy_report *report, struct nspy_texts *ret);
struct cJSON *nspy_report_network_json(const struct nspy_report *report);

/* Lines about bandwidths; none if no operation was seen to end. */
void nspy_report_bandwidth(const struct nspy_report *report, struct nspy_texts *ret);
struct cJSON *nspy_report_bandwidth_json(const struct nspy_report *report);

/* Lines about operations and waits as NCCL's profiler interface told them; none without it. */
void nspy_report_profiler(const struct nspy_report *report, struct nspy_texts *ret);
struct cJSON *nspy_report_profiler_json(const struct nspy_report *report);

/* Lines about what collectives spent on the GPU; none without kernel events of that interface. */
void nspy_report_gpu(const struct nspy_report *report, struct nspy_texts *ret);
struct cJSON *nspy_report_gpu_json(const struct nspy_report *report);

/* Lines about lost time and steps; none if too little was lost to matter. */
void nspy_report_costs(const struct nspy_report *report, struct nspy_texts *ret);
struct cJSON *nspy_report_costs_json(const struct nspy_report *report);

#endif
