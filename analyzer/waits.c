/* SPDX-License-Identifier: Apache-2.0 */
#include "waits.h"

#include <stdlib.h>
#include <string.h>

#include "case.h"
#include "who.h"

void nspy_procs_add(struct nspy_procs *procs, const struct nspy_proc *proc)
{
	procs->items =
		nspy_grow(procs->items, procs->count, &procs->capacity, sizeof(struct nspy_proc *));
	procs->items[procs->count++] = proc;
}

bool nspy_procs_has(const struct nspy_procs *procs, const struct nspy_proc *proc)
{
	for (size_t i = 0; i < procs->count; i++) {
		if (procs->items[i] == proc)
			return true;
	}
	return false;
}

/* --- is a process waiting? --- */

/* A process that ends this soon after a call gave up waiting ends because of it. */
#define GIVE_UP_NS (10 * NSPY_NS_PER_S)

static uint64_t threshold(const struct nspy_case *c, const struct nspy_proc *proc)
{
	return proc->state == NSPY_PROC_RUNNING ? c->options.hang_running_ns
						: c->options.hang_ended_ns;
}

static void consider(const struct nspy_case *c, const struct nspy_proc *proc,
		     struct nspy_proc_wait *wait, const struct nspy_placed_call *call,
		     uint64_t until_ns)
{
	const struct nspy_fn *fn = nspy_model_get_fn(c->model, call->rec.fn);

	if (!nspy_class_waits(fn->klass) || call->rec.enter + threshold(c, proc) > until_ns)
		return;
	if (wait->waiting && wait->since_ns <= call->rec.enter)
		return;
	wait->waiting = true;
	wait->call = call;
	wait->since_ns = call->rec.enter;
	wait->until_ns = until_ns;
}

/* A communicator that was asked for and had neither come nor failed at that time. */
static bool pending(const struct nspy_member *member, uint64_t when_ns)
{
	return member && member->known && member->started_ns && !member->ready_ns &&
	       (!member->failed_ns || member->failed_ns > when_ns) &&
	       (!member->gone_ns || member->gone_ns > when_ns);
}

/* The last thing the process did was a call that gave up waiting with an error. */
static bool gave_up(const struct nspy_case *c, const struct nspy_proc *proc,
		    const struct nspy_placed_call *stall)
{
	const struct nspy_fn *fn = nspy_model_get_fn(c->model, stall->rec.fn);

	return stall->rec.result != 0 && fn->lib == NSPY_MODEL_NCCL &&
	       stall->rec.leave + GIVE_UP_NS > proc->end_ns;
}

static void find_wait(const struct nspy_case *c, const struct nspy_proc *proc,
		      struct nspy_proc_wait *wait)
{
	for (size_t i = 0; i < proc->wait_count; i++)
		consider(c, proc, wait, &proc->waits[i], proc->end_ns);
	/* A wait that an abort put an end to: the abort came from another thread meanwhile. */
	for (size_t i = 0; proc->abort_ns && i < proc->stall_count; i++) {
		const struct nspy_placed_call *stall = &proc->stalls[i];

		if (stall->rec.enter >= proc->abort_ns || stall->rec.leave < proc->abort_ns)
			continue;
		consider(c, proc, wait, stall, proc->abort_ns);
		wait->aborted = wait->waiting;
	}
	for (size_t i = 0; i < proc->stall_count; i++) {
		if (gave_up(c, proc, &proc->stalls[i]))
			consider(c, proc, wait, &proc->stalls[i], proc->stalls[i].rec.leave);
	}
	for (size_t m = 0; !wait->waiting && m < proc->member_count; m++) {
		const struct nspy_member *member = proc->members[m];

		if (!pending(member, proc->end_ns) ||
		    !(member->rec.flags & NSPY_COMM_NONBLOCKING) ||
		    member->started_ns + threshold(c, proc) > proc->end_ns)
			continue;
		wait->waiting = true;
		wait->since_ns = member->started_ns;
		wait->until_ns = proc->end_ns;
	}
}

/* --- what for? --- */

/* Ranks of which it is not known what they did last. */
static size_t untraced(const struct nspy_comm *comm)
{
	size_t count = comm->nranks > 0 && (size_t)comm->nranks > comm->rank_count
			       ? (size_t)comm->nranks - comm->rank_count
			       : 0;

	for (size_t i = 0; i < comm->member_count; i++)
		count += nspy_member_unsure(comm->members[i]);
	return count;
}

