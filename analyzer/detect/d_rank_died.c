/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RANK_DIED, RANK_CRASHED
 *
 * Question: did a process end while the others still needed it, and which one began it?
 * Evidence: a trace without its closing chunk, and the launcher's note of exit status and time if
 *   there is one. The first death counts; later ones are consequences (launchers kill the rest).
 *   Among deaths at the same time, one by a fault or an exit code comes before those by a kill. A
 *   process that was itself waiting for others when it died is a victim (watchdogs abort them).
 * Threshold: deaths within 0.5 s (1.5 s without exact times) are simultaneous: killing a job
 *   takes that long, and live pages tell the last sign of life only about once a second.
 *   A mismatch that those who died had entered not long before is the likelier cause and is shown
 *   first: NCCL may return wrong data, hang, or fail because of it, and the application gives up.
 *   RANK_CRASHED if the library's own handler noted the fault (NCCLSPY_CRASH=1). A job of which
 * each process was asked to end before it did is told by JOB_TERMINATED. Known false positives: a
 * process that ends by _exit without a launcher's note looks cut. A job killed as a whole is
 * reported as P1 without a culprit.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "detect.h"
#include "text.h"
#include "who.h"

/* A job that went on for so many operations has survived the mismatch. */
#define MISMATCH_NEAR_OPS 100u
#define ALONE_NS          500000000u

static bool entered(const struct nspy_comm *comm, const struct nspy_proc *proc)
{
	for (size_t i = 0; i < comm->member_count; i++) {
		if (comm->members[i]->proc == proc)
			return comm->members[i]->last_seq >= comm->mixed_seq;
	}
	return false;
}

/* Ranks disagreed about an operation that all of these had entered, and did not get far since. */
static bool after_mismatch(const struct nspy_case *c, const struct nspy_procs *first)
{
	for (size_t i = 0; i < c->attempt->comm_count; i++) {
		const struct nspy_comm *comm = c->attempt->comms[i];
		size_t in_it = 0;

		if (!comm->mixed_seq || comm->low_seq >= comm->mixed_seq + MISMATCH_NEAR_OPS)
			continue;
		for (size_t p = 0; p < first->count; p++)
			in_it += entered(comm, first->items[p]);
		if (in_it == first->count)
			return true;
	}
	return false;
}

static bool whole_node(const struct nspy_case *c, const struct nspy_procs *first)
{
	const char *host = nspy_proc_host(first->items[0]);
	size_t here = 0, elsewhere = 0;

	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		bool same = strcmp(nspy_proc_host(c->attempt->procs[i]), host) == 0;

		here += same;
		elsewhere += !same;
	}
	for (size_t i = 0; i < first->count; i++) {
		if (strcmp(nspy_proc_host(first->items[i]), host) != 0)
			return false;
	}
	return here > 1 && elsewhere > 0 && first->count == here;
}

static void choose_owner(struct nspy_finding *finding, const struct nspy_proc *proc, bool node)
{
	if (node) {
		finding->owner = "node";
		finding->restart = "helps-elsewhere";
		finding->action = "check whether the node is up; drain it";
		return;
	}
	switch (proc->exit.signal) {
	case SIGKILL:
		finding->owner = "node";
		finding->action = "look for an out-of-memory kill in the kernel log of its node";
		return;
	case SIGTERM:
	case SIGINT:
	case SIGHUP:
		finding->owner = "scheduler";
		finding->action = "ask scheduler or launcher why it ended this rank";
		return;
	case SIGBUS:
		finding->owner = "node";
		finding->action = "check free space of /dev/shm and of local disks on its node";
		return;
	default:
		break;
	}
	if (!proc->exit.known)
		return;
	finding->owner = "application";
	finding->action = "read the last lines of that rank's own output";
}

