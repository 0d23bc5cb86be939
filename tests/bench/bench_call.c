/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a wrapped call costs. The same loops run in a child without the library and in one with it
 * preloaded; every call is timed on its own with the CPU's counter. "Added" is the difference to
 * the median without us, so the timer's own cost is not counted as ours.
 *
 * tight:  bursts of back-to-back calls, with pauses in which the writer thread drains the pages
 * spaced: one call every 20 us
 * cold:   a buffer of 16 MiB is walked before each call: first- and second-level caches and the
 *TLBs hold nothing of ours, as after a step's worth of the application's own work dram:   the same
 *with 96 MiB: nothing is left in the last-level cache and of the page tables either
 *
 * usage: bench_call LIBNCCLSPY
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define BURST        2000u
#define BURSTS       50u
#define PAUSE_US     20000u
#define SPACED_CALLS 20000u
#define SPACED_NS    20000u
#define COLD_CALLS   400u
#define DRAM_CALLS   100u
#define COLD_BYTES   (16u << 20)
#define DRAM_BYTES   (96u << 20)
#define ROUNDS       5

struct null_id {
	char internal[128];
};
int ncclCommInitRank(void **comm, int nranks, struct null_id id, int rank);
int ncclAllReduce(const void *send, void *recv, size_t count, int datatype, int op, void *comm,
		  void *stream);

enum figure {
	TIGHT_MEDIAN,
	TIGHT_P99,
	SPACED_P99,
	SPACED_MEDIAN,
	COLD_MEDIAN,
	DRAM_MEDIAN,
	FIGURES
};

static void *comm;
static uint64_t samples[BURST * BURSTS];

static inline uint64_t timed_call(void)
{
	uint64_t before = bench_ticks();

	(void)ncclAllReduce(NULL, NULL, 1024, 7, 0, comm, NULL);
	return bench_ticks() - before;
}

static void tight(double ret[FIGURES])
{
	size_t n = 0;

	for (uint32_t b = 0; b < BURSTS; b++) {
		for (uint32_t i = 0; i < BURST; i++)
			samples[n++] = timed_call();
		usleep(PAUSE_US);
	}
	ret[TIGHT_MEDIAN] = bench_quantile(samples, n, 0.5);
	ret[TIGHT_P99] = bench_quantile(samples, n, 0.99);
}

static void spaced(double ret[FIGURES])
{
	for (uint32_t i = 0; i < SPACED_CALLS; i++) {
		uint64_t next = bench_now_ns() + SPACED_NS;

		samples[i] = timed_call();
		while (bench_now_ns() < next)
			;
	}
	ret[SPACED_MEDIAN] = bench_quantile(samples, SPACED_CALLS, 0.5);
	ret[SPACED_P99] = bench_quantile(samples, SPACED_CALLS, 0.99);
}

static double cold(size_t walk_bytes, uint32_t calls)
{
	uint8_t *walk = malloc(walk_bytes);

	memset(walk, 1, walk_bytes);
	for (uint32_t i = 0; i < calls; i++) {
		for (size_t k = 0; k < walk_bytes; k += 64)
			walk[k]++;
		samples[i] = timed_call();
	}
	free(walk);
	return bench_quantile(samples, calls, 0.5);
}

static int child(void)
{
	struct null_id id;
	double figures[FIGURES];
	double ns = bench_ns_per_tick();

	memset(&id, 7, sizeof(id));
	ncclCommInitRank(&comm, 8, id, 0);
	usleep(300000); /* the writer thread settles */
	tight(figures); /* warm-up */
	tight(figures);
	spaced(figures);
	figures[COLD_MEDIAN] = cold(COLD_BYTES, COLD_CALLS);
	figures[DRAM_MEDIAN] = cold(DRAM_BYTES, DRAM_CALLS);
	for (int i = 0; i < FIGURES; i++)
		printf("%.3f ", figures[i] * ns);
	printf("\n");
	return 0;
}

/* Runs this program as a child; preload NULL = without the library. */
static void run(const char *self, const char *preload, const char *clock, double ret[FIGURES])
{
	char command[2048];
	FILE *pipe;

	(void)snprintf(command, sizeof(command),
		       "%s%s NCCLSPY_QUIET=1 NCCLSPY_DIR=${TMPDIR:-/tmp}/ncclspy-bench.%d "
		       "NCCLSPY_CLOCK=%s %s --child",
		       preload ? "LD_PRELOAD=" : "", preload ? preload : "", (int)getpid(), clock,
		       self);
	pipe = popen(command, "r");
	for (int i = 0; pipe && i < FIGURES; i++)
		if (fscanf(pipe, "%lf", &ret[i]) != 1)
			bench_die("the measured child failed");
	if (!pipe || pclose(pipe) != 0)
		bench_die("the measured child failed");
}

static void median_of_rounds(const char *self, const char *lib, const char *clock,
			     double ret_base[FIGURES], double ret_spy[FIGURES])
{
	double base[ROUNDS][FIGURES], spy[ROUNDS][FIGURES];

	/* In turn, so that a drift of the machine's speed hits both alike. */
	for (int r = 0; r < ROUNDS; r++) {
		run(self, NULL, clock, base[r]);
		run(self, lib, clock, spy[r]);
	}
	for (int f = 0; f < FIGURES; f++) {
		double b[ROUNDS], s[ROUNDS];

		for (int r = 0; r < ROUNDS; r++) {
			b[r] = base[r][f];
			s[r] = spy[r][f];
		}
		ret_base[f] = bench_median(b, ROUNDS);
		ret_spy[f] = bench_median(s, ROUNDS);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *metric;
		enum figure figure, against;
	} shown[] = {
		{"call_ns_median", TIGHT_MEDIAN, TIGHT_MEDIAN},
		{"call_ns_p99", TIGHT_P99, TIGHT_MEDIAN},
		{"call_ns_p99_spaced", SPACED_P99, SPACED_MEDIAN},
		{"call_ns_median_cold", COLD_MEDIAN, COLD_MEDIAN},
		{"call_ns_median_dram", DRAM_MEDIAN, DRAM_MEDIAN},
	};
	double base[FIGURES], spy[FIGURES];
	char clean[256];

	if (argc == 2 && strcmp(argv[1], "--child") == 0)
		return child();
	if (argc != 2)
		bench_die("usage: bench_call LIBNCCLSPY");
	median_of_rounds(argv[0], argv[1], "auto", base, spy);
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		bench_print("call", shown[i].metric, spy[shown[i].figure] - base[shown[i].against],
			    "ns", "same loop without ncclspy");
	median_of_rounds(argv[0], argv[1], "monotonic", base, spy);
	bench_print("call", "call_ns_median_clock_gettime", spy[TIGHT_MEDIAN] - base[TIGHT_MEDIAN],
		    "ns", "same loop without ncclspy");
	(void)snprintf(clean, sizeof(clean), "rm -rf ${TMPDIR:-/tmp}/ncclspy-bench.%d",
		       (int)getpid());
	return system(clean) ? 1 : 0;
}
