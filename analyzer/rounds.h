/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds: bursts of operations between which the ranks had been together, i.e. all had arrived at
 * the last operation of a burst before anybody came to the first of the next. Lateness builds up
 * within a burst, since operations are only queued, and is settled at its end: others wait there
 * for whoever comes last to the last operation. That one was late by itself and not because of the
 * burst before.
 */
#ifndef NSPY_ROUNDS_H
#define NSPY_ROUNDS_H

#include "model.h"

struct nspy_round {
	uint64_t seq; /* last operation of the burst, and its arrivals */
	uint64_t first_ns, last_ns;
	uint32_t last_member; /* id */
	uint32_t gap_ns;      /* how long after the last but one; 0: several came last at once */
};

struct nspy_rounds {
	struct nspy_round *items;
	size_t count, capacity;
};

/* Rounds of a communicator that all its traced members took part in. Free items with free. */
void nspy_rounds_find(const struct nspy_comm *comm, struct nspy_rounds *ret);

/* Arrivals of all members at some rounds. */
struct nspy_arrivals {
	size_t members;
	size_t rounds;
	uint64_t *ns; /* [round * members + member], 0 = not seen */
};

/* Reads the traces again for at most max rounds, spread evenly. Free ns with free. */
void nspy_rounds_sample(const struct nspy_model *model, const struct nspy_comm *comm,
			const struct nspy_rounds *rounds, size_t max, struct nspy_arrivals *ret);

#endif
