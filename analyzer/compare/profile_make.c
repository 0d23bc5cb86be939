/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "costs.h"
#include "measure.h"
#include "rules.h"
#include "text.h"

/* Besides the settings that ranks must share. */
static const char *const versions[] = {
	"nccl.version",        "nccl.build_id",
	"cudart.version",      "cuda.driver",
	"libfabric.version",   "net_plugin.version",
	"net_plugin.provider", "net_plugin.protocol",
	"rdma.firmware",       "gpu.name",
	"gpu.module",          "instance.type",
	"ncclspy.version",     "job.tag",
};

static bool compared(const char *key)
{
	for (size_t i = 0; i < nspy_array_size(versions); i++) {
		if (strcmp(key, versions[i]) == 0)
			return true;
	}
	return nspy_rules_is_shared_setting(key);
}

/* The value that most processes have. */
static const char *usual_value(const struct nspy_attempt *attempt, const char *key)
{
	const char *best = NULL;
	size_t most = 0;

	for (size_t i = 0; i < attempt->proc_count && most * 2 <= attempt->proc_count; i++) {
		const char *value = nspy_proc_fact(attempt->procs[i], key);
		size_t count = 0;

		if (!value || (best && strcmp(value, best) == 0))
			continue;
		for (size_t k = i; k < attempt->proc_count; k++) {
			const char *other = nspy_proc_fact(attempt->procs[k], key);

			count += other && strcmp(other, value) == 0;
		}
		if (count > most) {
			most = count;
			best = value;
		}
	}
	return best;
}

/* Ranks differ from each other in a finding of its own, STACK_DRIFT; here one rank's keys will do.
 */
static void take_facts(const struct nspy_attempt *attempt, struct nspy_run *run)
{
	const struct nspy_proc *proc = attempt->procs[0];

	for (size_t i = 0; i < proc->fact_count; i++) {
		const char *key = proc->facts[i].key;

		if (compared(key))
			nspy_run_add_fact(run, key, usual_value(attempt, key));
	}
}

static struct nspy_run_host *host_of(struct nspy_run *run, const struct nspy_proc *proc,
				     struct nspy_map *known)
{
	const char *name = nspy_proc_host(proc);
	uint64_t hash = 1;
	uintptr_t place;

	for (const char *p = name; *p; p++)
		hash = nspy_mix(hash + (unsigned char)*p);
	place = (uintptr_t)nspy_map_get(known, hash);
	if (!place) {
		nspy_run_add_host(run, name);
		place = run->host_count;
		nspy_map_put(known, hash, (void *)place); /* NOLINT(performance-no-int-to-ptr) */
	}
	return &run->hosts[place - 1];
}

static void take_costs(const struct nspy_model *model, const struct nspy_attempt *attempt,
		       struct nspy_run *run)
{
	double steps = run->steps ? (double)run->steps : 1;
	struct nspy_map known = {0};
	struct nspy_costs costs;

	nspy_costs_find(model, attempt, &costs);
	run->lost_ns = (double)costs.lost_ns / steps;
	for (size_t i = 0; i < attempt->proc_count; i++) {
		const struct nspy_proc *proc = attempt->procs[i];

		host_of(run, proc, &known)->charged_ns +=
			(double)costs.by_proc[proc->index] / steps;
	}
	run->nodes = (int64_t)run->host_count;
	nspy_costs_done(&costs);
	nspy_map_done(&known);
}

/* How long the slowest rank was in the creation of the job's communicator. */
static void take_start(const struct nspy_comm *world, struct nspy_run *run)
{
	uint64_t longest = 0;
	struct nspy_metric *metric;

	for (size_t m = 0; m < world->member_count; m++) {
		const struct nspy_member *member = world->members[m];

		if (member->started_ns && member->ready_ns > member->started_ns &&
		    member->ready_ns - member->started_ns > longest)
			longest = member->ready_ns - member->started_ns;
	}
	if (!longest)
		return;
	metric = nspy_run_add_metric(run, NSPY_METRIC_START, "start");
	metric->ns = (struct nspy_summary){(double)longest, __builtin_nan(""), (double)longest,
					   (double)longest, (double)longest,   1};
}

/* Traces lie at DIRECTORY/<node>/<name>. */
static char *directory_of(const struct nspy_proc *proc)
{
	char *path = proc->file_count ? realpath(proc->files[0].path, NULL) : NULL;

	for (int level = 0; path && level < 2; level++) {
		char *slash = strrchr(path, '/');

		if (!slash || slash == path) {
			free(path);
			return NULL;
		}
		*slash = '\0';
	}
	return path;
}

bool nspy_profile_make(const struct nspy_model *model, struct nspy_run *ret)
{
	const struct nspy_attempt *attempt;
	struct nspy_step_times steps = {0};

	*ret = (struct nspy_run){0};
	if (!model->attempt_count)
		return false;
	attempt = &model->attempts[model->attempt_count - 1];
	if (!attempt->proc_count || !attempt->world || !attempt->world->high_seq)
		return false;
	ret->job = nspy_xstrdup(model->job);
	nspy_clean(ret->job);
	ret->directory = directory_of(attempt->procs[0]);
	ret->start_ns = attempt->start_ns;
	ret->ranks = attempt->world_size;
	nspy_steps_walk(attempt->world, &steps);
	ret->steps = steps.count;
	ret->step_length = steps.length;
	if (steps.count)
		nspy_measure_steps(model, attempt, &steps, ret);
	nspy_measure_ops(model, attempt, &steps, ret);
	nspy_measure_transfers(model, attempt, ret);
	take_start(attempt->world, ret);
	take_facts(attempt, ret);
	take_costs(model, attempt, ret);
	free(steps.starts);
	return true;
}
