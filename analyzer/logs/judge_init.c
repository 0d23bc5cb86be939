/* SPDX-License-Identifier: Apache-2.0 */
/* Did all ranks of a communicator come, finish its creation, and bring the same NCCL? */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "text.h"

static void conclude(struct nspy_finding *finding, const struct nspy_log_comm *comm, char *what)
{
	finding->summary = what;
	finding->cause = nspy_xstrdup(what);
	for (size_t i = 0; i < comm->member_count && finding->culprit_count < 64; i++) {
		if (finding->id == NSPY_FINDING_INIT_TIMEOUT && !comm->members[i].done)
			nspy_finding_blame(finding, comm->members[i].source->proc);
	}
}

static void add_ranks(struct nspy_str *s, const struct nspy_log_comm *comm, bool absent)
{
	int64_t *ranks = nspy_xcalloc((size_t)comm->nranks + 1, sizeof(*ranks));
	bool *here = nspy_xcalloc((size_t)comm->nranks, sizeof(*here));
	size_t count = 0;

	for (size_t i = 0; i < comm->member_count; i++)
		here[comm->members[i].rank] = absent || !comm->members[i].done;
	for (int32_t r = 0; r < comm->nranks; r++) {
		if (here[r] != absent)
			ranks[count++] = r;
	}
	nspy_add_ranges(s, ranks, count);
	free(ranks);
	free(here);
}

static void judge_comm(const struct nspy_log *log, const struct nspy_log_comm *comm,
		       struct nspy_findings *out)
{
	size_t done = 0, nranks = (size_t)comm->nranks;
	bool trouble =
		nspy_log_trouble(log, NSPY_LOG_SYMPTOM) || nspy_log_trouble(log, NSPY_LOG_EFFECT);
	struct nspy_finding *finding;
	struct nspy_str s = {0};

	for (size_t i = 0; i < comm->member_count; i++)
		done += comm->members[i].done;
	if (nranks < 2 || done == comm->member_count || comm->member_count == 0)
		return;
	if (done == 0 && comm->member_count < nranks && comm->member_count > 1) {
		finding = nspy_log_finding(out, NSPY_FINDING_RANKS_MISSING, trouble ? 0 : 1,
					   NSPY_LOG_SYMPTOM, comm->order);
		nspy_str_addf(&s,
			      "%zu of %zu ranks began the communicator %016" PRIx64
			      " and none finished: no word from ranks ",
			      comm->member_count, nranks, comm->id);
		add_ranks(&s, comm, true);
		conclude(finding, comm, nspy_str_take(&s));
		return;
	}
	/* A single rank's log that ends here may simply be cut. */
	finding = nspy_log_finding(out, NSPY_FINDING_INIT_TIMEOUT,
				   done || (trouble && comm->member_count == nranks) ? 0 : 2,
				   NSPY_LOG_SYMPTOM, comm->order);
	nspy_str_addf(
		&s, "the creation of communicator %016" PRIx64 " (%zu ranks) did not end on ranks ",
		comm->id, nranks);
	add_ranks(&s, comm, false);
	nspy_str_addf(&s, "; %zu finished", done);
	conclude(finding, comm, nspy_str_take(&s));
}

/* --- versions within one communicator --- */

static void judge_versions(const struct nspy_log_comm *comm, struct nspy_findings *out)
{
	const struct nspy_log_source *a = NULL, *b = NULL;
	struct nspy_finding *finding;

	for (size_t i = 0; i < comm->member_count && !b; i++) {
		const struct nspy_log_source *source = comm->members[i].source;

		if (!source->version)
			continue;
		if (!a)
			a = source;
		else if (strcmp(a->version, source->version) != 0)
			b = source;
	}
	if (!b)
		return;
	finding = nspy_log_finding(out, NSPY_FINDING_VERSION_MISMATCH, 0, NSPY_LOG_CAUSE,
				   comm->order);
	finding->summary = nspy_xasprintf("ranks of one communicator run NCCL %s (rank %" PRId64
					  ") and %s (rank %" PRId64 ")",
					  a->version, a->proc->rank, b->version, b->proc->rank);
	finding->cause = nspy_xstrdup(finding->summary);
	nspy_finding_blame(finding, b->proc);
}

/* A node that started a world of its own while others wait for it. */
static void judge_lonely(const struct nspy_log *log, struct nspy_findings *out)
{
	struct nspy_finding *finding;

	if (!nspy_log_any(log, NSPY_LOG_FAMILY) && !nspy_log_any(log, NSPY_LOG_STORE_BARRIER))
		return;
	for (size_t i = 0; i < log->comm_count; i++) {
		const struct nspy_log_comm *comm = log->comms[i];

		if (comm->nranks != 1 || !comm->member_count)
			continue;
		finding = nspy_log_finding(out, NSPY_FINDING_RENDEZVOUS_ENV_MISSING, 0,
					   NSPY_LOG_CAUSE, 0);
		finding->summary =
			nspy_xstrdup("a process made a communicator of one rank while others "
				     "cannot reach a peer: it was started without the "
				     "launcher's RANK and WORLD_SIZE, or by another launcher");
		finding->cause = nspy_xstrdup(finding->summary);
		nspy_finding_blame(finding, comm->members[0].source->proc);
		return;
	}
}

void nspy_log_judge_init(const struct nspy_log *log, struct nspy_findings *out)
{
	size_t told = 0, before = out->count;

	for (size_t i = 0; i < log->comm_count && told < 4; i++) {
		judge_comm(log, log->comms[i], out);
		told += out->count > before;
		before = out->count;
	}
	for (size_t i = 0; i < log->comm_count; i++) {
		judge_versions(log->comms[i], out);
		if (nspy_findings_get(out, NSPY_FINDING_VERSION_MISMATCH))
			break;
	}
	judge_lonely(log, out);
}