/* What the handler noted: where, why, and in which call of the thread. */
static void tell_crash(const struct nspy_case *c, struct nspy_finding *finding,
		       const struct nspy_proc *proc)
{
	const struct nspy_signal_note *crash = &proc->exit.crash;
	const char *code = nspy_signal_code(crash->number, crash->code);
	struct nspy_str s = {0};
	char scratch[16];

	nspy_str_add(&s, nspy_signal_name(crash->number, scratch, sizeof(scratch)));
	if (nspy_signal_faults(crash->number, crash->code))
		nspy_str_addf(&s, " at address 0x%" PRIx64, crash->address);
	if (code[0])
		nspy_str_addf(&s, " (%s)", code);
	nspy_str_addf(&s, " in thread %" PRIu32, crash->tid);
	if (crash->fn && crash->fn <= proc->fn_map_count)
		nspy_str_addf(&s, ", %s %s",
			      crash->flags & NSPY_SIGNAL_IN_CALL ? "inside" : "last call",
			      nspy_model_get_fn(c->model, proc->fn_map[crash->fn - 1])->name);
	if (crash->flags & NSPY_SIGNAL_IN_US)
		nspy_str_add(&s, ", in the code of libncclspy.so itself: please report it");
	nspy_texts_add(&finding->details, nspy_str_take(&s));
}

/* Others were not asked to end: whoever sent it meant this rank, or its pod or node. */
static void tell_alone(const struct nspy_case *c, struct nspy_finding *finding,
		       const struct nspy_proc *proc)
{
	uint64_t asked = nspy_proc_asked_ns(proc);
	size_t others = 0;

	if (!asked)
		return;
	for (size_t i = 0; i < c->attempt->proc_count; i++)
		others += !nspy_procs_has(&c->deaths.first, c->attempt->procs[i]) &&
			  nspy_proc_asked_ns(c->attempt->procs[i]) < asked + ALONE_NS &&
			  nspy_proc_asked_ns(c->attempt->procs[i]) + ALONE_NS > asked;
	if (others == 0 && c->attempt->proc_count > c->deaths.first.count)
		nspy_finding_detail(finding,
				    "no other rank got SIGTERM within %u ms: its pod or node was "
				    "evicted or drained, or a person ended it",
				    (unsigned int)(ALONE_NS / 1000000u));
	if (proc->exit.asked_by > 0)
		nspy_finding_detail(finding, "SIGTERM came from pid %lld",
				    (long long)proc->exit.asked_by);
}

static bool all_crashed(const struct nspy_procs *first)
{
	for (size_t i = 0; i < first->count; i++)
		if (!first->items[i]->exit.crash.number)
			return false;
	return true;
}

static void tell_consequences(const struct nspy_case *c, struct nspy_finding *finding)
{
	size_t killed = 0;

	for (size_t h = 0; h < c->waits.hang_count; h++) {
		if (nspy_hang_teller(c, &c->waits.hangs[h]) == NSPY_TOLD_BY_DEATH)
			nspy_texts_add(&finding->consequences,
				       nspy_tell_waiters(c, &c->waits.hangs[h]));
	}
	nspy_tell_errors(c, finding);
	for (size_t i = 0; i < c->deaths.count; i++)
		killed += !nspy_procs_has(&c->deaths.first, c->deaths.items[i].proc);
	if (killed)
		nspy_texts_add(&finding->consequences,
			       nspy_xasprintf("%zu other rank%s ended after that", killed,
					      killed == 1 ? "" : "s"));
}

static void report_first(const struct nspy_case *c, struct nspy_findings *out)
{
	const struct nspy_procs *first = &c->deaths.first;
	const struct nspy_proc *proc = first->items[0];
	const struct nspy_death *death = nspy_death_of(&c->deaths, proc);
	bool crash = all_crashed(first);
	struct nspy_finding *finding =
		nspy_findings_add(out, crash ? NSPY_FINDING_RANK_CRASHED : NSPY_FINDING_RANK_DIED);
	const char *meaning = nspy_explain_exit(proc);
	bool node = whole_node(c, first), code = proc->exit.known && !proc->exit.signal;
	const char *how = code ? " with " : proc->exit.known ? " by " : ", ";
	struct nspy_str s = {0}, cause = {0};

	nspy_add_procs(&s, first->items, first->count);
	nspy_str_add(&cause, s.text);
	nspy_str_add(&s, crash ? " crashed at " : code ? " ended at " : " died at ");
	nspy_add_clock(&s, death->when_ns);
	nspy_str_add(&s, how);
	nspy_add_exit(&s, proc);
	nspy_str_add(&s, ", ");
	nspy_add_doing(&s, c->model, proc);
	nspy_str_addf(&cause, "%s%s", crash ? " crashed" : code ? " ended" : " died", how);
	nspy_add_exit(&cause, proc);
	finding->summary = nspy_str_take(&s);
	finding->cause = nspy_str_take(&cause);
	finding->when_ns = death->when_ns;
	finding->confidence = death->exact ? NSPY_CERTAIN : NSPY_PROBABLE;
	if (after_mismatch(c, first))
		finding->order = NSPY_FINDING_COLLECTIVE_MISMATCH; /* the earlier one first */
	for (size_t i = 0; i < first->count; i++)
		nspy_finding_blame(finding, first->items[i]);
	if (!crash || node)
		choose_owner(finding, proc, node);
	if (crash)
		tell_crash(c, finding, proc);
	tell_alone(c, finding, proc);
	if (node)
		nspy_finding_detail(finding, "all ranks of %s are gone: the node itself is suspect",
				    nspy_proc_host(proc));
	else if (meaning && !crash)
		nspy_finding_detail(finding, "%s", meaning);
	nspy_tell_last_error(c, finding, proc);
	tell_consequences(c, finding);
}

