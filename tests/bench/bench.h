/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the benchmark programs: counters, quantiles, and the one way to print a result. */
#ifndef NSPY_BENCH_H
#define NSPY_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

static inline uint64_t bench_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t bench_ticks(void)
{
#if defined(__x86_64__)
	return __rdtsc();
#else
	return bench_now_ns();
#endif
}

static inline double bench_ns_per_tick(void)
{
	uint64_t ticks = bench_ticks(), ns = bench_now_ns();

	while (bench_now_ns() < ns + 50000000)
		;
	return (double)(bench_now_ns() - ns) / (double)(bench_ticks() - ticks);
}

static inline int bench_compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static inline double bench_quantile(uint64_t *values, size_t count, double q)
{
	qsort(values, count, sizeof(*values), bench_compare_u64);
	return (double)values[(size_t)((double)(count - 1) * q)];
}

static inline int bench_compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static inline double bench_median(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), bench_compare_double);
	return values[count / 2];
}

/* One result: one JSON object on a line. */
static inline void bench_print(const char *bench, const char *metric, double value,
			       const char *unit, const char *against)
{
	printf("{\"bench\":\"%s\",\"metric\":\"%s\",\"value\":%.2f,\"unit\":\"%s\","
	       "\"against\":\"%s\"}\n",
	       bench, metric, value, unit, against);
	fflush(stdout);
}

static inline _Noreturn void bench_die(const char *why)
{
	fprintf(stderr, "bench: %s\n", why);
	exit(2);
}

#endif
