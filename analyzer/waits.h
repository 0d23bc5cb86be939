/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits for whom. A process waits if a call that depends on its peers was open for longer than
 * the threshold when its evidence ends. What it waits for are operations that it has entered and
 * another member has not. Following these edges ends at processes that wait for nobody: there the
 * trouble begins. A collective's return proves only that it was enqueued, so "waits" is never
 * concluded from it.
 */
#ifndef NSPY_WAITS_H
#define NSPY_WAITS_H

#include "model.h"

enum nspy_wait_kind {
	NSPY_WAIT_CREATE, /* the creation of a communicator */
	NSPY_WAIT_COLL,   /* collective number seq */
	NSPY_WAIT_P2P,    /* send or receive number seq between src and dst */
	NSPY_WAIT_BELOW,  /* every rank seen has joined, nothing comes back */
};

struct nspy_procs {
	const struct nspy_proc **items;
	size_t count, capacity;
};

struct nspy_wait_object {
	enum nspy_wait_kind kind;
	const struct nspy_comm *comm;
	uint64_t seq; /* BELOW: 0 stands for messages */
	int32_t src, dst;
	bool send_missing; /* P2P: the send is what is missing */
	struct nspy_procs waiters;
	struct nspy_procs blamed; /* never arrived */
	size_t failed;            /* CREATE: so many of the blamed came and left with an error */
	uint64_t replay;          /* BELOW: the replay of a graph that the blamed have not begun */
	bool late;                /* COLL: some of the blamed came when the waiters had given up */
	size_t untraced;          /* ranks of comm without a trace */
	uint64_t since_ns;        /* the waiter that waits longest began then */
	bool root;                /* some of the blamed wait for nobody */
	bool cyclic;              /* in a circle of waits */
};

struct nspy_proc_wait {
	bool waiting;
	bool weak;                           /* concluded from silence only */
	bool aborted;                        /* the wait was ended by an abort */
	bool explained;                      /* its chain of waits ends at somebody */
	const struct nspy_placed_call *call; /* NULL if there is no open call */
	uint64_t since_ns;
	uint64_t until_ns;
};

/* Culprits that belong together: objects with a common one. */
struct nspy_hang {
	struct nspy_procs culprits; /* wait for nobody themselves */
	const struct nspy_wait_object *main;
	struct nspy_procs direct;   /* wait for a culprit */
	struct nspy_procs indirect; /* wait for somebody who waits */
	size_t other_objects;
	uint64_t since_ns;
	uint64_t until_ns;
};

/* A circle through an operation that all have joined; see held.c. */
struct nspy_held {
	const struct nspy_wait_object *op;     /* NULL = there is none */
	const struct nspy_wait_object *behind; /* for which procs wait before they get to op */
	struct nspy_procs procs;               /* came to op behind others that miss peers */
	struct nspy_procs peers;               /* those peers, which are in op already */
	unsigned int rereads;
};

struct nspy_waits {
	struct nspy_wait_object **objects;
	size_t object_count, object_capacity;
	struct nspy_proc_wait *procs; /* by proc->index */
	struct nspy_hang *hangs;
	size_t hang_count, hang_capacity;
	size_t waiting;
	struct nspy_held held;
};

struct nspy_case;
void nspy_waits_find(struct nspy_case *c);
void nspy_waits_done(struct nspy_waits *waits);

void nspy_procs_add(struct nspy_procs *procs, const struct nspy_proc *proc);
bool nspy_procs_has(const struct nspy_procs *procs, const struct nspy_proc *proc);

/* Which finding tells of a hang; every hang is told once. */
enum nspy_teller {
	NSPY_TOLD_BY_HANG,
	NSPY_TOLD_BY_DEATH,
	NSPY_TOLD_BY_MISMATCH,
	NSPY_TOLD_BY_P2P, /* a mismatch of messages */
	NSPY_TOLD_BY_ORDER,
	NSPY_TOLD_BY_MISSING,
};
enum nspy_teller nspy_hang_teller(const struct nspy_case *c, const struct nspy_hang *hang);

/*
 * silence.c: a wait without an open call, where there is one. hint: no process shows a better one,
 * so silence alone is taken as well.
 */
void nspy_silence_find(const struct nspy_case *c, const struct nspy_proc *proc, bool hint,
		       struct nspy_proc_wait *wait);
/* How long it had called nothing when it aborted a communicator; 0 = it did not abort. */
uint64_t nspy_silence_before_abort(const struct nspy_proc *proc);

/* late.c: the last operation of comm that all its members seen had joined by then */
uint64_t nspy_late_low(const struct nspy_comm *comm, uint64_t until_ns);
/* Blames those who joined the object's operation later than that. */
void nspy_late_blame(const struct nspy_case *c, struct nspy_wait_object *object, uint64_t until_ns);
/* A wait that began when others had given up waiting for this process is no wait. */
void nspy_late_waits(struct nspy_case *c);

/*
 * held.c: if some who wait in x for peer came to b, in which peer is stuck though all have joined
 * it, only behind x, both sides are added to waits->held.
 */
void nspy_held_up(struct nspy_waits *waits, const struct nspy_wait_object *x,
		  const struct nspy_proc *peer, const struct nspy_wait_object *b);
/* Whether those who came behind may be the odd ones; else the peers they wait for are the end. */
bool nspy_held_are_few(const struct nspy_held *held);

/* replay.c: blames those who hold up a replay of graphs that this process waits in. */
void nspy_replay_blame(const struct nspy_case *c, struct nspy_wait_object *object,
		       const struct nspy_proc *waiter);
/* Where nothing ran but graphs: the process in the largest communicator, or NULL. */
const struct nspy_member *nspy_replay_member(const struct nspy_case *c,
					     const struct nspy_proc *proc);

/* hangs.c: from objects and waiting processes to hangs; called by nspy_waits_find. */
void nspy_hangs_find(struct nspy_case *c);

#endif
