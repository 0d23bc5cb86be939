/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a report is: 2,000,000 operations of 8 processes, generated (a training step of 24
 * operations on two communicators with a synchronisation, jittered by 10 us), analysed by the
 * program as a user runs it. Reads through the page cache; the bar is 0.6 s on 2 cores.
 *
 * usage: bench_report PATH-OF-NCCLSPY-ANALYZE
 */
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "tracegen.h"

#define STEPS      10416
#define OPERATIONS (8.0 * 24.0 * STEPS)
#define RUNS       5

static const char scenario[] = "job bench\n"
			       "ranks 8 per-node 8\n"
			       "comm world all\n"
			       "comm half 0-7\n"
			       "jitter 10us\n"
			       "all init world\n"
			       "all init half\n"
			       "repeat 10416\n"
			       "repeat 11\n"
			       "all coll ncclAllReduce world 1048576 f16 sum\n"
			       "all coll ncclAllGather half 524288 f16 -\n"
			       "done\n"
			       "all coll ncclReduceScatter half 524288 f16 sum\n"
			       "all coll ncclAllReduce world 1 f32 max\n"
			       "all sync 1ms\n"
			       "done\n"
			       "all end\n";

/* Runs the report once; returns its wall time and, through the pointer, its peak memory. */
static double run_once(const char *analyze, const char *directory, long *ret_kib)
{
	uint64_t begin = bench_now_ns();
	struct rusage usage;
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int sink = open("/dev/null", O_WRONLY);

		dup2(sink, STDOUT_FILENO);
		execl(analyze, analyze, "report", directory, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) < 0 || status != 0)
		bench_die("the report failed");
	*ret_kib = usage.ru_maxrss;
	return (double)(bench_now_ns() - begin);
}

int main(int argc, char **argv)
{
	char directory[] = "/tmp/ncclspy-bench-XXXXXX";
	struct nspy_tg *tg = nspy_tg_new();
	double times[RUNS];
	char command[80];
	long kib = 0;

	if (argc != 2 || !mkdtemp(directory))
		bench_die("usage: bench_report PATH-OF-NCCLSPY-ANALYZE");
	nspy_tg_run(tg, scenario, "scenario");
	nspy_tg_write(tg, directory);
	nspy_tg_free(tg);
	for (int i = 0; i < RUNS; i++)
		times[i] = run_once(argv[1], directory, &kib);
	(void)snprintf(command, sizeof(command), "rm -rf %s", directory);
	if (system(command) != 0)
		bench_die("cannot clean up");
	bench_print("report", "report_ops_per_s", OPERATIONS * 1e9 / bench_median(times, RUNS),
		    "1/s", "at least 3333333 (2,000,000 in 0.6 s)");
	bench_print("report", "report_rss_mib", (double)kib / 1024, "MiB", "8 processes");
	return 0;
}
