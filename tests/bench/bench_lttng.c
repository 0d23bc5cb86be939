/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For comparison: one lttng-ust tracepoint with five integer fields, enabled in a recording session
 * of its own session daemon, timed like the wrapped calls of bench_call. A wrapped call is two time
 * stamps and one record; LTTng would need two such events for it.
 *
 * usage: bench_lttng BENCH_CALL LIBNCCLSPY: runs the wrapped-call benchmark in the same run, so
 * that the two can be compared on a noisy machine.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "bench_lttng_tp.h"

#define BURST    2000u
#define BURSTS   50u
#define PAUSE_US 20000u

static uint64_t samples[BURST * BURSTS];

static bool run(const char *command)
{
	char quiet[1024];

	(void)snprintf(quiet, sizeof(quiet), "( %s ) >/dev/null 2>&1", command);
	return system(quiet) == 0;
}

static double empty_median(void)
{
	for (size_t i = 0; i < BURST * BURSTS; i++) {
		uint64_t before = bench_ticks();

		__asm__ volatile("" ::: "memory");
		samples[i] = bench_ticks() - before;
	}
	return bench_quantile(samples, BURST * BURSTS, 0.5);
}

static double event_median(void)
{
	size_t n = 0;

	for (uint32_t b = 0; b < BURSTS; b++) {
		for (uint32_t i = 0; i < BURST; i++) {
			uint64_t before = bench_ticks();

			lttng_ust_tracepoint(nspy_bench, call, 24, 1024, 7, 1, n);
			samples[n++] = bench_ticks() - before;
		}
		usleep(PAUSE_US);
	}
	return bench_quantile(samples, n, 0.5);
}

int main(int argc, char **argv)
{
	char command[512], dir[] = "/tmp/nspy-bench-lttng.XXXXXX";
	double ns = bench_ns_per_tick();
	bool own_daemon;

	if (argc != 3)
		bench_die("usage: bench_lttng BENCH_CALL LIBNCCLSPY");
	if (!mkdtemp(dir))
		bench_die("no temporary directory");
	own_daemon = !run("pgrep -x lttng-sessiond") && run("lttng-sessiond --daemonize");
	(void)snprintf(command, sizeof(command),
		       "lttng create nspy-bench --output=%s && "
		       "lttng enable-event --userspace nspy_bench:call --session=nspy-bench && "
		       "lttng start nspy-bench",
		       dir);
	if (!run(command))
		bench_die("no lttng session could be started");
	usleep(500000);
	if (!lttng_ust_tracepoint_enabled(nspy_bench, call))
		bench_die("the tracepoint was not enabled");
	(void)event_median(); /* warm-up */
	bench_print("lttng", "lttng_event_ns_median", (event_median() - empty_median()) * ns, "ns",
		    "empty loop");
	(void)run("lttng destroy nspy-bench");
	if (own_daemon)
		(void)run("pkill -x lttng-sessiond");
	(void)snprintf(command, sizeof(command), "rm -rf %s", dir);
	(void)run(command);
	execl(argv[1], argv[1], argv[2], (char *)NULL);
	bench_die("cannot run the other benchmark");
}
