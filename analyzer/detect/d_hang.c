/* SPDX-License-Identifier: Apache-2.0 */
/*
 * COLLECTIVE_HANG
 *
 * Question: which operation do ranks wait for in vain, and who never joined it?
 * Evidence: a call that depends on peers (synchronisation with the device, a blocking NCCL call)
 *   still open when the evidence ends, together with sequence numbers: an operation that the
 *   waiting rank entered and others did not. Chains of waits over communicators are followed to
 *   those that wait for nobody. A collective's return proves only that it was enqueued.
 * Threshold: --hang-after (5 s for a job that has ended, NCCLSPY_HANG_S = 180 s while it runs,
 *   PyTorch's own timeout being 600 s). If all ranks have joined, the wait must also be three
 *   times as long as any that ended well in that process: a slow kernel is not a hang.
 * Known false positives: a rank that really works that long between two operations (checkpoint,
 *   compilation) in a job that was ended meanwhile. It is named as what it is, late.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "detect.h"
#include "text.h"
#include "who.h"

#define RHYTHM_FACTOR 3u
#define NAMED_MAX     4u

/* One rank alone ahead of all others: it, not they, does something different. */
static bool odd_one_ahead(const struct nspy_hang *hang)
{
	const struct nspy_wait_object *object = hang->main;
	size_t ahead;

	if (object->kind != NSPY_WAIT_COLL || (size_t)object->comm->member_count < 3)
		return false;
	ahead = object->comm->member_count - object->blamed.count;
	return ahead < object->blamed.count && hang->culprits.count == object->blamed.count;
}

static void add_missing_rank_details(struct nspy_finding *finding, const struct nspy_case *c,
				     const struct nspy_hang *hang)
{
	for (size_t i = 0; i < hang->culprits.count; i++) {
		const struct nspy_proc *proc = hang->culprits.items[i];

		nspy_finding_blame(finding, proc);
		if (i < NAMED_MAX)
			nspy_texts_add(&finding->details, nspy_tell_doing(c, proc));
		if (i < NAMED_MAX)
			nspy_tell_last_error(c, finding, proc);
	}
}

/* Entered the operation before this one and is still in that call itself. */
static const struct nspy_placed_call *stuck_inside(const struct nspy_case *c,
						   const struct nspy_hang *hang)
{
	const struct nspy_proc *proc = hang->culprits.items[0];

	for (size_t i = 0; hang->culprits.count == 1 && i < proc->wait_count; i++) {
		const struct nspy_placed_call *call = &proc->waits[i];

		if (hang->main->kind == NSPY_WAIT_COLL &&
		    nspy_model_get_fn(c->model, call->rec.fn)->klass == NSPY_CLASS_COLL &&
		    call->rec.seq + 1 == hang->main->seq && call->rec.comm < proc->member_count &&
		    proc->members[call->rec.comm] &&
		    proc->members[call->rec.comm]->comm == hang->main->comm)
			return call;
	}
	return NULL;
}

/* Who acts depends on what the culprit is in. */
static void choose_owner(struct nspy_finding *finding, const struct nspy_case *c,
			 const struct nspy_hang *hang)
{
	const struct nspy_proc *proc = hang->culprits.items[0];
	const struct nspy_proc_wait *wait = &c->waits.procs[proc->index];

	if (stuck_inside(c, hang)) {
		finding->owner = "node";
		finding->action = "look at the call that the rank is stuck in (stack, kernel log)";
	} else if (wait->waiting) {
		finding->owner = "node";
		finding->restart = "helps-elsewhere";
		finding->action = "check GPU and NIC of that rank (Xid, port counters)";
	} else if (proc->wait_count) {
		finding->owner = "node";
		finding->action = "look at the call that the rank is stuck in (stack, kernel log)";
	} else if (proc->state == NSPY_PROC_COMPLETE) {
		finding->restart = "useless";
		finding->action = "find out why this rank stopped earlier than the others";
	}
}

