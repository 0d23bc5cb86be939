/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The possible lines form a convex polygon in the plane of (offset, rate). For a given rate the
 * offsets are an interval [floor, ceiling], whose width is concave in the rate; so is the largest
 * value of a possible line at a given time. Searching by thirds finds both exactly enough.
 */
#include "clock_fit.h"

#include <errno.h>
#include <math.h>

#define STEPS 60

struct points {
	const struct nspy_clock_point *items;
	size_t count;
};

static double ceiling_at(const struct points *p, double rate)
{
	double least = INFINITY;

	for (size_t i = 0; i < p->count; i++)
		least = fmin(least, p->items[i].high - rate * p->items[i].t);
	return least;
}

static double floor_at(const struct points *p, double rate)
{
	double most = -INFINITY;

	for (size_t i = 0; i < p->count; i++)
		most = fmax(most, p->items[i].low - rate * p->items[i].t);
	return most;
}

static double width_at(const struct points *p, double rate)
{
	return ceiling_at(p, rate) - floor_at(p, rate);
}

/* The rate that leaves most room. */
static double widest(const struct points *p)
{
	double a = -NSPY_CLOCK_RATE_MAX, b = NSPY_CLOCK_RATE_MAX;

	for (int i = 0; i < STEPS; i++) {
		double third = (b - a) / 3;

		if (width_at(p, a + third) < width_at(p, b - third))
			a += third;
		else
			b -= third;
	}
	return (a + b) / 2;
}

/* The last possible rate between one that is possible and one that may not be. */
static double edge(const struct points *p, double possible, double beyond)
{
	if (width_at(p, beyond) >= 0)
		return beyond;
	for (int i = 0; i < STEPS; i++) {
		double middle = (possible + beyond) / 2;

		if (width_at(p, middle) >= 0)
			possible = middle;
		else
			beyond = middle;
	}
	return possible;
}

/* The highest (sign 1) or lowest (-1) value at t of a line with a rate between a and b. */
static double extreme(const struct points *p, double a, double b, double t, int sign)
{
	for (int i = 0; i < STEPS; i++) {
		double third = (b - a) / 3, x = a + third, y = b - third;
		double left = sign > 0 ? ceiling_at(p, x) + x * t : -floor_at(p, x) - x * t;
		double right = sign > 0 ? ceiling_at(p, y) + y * t : -floor_at(p, y) - y * t;

		if (left < right)
			a = x;
		else
			b = y;
	}
	a = (a + b) / 2;
	return (sign > 0 ? ceiling_at(p, a) : floor_at(p, a)) + a * t;
}

int nspy_clock_fit(const struct nspy_clock_point *points, size_t count, double from, double to,
		   struct nspy_clock_fit *ret)
{
	const struct points p = {points, count};
	double best = widest(&p), slowest, fastest, middle[2], half[2];

	if (!isfinite(ceiling_at(&p, 0)) || !isfinite(floor_at(&p, 0)))
		return -ENODATA;
	if (width_at(&p, best) < 0)
		return -EDOM;
	slowest = edge(&p, best, -NSPY_CLOCK_RATE_MAX);
	fastest = edge(&p, best, NSPY_CLOCK_RATE_MAX);
	for (int i = 0; i < 2; i++) {
		double t = i ? to : from;
		double high = extreme(&p, slowest, fastest, t, 1);
		double low = extreme(&p, slowest, fastest, t, -1);

		middle[i] = (low + high) / 2;
		half[i] = (high - low) / 2;
	}
	/* The distance of two lines is largest at an end. */
	ret->error = fmax(half[0], half[1]);
	ret->rate = to > from ? (middle[1] - middle[0]) / (to - from) : 0;
	ret->offset = middle[0] - ret->rate * from;
	return 0;
}
