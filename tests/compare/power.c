/* SPDX-License-Identifier: Apache-2.0 */
/*
 * power COUNT: how often comparing cries wolf when nothing changed, and how often it sees what did.
 * One JSON line a setting; exit status 1 if a limit is not kept. With few comparisons the limits
 * are wider: they hold for what a fair coin of the required odds does in all but one of 10^6
 * trials.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runs.h"

struct setting {
	const char *name;
	struct noise noise;
	double factor;
	size_t runs; /* a side */
	int slow_host;
	double least, most; /* share of comparisons that must, may find a regression */
};

static const struct setting settings[] = {
	{"equal, sd 1 %", {0.03, 0.3, 0.01, 300, 4}, 1, 5, -1, 0, 0.004},
	{"equal, sd 1 %, 2 runs", {0.03, 0.3, 0.01, 300, 4}, 1, 2, -1, 0, 0.004},
	{"equal, sd 1 %, 1 run", {0.03, 0.3, 0.01, 300, 4}, 1, 1, -1, 0, 0.004},
	{"equal, sd 0.3 %, rho 0.8", {0.03, 0.8, 0.003, 300, 4}, 1, 5, -1, 0, 0.004},
	{"3 % at CV 3 %, rho 0.3, sd 0.3 %", {0.03, 0.3, 0.003, 300, 4}, 1.03, 5, -1, 0.95, 1},
	{"3 % at CV 3 %, rho 0.3, sd 0.3 %, 3 runs", {0.03, 0.3, 0.003, 300, 4}, 1.03, 3, -1, 0, 1},
	{"5 % at sd 1 %", {0.03, 0.3, 0.01, 300, 4}, 1.05, 5, -1, 0.95, 1},
	{"5 % by one of 64 nodes", {0.03, 0.3, 0.003, 300, 64}, 1.05, 5, 41, 0.95, 1},
};

/* Whether it found a P1, and the right node if one is slow. */
static bool found(const struct setting *setting, uint64_t *random)
{
	struct nspy_runs base = {0}, now = {0};
	struct nspy_comparison c;
	bool alarm;
	char name[32];

	for (size_t i = 0; i < setting->runs; i++) {
		runs_add(&base, &setting->noise, 1, -1, 4, random);
		runs_add(&now, &setting->noise, setting->factor, setting->slow_host, 4, random);
	}
	nspy_compare(&base, &now, &NSPY_COMPARE_DEFAULTS, &c);
	alarm = c.findings.count && c.findings.items[0]->priority <= 1;
	if (alarm && setting->slow_host >= 0) {
		(void)snprintf(name, sizeof(name), "node-%d", setting->slow_host);
		alarm = c.node && strcmp(c.node, name) == 0;
	}
	nspy_comparison_done(&c);
	nspy_runs_done(&base);
	nspy_runs_done(&now);
	return alarm;
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? strtol(argv[1], NULL, 10) : 100;
	int rc = 0;

	for (size_t s = 0; s < nspy_array_size(settings); s++) {
		const struct setting *setting = &settings[s];
		uint64_t random = 0x9E3779B97F4A7C15u + s;
		double n = (double)count, low, high;
		long hits = 0;

		for (long i = 0; i < count; i++)
			hits += found(setting, &random);
		/* The exact limits from 1,000 on; before, what chance allows. */
		low = count >= 1000 ? setting->least * n
				    : setting->least * n -
					      5 * sqrt(setting->least * (1 - setting->least) * n);
		high = count >= 1000
			       ? setting->most * n
			       : setting->most * n +
					 5 * sqrt(setting->most * (1 - setting->most) * n) + 1;
		printf("{\"name\": \"%s\", \"comparisons\": %ld, \"found\": %ld}\n", setting->name,
		       count, hits);
		if ((double)hits < low || (double)hits > high) {
			fprintf(stderr, "%s: %ld of %ld, allowed are %.1f to %.1f\n", setting->name,
				hits, count, low, high);
			rc = 1;
		}
	}
	return rc;
}
