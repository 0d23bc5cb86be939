/* SPDX-License-Identifier: Apache-2.0 */
/* Traces as the hosts' clocks show them, and the truth. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim.h"

uint64_t sim_shown(const struct sim *sim, int node, uint64_t ns)
{
	return NSPY_TG_START_MONO_NS + ns + (uint64_t)(int64_t)((double)ns * sim->drifts[node]);
}

static uint64_t shown(const struct sim *sim, const struct sim_rank *r, uint64_t ns)
{
	return sim_shown(sim, r->node, ns);
}

static void set_clock(const struct sim *sim, struct sim_rank *r)
{
	struct nspy_tg_rank *trace = r->trace;

	for (size_t i = 0; i < trace->count; i++) {
		union nspy_any_rec *rec = &trace->records[i];

		rec->call.enter = shown(sim, r, rec->call.enter); /* all kinds begin with a time */
		if (rec->call.kind == NSPY_REC_CALL)
			rec->call.leave = shown(sim, r, rec->call.leave);
	}
	for (size_t i = 0; i < trace->comm_count; i++)
		trace->comms[i].when = shown(sim, r, trace->comms[i].when);
	trace->open.enter = shown(sim, r, trace->open.enter);
	trace->start_ns = shown(sim, r, 0);
	trace->now_ns = shown(sim, r, r->host_ns);
	trace->exit_ns = shown(sim, r, trace->exit_ns);
	trace->skew_ns = sim->offsets[r->node];
}

static void tear(const struct sim *sim, const char *directory, const struct sim_rank *r)
{
	char path[1024];
	FILE *file;
	long bytes;

	(void)snprintf(path, sizeof(path), "%s/%s/%s/%08" PRIx32 ".4026531836.%d.%d.000.nspy",
		       directory, sim->tg.job, r->trace->node,
		       (uint32_t)nspy_tg_hash(r->trace->node, 7), 1000 + r->rank, 100 + r->rank);
	file = fopen(path, "rb");
	if (!file || fseek(file, 0, SEEK_END) < 0 || (bytes = ftell(file)) < 0 || fclose(file) ||
	    truncate(path, bytes * 4 / 5) < 0) {
		perror(path);
		exit(2);
	}
}

void sim_write(struct sim *sim, const char *directory)
{
	for (int i = 0; i < sim->ranks; i++) {
		struct sim_rank *r = &sim->all[i];

		set_clock(sim, r);
		if (sim->net)
			sim_put_net(sim, r);
		if (sim->gpu)
			sim_put_prof(sim, r);
		if (!r->trace->silent && i != sim->untraced)
			nspy_tg_write_process(&sim->tg, &r->trace, 1, directory);
	}
	if (sim->torn >= 0 && !sim->all[sim->torn].trace->silent)
		tear(sim, directory, &sim->all[sim->torn]);
}

/* --- truth --- */

static void put_culprits(const struct sim *sim, FILE *out)
{
	const char *separator = "";

	fputs("[", out);
	for (int i = 0; i < sim->ranks; i++) {
		if (!sim_is_culprit(sim, &sim->all[i]))
			continue;
		fprintf(out, "%s%d", separator, i);
		separator = ", ";
	}
	fputs("]", out);
}

/* How many ranks the operation at which it goes wrong concerns. */
static int group_size(const struct sim *sim)
{
	const struct sim_rank *r = &sim->all[sim->fault.rank];
	const struct sim_op *op = &sim->programs[r->stage].ops[sim->fault.at];

	return op->what == SIM_COLL ? r->comms[op->group]->size : 0;
}

/* The only other rank that the operation concerns, or -1. */
static int partner(const struct sim *sim)
{
	const struct sim_rank *r = &sim->all[sim->fault.rank];
	const struct sim_op *op = &sim->programs[r->stage].ops[sim->fault.at];
	const struct sim_comm *comm = r->comms[op->group];

	if (op->what == SIM_SEND || op->what == SIM_RECV)
		return r->rank + op->to * sim->tp;
	if (op->what != SIM_COLL || comm->size != 2)
		return -1;
	return r->rank == comm->first ? comm->first + comm->stride : comm->first;
}

static void put_links(const struct sim *sim, FILE *out)
{
	const struct sim_fault *f = &sim->fault;
	struct sim_paths paths;

	sim_find_paths(sim, &paths);
	fprintf(out,
		" \"paths\": {\"equal\": %zu, \"slow\": %zu, \"partners\": %zu, \"nodes\": %zu, "
		"\"spared\": %s},\n",
		paths.equal, paths.slow, paths.partners, paths.nodes,
		paths.spared ? "true" : "false");
	if (f->kind == SIM_SLOW_PAIR)
		fprintf(out, " \"link\": [\"node%d\", \"node%d\"],\n", f->rank / sim->per_node + 1,
			f->to_node + 1);
}

void sim_truth(const struct sim *sim, const char *path)
{
	const struct sim_fault *f = &sim->fault;
	FILE *out = fopen(path, "w");

	if (!out) {
		perror(path);
		exit(2);
	}
	fprintf(out,
		"{\"seed\": %" PRIu64 ", \"kind\": \"%s\", \"ranks\": %d, \"nodes\": %d, "
		"\"per_node\": %d,\n \"tp\": %d, \"pp\": %d, \"dp\": %d, \"ep\": %d, "
		"\"steps\": %" PRIu64 ", \"step_ns\": %" PRIu64 ",\n",
		sim->seed, sim_kinds[f->kind], sim->ranks, sim->nodes, sim->per_node, sim->tp,
		sim->pp, sim->dp, sim->ep, sim->steps, sim->step_ns);
	put_links(sim, out);
	fprintf(out,
		" \"step\": %" PRIu64 ", \"group_size\": %d, \"partner\": %d, \"strength\": %.4f, "
		"\"delay_ns\": %" PRIu64 ", \"patience_ns\": %" PRIu64 ",\n"
		" \"untraced\": %d, \"torn\": %d, \"polls\": %s, \"clocks_off\": %s, "
		"\"culprits\": ",
		f->step, group_size(sim), partner(sim), f->strength, f->delay_ns, f->patience_ns,
		sim->untraced, sim->torn, sim->polls ? "true" : "false",
		sim->clocks ? "true" : "false");
	put_culprits(sim, out);
	fputs(",\n \"clocks\": {", out);
	for (int i = 0; i < sim->nodes; i++)
		fprintf(out, "%s\"node%d\": {\"offset_ns\": %" PRId64 ", \"drift_ppm\": %.4f}",
			i ? ", " : "", i + 1, sim->offsets[i], sim->drifts[i] * 1e6);
	fputs("}}\n", out);
	fclose(out);
}
