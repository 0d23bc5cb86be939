/* SPDX-License-Identifier: Apache-2.0 */
/*
 * COMM_ABORTED
 *
 * Question: was a communicator aborted while it was in use?
 * Evidence: an abort (or revoke) call of a process that still waited in another call, had entered
 *   operations that other ranks never joined, or had been told of an error before.
 * Threshold: an interrupted wait counts from 1 s on. An abort at the end, when everything has been
 *   joined by all, is how some frameworks tidy up and is no finding.
 * Known false positives: none known. Hangs and deaths tell of the aborts that they cause.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "detect.h"
#include "text.h"
#include "who.h"

static bool interrupted_wait(const struct nspy_proc *proc)
{
	for (size_t i = 0; i < proc->stall_count; i++) {
		if (proc->stalls[i].rec.enter < proc->abort_ns &&
		    proc->stalls[i].rec.leave >= proc->abort_ns)
			return true;
	}
	return false;
}

static const struct nspy_member *aborted_member(const struct nspy_proc *proc)
{
	return proc->abort_comm < proc->member_count ? proc->members[proc->abort_comm] : NULL;
}

static bool unfinished(const struct nspy_proc *proc)
{
	const struct nspy_member *member = aborted_member(proc);

	return member && member->comm && member->last_seq > member->comm->low_seq;
}

static const struct nspy_error *error_before(const struct nspy_case *c,
					     const struct nspy_proc *proc)
{
	const struct nspy_error *first = NULL;

	for (size_t i = 0; i < proc->error_count; i++) {
		const struct nspy_error *error = &proc->errors[i];

		if (nspy_model_get_fn(c->model, error->fn)->lib == NSPY_MODEL_NCCL &&
		    error->first_ns <= proc->abort_ns &&
		    (!first || error->first_ns < first->first_ns))
			first = error;
	}
	return first;
}

static bool in_use(const struct nspy_case *c, const struct nspy_proc *proc)
{
	return proc->abort_ns &&
	       (interrupted_wait(proc) || unfinished(proc) || error_before(c, proc));
}

/* A hang, a death or a missing rank is the cause and told as such. */
static bool told_elsewhere(const struct nspy_case *c)
{
	return c->waits.hang_count || c->deaths.first.count;
}

static void tell_missing(const struct nspy_case *c, struct nspy_finding *finding,
			 const struct nspy_proc *proc)
{
	const struct nspy_member *member = aborted_member(proc);
	struct nspy_procs missing = {0};
	struct nspy_str s = {0};

	if (!unfinished(proc))
		return;
	for (size_t i = 0; i < member->comm->member_count; i++) {
		const struct nspy_member *other = member->comm->members[i];

		if (other->last_seq == member->comm->low_seq && !nspy_member_unsure(other))
			nspy_procs_add(&missing, other->proc);
	}
	nspy_add_procs(&s, missing.items, missing.count);
	nspy_str_add(&s, " had not joined ");
	nspy_add_op(&s, c->model, member->comm, member->comm->low_seq + 1);
	nspy_str_add(&s, " of ");
	nspy_add_comm(&s, member->comm);
	nspy_texts_add(&finding->details, nspy_str_take(&s));
	for (size_t i = 0; i < missing.count; i++)
		nspy_finding_blame(finding, missing.items[i]);
	nspy_add_procs(&s, missing.items, missing.count);
	nspy_str_add(&s, " had not joined an operation when ");
	nspy_add_proc_short(&s, proc);
	nspy_str_add(&s, " aborted it");
	free(finding->cause);
	finding->cause = nspy_str_take(&s);
	finding->owner = "application";
	finding->action = "look at what the rank that had not joined was doing then";
	free(missing.items);
}

static void tell_error(const struct nspy_case *c, struct nspy_finding *finding,
		       const struct nspy_proc *proc)
{
	const struct nspy_error *error = error_before(c, proc);

	if (error)
		nspy_finding_detail(finding, "before that, %s gave %s%s%s",
				    nspy_model_get_fn(c->model, error->fn)->name,
				    nspy_model_result(c->model, NSPY_MODEL_NCCL, error->code),
				    error->text ? ": " : "", error->text ? error->text : "");
}

static void report(const struct nspy_case *c, struct nspy_findings *out,
		   const struct nspy_procs *aborters)
{
	struct nspy_finding *finding = nspy_findings_add(out, NSPY_FINDING_COMM_ABORTED);
	const struct nspy_proc *first = aborters->items[0];
	const struct nspy_member *member;
	struct nspy_str s = {0};

	for (size_t i = 1; i < aborters->count; i++) {
		if (aborters->items[i]->abort_ns < first->abort_ns)
			first = aborters->items[i];
	}
	member = aborted_member(first);
	nspy_add_procs_short(&s, aborters->items, aborters->count);
	nspy_str_add(&s, " aborted ");
	if (member && member->comm)
		nspy_add_comm(&s, member->comm);
	else
		nspy_str_add(&s, "a communicator");
	nspy_str_add(&s, " while it was in use, ");
	if (aborters->count > 1) {
		nspy_add_proc_short(&s, first);
		nspy_str_add(&s, " first, ");
	}
	nspy_str_add(&s, "at ");
	nspy_add_clock(&s, first->abort_ns);
	finding->summary = nspy_str_take(&s);
	nspy_add_proc_short(&s, first);
	nspy_str_add(&s, " aborted a communicator while it was in use");
	finding->cause = nspy_str_take(&s);
	finding->when_ns = first->abort_ns;
	finding->comm = member ? member->comm : NULL;
	finding->confidence = nspy_case_confidence(c, finding->comm);
	tell_missing(c, finding, first);
	tell_error(c, finding, first);
	if (!finding->culprit_count)
		nspy_finding_blame(finding, first);
}

void nspy_detect_aborted(const struct nspy_case *c, struct nspy_findings *out)
{
	struct nspy_procs aborters = {0};

	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		if (in_use(c, c->attempt->procs[i]))
			nspy_procs_add(&aborters, c->attempt->procs[i]);
	}
	if (aborters.count && !told_elsewhere(c))
		report(c, out, &aborters);
	free(aborters.items);
}