/* What the culprit did not do: join an operation, or come back from the call for the last one. */
static void add_omission(struct nspy_str *s, const struct nspy_case *c,
			 const struct nspy_hang *hang)
{
	const struct nspy_placed_call *call = stuck_inside(c, hang);

	nspy_add_procs(s, hang->culprits.items, hang->culprits.count);
	if (!call) {
		if (hang->main->replay)
			nspy_str_add(s, " never began ");
		else if (hang->main->kind == NSPY_WAIT_BELOW)
			nspy_str_add(s, " left before the end of ");
		else if (hang->main->kind == NSPY_WAIT_CREATE)
			nspy_str_add(s, " left with an error ");
		else if (hang->main->late)
			nspy_str_add(s, " came too late to ");
		else
			nspy_str_add(s, " never joined ");
		nspy_add_object(s, c, hang->main);
		return;
	}
	nspy_str_add(s, " is stuck inside the call ");
	nspy_add_call(s, c->model, &call->rec);
	nspy_str_addf(s, " #%" PRIu64 " of ", call->rec.seq);
	nspy_add_comm(s, hang->main->comm);
}

static void tell_culprits(struct nspy_finding *finding, const struct nspy_case *c,
			  const struct nspy_hang *hang)
{
	const struct nspy_proc *proc = hang->culprits.items[0];
	size_t waiting = nspy_count_ranks(hang->direct.items, hang->direct.count) +
			 nspy_count_ranks(hang->indirect.items, hang->indirect.count);
	struct nspy_str s = {0}, cause = {0};

	add_omission(&s, c, hang);
	nspy_str_addf(&s, "; %zu rank%s waited up to ", waiting, waiting == 1 ? "" : "s");
	nspy_add_duration(&s, hang->until_ns - hang->since_ns);
	if (hang->culprits.count == 1) {
		nspy_str_add(&s, "; it is ");
		nspy_add_doing(&s, c->model, proc);
	}
	add_omission(&cause, c, hang);
	finding->summary = nspy_str_take(&s);
	finding->cause = nspy_str_take(&cause);
	add_missing_rank_details(finding, c, hang);
	choose_owner(finding, c, hang);
}

static void tell_odd_one(struct nspy_finding *finding, const struct nspy_case *c,
			 const struct nspy_hang *hang)
{
	struct nspy_str s = {0};

	nspy_add_procs(&s, hang->direct.items, hang->direct.count);
	nspy_str_add(&s, " entered ");
	nspy_add_object(&s, c, hang->main);
	nspy_str_add(&s, " and waited up to ");
	nspy_add_duration(&s, hang->until_ns - hang->since_ns);
	nspy_str_addf(&s,
		      "; %zu other ranks never did: it made a call too many, or they left early",
		      nspy_count_ranks(hang->culprits.items, hang->culprits.count));
	finding->summary = nspy_str_take(&s);
	nspy_add_procs(&s, hang->direct.items, hang->direct.count);
	nspy_str_add(&s, " alone called ");
	nspy_add_object(&s, c, hang->main);
	finding->cause = nspy_str_take(&s);
	finding->restart = "useless";
	finding->confidence = NSPY_PROBABLE;
	for (size_t i = 0; i < hang->direct.count; i++)
		nspy_finding_blame(finding, hang->direct.items[i]);
	for (size_t i = 0; i < hang->culprits.count && i < NAMED_MAX; i++)
		nspy_texts_add(&finding->details, nspy_tell_doing(c, hang->culprits.items[i]));
}

static void tell_circle(struct nspy_finding *finding, const struct nspy_case *c,
			const struct nspy_hang *hang)
{
	struct nspy_str s = {0};
	size_t told = 0;

	nspy_add_procs(&s, hang->direct.items, hang->direct.count);
	nspy_str_add(&s, " wait for each other in a circle, up to ");
	nspy_add_duration(&s, hang->until_ns - hang->since_ns);
	nspy_str_add(&s, "; nobody outside it holds them up");
	finding->summary = nspy_str_take(&s);
	finding->cause = nspy_xstrdup("ranks wait for each other in a circle");
	finding->restart = "useless";
	finding->action = "give the operations named below the same order on all ranks";
	for (size_t i = 0; i < c->waits.object_count && told < NAMED_MAX; i++) {
		const struct nspy_wait_object *object = c->waits.objects[i];

		if (!object->cyclic)
			continue;
		nspy_add_procs_short(&s, object->waiters.items, object->waiters.count);
		nspy_str_add(&s, " waits in ");
		nspy_add_object(&s, c, object);
		nspy_str_add(&s, " for ");
		nspy_add_procs_short(&s, object->blamed.items, object->blamed.count);
		nspy_texts_add(&finding->details, nspy_str_take(&s));
		told++;
	}
}

