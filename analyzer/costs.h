/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lateness costs, and whom: at the end of each round (rounds.h) the others wait for whoever
 * comes last, from the last but one arrival on. That time, for each of them, is charged to the last
 * one; so far as that one was itself held up meanwhile at the end of a round of another
 * communicator, to whoever held it up there. All that is charged adds up to all that was lost: by
 * rank, by communicator, by the call that came late, and by who waited for whom.
 *
 * These are arrivals on the host: what a slow GPU costs is not in them. Times are nanoseconds.
 */
#ifndef NSPY_COSTS_H
#define NSPY_COSTS_H

#include "model.h"

/* A time in which others waited for a rank, for those ranks that cost most. */
#define NSPY_COSTS_READ_MAX 8u /* ranks */
struct nspy_cost_window {
	uint32_t proc; /* index */
	uint32_t waiters;
	uint64_t from_ns, to_ns;
};

/*
 * A call that ranks came late to: a function with the same arguments on communicators of the same
 * size, which is as close to a place in the program as traces come.
 */
struct nspy_cost_site {
	const struct nspy_comm *comm; /* an operation of it: the first that cost something */
	uint64_t seq;
	uint16_t fn; /* model function id */
	uint64_t rounds;
	uint64_t ns; /* charged to those who were late to it */
};

/* Nodes that cost most, for which it is kept who waited for them. */
#define NSPY_COSTS_NODES_MAX 64u
struct nspy_cost_link {
	const struct nspy_proc *late, *waiting; /* a process of each node */
	uint64_t ns;
};

struct nspy_costs {
	uint64_t rank_ns;   /* time that all processes lived, added up */
	uint64_t lost_ns;   /* of it spent waiting for whoever came last */
	uint64_t *by_proc;  /* by proc->index: charged to it */
	uint64_t *waited;   /* by proc->index: of lost_ns, waited by it */
	uint64_t *by_comm;  /* by place in attempt->comms: lost in it */
	size_t rounds;      /* looked at */
	size_t withheld;    /* not charged: the clocks of the hosts may be further apart */
	uint64_t passed_ns; /* part of lost_ns that was charged on through another communicator */
	struct nspy_cost_site *sites;
	size_t site_count, site_capacity;
	struct nspy_cost_link *links; /* the most costly first */
	size_t link_count, link_capacity;
	struct nspy_cost_window *windows;
	size_t window_count, window_capacity;
};

void nspy_costs_find(const struct nspy_model *model, const struct nspy_attempt *attempt,
		     struct nspy_costs *ret);
void nspy_costs_done(struct nspy_costs *costs);

/* A pattern of operations that repeats. */
struct nspy_steps {
	size_t length; /* operations in a step, 0 = no pattern was found */
	size_t count;  /* whole steps */
	uint64_t median_ns, slowest_ns;
	uint64_t slowest_seq; /* its first operation */
	uint64_t first_seq;   /* first operation of the first step */
};

/* Steps of the last operations of a communicator that all its members seen took part in. */
void nspy_steps_find(const struct nspy_comm *comm, struct nspy_steps *ret);

#endif
