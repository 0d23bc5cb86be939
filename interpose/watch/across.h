/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs on several nodes. The speaker of each node posts the node's pages on a change for the worse
 * and every NCCLSPY_BOARD_S seconds. The node of rank 0 leads: it reads all, judges, tells in full
 * and writes the digest, from which every other node tells one line. When the digest falls silent
 * the node with the lowest live rank takes over, and until then each node judges what it sees
 * itself, with twice the patience. context: watcher thread of the speaker.
 */
#ifndef NSPY_WATCH_ACROSS_H
#define NSPY_WATCH_ACROSS_H

#include "pages.h"
#include "verdict.h"

void nspy_across_start(uint64_t now_ns);

/* Whether the job has ranks that these pages do not show, and a directory to meet them in. */
bool nspy_across_wanted(const struct nspy_local *local);

/* Posts the node's pages even if nobody waits for them: who controls the job wants to see it. */
void nspy_across_post(const struct nspy_local *local, uint64_t now_ns);

/* What to judge. */
struct nspy_view {
	const struct nspy_status *pages;
	uint32_t count;
	bool judge; /* false: somebody else does */
	bool whole; /* all nodes that could be heard are in it */
};

/* Posts, asks and listens; ret is valid until the next call. */
void nspy_across_look(const struct nspy_local *local, uint64_t now_ns,
		      const struct nspy_limits *limits, struct nspy_status *own,
		      struct nspy_view *ret);

/* After judging: tells the others. */
void nspy_across_tell(uint64_t now_ns);

#endif
