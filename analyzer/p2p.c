/* SPDX-License-Identifier: Apache-2.0 */
#include "p2p.h"

#include <stdlib.h>
#include <string.h>

#include "case.h"
#include "reread.h"
#include "who.h"

#define PAIRS_MAX    256u
#define MESSAGES_MAX (4u << 20)

/* Sum over the first common messages; false if that cannot be told any more. */
static bool sum_of_first(const struct nspy_way *way, uint64_t common, uint32_t *ret_sum)
{
	uint32_t sum = way->sum;

	if (way->seen != way->last || way->last - common > NSPY_PEER_RING)
		return false;
	for (uint64_t s = common + 1; s <= way->last; s++)
		sum -= way->ring[s % NSPY_PEER_RING];
	*ret_sum = sum;
	return true;
}

static bool disagree(const struct nspy_way *send, const struct nspy_way *recv, uint64_t *ret_common)
{
	uint64_t common = send->last < recv->last ? send->last : recv->last;
	uint32_t a, b;

	*ret_common = common;
	return common && sum_of_first(send, common, &a) && sum_of_first(recv, common, &b) && a != b;
}

static void compare_peers(struct nspy_p2p *p2p, const struct nspy_comm *comm,
			  const struct nspy_member *sender)
{
	for (size_t p = 0; p < sender->peer_count && p2p->count < PAIRS_MAX; p++) {
		const struct nspy_peer *peer = sender->peers[p], *back;
		const struct nspy_member *receiver;
		uint64_t common;

		if (!peer || !peer->send.last || sender->rec.rank < 0)
			continue;
		receiver = nspy_member_by_rank(comm, peer->peer);
		if (!receiver || (size_t)sender->rec.rank >= receiver->peer_count)
			continue;
		back = receiver->peers[sender->rec.rank];
		if (!back || !disagree(&peer->send, &back->recv, &common))
			continue;
		p2p->items = nspy_grow(p2p->items, p2p->count, &p2p->capacity, sizeof(*p2p->items));
		p2p->items[p2p->count++] = (struct nspy_p2p_pair){comm, sender, receiver, common};
	}
}

void nspy_p2p_find(struct nspy_case *c)
{
	for (size_t i = 0; i < c->attempt->comm_count; i++) {
		const struct nspy_comm *comm = c->attempt->comms[i];

		for (size_t m = 0; m < comm->member_count; m++)
			compare_peers(&c->p2p, comm, comm->members[m]);
	}
}

void nspy_p2p_done(struct nspy_p2p *p2p)
{
	free(p2p->items);
	*p2p = (struct nspy_p2p){0};
}

/* --- reading again --- */

struct message {
	uint64_t count;
	uint8_t datatype;
	bool seen;
};

struct reading {
	const struct nspy_model *model;
	const struct nspy_p2p_pair *pair;
	struct message *sent;
	size_t capacity;
	bool second; /* reading the receiver */
	struct nspy_p2p_message *found;
};

static bool same(const struct message *message, const struct nspy_rec *rec)
{
	return message->count == rec->count && message->datatype == rec->datatype;
}

static struct nspy_rec aligned(const struct nspy_proc *proc, const struct nspy_rec *rec)
{
	struct nspy_rec copy = *rec;

	copy.fn = rec->fn < proc->fn_map_count ? proc->fn_map[rec->fn] : 0;
	copy.enter = nspy_proc_when(proc, copy.enter);
	copy.leave = rec->leave ? nspy_proc_when(proc, rec->leave) : 0;
	return copy;
}

static void visit(void *context, const struct nspy_proc *proc, uint32_t thread,
		  const struct nspy_rec *rec)
{
	struct reading *r = context;
	uint16_t id = rec->fn < proc->fn_map_count ? proc->fn_map[rec->fn] : 0;
	const struct nspy_member *me = r->second ? r->pair->receiver : r->pair->sender;
	const struct nspy_member *other = r->second ? r->pair->sender : r->pair->receiver;
	unsigned int klass = nspy_model_get_fn(r->model, id)->klass;

	(void)thread;
	if (klass != (r->second ? NSPY_CLASS_RECV : NSPY_CLASS_SEND) ||
	    (rec->flags & (NSPY_CALL_CAPTURED | NSPY_CALL_NOSEQ)) || rec->peer != other->rec.rank ||
	    rec->comm >= proc->member_count || proc->members[rec->comm] != me || rec->seq == 0 ||
	    rec->seq > r->pair->common || rec->seq >= r->capacity)
		return;
	if (!r->second) {
		r->sent[rec->seq] = (struct message){rec->count, rec->datatype, true};
		if (rec->seq == r->found->ordinal)
			r->found->send = aligned(proc, rec);
		return;
	}
	if (!r->sent[rec->seq].seen || same(&r->sent[rec->seq], rec) ||
	    (r->found->ordinal && r->found->ordinal <= rec->seq))
		return;
	r->found->ordinal = rec->seq;
	r->found->recv = aligned(proc, rec);
}

void nspy_p2p_reread(const struct nspy_model *model, const struct nspy_p2p_pair *pair,
		     struct nspy_p2p_message *ret)
{
	struct reading r = {.model = model, .pair = pair, .found = ret};
	const struct message *before;

	*ret = (struct nspy_p2p_message){0};
	r.capacity = (pair->common < MESSAGES_MAX ? (size_t)pair->common : MESSAGES_MAX) + 1;
	r.sent = nspy_xcalloc(r.capacity, sizeof(*r.sent));
	nspy_reread(pair->sender->proc, visit, &r);
	r.second = true;
	nspy_reread(pair->receiver->proc, visit, &r);
	if (ret->ordinal) {
		r.second = false; /* once more for the record of the sender */
		nspy_reread(pair->sender->proc, visit, &r);
		/* The message before was equal, or it would have been found. */
		before = &r.sent[ret->ordinal - 1];
		ret->sender_changed = before->seen && same(before, &ret->recv);
		ret->receiver_changed = before->seen && same(before, &ret->send);
	}
	free(r.sent);
}
