/* SPDX-License-Identifier: Apache-2.0 */
#include "evidence.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "who.h"

#define CULPRITS_MAX 4u /* with records of their own among the evidence */

static const struct {
	enum nspy_finding_id id;
	const char *text;
} alternatives[] = {
#define NSPY_ALTERNATIVE(name, words) {NSPY_FINDING_##name, (words)},
#include "alternatives.def"
#undef NSPY_ALTERNATIVE
};

const char *nspy_alternative(enum nspy_finding_id id, size_t k)
{
	for (size_t i = 0; i < nspy_array_size(alternatives); i++) {
		if (alternatives[i].id == id && k-- == 0)
			return alternatives[i].text;
	}
	return NULL;
}

/* --- records --- */

void nspy_add_evidence(struct nspy_str *s, const struct nspy_evidence *evidence)
{
	if (evidence->proc)
		nspy_add_proc_short(s, evidence->proc);
	if (evidence->proc && evidence->comm)
		nspy_str_add(s, ": ");
	if (evidence->comm)
		nspy_str_addf(s, "%016" PRIx64, evidence->comm->shown);
	if (evidence->comm && evidence->seq)
		nspy_str_addf(s, "#%" PRIu64, evidence->seq);
}

char *nspy_evidence_command(const struct nspy_evidence *evidence, const char *where)
{
	struct nspy_str s = {0};

	nspy_str_add(&s, "ncclspy-analyze dump");
	if (evidence->comm)
		nspy_str_addf(&s, " --comm %016" PRIx64, evidence->comm->shown);
	if (evidence->seq)
		nspy_str_addf(&s, " --op %" PRIu64, evidence->seq);
	if (evidence->proc && nspy_proc_whole(evidence->proc)->rank >= 0)
		nspy_str_addf(&s, " --rank %" PRId64, nspy_proc_whole(evidence->proc)->rank);
	nspy_str_addf(&s, " %s", where);
	return nspy_str_take(&s);
}

/*
 * What culprits did in the communicator that it is about; where ranks stop the last of it; or all
 * that they did.
 */
static void add_culprits(struct nspy_finding *finding)
{
	bool stops = finding->id == NSPY_FINDING_COLLECTIVE_HANG ||
		     finding->id == NSPY_FINDING_ORDER_INVERSION;

	for (size_t i = 0; i < finding->culprit_count && i < CULPRITS_MAX; i++) {
		const struct nspy_proc *proc = finding->culprits[i];
		const struct nspy_member *member =
			finding->comm ? nspy_member_of(finding->comm, proc) : NULL;

		if (member && !finding->seq)
			nspy_finding_evidence(finding, finding->comm, 0, proc);
		else if (member && stops && member->last_seq && member->last_seq != finding->seq)
			nspy_finding_evidence(finding, finding->comm, member->last_seq, proc);
		else if (!finding->comm)
			nspy_finding_evidence(finding, NULL, 0, proc);
	}
}

/* --- what was not seen --- */

static void add_untraced(const struct nspy_case *c, struct nspy_finding *finding)
{
	const struct nspy_comm *comm = finding->comm;
	const struct nspy_coverage *coverage = &c->coverage;
	struct nspy_str s = {0};

	if (comm && comm != coverage->comm) {
		if (comm->nranks > 0 && (size_t)comm->nranks > comm->rank_count)
			nspy_texts_add(&finding->not_seen,
				       nspy_xasprintf("%zu of %" PRId32
						      " ranks of the communicator left no trace",
						      (size_t)comm->nranks - comm->rank_count,
						      comm->nranks));
		return;
	}
	if (!coverage->count)
		return;
	nspy_str_add(&s, "ranks without a trace: ");
	nspy_add_ranges(&s, coverage->ranks, coverage->count);
	nspy_texts_add(&finding->not_seen, nspy_str_take(&s));
}

static void add_gaps(const struct nspy_case *c, struct nspy_finding *finding)
{
	uint64_t lost = 0;
	size_t torn = 0;

	for (size_t i = 0; i < finding->culprit_count; i++) {
		lost += nspy_proc_lost_records(nspy_proc_whole(finding->culprits[i]));
		torn += finding->culprits[i]->torn;
	}
	if (lost)
		nspy_texts_add(
			&finding->not_seen,
			nspy_xasprintf("%" PRIu64 " records of those named were lost", lost));
	else if (c->coverage.lost)
		nspy_texts_add(&finding->not_seen,
			       nspy_xasprintf("%" PRIu64 " records of other ranks were lost",
					      c->coverage.lost));
	if (torn)
		nspy_texts_add(&finding->not_seen,
			       nspy_xstrdup("the end of a trace that was cut off"));
	if (c->coverage.damaged)
		nspy_texts_add(&finding->not_seen, nspy_xstrdup("damaged parts of traces"));
}

