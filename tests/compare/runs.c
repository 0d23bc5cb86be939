/* SPDX-License-Identifier: Apache-2.0 */
#include "runs.h"

#include <math.h>
#include <stdio.h>

#define STEP_NS   100e6
#define SPREAD_NS 200e3

double runs_uniform(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return ((double)(*state >> 11) + 0.5) / 9007199254740992.0;
}

double runs_normal(uint64_t *state)
{
	double u = runs_uniform(state), v = runs_uniform(state);

	return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static void add_metric(struct nspy_run *run, enum nspy_metric_kind kind, const char *key,
		       double mean, const struct noise *noise, uint64_t *state)
{
	struct nspy_metric *metric = nspy_run_add_metric(run, kind, key);
	struct nspy_series series = {0};
	double fresh = sqrt(1 - noise->rho * noise->rho), value = runs_normal(state);

	for (unsigned int i = 0; i < noise->steps; i++) {
		nspy_series_add(&series, mean * (1 + noise->cv * value));
		value = noise->rho * value + fresh * runs_normal(state);
	}
	nspy_series_summary(&series, &metric->ns);
	metric->per_step = 1;
	nspy_series_done(&series);
}

static void add_hosts(struct nspy_run *run, unsigned int hosts, int slow, double lost)
{
	char name[32];

	for (unsigned int h = 0; h < hosts; h++) {
		(void)snprintf(name, sizeof(name), "node-%u", h);
		nspy_run_add_host(run, name)->charged_ns = SPREAD_NS + (slow == (int)h ? lost : 0);
		run->lost_ns += SPREAD_NS + (slow == (int)h ? lost : 0);
	}
}

void runs_add(struct nspy_runs *runs, const struct noise *noise, double factor, int slow_host,
	      unsigned int kinds, uint64_t *state)
{
	struct nspy_run *run = nspy_runs_add(runs);
	double mean = STEP_NS * factor * (1 + noise->between * runs_normal(state));
	char key[64];

	run->job = nspy_xasprintf("job-%zu", runs->count);
	run->ranks = 8 * noise->hosts;
	run->nodes = noise->hosts;
	run->steps = noise->steps;
	run->step_length = 20;
	add_metric(run, NSPY_METRIC_STEP, "step", mean, noise, state);
	add_metric(run, NSPY_METRIC_WAIT, "wait", mean * 0.6, noise, state);
	add_metric(run, NSPY_METRIC_CALLS, "calls", mean * 0.05, noise, state);
	add_metric(run, NSPY_METRIC_OTHER, "other", mean * 0.35, noise, state);
	for (unsigned int k = 0; k < kinds; k++) {
		(void)snprintf(key, sizeof(key), "spread: ncclAllReduce of size %u", k);
		add_metric(run, NSPY_METRIC_SPREAD, key, SPREAD_NS, noise, state);
		nspy_run_add_mix(run, key + 8)->per_step = 1;
	}
	add_hosts(run, noise->hosts, slow_host, STEP_NS * (factor - 1) * (double)(run->ranks - 1));
}
