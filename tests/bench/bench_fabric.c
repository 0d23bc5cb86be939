/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an empty poll of a completion queue and a transfer of libfabric cost with the library
 * preloaded, beside the same without it, in turn. The provider shm has the cheapest queue of those
 * that need no hardware; it reads through its own table once more, so the wrapper is passed twice.
 *
 * usage: bench_fabric FABRIC_OPS LIBNCCLSPY
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS 7

/* ns as fabric_ops prints them; preload NULL = without the library. */
static double run(const char *ops, const char *preload, const char *what)
{
	char command[2048], line[256];
	double ns = 0;
	FILE *pipe;

	(void)snprintf(command, sizeof(command),
		       "%s%s NCCLSPY_QUIET=1 NCCLSPY_FABRIC=all "
		       "NCCLSPY_DIR=${TMPDIR:-/tmp}/ncclspy-bench.%d %s shm %s",
		       preload ? "LD_PRELOAD=" : "", preload ? preload : "", (int)getpid(), ops,
		       what);
	pipe = popen(command, "r");
	while (pipe && fgets(line, sizeof(line), pipe))
		if (sscanf(line, "ns %lf", &ns) == 1)
			continue;
	if (!pipe || pclose(pipe) != 0 || ns <= 0)
		bench_die("the measured child failed");
	return ns;
}

static void measure(const char *ops, const char *lib, const char *what, const char *metric)
{
	double base[ROUNDS], spy[ROUNDS], without, with;
	char name[64];

	for (int r = 0; r < ROUNDS; r++) {
		base[r] = run(ops, NULL, what);
		spy[r] = run(ops, lib, what);
	}
	without = bench_median(base, ROUNDS);
	with = bench_median(spy, ROUNDS);
	(void)snprintf(name, sizeof(name), "%s_added_ns", metric);
	bench_print("fabric", name, with - without, "ns", "same loop without ncclspy");
	(void)snprintf(name, sizeof(name), "%s_ratio", metric);
	bench_print("fabric", name, with / without, "", "same loop without ncclspy");
}

int main(int argc, char **argv)
{
	char clean[256];

	if (argc != 3)
		bench_die("usage: bench_fabric FABRIC_OPS LIBNCCLSPY");
	measure(argv[1], argv[2], "polls", "fabric_empty_poll");
	measure(argv[1], argv[2], "transfers", "fabric_transfer");
	(void)snprintf(clean, sizeof(clean), "rm -rf ${TMPDIR:-/tmp}/ncclspy-bench.%d",
		       (int)getpid());
	return system(clean) ? 1 : 0;
}