static struct nspy_wait_object *object_of(struct nspy_waits *waits,
					  const struct nspy_wait_object *like, bool *ret_new)
{
	struct nspy_wait_object *object;

	for (size_t i = 0; i < waits->object_count; i++) {
		object = waits->objects[i];
		if (object->kind == like->kind && object->comm == like->comm &&
		    object->seq == like->seq && object->src == like->src &&
		    object->dst == like->dst && object->send_missing == like->send_missing) {
			*ret_new = false;
			return object;
		}
	}
	object = nspy_xmalloc(sizeof(*object));
	*object = *like;
	waits->objects = nspy_grow(waits->objects, waits->object_count, &waits->object_capacity,
				   sizeof(struct nspy_wait_object *));
	waits->objects[waits->object_count++] = object;
	*ret_new = true;
	return object;
}

/* Adds a waiter; the caller fills in the blamed of a new object. */
static struct nspy_wait_object *wait_on(struct nspy_waits *waits,
					const struct nspy_wait_object *like,
					const struct nspy_proc *proc, bool *ret_new)
{
	struct nspy_wait_object *object = object_of(waits, like, ret_new);
	uint64_t since = waits->procs[proc->index].since_ns;

	if (!object->since_ns || since < object->since_ns)
		object->since_ns = since;
	if (!nspy_procs_has(&object->waiters, proc))
		nspy_procs_add(&object->waiters, proc);
	return object;
}

static bool wait_create(struct nspy_waits *waits, const struct nspy_member *member)
{
	const struct nspy_comm *comm = member->comm;
	struct nspy_wait_object like = {.kind = NSPY_WAIT_CREATE, .comm = comm};
	struct nspy_wait_object *object;
	bool new;

	if (!comm || comm->origin == NSPY_COMM_FOUND)
		return false;
	object = wait_on(waits, &like, member->proc, &new);
	if (new)
		object->untraced = untraced(comm);
	return true;
}

static bool wait_coll(const struct nspy_case *c, struct nspy_waits *waits,
		      const struct nspy_member *member)
{
	const struct nspy_comm *comm = member->comm;
	struct nspy_wait_object like = {.kind = NSPY_WAIT_COLL, .comm = comm};
	uint64_t until = waits->procs[member->proc->index].until_ns;
	struct nspy_wait_object *object;
	bool new;

	if (!comm)
		return false;
	like.seq = nspy_late_low(comm, until) + 1;
	if (member->last_seq < like.seq)
		return false;
	object = wait_on(waits, &like, member->proc, &new);
	for (size_t i = 0; new &&i < comm->member_count; i++) {
		const struct nspy_member *other = comm->members[i];

		if (other->last_seq < like.seq && !nspy_member_unsure(other) &&
		    !(other->failed_ns && !other->ready_ns))
			nspy_procs_add(&object->blamed, other->proc);
	}
	if (new)
		object->untraced = untraced(comm);
	if (new)
		nspy_late_blame(c, object, until);
	return true;
}

/*
 * Number of the last matching call on the other side; false if that rank left no trace, or may have
 * gone on without one.
 */
static bool other_side(const struct nspy_comm *comm, int32_t me, int32_t peer, bool my_send,
		       const struct nspy_member **ret_member, uint64_t *ret_last)
{
	const struct nspy_member *other = nspy_member_by_rank(comm, peer);
	const struct nspy_way *way = NULL;

	if (!other)
		return false;
	if (me >= 0 && (size_t)me < other->peer_count && other->peers[me])
		way = my_send ? &other->peers[me]->recv : &other->peers[me]->send;
	*ret_member = other;
	*ret_last = way ? way->last : 0;
	return !nspy_proc_may_miss(other->proc, way ? way->last_enter_ns : 0);
}

/* Messages that `from` has sent to `to` and `to` has received from `from`. */
static uint64_t sent(const struct nspy_member *from, int32_t to)
{
	return to >= 0 && (size_t)to < from->peer_count && from->peers[to]
		       ? from->peers[to]->send.last
		       : 0;
}

static uint64_t received(const struct nspy_member *to, int32_t from)
{
	return from >= 0 && (size_t)from < to->peer_count && to->peers[from]
		       ? to->peers[from]->recv.last
		       : 0;
}

/*
 * The first message ever between these two, while a partner of old waits for one the same way: it
 * went (or was awaited) past that partner. Then the partner's wait tells, and this one would blame
 * a rank that was never meant.
 */
