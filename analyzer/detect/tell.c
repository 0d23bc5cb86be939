/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "detect.h"
#include "text.h"
#include "who.h"

enum nspy_teller nspy_hang_teller(const struct nspy_case *c, const struct nspy_hang *hang)
{
	const struct nspy_wait_object *object = hang->main;

	for (size_t i = 0; i < hang->culprits.count; i++) {
		if (nspy_procs_has(&c->deaths.first, hang->culprits.items[i]))
			return NSPY_TOLD_BY_DEATH;
	}
	if (object->kind == NSPY_WAIT_COLL && object->comm->mixed_seq &&
	    object->comm->mixed_seq <= object->seq)
		return NSPY_TOLD_BY_MISMATCH;
	for (size_t i = 0;
	     object->kind == NSPY_WAIT_BELOW && !hang->culprits.count && i < c->attempt->comm_count;
	     i++) {
		if (c->attempt->comms[i]->mixed_seq)
			return NSPY_TOLD_BY_MISMATCH;
	}
	if (object->kind == NSPY_WAIT_BELOW && !hang->culprits.count && c->p2p.count)
		return NSPY_TOLD_BY_P2P;
	if (c->order.found && hang->culprits.count == 0)
		return NSPY_TOLD_BY_ORDER;
	if (object->kind == NSPY_WAIT_CREATE && !object->failed &&
	    (object->untraced || object->blamed.count))
		return NSPY_TOLD_BY_MISSING;
	return NSPY_TOLD_BY_HANG;
}

/* The call of this operation by some member that still knows it. */
static const struct nspy_rec *known_call(const struct nspy_comm *comm, uint64_t seq)
{
	for (size_t i = 0; i < comm->member_count; i++) {
		if (comm->members[i]->last.thread && comm->members[i]->last.rec.seq == seq)
			return &comm->members[i]->last.rec;
	}
	return NULL;
}

static const char *creation_name(const struct nspy_comm *comm)
{
	switch (comm->origin) {
	case NSPY_COMM_SPLIT:
		return "ncclCommSplit";
	case NSPY_COMM_SHRINK:
		return "ncclCommShrink";
	case NSPY_COMM_GROW:
		return "ncclCommGrow";
	case NSPY_COMM_INIT_ALL:
		return "ncclCommInitAll";
	default:
		return "ncclCommInitRank";
	}
}

void nspy_add_object(struct nspy_str *s, const struct nspy_case *c,
		     const struct nspy_wait_object *object)
{
	const struct nspy_rec *rec;

	switch (object->kind) {
	case NSPY_WAIT_CREATE:
		nspy_str_addf(s, "%s of ", creation_name(object->comm));
		nspy_add_comm(s, object->comm);
		return;
	case NSPY_WAIT_P2P:
		nspy_str_addf(s, "%s #%" PRIu64 " from rank %" PRId32 " to rank %" PRId32 " of ",
			      object->send_missing ? "ncclSend" : "ncclRecv", object->seq,
			      object->src, object->dst);
		nspy_add_comm(s, object->comm);
		return;
	default:
		if (object->replay) {
			nspy_str_addf(s, "graph replay #%" PRIu64 " of ", object->replay);
			nspy_add_comm(s, object->comm);
			return;
		}
		rec = known_call(object->comm, object->seq);
		if (object->seq == 0) {
			nspy_str_add(s, "their last messages");
		} else if (rec) {
			nspy_add_call(s, c->model, rec);
			nspy_str_addf(s, " #%" PRIu64, object->seq);
		} else {
			nspy_add_op(s, c->model, object->comm, object->seq);
		}
		nspy_str_add(s, " of ");
		nspy_add_comm(s, object->comm);
	}
}

/* Where most of the waiting ones are: the name of their open call. */
static const char *common_call(const struct nspy_case *c, const struct nspy_procs *waiters)
{
	const char *name = NULL;

	for (size_t i = 0; i < waiters->count; i++) {
		const struct nspy_placed_call *call = c->waits.procs[waiters->items[i]->index].call;
		const char *other = call ? nspy_model_get_fn(c->model, call->rec.fn)->name : NULL;

		if (name && other && strcmp(name, other) != 0)
			return "several calls";
		name = other ? other : name;
	}
	return name;
}

/* Those that wait for the culprits in other operations than the main one. */
static void add_others(struct nspy_str *s, const struct nspy_hang *hang)
{
	struct nspy_procs others = {0};

	for (size_t i = 0; i < hang->direct.count; i++) {
		if (!nspy_procs_has(&hang->main->waiters, hang->direct.items[i]))
			nspy_procs_add(&others, hang->direct.items[i]);
	}
	if (others.count) {
		nspy_str_add(s, "; ");
		nspy_add_procs_short(s, others.items, others.count);
		nspy_str_addf(s, " in %zu other operation%s of theirs", hang->other_objects,
			      hang->other_objects == 1 ? "" : "s");
	}
	free(others.items);
}

