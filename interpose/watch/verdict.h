/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong with the job right now, from status pages: a pure function. It answers with at most
 * one verdict, the one that explains the most: a death before a disagreement before a missing rank.
 * It blames nobody rather than the wrong one.
 */
#ifndef NSPY_WATCH_VERDICT_H
#define NSPY_WATCH_VERDICT_H

#include "scene.h"

/* Findings of references/findings.def, by name. */
enum nspy_found_id {
#define NSPY_FINDING(id, priority, title, file, section, owner, restart, action) NSPY_FOUND_##id,
#include "findings.def"
#undef NSPY_FINDING
	NSPY_FOUND_NONE
};

struct nspy_catalog_entry {
	const char *id, *title, *page, *owner, *restart, *action;
	int priority, section;
};
extern const struct nspy_catalog_entry nspy_catalog[];

struct nspy_limits {
	uint64_t note_ns;    /* a wait that long is noted */
	uint64_t hang_ns;    /* ... and reported, unless the job has had longer ones */
	uint64_t start_ns;   /* the same while communicators are made and in the first rounds */
	uint64_t confirm_ns; /* shorter waits are none */
	uint64_t unseen_ns;  /* ranks that no page shows are spoken of that much later */
	uint32_t warm_up_rounds;
	bool serving; /* ranks may wait for ever: only deaths and disagreements count */
};

#define NSPY_CULPRITS_MAX 16u
#define NSPY_LINES_MAX    7u /* VERDICT and details; with the headline a block of 8 */
#define NSPY_LINE_BYTES   360u

struct nspy_verdict {
	enum nspy_found_id id; /* NONE: nothing is wrong */
	int priority;
	bool note;    /* long enough to be noted, not to be reported */
	uint64_t key; /* the same as long as the same thing is wrong */
	uint64_t since_ns;
	uint64_t hold_ns;                     /* to be believed it must hold for so long */
	uint32_t culprits[NSPY_CULPRITS_MAX]; /* pages */
	uint32_t culprit_count;               /* may be more than are listed */
	uint32_t waiters;
	uint64_t comm_key;
	uint64_t seq;
	/* Instead of the catalogue's, NULL = those. */
	const char *owner, *action;
	char operation[160]; /* "ncclAllReduce #41 of world (8 ranks)" */
	char headline[NSPY_LINE_BYTES];
	char cause[NSPY_LINE_BYTES];
	char lines[NSPY_LINES_MAX][NSPY_LINE_BYTES]; /* details */
	uint32_t line_count;
};

/* 0, or -ENOMEM if the arena is too small; the arena is used as scratch. */
int nspy_verdict_find(const struct nspy_status *pages, uint32_t count, uint64_t now_ns,
		      const struct nspy_limits *limits, struct nspy_arena *arena,
		      struct nspy_verdict *ret);

/* --- for the files of the verdict --- */

struct nspy_inquiry {
	struct nspy_scene scene;
	const struct nspy_limits *limits;
	struct nspy_arena *arena;
	struct nspy_verdict *out;
};

/* Each returns whether it had something to say. */
bool nspy_verdict_death(struct nspy_inquiry *q);
/* One of those who are missing in a communicator has died. Whoever polls shows no wait, only
 * silence, so this is found late, and how far the dead rank had come its last page may not show. */
bool nspy_verdict_death_behind(struct nspy_inquiry *q, uint64_t comm_key, uint32_t waiters,
			       uint64_t since_ns, const uint32_t *blamed, uint32_t count);
bool nspy_verdict_mismatch(struct nspy_inquiry *q);
bool nspy_verdict_order(struct nspy_inquiry *q, const struct nspy_group *group);

/* Since when a living member of the group has waited longest; 0 if none waits. */
uint64_t nspy_verdict_longest_wait(const struct nspy_scene *scene, const struct nspy_group *group,
				   uint32_t *ret_waiters);
uint64_t nspy_mix(uint64_t a, uint64_t b);

/* Texts. */
__attribute__((format(printf, 3, 4))) void nspy_tell(char *out, size_t bytes, const char *format,
						     ...);
__attribute__((format(printf, 2, 3))) void nspy_tell_line(struct nspy_verdict *verdict,
							  const char *format, ...);
/* "rank 3 (node n1, pid 77)" */
void nspy_tell_rank(char *out, size_t bytes, const struct nspy_status *page);
/* "ranks 2-3,7", from a list of pages */
void nspy_tell_ranks(char *out, size_t bytes, const struct nspy_scene *scene, const uint32_t *list,
		     uint32_t count);
void nspy_tell_group(char *out, size_t bytes, const struct nspy_scene *scene,
		     const struct nspy_group *group);
void nspy_tell_object(char *out, size_t bytes, const struct nspy_scene *scene,
		      const struct nspy_object *object);
/* What a rank does instead of coming, as a clause. */
void nspy_tell_doing(char *out, size_t bytes, const struct nspy_scene *scene, uint32_t page);
/* Fills id, priority, headline, VERDICT's cause. */
void nspy_verdict_set(struct nspy_verdict *verdict, enum nspy_found_id id, uint64_t key,
		      uint64_t since_ns);
void nspy_verdict_blame(struct nspy_verdict *verdict, uint32_t page);
/* Seconds, rounded. */
unsigned long long nspy_seconds(uint64_t ns);
/* Name of a collective whatever its form: ncclBcast is ncclBroadcast, ...Config without it. */
void nspy_canonical(const char *name, char ret[NSPY_STATUS_NAME_BYTES]);

#endif
