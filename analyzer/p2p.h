/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparing the two ends of point-to-point traffic. The model keeps, per direction and pair, a sum
 * over all messages and the last few one by one: that is enough to see whether the messages that
 * both ends know agree. Which one differs takes a second reading.
 */
#ifndef NSPY_P2P_H
#define NSPY_P2P_H

#include "model.h"

/* A direction in which sender and receiver disagree. */
struct nspy_p2p_pair {
	const struct nspy_comm *comm;
	const struct nspy_member *sender, *receiver;
	uint64_t common; /* messages that both ends know */
};

struct nspy_p2p {
	struct nspy_p2p_pair *items;
	size_t count, capacity;
};

struct nspy_case;
void nspy_p2p_find(struct nspy_case *c);
void nspy_p2p_done(struct nspy_p2p *p2p);

/* The first message that differs, as both ends called it; fn is a model id, times are aligned. */
struct nspy_p2p_message {
	uint64_t ordinal; /* 0 = none found on reading again */
	struct nspy_rec send, recv;
	bool sender_changed;   /* the one before was the same on both ends, and as recv is now */
	bool receiver_changed; /* likewise, as send is now */
};
void nspy_p2p_reread(const struct nspy_model *model, const struct nspy_p2p_pair *pair,
		     struct nspy_p2p_message *ret);

#endif
