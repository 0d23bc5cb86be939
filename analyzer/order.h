/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do ranks use two communicators in different order? Asked only when ranks are stuck without
 * anybody missing: either the waits form a circle, or all have arrived everywhere and nothing comes
 * back, because operations of a stream run in the order in which they were queued.
 */
#ifndef NSPY_ORDER_H
#define NSPY_ORDER_H

#include "waits.h"

struct nspy_order_op {
	const struct nspy_comm *comm;
	uint64_t seq;
};

struct nspy_order {
	bool found;
	struct nspy_order_op usual_first, odd_first; /* what each side called first */
	struct nspy_procs usual, odd;                /* odd: the smaller side */
	bool tie;
};

struct nspy_case;
/* Needs the waits. */
void nspy_order_find(struct nspy_case *c);
void nspy_order_done(struct nspy_order *order);

#endif