/* What belongs to some kinds of findings only. */
static void add_kind(const struct nspy_case *c, struct nspy_finding *finding)
{
	struct nspy_str s = {0};

	switch (finding->id) {
	case NSPY_FINDING_COLLECTIVE_HANG:
	case NSPY_FINDING_COLLECTIVE_MISMATCH:
	case NSPY_FINDING_ORDER_INVERSION:
		if (c->coverage.captured)
			nspy_texts_add(&finding->not_seen,
				       nspy_xstrdup("operations captured into graphs"));
		nspy_texts_add(&finding->not_seen, nspy_xstrdup("what GPUs did"));
		break;
	case NSPY_FINDING_STRAGGLER_RANK:
	case NSPY_FINDING_IO_OR_CHECKPOINT_STALL:
	case NSPY_FINDING_PROGRESS_STALLED_OUTSIDE_NCCL:
		nspy_texts_add(&finding->not_seen, nspy_xstrdup("what GPUs did"));
		if (c->model->clock_count < 2 ||
		    c->model->clock_error_ns == NSPY_CLOCK_ERROR_UNKNOWN)
			break;
		nspy_str_add(&s, "differences of time between hosts below ");
		nspy_add_duration(&s, c->model->clock_error_ns);
		nspy_texts_add(&finding->not_seen, nspy_str_take(&s));
		break;
	case NSPY_FINDING_UNEVEN_NODE_BANDWIDTH:
		nspy_texts_add(&finding->not_seen,
			       nspy_xstrdup("times of the GPU, and which part of the way is slow"));
		break;
	case NSPY_FINDING_CUDA_OOM:
		nspy_texts_add(&finding->not_seen,
			       nspy_xstrdup("memory obtained through the driver interface, and of "
					    "other processes"));
		break;
	default:
		break;
	}
}

/* --- the next command --- */

/* So that a shell takes it as one word; NULL if it had better not be shown. */
static char *quoted(const char *path)
{
	struct nspy_str s = {0};
	bool plain = true;

	for (const char *p = path; *p; p++) {
		if ((unsigned char)*p < ' ' || *p == 127)
			return NULL;
		plain &= (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
			 (*p >= '0' && *p <= '9') || strchr("/._-+=:,@%", *p);
	}
	if (plain && *path && *path != '-')
		return nspy_xstrdup(path);
	nspy_str_add(&s, *path == '-' ? "'./" : "'");
	for (const char *p = path; *p; p++) {
		if (*p == '\'')
			nspy_str_add(&s, "'\\''");
		else
			nspy_str_addn(&s, p, 1);
	}
	nspy_str_add(&s, "'");
	return nspy_str_take(&s);
}

/* The directory of the job that a process's traces lie in: JOB/NODE/file. */
static char *job_directory(const struct nspy_case *c)
{
	const struct nspy_proc *proc =
		c->attempt->proc_count ? nspy_proc_whole(c->attempt->procs[0]) : NULL;
	char *path = proc && proc->file_count ? nspy_xstrdup(proc->files[0].path) : NULL;
	char *slash = path ? strrchr(path, '/') : NULL, *word;

	if (!slash) {
		free(path);
		return nspy_xstrdup("DIR");
	}
	*(slash == path ? slash + 1 : slash) = '\0';
	slash = strrchr(path, '/');
	if (slash && slash != path && strcmp(slash + 1, nspy_proc_host(proc)) == 0)
		*slash = '\0';
	word = quoted(path);
	free(path);
	return word ? word : nspy_xstrdup("DIR");
}

/* A process that hangs now can be looked at. */
static const struct nspy_proc *stuck_now(const struct nspy_finding *finding)
{
	if (finding->id != NSPY_FINDING_COLLECTIVE_HANG &&
	    finding->id != NSPY_FINDING_RANKS_MISSING)
		return NULL;
	for (size_t i = 0; i < finding->culprit_count; i++) {
		if (finding->culprits[i]->state == NSPY_PROC_RUNNING)
			return finding->culprits[i];
	}
	return NULL;
}

static char *next_command(const struct nspy_finding *finding, const char *where)
{
	const struct nspy_proc *stuck = stuck_now(finding);

	if (stuck && stuck->pid > 0)
		return nspy_xasprintf("ncclspy-stacks %" PRId64 "  # on node %s", stuck->pid,
				      nspy_proc_host(stuck));
	for (size_t i = 0; i < finding->evidence_count; i++) {
		const struct nspy_evidence *evidence = &finding->evidence[i];

		/* All operations of all ranks are more than anybody reads. */
		if (evidence->seq || evidence->proc || i + 1 == finding->evidence_count)
			return nspy_evidence_command(evidence, where);
	}
	return nspy_xasprintf("ncclspy-analyze explain %s", nspy_catalog[finding->id].id);
}

void nspy_evidence_complete(const struct nspy_case *c, struct nspy_findings *findings)
{
	char *where = job_directory(c);

	for (size_t i = 0; i < findings->count; i++) {
		struct nspy_finding *finding = findings->items[i];

		if (finding->comm)
			nspy_finding_evidence(finding, finding->comm, finding->seq, NULL);
		add_culprits(finding);
		add_untraced(c, finding);
		add_gaps(c, finding);
		add_kind(c, finding);
		if (!finding->next)
			finding->next = next_command(finding, where);
		finding->where = nspy_xstrdup(where);
	}
	free(where);
}
