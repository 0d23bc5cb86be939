/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ncclspy says of its own recording: payload of a NOTE chunk. Records of `u8 kind, u32 bytes
 * that follow, fields`, as in NET; a reader skips kinds it does not know and bytes behind the
 * fields it knows. A payload is a whole account: it replaces those before it in the same recording.
 *
 * Times are CLOCK_MONOTONIC nanoseconds of the writing host unless they say otherwise. Sources: the
 * recorder's own counters. Nothing here allocates or keeps state; errors are negative errno.
 * context: any thread.
 */
#ifndef NSPY_TRACE_NOTE_H
#define NSPY_TRACE_NOTE_H

#include <stddef.h>
#include <stdint.h>

#include "trace_bytes.h"

#define NSPY_NOTE_TEXT_MAX     200u /* bytes of a command's text */
#define NSPY_NOTE_HOLES_MAX    32u  /* kept by the writer; of more, the closest two are joined */
#define NSPY_NOTE_COMMANDS_MAX 48u  /* kept by the writer: the newest */

enum nspy_note_kind {
	NSPY_NOTE_MODE = 1,    /* what is kept, and since when */
	NSPY_NOTE_HOLE = 2,    /* records that were not kept on purpose */
	NSPY_NOTE_COMMAND = 3, /* of ncclspy-ctl, taken up */
	NSPY_NOTE_SELF = 4,    /* what ncclspy itself has cost */
};

/* What becomes of records. */
enum nspy_mode {
	NSPY_MODE_RECORD = 0, /* they are written to files */
	NSPY_MODE_WATCH = 1, /* the newest stay in memory, and are written when something happens */
	NSPY_MODE_OFF = 2,   /* the newest stay in memory; nobody judges them */
};

struct nspy_note_mode {
	uint32_t mode; /* enum nspy_mode, or one this version does not know */
	uint64_t since_ns;
};

/* All records that began and ended between these times may be missing. */
struct nspy_note_hole {
	uint64_t from_ns, until_ns;
	uint64_t records;
};

struct nspy_note_command {
	uint64_t id;       /* CLOCK_REALTIME ns when it was given */
	uint64_t taken_ns; /* when it was taken up */
	const char *text;  /* "mark before eval", not terminated; borrowed */
	size_t text_bytes;
};

/* All but the first are since the recording began. */
struct nspy_note_self {
	uint64_t when_ns;
	uint64_t warm_ns; /* what recording a call costs: mean of samples right after each other */
	uint64_t cold_ns; /* and of such after a pause of the sampling thread */
	uint64_t samples; /* of each */
	uint64_t watcher_ns; /* CPU time */
	uint64_t writer_ns;
	uint64_t written; /* bytes of trace files */
	uint64_t dropped; /* lines for stderr or events.jsonl that could not be had out */
};

struct nspy_note {
	uint32_t kind; /* enum nspy_note_kind, or one this version does not know */
	union {
		struct nspy_note_mode mode;
		struct nspy_note_hole hole;
		struct nspy_note_command command;
		struct nspy_note_self self;
	};
};

/* Appends a record; w is bad afterwards if there was no room. */
void nspy_note_put(struct nspy_put *w, const struct nspy_note *note);

/*
 * Walks the records of a payload; start with *cursor = 0. -ENODATA after the last; -EBADMSG if what
 * follows is damaged.
 */
int nspy_note_next(const uint8_t *payload, size_t bytes, size_t *cursor, struct nspy_note *ret);

/* "record", "watch", "off"; "?" for others. */
const char *nspy_mode_name(uint32_t mode);

#endif
