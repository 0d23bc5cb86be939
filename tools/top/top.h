/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ncclspy-top: a job as its status pages and events.jsonl show it. Pages come from /dev/shm of this
 * host and from the job's board; both are written by others and may be torn, old, missing or
 * hostile. One thread; whatever is returned belongs to the snapshot until the next look.
 */
#ifndef NSPY_TOP_H
#define NSPY_TOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "trace_status.h"

#define TOP_EVENTS_MAX 8u
#define TOP_SILENT_NS  45000000000ull /* a page that old says nothing about now */

enum top_state { /* the worst first */
		 TOP_DEAD,
		 TOP_FAILED, /* ended with another exit code than 0 */
		 TOP_STOPPED,
		 TOP_SILENT,
		 TOP_BEHIND, /* others are ahead of it and at least one waits */
		 TOP_WAITING,
		 TOP_RUNNING,
		 TOP_ENDED,
		 TOP_STATES
};

struct top_rank {
	struct nspy_status page;
	enum top_state state;
	uint64_t age_ns;     /* of the page */
	uint64_t waiting_ns; /* in its longest call that needs peers */
	const struct nspy_status_call *call;
	uint64_t behind;        /* collectives, of the communicator where it is most */
	double ops_per_s;       /* over the operations that the page shows */
	double bus_bytes_per_s; /* the same as bus bandwidth: time without operations counts */
	double lag_ns;          /* median of what it came later than the first, < 0 = not known */
};

struct top_comm {
	uint64_t key;
	int32_t nranks;
	uint32_t seen; /* ranks whose pages show it */
	uint32_t waiting;
	uint64_t low, high; /* fewest and most collectives entered */
	double ops_per_s;   /* mean of its ranks */
	double bus_bytes_per_s;
	bool world;
};

struct top_event {
	uint64_t time_ns; /* system time, to a microsecond or so; 0 = not known */
	char time[24];    /* UTC */
	char event[16], id[48], priority[4], summary[360];
	bool over;
};

struct top_snapshot {
	char job_dir[256], job[128];
	uint64_t now_real_ns;
	struct top_rank *ranks;
	size_t rank_count, rank_room;
	struct top_comm *comms; /* the largest first */
	size_t comm_count;
	struct top_event events[TOP_EVENTS_MAX]; /* the newest first */
	size_t event_count;
	uint32_t states[TOP_STATES];
	uint32_t nodes, bad;
	int32_t world_size;        /* -1 = not known */
	struct nspy_arena *blocks; /* what pages point into */
	size_t block_count;
};

/*
 * Finds the job: its directory, a directory of jobs (the newest), or the name of a job below
 * NCCLSPY_DIR. 0, -ENOENT, or -ENOTDIR.
 */
int top_find_job(const char *word, struct top_snapshot *snap);

/* Reads all pages and events. 0, or -ENOMEM. Nothing there is no error. */
int top_look(struct top_snapshot *snap);
void top_free(struct top_snapshot *snap);

/* --- parts of top_look, for its files and the tests --- */

/* Takes the pages that lie one behind the other in a file of the board. 0 or -ENOMEM. */
int top_take_pages(struct top_snapshot *snap, const uint8_t *data, size_t bytes, bool local);
void top_take_events(struct top_snapshot *snap, const char *text, size_t bytes);
int top_measure(struct top_snapshot *snap);
/* Not what a terminal could take for a command. */
void top_clean(char *text);

const char *top_state_name(enum top_state state);
/* "waits 12 s in ncclAllReduce #41" */
void top_tell(const struct top_rank *rank, char *out, size_t bytes);

enum top_style { TOP_PLAIN, TOP_BOLD, TOP_RED, TOP_YELLOW, TOP_DIM };
struct top_lines {
	struct top_line {
		enum top_style style;
		char text[400];
	} * at;
	size_t count, room;
};
enum top_sort { TOP_SORT_WORST, TOP_SORT_RANK, TOP_SORT_LAG, TOP_SORTS };
void top_sort(struct top_snapshot *snap, enum top_sort sort);
/* height: lines that there is room for, 0 = all. 0 or -ENOMEM. */
int top_text(const struct top_snapshot *snap, enum top_sort sort, size_t height,
	     struct top_lines *ret);
int top_print_json(const struct top_snapshot *snap, FILE *out);

/* What --follow has said so far; zero before the first look, seen is freed by the caller. */
struct top_follow {
	struct seen *seen;
	size_t count;
	uint64_t told_ns;
	bool had_ranks;
};
/* Prints what has changed since the last look; ranks are sorted by their numbers. 0 or -ENOMEM. */
int top_follow_look(const struct top_snapshot *snap, struct top_follow *follow, bool json,
		    FILE *out);
/* Whether nothing more will come. */
bool top_follow_over(const struct top_snapshot *snap, const struct top_follow *follow);
/* Until the job is over. The exit status. */
int top_follow(struct top_snapshot *snap, unsigned int period_ms, bool json);

/* The live view, until q or the end of the input. The exit status. */
int top_screen(struct top_snapshot *snap, unsigned int period_ms);

#endif