/* The whole job failed in NCCL and then left: the failed call is the story. */
static bool all_failed_before(const struct nspy_case *c)
{
	for (size_t i = 0; i < c->deaths.count; i++) {
		const struct nspy_proc *proc = c->deaths.items[i].proc;

		if (proc->error_count == 0 || proc->exit.signal)
			return false;
	}
	return c->deaths.count > 0;
}

/* Nobody else ended them. */
static bool all_left_by_themselves(const struct nspy_case *c)
{
	for (size_t i = 0; i < c->deaths.count; i++) {
		if (!c->deaths.items[i].proc->exit.known || c->deaths.items[i].proc->exit.signal)
			return false;
	}
	return true;
}

/*
 * Programs that only poll show no open call. If all fell silent after an operation and then
 * aborted, it may be that it never completed, but as well that they were busy and tidied up: a
 * hint.
 */
static void hint_at_abort(const struct nspy_case *c, struct nspy_finding *finding)
{
	uint64_t shortest = UINT64_MAX;
	struct nspy_str s = {0};

	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		uint64_t silent = nspy_silence_before_abort(c->attempt->procs[i]);

		shortest = silent < shortest ? silent : shortest;
	}
	if (shortest < c->options.hang_ended_ns || shortest == UINT64_MAX)
		return;
	nspy_str_add(&s, "all had called nothing for ");
	nspy_add_duration(&s, shortest);
	nspy_str_add(&s,
		     " when they aborted their communicators: if they were polling, an operation "
		     "that all had joined did not complete (GPU or network)");
	nspy_texts_add(&finding->details, nspy_str_take(&s));
}

static void report_together(const struct nspy_case *c, struct nspy_findings *out)
{
	const struct nspy_proc *proc = c->deaths.items[0].proc;
	struct nspy_finding *finding = nspy_findings_add(out, NSPY_FINDING_RANK_DIED);
	bool own = all_left_by_themselves(c);
	struct nspy_str s = {0};

	finding->priority = 1;
	finding->owner = own ? "application" : "scheduler";
	finding->action = own ? "read the last lines of the ranks' own output"
			      : "ask scheduler or launcher why it ended the job";
	nspy_str_addf(&s, "%zu of %zu ranks ended together at ", c->deaths.count,
		      c->attempt->proc_count);
	nspy_add_clock(&s, c->deaths.items[0].when_ns);
	nspy_str_add(&s, proc->exit.known ? " by " : ", ");
	nspy_add_exit(&s, proc);
	nspy_str_add(&s, "; none stands out and no rank waited for another");
	finding->summary = nspy_str_take(&s);
	finding->cause = nspy_xstrdup(own ? "all ranks ended themselves at the same time"
					  : "the job was ended as a whole");
	finding->when_ns = c->deaths.items[0].when_ns;
	finding->confidence = NSPY_PROBABLE;
	if (nspy_explain_exit(proc))
		nspy_finding_detail(finding, "%s", nspy_explain_exit(proc));
	hint_at_abort(c, finding);
}

void nspy_detect_rank_died(const struct nspy_case *c, struct nspy_findings *out)
{
	if (c->deaths.first.count &&
	    !(c->deaths.first.count == c->attempt->proc_count && all_failed_before(c)))
		report_first(c, out);
	else if (c->deaths.together && c->waits.hang_count == 0 && !all_failed_before(c))
		report_together(c, out);
}