static bool misdirected(const struct nspy_member *member, const struct nspy_way *way,
			uint64_t other_last, int32_t peer, bool my_send)
{
	const struct nspy_comm *comm = member->comm;
	int32_t me = member->rec.rank;

	if (other_last || way->last != 1)
		return false;
	for (int32_t rank = 0; rank < comm->nranks; rank++) {
		const struct nspy_member *old =
			rank == peer ? NULL : nspy_member_by_rank(comm, rank);

		if (!old || rank == me)
			continue;
		if (my_send ? sent(member, rank) && received(old, me) > sent(member, rank)
			    : received(member, rank) && sent(old, me) > received(member, rank))
			return true;
	}
	return false;
}

static bool wait_p2p_way(struct nspy_waits *waits, const struct nspy_member *member, int32_t peer,
			 const struct nspy_way *way, bool my_send)
{
	const struct nspy_comm *comm = member->comm;
	const struct nspy_member *other;
	struct nspy_wait_object *object;
	uint64_t last;
	bool new;

	if (!other_side(comm, member->rec.rank, peer, my_send, &other, &last) ||
	    way->last <= last || other->proc->torn || misdirected(member, way, last, peer, my_send))
		return false;
	object = wait_on(waits,
			 &(struct nspy_wait_object){
				 .kind = NSPY_WAIT_P2P,
				 .comm = comm,
				 .seq = last + 1,
				 .src = my_send ? member->rec.rank : peer,
				 .dst = my_send ? peer : member->rec.rank,
				 .send_missing = !my_send,
			 },
			 member->proc, &new);
	if (new)
		nspy_procs_add(&object->blamed, other->proc);
	return true;
}

static bool in_group(const struct nspy_way *way, const struct nspy_placed_call *group)
{
	return !group || (way->thread == group->thread && way->group == group->rec.group);
}

static bool wait_p2p(struct nspy_waits *waits, const struct nspy_member *member,
		     const struct nspy_placed_call *group)
{
	bool found = false;

	for (size_t p = 0; member->comm && p < member->peer_count; p++) {
		const struct nspy_peer *peer = member->peers[p];

		if (!peer)
			continue;
		if (peer->send.last && in_group(&peer->send, group))
			found |= wait_p2p_way(waits, member, peer->peer, &peer->send, true);
		if (peer->recv.last && in_group(&peer->recv, group))
			found |= wait_p2p_way(waits, member, peer->peer, &peer->recv, false);
	}
	return found;
}

/* Destroyed before the wait began; an abort during the wait does not count. */
static bool gone_before(const struct nspy_waits *waits, const struct nspy_member *member)
{
	return member->gone_ns && member->gone_ns <= waits->procs[member->proc->index].since_ns;
}

/* All that a process could wait for; group limits it to the operations of that group call. */
static bool wait_any(const struct nspy_case *c, struct nspy_waits *waits,
		     const struct nspy_proc *proc, uint32_t comm,
		     const struct nspy_placed_call *group)
{
	bool found = false;

	for (size_t m = 0; m < proc->member_count; m++) {
		const struct nspy_member *member = proc->members[m];

		if (!member || (comm != NSPY_COMM_INDEX_NONE && m != comm))
			continue;
		if (pending(member, waits->procs[proc->index].since_ns)) {
			found |= wait_create(waits, member);
			continue;
		}
		if (gone_before(waits, member) && comm == NSPY_COMM_INDEX_NONE)
			continue;
		if (!group || (member->last.thread == group->thread &&
			       member->last.rec.group == group->rec.group))
			found |= wait_coll(c, waits, member);
		found |= wait_p2p(waits, member, group);
	}
	return found;
}

/* When a member last sent or received. */
static uint64_t latest_p2p(const struct nspy_member *member)
{
	uint64_t latest = 0;

	for (size_t p = 0; p < member->peer_count; p++) {
		const struct nspy_peer *peer = member->peers[p];

		if (peer && peer->send.last_enter_ns > latest)
			latest = peer->send.last_enter_ns;
		if (peer && peer->recv.last_enter_ns > latest)
			latest = peer->recv.last_enter_ns;
	}
	return latest;
}

