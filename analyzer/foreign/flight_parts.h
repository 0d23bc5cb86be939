/* SPDX-License-Identifier: Apache-2.0 */
/* What flight.c reads and flight_judge.c judges. */
#ifndef NSPY_FLIGHT_PARTS_H
#define NSPY_FLIGHT_PARTS_H

#include "flight.h"

enum nspy_fr_state { NSPY_FR_SCHEDULED, NSPY_FR_STARTED, NSPY_FR_COMPLETED };

struct nspy_fr_op {
	int64_t seq;
	const char *name;      /* without "nccl:"; owned by the flights */
	const char *dtype;     /* of the first input, or NULL */
	const char *dtype_out; /* of the first output, or NULL */
	double in, out;        /* elements */
	enum nspy_fr_state state;
	bool ended; /* the recorder let go of it without having seen it complete (Gloo does) */
	/* Operations under one number: how many, and a hash of what all ranks must agree on. */
	uint32_t batch;
	uint64_t signature;
};

/* A send or a receive. Ranks are those of the process group. */
struct nspy_fr_p2p {
	bool send;
	int64_t peer;
	int64_t seq;    /* of the batch */
	uint32_t index; /* in the order of calls */
	const char *dtype;
	double elements;
	enum nspy_fr_state state;
};

/* A rank's operations in a group, by number. */
struct nspy_fr_part {
	int64_t rank;
	struct nspy_fr_op *ops;
	size_t count, capacity;
	struct nspy_fr_p2p *p2p; /* sorted by direction, peer and call once the dump is read */
	size_t p2p_count, p2p_capacity;
	int64_t group_rank; /* as its sends and receives tell, -1 = there are none */
	bool lost;          /* the ring lost the beginning */
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
	bool lost; /* the ring lost its beginning */
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
	int minor;    /* of the oldest format 2.N among the dumps */
};

/* What a rank waits for, and on whom; a finding and those whom it keeps waiting. */
struct nspy_fr_verdict {
	struct nspy_finding *finding;
	int64_t *waiting;
	size_t waiting_count;
};

struct nspy_fr_verdicts {
	struct nspy_fr_verdict *items;
	size_t count, capacity;
};

/* Members whose dump has nothing of a group get an empty part in it: they never joined it. */
void nspy_fr_complete(const struct nspy_flights *flights);
/* Must all ranks pass the same sizes to this function? */
bool nspy_fr_sizes_agree(const char *name);
/* Takes waiting over. */
void nspy_fr_verdict(struct nspy_fr_verdicts *verdicts, struct nspy_finding *finding,
		     int64_t *waiting, size_t waiting_count);
struct nspy_finding *nspy_fr_conclude(struct nspy_findings *out, enum nspy_finding_id id, int order,
				      struct nspy_str *s, struct nspy_model *model,
				      const int64_t *ranks, size_t count);
void nspy_fr_add_group(struct nspy_str *s, const struct nspy_fr_group *group);
void nspy_fr_add_ranks(struct nspy_str *s, const int64_t *ranks, size_t count);
/* Sends and receives of all groups: flight_p2p.c. */
void nspy_flights_judge_p2p(const struct nspy_flights *flights, struct nspy_model *model,
			    struct nspy_findings *out, struct nspy_fr_verdicts *verdicts);

#endif
