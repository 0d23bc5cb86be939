/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two groups of runs against each other: is the new one slower, by how much, is it more than runs
 * differ anyway, and what goes with it. The unit is the run: samples within a run say little about
 * how much runs differ. See docs/COMPARE.md for the method.
 */
#ifndef NSPY_COMPARE_H
#define NSPY_COMPARE_H

#include <stdio.h>

#include "finding.h"
#include "profile.h"

struct nspy_compare_options {
	double min_effect; /* smaller changes are no regression; a share, 0.02 = 2 % */
	double alpha;      /* of each of the two families of tests: step time, all others */
};
#define NSPY_COMPARE_DEFAULTS ((struct nspy_compare_options){.min_effect = 0.02, .alpha = 0.001})

enum nspy_change {
	NSPY_CHANGE_NONE,    /* none that these runs show */
	NSPY_CHANGE_WORSE,   /* proven, and large enough */
	NSPY_CHANGE_BETTER,  /* the same in the other direction */
	NSPY_CHANGE_UNKNOWN, /* too few runs and samples to say anything */
};

/* One quantity, in both groups. Shares are of the base's step time, or of its own base (START,
 * TIME, NETWORK, and the slowest steps). */
struct nspy_row {
	enum nspy_metric_kind kind;
	bool tail;        /* the slowest hundredth of the steps */
	double bus_bytes; /* as in the metric */
	const char *key;
	double base_ns, now_ns; /* mean over the runs */
	double change;          /* share, positive = slower */
	double low, high;       /* 95 % confidence interval of change; NaN = unknown */
	double detectable;      /* the smallest change that these runs could have proven; NaN */
	double p;               /* that an unchanged job looks at least as much worse; NaN */
	double p_better;
	enum nspy_change verdict;
};

struct nspy_comparison {
	const struct nspy_runs *base, *now;
	struct nspy_compare_options options;
	bool comparable;
	bool run_variation; /* false: one run a side, so nothing is known about how runs differ */
	double step_ns;     /* of the base, 0 = no steps */
	struct nspy_row *rows;
	size_t row_count, row_capacity;
	struct nspy_texts reasons;     /* why they, or parts, are not compared */
	struct nspy_texts differences; /* software, settings, nodes, operations */
	const char *node; /* that alone holds the others up more than before; or NULL */
	double node_base_ns, node_now_ns;
	double lost_growth_ns; /* of all that is waited for late ranks, per step */
	struct nspy_findings findings;
};

void nspy_compare(const struct nspy_runs *base, const struct nspy_runs *now,
		  const struct nspy_compare_options *options, struct nspy_comparison *ret);
void nspy_comparison_done(struct nspy_comparison *comparison);
const struct nspy_row *nspy_comparison_row(const struct nspy_comparison *comparison,
					   const char *key);

/* Parts of nspy_compare: what differs beside the times, and the findings. */
void nspy_compare_differences(struct nspy_comparison *comparison);
void nspy_compare_judge(struct nspy_comparison *comparison);

/* Whether its change is a share of itself whatever a step takes. */
bool nspy_row_is_own_scale(const struct nspy_row *row);
/* Likely worse (the whole interval is), but not proven as a gate wants it. */
bool nspy_row_is_likely(const struct nspy_comparison *comparison, const struct nspy_row *row);
/* What a row is about: "step time", "inside NCCL's calls", "arrivals at ncclAllReduce ...". */
void nspy_row_add_name(struct nspy_str *s, const struct nspy_row *row);
void nspy_row_add_change(struct nspy_str *s, const struct nspy_row *row);

void nspy_compare_print(const struct nspy_comparison *comparison, FILE *out, bool colour);
struct cJSON *nspy_compare_json(const struct nspy_comparison *comparison);

#endif
