/* SPDX-License-Identifier: Apache-2.0 */
/* Runs with known truth: step times that follow an AR(1) process around a mean of the run's own. */
#ifndef NSPY_TESTS_COMPARE_RUNS_H
#define NSPY_TESTS_COMPARE_RUNS_H

#include "compare/compare.h"

struct noise {
	double cv;      /* of a sample within a run */
	double rho;     /* of a sample with the one before */
	double between; /* standard deviation from run to run, a share */
	unsigned int steps, hosts;
};

/* Uniform in 0..1, and standard normal. */
double runs_uniform(uint64_t *state);
double runs_normal(uint64_t *state);

/*
 * Adds a run of 8 ranks a host whose steps take factor times 100 ms, with as many kinds of
 * operation as kinds. A slow host (>= 0) is charged what the steps take more.
 */
void runs_add(struct nspy_runs *runs, const struct noise *noise, double factor, int slow_host,
	      unsigned int kinds, uint64_t *state);

#endif
