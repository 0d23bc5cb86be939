/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perfetto's trace format, as far as the timeline needs it: tracks, slices, instants, counters and
 * flows, as a stream of packets. Names of functions and arguments are written once and referred to
 * by number.
 *
 * Times are nanoseconds since 1970. On a track begins and ends must come in order of time, each end
 * after what began inside it; who calls sees to that.
 */
#ifndef NSPY_TIMELINE_PERFETTO_H
#define NSPY_TIMELINE_PERFETTO_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "model.h"

#define NSPY_PERFETTO_ARGS_MAX  8u
#define NSPY_PERFETTO_LANES_MAX 16u

enum nspy_perfetto_type {
	NSPY_PERFETTO_BEGIN = 1,
	NSPY_PERFETTO_END = 2,
	NSPY_PERFETTO_INSTANT = 3,
	NSPY_PERFETTO_COUNTER = 4,
};

enum nspy_perfetto_category {
	NSPY_CATEGORY_NCCL = 1,
	NSPY_CATEGORY_WAIT,
	NSPY_CATEGORY_HOST,
	NSPY_CATEGORY_OPERATION,
	NSPY_CATEGORY_ARRIVAL,
	NSPY_CATEGORY_PROFILER,
	NSPY_CATEGORY_FINDING,
	NSPY_CATEGORY_END
};

enum nspy_perfetto_arg_name {
	NSPY_ARG_COMM = 1,
	NSPY_ARG_SEQ,
	NSPY_ARG_PEER,
	NSPY_ARG_BYTES,
	NSPY_ARG_RESULT,
	NSPY_ARG_OPEN,
	NSPY_ARG_CAPTURED,
	NSPY_ARG_ARRIVED,
	NSPY_ARG_LAST_RANK,
	NSPY_ARG_SOURCE,
	NSPY_ARG_EXACT_NS,
	NSPY_ARG_CHANNELS,
	NSPY_ARG_PRIORITY,
	NSPY_ARG_SUMMARY,
	NSPY_ARG_CULPRITS,
	NSPY_ARG_REFERENCE,
	NSPY_ARG_END
};

struct nspy_perfetto_arg {
	enum nspy_perfetto_arg_name name;
	const char *text; /* NULL: the number */
	int64_t number;
};

struct nspy_perfetto_event {
	enum nspy_perfetto_type type;
	enum nspy_perfetto_category category;
	uint64_t track, when_ns;
	uint16_t fn;      /* model function id for a name, or */
	const char *name; /* this */
	uint64_t flow;    /* 0 = none */
	double value;     /* of a counter */
	struct nspy_perfetto_arg args[NSPY_PERFETTO_ARGS_MAX];
	size_t arg_count;
};

struct nspy_perfetto {
	FILE *out;
	uint64_t bytes, limit;   /* no event begins that would not fit */
	uint64_t open;           /* slices that have not ended */
	uint64_t tracks;         /* so many, numbered from 1 */
	uint64_t slices, events; /* events: instants and counters */
	uint64_t left_out;       /* slices, instants and counters beyond the limit */
	uint64_t moved;          /* times that contradicted others of their track and were moved */
};

void nspy_perfetto_begin(struct nspy_perfetto *p, FILE *out, const struct nspy_model *model,
			 uint64_t start_ns);
/* parent 0: at the top. description may be NULL. */
uint64_t nspy_perfetto_track(struct nspy_perfetto *p, uint64_t parent, const char *name,
			     const char *description);
/* pid is only a number that tells processes apart: real ones repeat from node to node. */
uint64_t nspy_perfetto_process(struct nspy_perfetto *p, uint64_t pid, const char *name,
			       const char *description);
uint64_t nspy_perfetto_counter(struct nspy_perfetto *p, uint64_t parent, const char *name,
			       const char *unit);
void nspy_perfetto_arg(struct nspy_perfetto_event *event, enum nspy_perfetto_arg_name name,
		       int64_t number);
void nspy_perfetto_text(struct nspy_perfetto_event *event, enum nspy_perfetto_arg_name name,
			const char *text);
/* False if there was no room; the end of such a slice must not be written. */
bool nspy_perfetto_put(struct nspy_perfetto *p, const struct nspy_perfetto_event *event);
void nspy_perfetto_end(struct nspy_perfetto *p, uint64_t track, uint64_t when_ns);

/*
 * Slices of which several may run at a time: each goes to the first of several tracks of the same
 * name that is free.
 */
struct nspy_lanes {
	uint64_t parent;
	char *name; /* owned */
	struct {
		uint64_t track, end_ns;
	} lane[NSPY_PERFETTO_LANES_MAX];
	size_t count;
};

/* event's track is set. */
void nspy_lanes_put(struct nspy_perfetto *p, struct nspy_lanes *lanes,
		    struct nspy_perfetto_event *event, uint64_t end_ns);

#endif