static void tell_below(struct nspy_finding *finding, const struct nspy_case *c,
		       const struct nspy_hang *hang)
{
	struct nspy_str s = {0};

	nspy_str_addf(&s, "all %zu ranks%s have entered ", hang->main->comm->member_count,
		      hang->main->untraced ? " with a trace" : "");
	nspy_add_object(&s, c, hang->main);
	nspy_str_add(&s, ", it has not come back for up to ");
	nspy_add_duration(&s, hang->until_ns - hang->since_ns);
	nspy_str_add(&s, "; who holds it up is below NCCL and not determinable from host calls");
	finding->summary = nspy_str_take(&s);
	finding->cause = nspy_xstrdup("no rank is missing: the data path stalls");
	finding->owner = "fabric";
	finding->restart = "helps-elsewhere";
	finding->action = "check GPUs and network of the ranks (Xid, port error counters)";
	if (hang->main->untraced) {
		finding->confidence = NSPY_WEAK;
		finding->owner = "unknown";
		nspy_finding_detail(
			finding, "%zu rank%s of this communicator left no trace: it may be the one",
			hang->main->untraced, hang->main->untraced == 1 ? "" : "s");
	}
}

/* Waits that are long for this process, measured by those that ended well. */
static bool out_of_rhythm(const struct nspy_case *c, const struct nspy_hang *hang)
{
	for (size_t i = 0; i < hang->direct.count; i++) {
		const struct nspy_proc *proc = hang->direct.items[i];
		const struct nspy_proc_wait *wait = &c->waits.procs[proc->index];

		/* Whoever aborts has judged it himself; the call then comes back like any other. */
		if (wait->aborted ||
		    wait->until_ns - wait->since_ns > RHYTHM_FACTOR * proc->longest_sync_ns)
			return true;
	}
	return false;
}

static void tell_chain(struct nspy_finding *finding, const struct nspy_case *c,
		       const struct nspy_hang *hang)
{
	nspy_texts_add(&finding->consequences, nspy_tell_waiters(c, hang));
	for (size_t i = 0, told = 0; i < c->waits.object_count && told < NAMED_MAX; i++) {
		const struct nspy_wait_object *object = c->waits.objects[i];
		struct nspy_str s = {0};

		if (object->root || object->kind == NSPY_WAIT_BELOW || !hang->indirect.count)
			continue;
		nspy_add_procs_short(&s, object->waiters.items, object->waiters.count);
		nspy_str_add(&s, " waited for ");
		nspy_add_procs_short(&s, object->blamed.items, object->blamed.count);
		nspy_str_add(&s, " in ");
		nspy_add_object(&s, c, object);
		nspy_texts_add(&finding->consequences, nspy_str_take(&s));
		told++;
	}
}

static void report(const struct nspy_case *c, struct nspy_findings *out,
		   const struct nspy_hang *hang)
{
	struct nspy_finding *finding = nspy_findings_add(out, NSPY_FINDING_COLLECTIVE_HANG);
	const struct nspy_proc_wait *wait;

	finding->when_ns = hang->since_ns;
	finding->comm = hang->main->comm;
	finding->seq = hang->main->seq;
	finding->confidence = nspy_case_confidence(c, hang->main->comm);
	if (hang->culprits.count && odd_one_ahead(hang)) {
		tell_odd_one(finding, c, hang);
	} else if (hang->culprits.count) {
		tell_culprits(finding, c, hang);
		tell_chain(finding, c, hang);
	} else if (hang->main->cyclic) {
		tell_circle(finding, c, hang);
	} else {
		tell_below(finding, c, hang);
	}
	nspy_tell_errors(c, finding);
	if (!hang->direct.count)
		return;
	wait = &c->waits.procs[hang->direct.items[0]->index];
	if (wait->weak) {
		finding->confidence = NSPY_WEAK;
		nspy_finding_detail(finding, "concluded from silence: no call was open");
	} else if (wait->aborted && !wait->call) {
		nspy_finding_detail(finding,
				    "no call was open: whoever waited called nothing more, "
				    "and then aborted");
	}
}

void nspy_detect_hang(const struct nspy_case *c, struct nspy_findings *out)
{
	for (size_t h = 0; h < c->waits.hang_count; h++) {
		const struct nspy_hang *hang = &c->waits.hangs[h];

		if (nspy_hang_teller(c, hang) != NSPY_TOLD_BY_HANG)
			continue;
		if (hang->culprits.count == 0 && !hang->main->cyclic && !out_of_rhythm(c, hang))
			continue;
		report(c, out, hang);
	}
}
