/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The statistics that comparing runs needs: robust means with an honest error, and Student's
 * distribution. Pure functions, no state.
 */
#ifndef NSPY_COMPARE_STATS_H
#define NSPY_COMPARE_STATS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Samples of one quantity in the order of time. Bounded: when full, every other one is given up and
 * from then on only every 2nd, 4th, ... is taken. {0} is an empty one.
 */
#define NSPY_SERIES_MAX 65536u
struct nspy_series {
	double *values;
	size_t count, capacity;
	uint64_t offered; /* samples seen */
	uint64_t stride;  /* 0 and 1: all are taken */
};

void nspy_series_add(struct nspy_series *series, double value);
void nspy_series_done(struct nspy_series *series);

struct nspy_summary {
	double center; /* mean of batches of neighbours, without the lowest and highest tenth */
	double error;  /* standard error of center; NaN if there are too few samples to tell */
	double p50, p95, p99;
	uint64_t count;
};

/*
 * Neighbouring samples resemble each other, and often two kinds take turns (within a step, and
 * from step to step). So all is made of means of batches of neighbours: a pause (a checkpoint)
 * falls into one batch, which is cut off; what batches still have in common widens the error.
 */
void nspy_series_summary(const struct nspy_series *series, struct nspy_summary *ret);

/* P(T > t) for Student's t with df degrees of freedom (> 0). */
double nspy_t_tail(double t, double df);
/* The t whose tail is p, 0 < p < 1. */
double nspy_t_quantile(double p, double df);

#endif
