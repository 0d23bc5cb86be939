/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting without an open call. Some programs never block: they ask an event again and again, and
 * when they lose patience they abort and leave. Questions are not recorded, so all there is to see
 * is silence after an operation, and how it ended.
 *
 * An abort after long silence, while others had not joined an operation, is a wait as good as one
 * in a call. Silence until a process is cut, or leaves with an error, is a hint; it is only taken
 * where no process at all shows a wait. A process that had nothing to wait for is not considered:
 * it may have saved a checkpoint and tidied up, unless it killed itself right after the abort.
 */
#include <signal.h>

#include "case.h"
#include "who.h"

static uint64_t patience(const struct nspy_case *c, const struct nspy_proc *proc)
{
	return proc->state == NSPY_PROC_RUNNING ? c->options.hang_running_ns
						: c->options.hang_ended_ns;
}

static bool ended_badly(const struct nspy_proc *proc)
{
	return !proc->ended_clean || (proc->exit.known && (proc->exit.signal || proc->exit.code));
}

/* Messages of each direction that the peer has met, UINT64_MAX if the peer left no whole trace. */
static void met_by(const struct nspy_member *member, const struct nspy_peer *peer,
		   uint64_t *ret_sends, uint64_t *ret_recvs)
{
	const struct nspy_member *other = nspy_member_by_rank(member->comm, peer->peer);
	size_t me = member->rec.rank < 0 ? SIZE_MAX : (size_t)member->rec.rank;

	*ret_sends = *ret_recvs = UINT64_MAX;
	if (!other || other->proc->torn || me >= other->peer_count || !other->peers[me])
		return;
	*ret_sends = other->peers[me]->recv.last;
	*ret_recvs = other->peers[me]->send.last;
}

static bool message_ahead(const struct nspy_member *member)
{
	uint64_t sends, recvs;

	for (size_t p = 0; p < member->peer_count; p++) {
		if (!member->peers[p])
			continue;
		met_by(member, member->peers[p], &sends, &recvs);
		if (member->peers[p]->send.last > sends || member->peers[p]->recv.last > recvs)
			return true;
	}
	return false;
}

static bool in_use(const struct nspy_member *member, uint64_t until_ns)
{
	return member && member->comm && (!member->gone_ns || member->gone_ns >= until_ns);
}

/* It had entered an operation that some other member never did. */
static bool ahead(const struct nspy_proc *proc, uint64_t until_ns)
{
	for (size_t m = 0; m < proc->member_count; m++) {
		const struct nspy_member *member = proc->members[m];

		if (in_use(member, until_ns) &&
		    (member->last_seq > nspy_late_low(member->comm, until_ns) ||
		     message_ahead(member)))
			return true;
	}
	return false;
}

/*
 * It gave up as watchdogs do, the last thing it had done was to queue an operation, and nobody else
 * was ahead of it in a collective: what it queued never came back, although all had joined. Who
 * leaves with an error of its own after an abort may have had other reasons.
 */
static bool stuck_below(const struct nspy_case *c, const struct nspy_proc *proc, uint64_t until_ns)
{
	unsigned int klass = nspy_model_get_fn(c->model, proc->busy.rec.fn)->klass;

	if (!proc->abort_ns || !proc->exit.known || proc->exit.signal != SIGABRT ||
	    !proc->busy.thread)
		return false;
	if (klass != NSPY_CLASS_COLL && klass != NSPY_CLASS_SEND && klass != NSPY_CLASS_RECV &&
	    klass != NSPY_CLASS_GROUP_END)
		return false;
	for (size_t m = 0; m < proc->member_count; m++) {
		const struct nspy_member *member = proc->members[m];

		if (in_use(member, until_ns) && member->last_seq < member->comm->high_seq)
			return false;
	}
	return true;
}

/*
 * When it fell silent. Threads of NCCL's own tidy up as soon as an abort begins, which may pass for
 * the latest call; then the latest operation is what is known.
 */
static uint64_t silent_since(const struct nspy_proc *proc, uint64_t until_ns)
{
	uint64_t since = proc->busy.thread ? proc->busy.rec.leave : 0;

	if (since < until_ns)
		return since;
	since = 0;
	for (size_t m = 0; m < proc->member_count; m++) {
		const struct nspy_member *member = proc->members[m];

		if (member && member->last.thread && member->last.rec.leave > since)
			since = member->last.rec.leave;
	}
	return since;
}

uint64_t nspy_silence_before_abort(const struct nspy_proc *proc)
{
	uint64_t since = proc->abort_ns ? silent_since(proc, proc->abort_ns) : 0;

	return since && since < proc->abort_ns ? proc->abort_ns - since : 0;
}

void nspy_silence_find(const struct nspy_case *c, const struct nspy_proc *proc, bool hint,
		       struct nspy_proc_wait *wait)
{
	uint64_t until = proc->abort_ns ? proc->abort_ns : proc->end_ns;
	uint64_t since = silent_since(proc, until);

	if (!proc->abort_ns && !(hint && ended_badly(proc)))
		return;
	if (nspy_proc_may_miss(proc, since)) /* not silent, or nobody knows */
		return;
	if (!since || since + patience(c, proc) > until ||
	    (!ahead(proc, until) && !stuck_below(c, proc, until)))
		return;
	wait->waiting = true;
	wait->weak = !proc->abort_ns || !ahead(proc, until);
	wait->aborted = proc->abort_ns;
	wait->since_ns = since;
	wait->until_ns = until;
}
