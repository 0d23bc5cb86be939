/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ncclspy-sim SEED DIRECTORY [KIND [RANKS]] [--gpu] [--strength SHARE]: traces below
 * DIRECTORY/sim, truth in DIRECTORY/truth.json. KIND "-" draws one. --gpu: NCCL's profiler
 * interface is in use, with times of the GPUs. --strength: of a slow link, rank, ...: 0.05 takes
 * 5 % longer.
 * ncclspy-sim bulk DIRECTORY RANKS OPS: a clean job of that size.
 * ncclspy-sim again SEED DIRECTORY KIND RANKS RUN PERCENT: the same job as SEED's run once more,
 * RUN being its number; steps are PERCENT longer, and runs differ by 0.3 % (sd).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static int usage(void)
{
	fputs("usage: ncclspy-sim SEED DIRECTORY [KIND [RANKS]] [--gpu] [--strength SHARE]\n"
	      "       ncclspy-sim bulk DIRECTORY RANKS OPS\n"
	      "       ncclspy-sim again SEED DIRECTORY KIND RANKS RUN PERCENT\n"
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

/* Other noise for the same work on the same machines. */
static void run_again(struct sim *sim, uint64_t run, double percent)
{
	uint64_t random = run * 0x9E3779B97F4A7C15ULL + 1;
	double sum = 0, factor;

	for (int i = 0; i < 12; i++) /* nearly normal, sd 1 */
		sum += (double)sim_below(&random, 1000001) / 1e6;
	factor = (1 + percent / 100) * (1 + 0.003 * (sum - 6));
	for (int s = 0; s < sim->pp; s++) {
		for (size_t i = 0; i < sim->programs[s].count; i++) {
			struct sim_op *op = &sim->programs[s].ops[i];

			if (op->what == SIM_LOAD || op->what == SIM_COMPUTE)
				op->ns = (uint64_t)((double)op->ns * factor);
		}
	}
	for (int r = 0; r < sim->ranks; r++)
		sim->all[r].random ^= sim_random(&random);
	sim->steps *= 3;
}

static int again(struct sim *sim, char **argv)
{
	int kind = find_kind(argv[4]), ranks = atoi(argv[5]);
	char path[1024];

	if (kind < 0 || kind == SIM_KINDS || ranks < 8 || ranks & (ranks - 1))
		return usage();
	sim_draw(sim, strtoull(argv[2], NULL, 10), kind, ranks);
	run_again(sim, strtoull(argv[6], NULL, 10), strtod(argv[7], NULL));
	sim_run(sim);
	sim_write(sim, argv[3]);
	(void)snprintf(path, sizeof(path), "%s/truth.json", argv[3]);
	sim_truth(sim, path);
	sim_free(sim);
	return 0;
}

/* Takes the options from the end; NaN: no strength was asked for. */
static int take_options(int argc, char **argv, bool *ret_gpu, double *ret_strength)
{
	for (;;) {
		if (argc > 3 && strcmp(argv[argc - 1], "--gpu") == 0) {
			*ret_gpu = true;
			argc--;
		} else if (argc > 4 && strcmp(argv[argc - 2], "--strength") == 0) {
			*ret_strength = strtod(argv[argc - 1], NULL);
			argc -= 2;
		} else {
			return argc;
		}
	}
}

int main(int argc, char **argv)
{
	static struct sim sim;
	double strength = NAN;
	bool gpu = false;
	char path[1024];
	int kind, ranks;

	if (argc == 8 && strcmp(argv[1], "again") == 0)
		return again(&sim, argv);
	argc = take_options(argc, argv, &gpu, &strength);
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
	sim.gpu = gpu;
	if (!isnan(strength))
		sim.fault.strength = strength;
	sim_run(&sim);
	sim_write(&sim, argv[2]);
	(void)snprintf(path, sizeof(path), "%s/truth.json", argv[2]);
	sim_truth(&sim, path);
	sim_free(&sim);
	return 0;
}