/* The communicator in which the process was last active; *ret_p2p: with a message. */
static const struct nspy_member *latest_member(const struct nspy_waits *waits,
					       const struct nspy_proc *proc, bool *ret_p2p)
{
	const struct nspy_member *latest = NULL;
	uint64_t latest_ns = 0;

	for (size_t m = 0; m < proc->member_count; m++) {
		const struct nspy_member *member = proc->members[m];
		uint64_t coll_ns, p2p_ns;

		if (!member || !member->comm || gone_before(waits, member))
			continue;
		coll_ns = member->last.thread ? member->last.rec.enter : 0;
		p2p_ns = latest_p2p(member);
		if (coll_ns <= latest_ns && p2p_ns <= latest_ns)
			continue;
		latest = member;
		latest_ns = coll_ns > p2p_ns ? coll_ns : p2p_ns;
		*ret_p2p = p2p_ns > coll_ns;
	}
	return latest;
}

/* When a process first showed that it would leave: an error, an abort, or its end. */
static uint64_t began_to_leave(const struct nspy_proc *proc)
{
	uint64_t when = proc->end_ns;

	if (proc->abort_ns && proc->abort_ns < when)
		when = proc->abort_ns;
	for (size_t i = 0; i < proc->error_count; i++) {
		if (proc->errors[i].first_ns < when)
			when = proc->errors[i].first_ns;
	}
	return when;
}

/*
 * The member that ended long before the wait did, the first one if there are several: an operation
 * is not over for the others when a rank has only queued its part of it.
 */
static void blame_leaver(const struct nspy_case *c, struct nspy_wait_object *object,
			 uint64_t until_ns)
{
	const struct nspy_proc *first = NULL;

	for (size_t i = 0; i < object->comm->member_count; i++) {
		const struct nspy_proc *proc = object->comm->members[i]->proc;

		if (proc->state == NSPY_PROC_RUNNING || c->waits.procs[proc->index].waiting ||
		    proc->end_ns + threshold(c, proc) > until_ns)
			continue;
		if (!first || began_to_leave(proc) < began_to_leave(first))
			first = proc;
	}
	if (first)
		nspy_procs_add(&object->blamed, first);
}

static void wait_below(struct nspy_case *c, const struct nspy_proc *proc)
{
	struct nspy_waits *waits = &c->waits;
	bool p2p = false, new;
	const struct nspy_member *member = latest_member(waits, proc, &p2p);
	struct nspy_wait_object *object;

	if (!member)
		member = nspy_replay_member(c, proc);
	if (!member)
		return;
	object = wait_on(waits,
			 &(struct nspy_wait_object){
				 .kind = NSPY_WAIT_BELOW,
				 .comm = member->comm,
				 .seq = p2p ? 0 : member->last_seq,
			 },
			 proc, &new);
	if (!new)
		return;
	object->untraced = untraced(member->comm);
	blame_leaver(c, object, waits->procs[proc->index].until_ns);
	if (!object->blamed.count)
		nspy_replay_blame(c, object, proc);
}

static void find_objects(struct nspy_case *c, const struct nspy_proc *proc)
{
	struct nspy_waits *waits = &c->waits;
	const struct nspy_placed_call *call = waits->procs[proc->index].call;
	unsigned int klass =
		call ? nspy_model_get_fn(c->model, call->rec.fn)->klass : NSPY_CLASS_COMM_INIT;
	bool found = false;

	if (klass == NSPY_CLASS_GROUP_END && call->rec.group)
		found = wait_any(c, waits, proc, NSPY_COMM_INDEX_NONE, call);
	else if (klass != NSPY_CLASS_SYNC && call && call->rec.comm != NSPY_COMM_INDEX_NONE)
		found = wait_any(c, waits, proc, call->rec.comm, NULL);
	if (!found)
		found = wait_any(c, waits, proc, NSPY_COMM_INDEX_NONE, NULL);
	if (!found)
		wait_below(c, proc);
}

/* --- creations: who never came --- */

/* Did this process call the creation that the waiting ones are in? */
static bool came_to(const struct nspy_proc *proc, const struct nspy_comm *comm)
{
	for (size_t m = 0; m < proc->member_count; m++) {
		const struct nspy_member *member = proc->members[m];

		if (!member || !member->known)
			continue;
		if (member->comm == comm)
			return true;
		/* Another colour of the same split. */
		if (comm->origin == NSPY_COMM_SPLIT && member->rec.origin == comm->origin &&
		    member->rec.parent_key == comm->parent_key &&
		    member->rec.ordinal >= comm->ordinal)
			return true;
	}
	return false;
}

