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
}