char *nspy_tell_waiters(const struct nspy_case *c, const struct nspy_hang *hang)
{
	const struct nspy_procs *waiters = &hang->main->waiters;
	const char *call = common_call(c, waiters);
	struct nspy_str s = {0};

	nspy_add_procs_short(&s, waiters->items, waiters->count);
	nspy_str_add(&s, waiters->count == 1 ? " waited " : " waited up to ");
	nspy_add_duration(&s, hang->until_ns - hang->main->since_ns);
	if (call)
		nspy_str_addf(&s, " in %s", call);
	nspy_str_add(&s, " for ");
	nspy_add_object(&s, c, hang->main);
	add_others(&s, hang);
	if (hang->indirect.count) {
		nspy_str_add(&s, "; ");
		nspy_add_procs_short(&s, hang->indirect.items, hang->indirect.count);
		nspy_str_add(&s, " waited for those that wait");
	}
	return nspy_str_take(&s);
}

char *nspy_tell_doing(const struct nspy_case *c, const struct nspy_proc *proc)
{
	struct nspy_str s = {0};

	nspy_add_proc(&s, proc);
	nspy_str_add(&s, ": ");
	nspy_add_doing(&s, c->model, proc);
	if (proc->state == NSPY_PROC_COMPLETE)
		nspy_str_add(&s, "; it closed its trace at ");
	else if (nspy_proc_died(proc))
		nspy_str_add(&s, "; it died at ");
	else
		return nspy_str_take(&s);
	nspy_add_clock(&s,
		       proc->exit.known && proc->exit.real_ns ? proc->exit.real_ns : proc->end_ns);
	if (proc->exit.known) {
		nspy_str_add(&s, " with ");
		nspy_add_exit(&s, proc);
	}
	return nspy_str_take(&s);
}

void nspy_add_exit(struct nspy_str *s, const struct nspy_proc *proc)
{
	char scratch[16];

	if (proc->exit.signal) {
		nspy_str_addf(s, "signal %d (%s)", proc->exit.signal,
			      nspy_signal_name(proc->exit.signal, scratch, sizeof(scratch)));
	} else if (proc->exit.known) {
		nspy_str_addf(s, "exit code %d", proc->exit.code);
	} else {
		nspy_str_add(s, "no exit status known");
	}
}

const char *nspy_explain_exit(const struct nspy_proc *proc)
{
	switch (proc->exit.signal) {
	case SIGABRT:
		return "exit status 134 is SIGABRT: the process gave up by itself; PyTorch's "
		       "watchdog "
		       "and heartbeat monitor end this way, and so does a failed assertion";
	case SIGBUS:
		return "exit status 135 is SIGBUS: most often a full /dev/shm or a file on a full "
		       "disk that was mapped";
	case SIGKILL:
		return "exit status 137 is SIGKILL: the kernel's out-of-memory killer, an eviction "
		       "or a person; the kernel log of the node tells which";
	case SIGSEGV:
		return "exit status 139 is SIGSEGV: a crash; the last call below is where to look, "
		       "not necessarily the cause";
	case SIGTERM:
		return "exit status 143 is SIGTERM: asked to end by a scheduler, launcher or "
		       "person";
	default:
		return NULL;
	}
}

void nspy_tell_last_error(const struct nspy_case *c, struct nspy_finding *finding,
			  const struct nspy_proc *proc)
{
	const struct nspy_error *last = NULL;
	const struct nspy_fn *fn;

	for (size_t i = 0; i < proc->error_count; i++) {
		if (!last || proc->errors[i].first_ns > last->first_ns)
			last = &proc->errors[i];
	}
	if (!last)
		return;
	fn = nspy_model_get_fn(c->model, last->fn);
	nspy_finding_detail(finding, "before that %s gave %s (%d)%s%s", fn->name,
			    nspy_model_result(c->model, (enum nspy_model_lib)fn->lib, last->code),
			    last->code, last->text ? ": " : "", last->text ? last->text : "");
}

void nspy_tell_errors(const struct nspy_case *c, struct nspy_finding *finding)
{
	struct nspy_procs hit = {0};
	struct nspy_str s = {0};

	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		const struct nspy_proc *proc = c->attempt->procs[i];
		bool after = false;

		for (size_t e = 0; e < proc->error_count; e++)
			after |= nspy_error_follows_death(c, proc, &proc->errors[e]) ||
				 nspy_error_follows_wait(c, proc, &proc->errors[e]);
		if (after)
			nspy_procs_add(&hit, proc);
	}
	if (hit.count) {
		nspy_add_procs_short(&s, hit.items, hit.count);
		nspy_str_add(&s, " then got errors from NCCL");
		nspy_texts_add(&finding->consequences, nspy_str_take(&s));
	}
	free(hit.items);
}