static const struct nspy_comm *parent_of(const struct nspy_case *c, const struct nspy_comm *comm)
{
	for (size_t i = 0; comm->parent_key && i < c->attempt->comm_count; i++) {
		if (c->attempt->comms[i]->shown == comm->parent_key)
			return c->attempt->comms[i];
	}
	return NULL;
}

#define CREATION_NS (600 * NSPY_NS_PER_S)

/* Its call may be among those that were not kept. */
static bool may_have_come(const struct nspy_proc *proc, const struct nspy_wait_object *object)
{
	uint64_t since = object->since_ns;

	return nspy_proc_may_miss(proc, since > CREATION_NS ? since - CREATION_NS : 0);
}

/*
 * The processes that should be in a creation and are not. For a split these are the other members
 * of the parent; for a communicator of the size of the job all other ranks; for a smaller one it
 * cannot be told from outside which ranks were meant.
 */
static void blame_creation(struct nspy_case *c, struct nspy_wait_object *object)
{
	const struct nspy_comm *comm = object->comm;
	const struct nspy_comm *parent = parent_of(c, comm);

	/* Those that came and left with an error. */
	for (size_t i = 0; i < comm->member_count; i++) {
		if (comm->members[i]->failed_ns &&
		    !nspy_procs_has(&object->waiters, comm->members[i]->proc))
			nspy_procs_add(&object->blamed, comm->members[i]->proc);
	}
	object->failed = object->blamed.count;

	if (comm->origin == NSPY_COMM_SPLIT && parent) {
		object->untraced = untraced(parent);
		for (size_t i = 0; i < parent->member_count; i++) {
			if (!parent->members[i]->proc->torn &&
			    !may_have_come(parent->members[i]->proc, object) &&
			    !came_to(parent->members[i]->proc, comm))
				nspy_procs_add(&object->blamed, parent->members[i]->proc);
		}
		return;
	}
	if (comm->nranks <= 0 || comm->nranks != c->attempt->world_size)
		return;
	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		const struct nspy_proc *proc = c->attempt->procs[i];

		if (proc->rank < 0 || proc->rank >= comm->nranks || proc->torn ||
		    may_have_come(proc, object) || came_to(proc, comm) ||
		    nspy_member_by_rank(comm, (int32_t)proc->rank))
			continue;
		nspy_procs_add(&object->blamed, proc);
		if (object->untraced)
			object->untraced--;
	}
}

void nspy_waits_find(struct nspy_case *c)
{
	struct nspy_waits *waits = &c->waits;
	const struct nspy_attempt *attempt = c->attempt;

	waits->procs = nspy_xcalloc(c->model->proc_count, sizeof(*waits->procs));
	for (size_t i = 0; i < attempt->proc_count; i++) {
		const struct nspy_proc *proc = attempt->procs[i];

		find_wait(c, proc, &waits->procs[proc->index]);
		waits->waiting += waits->procs[proc->index].waiting;
	}
	for (size_t i = 0; i < attempt->proc_count; i++) {
		struct nspy_proc_wait *wait = &waits->procs[attempt->procs[i]->index];

		if (!wait->waiting)
			nspy_silence_find(c, attempt->procs[i], !waits->waiting, wait);
	}
	nspy_late_waits(c);
	for (size_t i = 0; i < attempt->proc_count; i++) {
		if (waits->procs[attempt->procs[i]->index].waiting)
			find_objects(c, attempt->procs[i]);
	}
	for (size_t i = 0; i < waits->object_count; i++) {
		if (waits->objects[i]->kind == NSPY_WAIT_CREATE)
			blame_creation(c, waits->objects[i]);
	}
	nspy_hangs_find(c);
}

static void procs_done(struct nspy_procs *procs)
{
	free(procs->items);
}

void nspy_waits_done(struct nspy_waits *waits)
{
	for (size_t i = 0; i < waits->object_count; i++) {
		procs_done(&waits->objects[i]->waiters);
		procs_done(&waits->objects[i]->blamed);
		free(waits->objects[i]);
	}
	free(waits->objects);
	for (size_t i = 0; i < waits->hang_count; i++) {
		procs_done(&waits->hangs[i].culprits);
		procs_done(&waits->hangs[i].direct);
		procs_done(&waits->hangs[i].indirect);
	}
	procs_done(&waits->held.procs);
	procs_done(&waits->held.peers);
	free(waits->hangs);
	free(waits->procs);
	*waits = (struct nspy_waits){0};
}
