/* SPDX-License-Identifier: Apache-2.0 */
/* What flight.c reads and flight_judge.c judges. */
#ifndef NSPY_FLIGHT_PARTS_H
#define NSPY_FLIGHT_PARTS_H

#include "flight.h"

enum nspy_fr_state { NSPY_FR_SCHEDULED, NSPY_FR_STARTED, NSPY_FR_COMPLETED };

struct nspy_fr_op {
	int64_t seq;
	const char *name;  /* without "nccl:"; owned by the flights */
	const char *dtype; /* of the first input, or NULL */
	double in, out;    /* elements */
	enum nspy_fr_state state;
	bool coalesced;
};

/* A rank's operations in a group, by number. */
struct nspy_fr_part {
	int64_t rank;
	struct nspy_fr_op *ops;
	size_t count, capacity;
	bool has_status;
	int64_t enqueued, completed;
};

struct nspy_fr_group {
	char *name, *desc;
	int64_t *ranks; /* members, empty if the dumps do not tell */
	size_t rank_count;
	struct nspy_fr_part *parts;
	size_t part_count, part_capacity;
};

struct nspy_fr_dump {
	char *path;
	int64_t rank;
};

struct nspy_flights {
	struct nspy_fr_dump *dumps;
	size_t dump_count, dump_capacity;
	struct nspy_fr_group **groups;
	size_t group_count, group_capacity;
	char **texts;
	size_t text_count, text_capacity;
	struct nspy_map by_text, by_group;
	bool guessed; /* a rank could not be read from a file's name */
};

#endif
