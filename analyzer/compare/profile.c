/* SPDX-License-Identifier: Apache-2.0 */
#include "profile.h"

#include <stdlib.h>
#include <string.h>

#include "text.h"

static const char *const kind_names[NSPY_METRIC_KINDS] = {
	[NSPY_METRIC_STEP] = "step",     [NSPY_METRIC_WAIT] = "wait",
	[NSPY_METRIC_CALLS] = "calls",   [NSPY_METRIC_OTHER] = "other",
	[NSPY_METRIC_SPREAD] = "spread", [NSPY_METRIC_START] = "start",
	[NSPY_METRIC_TIME] = "time",     [NSPY_METRIC_NETWORK] = "network",
};

const char *nspy_metric_kind_name(enum nspy_metric_kind kind)
{
	return kind_names[kind];
}

static char *clean_copy(const char *text)
{
	char *copy = nspy_xstrdup(text);

	nspy_clean(copy);
	return copy;
}

struct nspy_metric *nspy_run_add_metric(struct nspy_run *run, enum nspy_metric_kind kind,
					const char *key)
{
	struct nspy_metric *metric;

	run->metrics = nspy_grow(run->metrics, run->metric_count, &run->metric_capacity,
				 sizeof(*run->metrics));
	metric = &run->metrics[run->metric_count++];
	*metric = (struct nspy_metric){.kind = kind, .key = clean_copy(key)};
	return metric;
}

struct nspy_mix *nspy_run_add_mix(struct nspy_run *run, const char *key)
{
	run->mix = nspy_grow(run->mix, run->mix_count, &run->mix_capacity, sizeof(*run->mix));
	run->mix[run->mix_count] = (struct nspy_mix){.key = clean_copy(key)};
	return &run->mix[run->mix_count++];
}

void nspy_run_add_fact(struct nspy_run *run, const char *key, const char *value)
{
	run->facts =
		nspy_grow(run->facts, run->fact_count, &run->fact_capacity, sizeof(*run->facts));
	run->facts[run->fact_count++] = (struct nspy_fact){clean_copy(key), clean_copy(value)};
}

struct nspy_run_host *nspy_run_add_host(struct nspy_run *run, const char *name)
{
	run->hosts =
		nspy_grow(run->hosts, run->host_count, &run->host_capacity, sizeof(*run->hosts));
	run->hosts[run->host_count] = (struct nspy_run_host){.name = clean_copy(name)};
	return &run->hosts[run->host_count++];
}

struct nspy_metric *nspy_run_metric(const struct nspy_run *run, const char *key)
{
	for (size_t i = 0; i < run->metric_count; i++) {
		if (strcmp(run->metrics[i].key, key) == 0)
			return &run->metrics[i];
	}
	return NULL;
}

const char *nspy_run_fact(const struct nspy_run *run, const char *key)
{
	for (size_t i = 0; i < run->fact_count; i++) {
		if (strcmp(run->facts[i].key, key) == 0)
			return run->facts[i].value;
	}
	return NULL;
}

const struct nspy_run_host *nspy_run_host(const struct nspy_run *run, const char *name)
{
	for (size_t i = 0; i < run->host_count; i++) {
		if (strcmp(run->hosts[i].name, name) == 0)
			return &run->hosts[i];
	}
	return NULL;
}

struct nspy_run *nspy_runs_add(struct nspy_runs *runs)
{
	runs->items = nspy_grow(runs->items, runs->count, &runs->capacity, sizeof(*runs->items));
	runs->items[runs->count] = (struct nspy_run){0};
	return &runs->items[runs->count++];
}

void nspy_run_done(struct nspy_run *run)
{
	for (size_t i = 0; i < run->metric_count; i++)
		free(run->metrics[i].key);
	for (size_t i = 0; i < run->mix_count; i++)
		free(run->mix[i].key);
	for (size_t i = 0; i < run->fact_count; i++) {
		free(run->facts[i].key);
		free(run->facts[i].value);
	}
	for (size_t i = 0; i < run->host_count; i++)
		free(run->hosts[i].name);
	free(run->job);
	free(run->directory);
	free(run->metrics);
	free(run->mix);
	free(run->facts);
	free(run->hosts);
	*run = (struct nspy_run){0};
}

void nspy_runs_done(struct nspy_runs *runs)
{
	for (size_t i = 0; i < runs->count; i++)
		nspy_run_done(&runs->items[i]);
	free(runs->items);
	*runs = (struct nspy_runs){0};
}
