/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The case of one attempt: its model and what follows from it whatever one is looking for, i.e.
 * who waits for whom, who died, and how much was seen. Detectors reason on it.
 */
#ifndef NSPY_CASE_H
#define NSPY_CASE_H

#include "bandwidth.h"
#include "costs.h"
#include "deaths.h"
#include "finding.h"
#include "model.h"
#include "order.h"
#include "p2p.h"
#include "times.h"
#include "waits.h"

#define NSPY_HANG_ENDED_NS   (5 * NSPY_NS_PER_S)   /* --hang-after, job has ended */
#define NSPY_HANG_RUNNING_NS (180 * NSPY_NS_PER_S) /* NCCLSPY_HANG_S, job still runs */

struct nspy_case_options {
	uint64_t hang_ended_ns;
	uint64_t hang_running_ns;
};

/* Ranks of communicators of the attempt that left no trace. */
struct nspy_coverage {
	const struct nspy_comm *comm; /* the largest one with a gap, or NULL */
	int64_t *ranks;               /* its ranks without a trace */
	size_t count;
	uint64_t lost;  /* records lost, all processes */
	size_t lossy;   /* processes that lost some */
	size_t damaged; /* files with damage */
	size_t holes;   /* processes that did not keep all, as they were asked */
	uint64_t captured;
};

struct nspy_case {
	const struct nspy_model *model;
	const struct nspy_attempt *attempt;
	struct nspy_case_options options;
	struct nspy_waits waits;
	struct nspy_deaths deaths;
	struct nspy_p2p p2p;
	struct nspy_order order;
	struct nspy_coverage coverage;
	struct nspy_costs costs;
	struct nspy_steps steps; /* of the attempt's world */
	struct nspy_bandwidth bandwidth;
	struct nspy_times times;
};

void nspy_case_init(struct nspy_case *c, const struct nspy_model *model,
		    const struct nspy_attempt *attempt, const struct nspy_case_options *options);
void nspy_case_done(struct nspy_case *c);

/* Weakens certainty where ranks of comm left no trace or records were lost. */
enum nspy_confidence nspy_case_confidence(const struct nspy_case *c, const struct nspy_comm *comm);

#endif
