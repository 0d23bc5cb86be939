/* SPDX-License-Identifier: Apache-2.0 */
/*
 * P2P_MISMATCH
 *
 * Question: do sender and receiver mean the same message?
 * Evidence: count and datatype of the n-th send to a rank and of the n-th receive from it, for all
 *   messages that both ends recorded. Of the two ends the one is named that changed from the
 * message before while the other did not; if that does not tell, nobody is named. Threshold: none.
 * P2 if both describe the same number of bytes. Known false positives: none known. Pairs that lost
 * records are not compared.
 * Second form, P1: a job that ended in order left messages over. Small ones are sent whether or not
 * anybody receives them; what came after a receive that was left out was taken for something else.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "detect.h"
#include "text.h"
#include "who.h"

#define FINDINGS_MAX 4u

static uint64_t bytes_of(const struct nspy_proc *proc, const struct nspy_rec *rec)
{
	return rec->count * proc->type_bytes[rec->datatype];
}

static void tell(struct nspy_finding *finding, const struct nspy_case *c,
		 const struct nspy_p2p_pair *pair, const struct nspy_p2p_message *message)
{
	const struct nspy_proc *sender = pair->sender->proc, *receiver = pair->receiver->proc;
	struct nspy_str s = {0};

	nspy_add_proc(&s, sender);
	nspy_str_add(&s, " called ");
	nspy_add_call(&s, c->model, &message->send);
	nspy_str_addf(&s, " as message #%" PRIu64 ", ", message->ordinal);
	nspy_add_proc(&s, receiver);
	nspy_str_add(&s, " called ");
	nspy_add_call(&s, c->model, &message->recv);
	nspy_str_add(&s, " in ");
	nspy_add_comm(&s, pair->comm);
	finding->summary = nspy_str_take(&s);
	nspy_str_addf(&s, "message #%" PRIu64 " from ", message->ordinal);
	nspy_add_proc_short(&s, sender);
	nspy_str_add(&s, " to ");
	nspy_add_proc_short(&s, receiver);
	nspy_str_add(&s, " differs in size at both ends");
	finding->cause = nspy_str_take(&s);
	if (message->sender_changed != message->receiver_changed) {
		const struct nspy_proc *odd = message->sender_changed ? sender : receiver;

		nspy_finding_blame(finding, odd);
		nspy_add_proc_short(&s, odd);
		nspy_str_add(&s, " changed from the message before, the other end did not");
		nspy_texts_add(&finding->details, nspy_str_take(&s));
	} else {
		nspy_finding_detail(finding, "which end is right is not determinable");
	}
}

/* --- left over --- */

/* All that this process sent and received is known, and it was not stopped on the way. */
static bool told_all(const struct nspy_proc *proc)
{
	return proc->state == NSPY_PROC_COMPLETE && !proc->abort_ns && !proc->error_count &&
	       !proc->captured && !proc->unnumbered && !proc->unplaced &&
	       !nspy_proc_lost_records(proc) &&
	       !(proc->exit.known && (proc->exit.signal || proc->exit.code));
}

static uint64_t received(const struct nspy_member *member, int32_t from)
{
	if (from < 0 || (size_t)from >= member->peer_count || !member->peers[from])
		return 0;
	return member->peers[from]->recv.last;
}

static void tell_leftover(const struct nspy_case *c, struct nspy_findings *out,
			  const struct nspy_member *sender, const struct nspy_member *receiver,
			  const struct nspy_way *way)
{
	uint64_t got = received(receiver, sender->rec.rank);
	struct nspy_finding *finding = nspy_findings_add(out, NSPY_FINDING_P2P_MISMATCH);
	struct nspy_str s = {0};

	finding->priority = 1;
	finding->comm = sender->comm;
	finding->when_ns = way->last_enter_ns;
	finding->confidence = nspy_case_confidence(c, sender->comm);
	nspy_add_proc(&s, sender->proc);
	nspy_str_addf(&s, " sent %" PRIu64 " message%s to ", way->last, way->last == 1 ? "" : "s");
	nspy_add_proc(&s, receiver->proc);
	nspy_str_addf(&s, " in all, which received %" PRIu64 ", in ", got);
	nspy_add_comm(&s, sender->comm);
	finding->summary = nspy_str_take(&s);
	nspy_str_add(&s, "messages from ");
	nspy_add_proc_short(&s, sender->proc);
	nspy_str_add(&s, " to ");
	nspy_add_proc_short(&s, receiver->proc);
	nspy_str_add(&s, " were left over");
	finding->cause = nspy_str_take(&s);
	nspy_finding_detail(finding, "one end made calls too many or left some out: messages after "
				     "that were taken for others; which end is right is not "
				     "determinable");
}

static void find_leftovers(const struct nspy_case *c, struct nspy_findings *out)
{
	size_t told = 0;

	for (size_t i = 0; i < c->attempt->comm_count; i++) {
		const struct nspy_comm *comm = c->attempt->comms[i];

		for (size_t m = 0; m < comm->member_count; m++) {
			const struct nspy_member *sender = comm->members[m];

			for (size_t p = 0; p < sender->peer_count && told < FINDINGS_MAX; p++) {
				const struct nspy_peer *peer = sender->peers[p];
				const struct nspy_member *receiver =
					peer ? nspy_member_by_rank(comm, peer->peer) : NULL;

				if (!receiver || !told_all(sender->proc) ||
				    !told_all(receiver->proc) ||
				    received(receiver, sender->rec.rank) == peer->send.last)
					continue;
				tell_leftover(c, out, sender, receiver, &peer->send);
				told++;
			}
		}
	}
}

void nspy_detect_p2p_mismatch(const struct nspy_case *c, struct nspy_findings *out)
{
	for (size_t i = 0, told = 0; i < c->p2p.count && told < FINDINGS_MAX; i++) {
		const struct nspy_p2p_pair *pair = &c->p2p.items[i];
		struct nspy_p2p_message message;
		struct nspy_finding *finding;

		nspy_p2p_reread(c->model, pair, &message);
		if (!message.ordinal)
			continue;
		finding = nspy_findings_add(out, NSPY_FINDING_P2P_MISMATCH);
		finding->comm = pair->comm;
		finding->seq = message.ordinal;
		finding->when_ns = message.send.enter;
		tell(finding, c, pair, &message);
		if (bytes_of(pair->sender->proc, &message.send) ==
		    bytes_of(pair->receiver->proc, &message.recv))
			finding->priority = 2;
		for (size_t h = 0; !told && h < c->waits.hang_count; h++) {
			if (nspy_hang_teller(c, &c->waits.hangs[h]) == NSPY_TOLD_BY_P2P)
				nspy_texts_add(&finding->consequences,
					       nspy_tell_waiters(c, &c->waits.hangs[h]));
		}
		told++;
	}
	if (!c->p2p.count && !c->waits.hang_count && !c->deaths.count)
		find_leftovers(c, out);
}
