/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ncclspy-sim SEED DIRECTORY [KIND [RANKS]]: traces below DIRECTORY/sim, truth in
 * DIRECTORY/truth.json. KIND "-" draws one.
 * ncclspy-sim bulk DIRECTORY RANKS OPS: a clean job of that size.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static int usage(void)
{
	fputs("usage: ncclspy-sim SEED DIRECTORY [KIND [RANKS]]\n"
	      "       ncclspy-sim bulk DIRECTORY RANKS OPS\n"
	      "kinds:",
	      stderr);
	for (int k = 0; k < SIM_KINDS; k++)
		fprintf(stderr, " %s", sim_kinds[k]);
	fputs("\n", stderr);
	return 2;
}

/* -1: to be drawn; SIM_KINDS: there is no such kind. */
static int find_kind(const char *name)
{
	int kind = 0;

	if (strcmp(name, "-") == 0)
		return -1;
	while (kind < SIM_KINDS && strcmp(sim_kinds[kind], name) != 0)
		kind++;
	return kind;
}

int main(int argc, char **argv)
{
	static struct sim sim;
	char path[1024];
	int kind, ranks;

	if (argc < 3 || argc > 5)
		return usage();
	if (strcmp(argv[1], "bulk") == 0) {
		ranks = argc == 5 ? atoi(argv[3]) : 0;
		if (ranks < 16 || ranks % 8)
			return usage();
		sim_bulk(&sim, ranks, strtoull(argv[4], NULL, 10));
	} else {
		kind = argc > 3 ? find_kind(argv[3]) : -1;
		ranks = argc > 4 ? atoi(argv[4]) : 0;
		if (kind == SIM_KINDS || (ranks && (ranks < 8 || ranks & (ranks - 1))))
			return usage();
		sim_draw(&sim, strtoull(argv[1], NULL, 10), kind, ranks);
	}
	sim_run(&sim);
	sim_write(&sim, argv[2]);
	(void)snprintf(path, sizeof(path), "%s/truth.json", argv[2]);
	sim_truth(&sim, path);
	sim_free(&sim);
	return 0;
}
