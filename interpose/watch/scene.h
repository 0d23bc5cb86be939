/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits for whom, worked out from status pages alone; a pure function, so that tests can feed
 * it any situation. The reasoning is that of docs/DETECTORS.md: a rank waits if a call that depends
 * on its peers is open; what it waits for are operations that it has entered and another member of
 * the communicator has not; following these edges ends at ranks that wait for nobody.
 *
 * Times are in the clock of the pages; pages of other hosts must have been shifted to it.
 */
#ifndef NSPY_WATCH_SCENE_H
#define NSPY_WATCH_SCENE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_arena.h"
#include "trace_status.h"

#define NSPY_NOWHERE UINT32_MAX

enum nspy_object_kind {
	NSPY_OBJECT_CREATE, /* the creation of a communicator */
	NSPY_OBJECT_COLL,   /* collective number seq of it */
	NSPY_OBJECT_GRAPH,  /* replay number seq of a graph with its collectives */
	NSPY_OBJECT_P2P,    /* message number seq from src to dst */
};

/* A rank's part in a communicator. */
struct nspy_member {
	uint64_t key;
	uint32_t page;
	uint16_t comm; /* of the page */
};

struct nspy_group {
	uint64_t key;
	uint32_t first, count; /* members */
	uint64_t low, high;    /* fewest and most collectives entered */
	int32_t nranks;        /* -1 = not known */
	bool created;          /* on some member at least */
};

/* Something that ranks wait for. */
struct nspy_object {
	enum nspy_object_kind kind;
	uint32_t group;
	uint64_t seq;
	int32_t src, dst;  /* ranks of the communicator */
	bool send_missing; /* P2P: it is the send that has not come */
	uint32_t first_blamed, blamed_count;
	uint32_t waiters;
	uint32_t unseen;   /* members nothing is known of */
	uint64_t since_ns; /* the longest waiter began then */
	uint32_t longest;  /* its page */
};

struct nspy_page_wait {
	bool waiting;
	bool weak; /* concluded from silence, not from an open call */
	const struct nspy_status_call *call;
	uint64_t since_ns;
	uint32_t first_link; /* what it waits for */
	bool blamed;
};

struct nspy_link {
	uint32_t object, next;
};

struct nspy_scene {
	const struct nspy_status *pages;
	uint32_t count;
	uint64_t now_ns, min_wait_ns;
	struct nspy_page_wait *waits; /* by page */
	struct nspy_member *members;
	uint32_t member_count;
	struct nspy_group *groups;
	uint32_t group_count;
	uint32_t unseen; /* members of groups that no page shows */
	struct nspy_object *objects;
	uint32_t object_count;
	uint32_t *blamed; /* pages */
	uint32_t blamed_count, blamed_room;
	struct nspy_link *links;
	uint32_t link_count;
};

/*
 * waits shorter than min_wait_ns are none; silence counts as waiting after silence_ns. 0, or
 * -ENOMEM if the arena is too small.
 */
int nspy_scene_find(struct nspy_scene *scene, const struct nspy_status *pages, uint32_t count,
		    uint64_t now_ns, uint64_t min_wait_ns, uint64_t silence_ns,
		    struct nspy_arena *arena);

const struct nspy_status_comm *nspy_scene_comm(const struct nspy_scene *scene,
					       const struct nspy_member *member);

/* The group of a key, NULL if nobody has it. */
const struct nspy_group *nspy_scene_group(const struct nspy_scene *scene, uint64_t key);

/* A page that can neither wait nor go on. */
/* When a communicator moved is noticed this much too late at most. */
#define NSPY_SEEN_LATE_NS 3000000000ull
/* When the rank last entered a collective, as far as it was noticed; 0 = never. */
uint64_t nspy_page_latest_use(const struct nspy_status *page);

static inline bool nspy_page_gone(const struct nspy_status *page)
{
	return page->dead || page->state != NSPY_STATUS_RUNNING;
}

#endif
