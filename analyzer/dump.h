/* SPDX-License-Identifier: Apache-2.0 */
/* Records as lines, for people or as JSON. Everything goes to stdout. */
#ifndef NSPY_DUMP_H
#define NSPY_DUMP_H

#include "model.h"

struct nspy_dump {
	const struct nspy_model *model;
	bool json;
	int64_t rank;      /* -1 = all */
	uint64_t comm_key; /* 0 = all */
	uint64_t op;       /* number of an operation, 0 = all records */
};

void nspy_dump_ident(const struct nspy_dump *dump, const struct nspy_proc *proc,
		     const uint8_t *payload, size_t bytes);
/* kind: "state" or "end". */
void nspy_dump_state(const struct nspy_dump *dump, struct nspy_proc *proc, const char *kind,
		     const struct nspy_state *state, const struct nspy_comm_rec *comms,
		     const struct nspy_open_call *open);
/* Communicator records are remembered in proc, so that later calls can name the key. */
void nspy_dump_records(const struct nspy_dump *dump, struct nspy_proc *proc, uint32_t thread,
		       const union nspy_any_rec *records, size_t count);
void nspy_dump_open(const struct nspy_dump *dump, const struct nspy_proc *proc,
		    const struct nspy_open_call *open, size_t count);

/* The records of a NET chunk; those without a time of their own get when_ns. */
void nspy_dump_net(const struct nspy_dump *dump, const struct nspy_proc *proc, uint64_t when_ns,
		   const uint8_t *payload, size_t bytes);

/* The records of a NOTE chunk. */
void nspy_dump_note(const struct nspy_dump *dump, const struct nspy_proc *proc, uint64_t when_ns,
		    const uint8_t *payload, size_t bytes);

/* The records of a PROF chunk. */
void nspy_dump_prof(const struct nspy_dump *dump, const struct nspy_proc *proc,
		    const uint8_t *payload, size_t bytes);

struct cJSON;
/* Begins a line in both forms: time, process, kind. */
struct cJSON *nspy_dump_start(const struct nspy_proc *proc, const char *kind, uint64_t mono_ns,
			      struct nspy_str *text);
/* One line: for people the text, else the object. Takes ownership of both. */
void nspy_dump_put(const struct nspy_dump *dump, struct nspy_str *text, struct cJSON *object);

#endif
