/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining what the threads loaded: communicators with their members and cells, and the attempts of
 * the job. Processes that share a communicator ran together; a restarted job is normal input.
 * context: main thread, after loading.
 */
#ifndef NSPY_JOIN_H
#define NSPY_JOIN_H

#include "ingest.h"
#include "model.h"

/* Moves a loader's cells into the model. */
void nspy_join_cells(struct nspy_model *model, struct nspy_loader *loader);
/* Communicators get their members; ranks and attempts are settled. */
void nspy_join_members(struct nspy_model *model);
/* Two processes claim the same rank of one communicator. */
bool nspy_join_has_twins(const struct nspy_model *model);
/* Numbers the starts of the job: a new one begins when a rank starts that is there already. */
void nspy_join_epochs(struct nspy_model *model);
/* Forgets communicators and attempts. */
void nspy_join_reset(struct nspy_model *model);

/* attempt.c */
void nspy_join_attempts(struct nspy_model *model);

#endif
