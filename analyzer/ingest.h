/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting the contents of a trace into the model: identity, schema, checkpoints and records. This
 * is the hot path of the analyzer; per operation it touches the member and one cell.
 *
 * context: one loader per thread; a process is loaded by one thread only. Loaders share nothing
 * but the model's tables of names.
 */
#ifndef NSPY_INGEST_H
#define NSPY_INGEST_H

#include "model.h"

struct nspy_loader {
	struct nspy_model *model;
	struct nspy_map cells;       /* communicator key -> struct nspy_cells */
	uint64_t budget;             /* bytes of cells that may still be made */
	union nspy_any_rec *records; /* NSPY_CHUNK_RECORDS_MAX */
	struct nspy_comm_rec *comms; /* NSPY_STATE_COMMS_MAX */
	struct nspy_open_call *open; /* NSPY_STATE_OPEN_MAX */
	/* The latest collective of the thread being read that nobody can leave alone. */
	struct nspy_member *pending;
	struct nspy_together together;
	uint64_t pending_stream;
	struct nspy_burst burst; /* of the thread being read */
	struct nspy_thread *thread;
};

void nspy_loader_init(struct nspy_loader *loader, struct nspy_model *model, uint64_t budget);
void nspy_loader_done(struct nspy_loader *loader);

void nspy_ingest_ident(struct nspy_proc *proc, const uint8_t *payload, size_t bytes);
void nspy_ingest_schema(struct nspy_model *model, struct nspy_proc *proc, const uint8_t *payload,
			size_t bytes);
/* A checkpoint already decoded into loader->comms and loader->open. */
void nspy_ingest_state(struct nspy_loader *loader, struct nspy_proc *proc,
		       const struct nspy_state *state);
/*
 * count records of loader->records, of the thread with this serial; first_index is the index of the
 * first among the thread's. Those already seen are skipped. Returns how many were new.
 */
size_t nspy_ingest_records(struct nspy_loader *loader, struct nspy_proc *proc, uint32_t serial,
			   uint64_t first_index, size_t count);

/* What a call means to its peers: equal on all ranks of a correct collective. */
uint32_t nspy_signature(uint16_t canon_fn, const struct nspy_rec *rec);
uint32_t nspy_p2p_signature(const struct nspy_rec *rec);

#endif
