/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process did lately, read from the records in the recorder's pages beside the writer,
 * which neither waits for us nor we for it. context: watcher thread.
 */
#ifndef NSPY_WATCH_RECENT_H
#define NSPY_WATCH_RECENT_H

#include <stdbool.h>
#include <stdint.h>

#include "trace_live.h"
#include "trace_status.h"

struct nspy_recent_op {
	struct nspy_status_op op; /* comm and name are not filled in */
	uint32_t comm;            /* process-local index */
	uint16_t fn;
};

struct nspy_recent_way {
	uint32_t comm;
	int32_t peer;
	uint64_t used_ns;
};

/* The latest collective of a communicator whose record was seen, and what is known to be done. */
struct nspy_recent_last {
	uint32_t comm;
	uint16_t fn;
	uint8_t datatype;
	uint8_t redop;
	int32_t root;
	uint64_t count;
	uint64_t seq;
	uint64_t completed;
};

struct nspy_recent_totals {
	uint64_t rounds;
	uint64_t longest_wait_ns;
	uint64_t last_leave_ns;
	uint32_t last_tid; /* thread of the call that ended last */
};

bool nspy_recent_start(void);

/* Takes in the records that are new since the last time. */
void nspy_recent_read(const struct nspy_clock_piece *pieces, uint32_t piece_count);

/* Operations, oldest first by entry. */
uint32_t nspy_recent_count(void);
const struct nspy_recent_op *nspy_recent_op(uint32_t i);

/* Pairs of communicator and peer that had messages lately. */
uint32_t nspy_recent_way_count(void);
const struct nspy_recent_way *nspy_recent_way(uint32_t i);

/* Leaves *ret alone if nothing is known. */
void nspy_recent_last(uint32_t comm, struct nspy_recent_last *ret);

const struct nspy_recent_totals *nspy_recent_totals(void);

#endif
