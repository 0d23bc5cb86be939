/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far a clock is off, as a line over time: the line in the middle of all those that the
 * observations leave possible, and how far from it the truth can be at most.
 */
#ifndef NSPY_CLOCK_FIT_H
#define NSPY_CLOCK_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Two undisciplined quartz clocks: 100 ppm each, and some more for heat. */
#define NSPY_CLOCK_RATE_MAX 300e-6

/* At time t what has to be added to the clock lies between low and high; +-INFINITY = no limit. */
struct nspy_clock_point {
	double t; /* ns from any origin */
	double low, high;
};

struct nspy_clock_fit {
	double offset; /* at t = 0 */
	double rate;   /* per ns */
	double error;  /* the truth is at most so far away, between from and to */
};

/*
 * Fits count points, for statements about the time between from and to. -ENODATA: the points leave
 * one side open; -EDOM: no straight line passes between all of them (a clock was set).
 */
int nspy_clock_fit(const struct nspy_clock_point *points, size_t count, double from, double to,
		   struct nspy_clock_fit *ret);

#endif
