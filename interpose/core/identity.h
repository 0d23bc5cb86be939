/* SPDX-License-Identifier: Apache-2.0 */
/* Who this process is: job, node, rank, process; from launcher variables and /proc. Cold. */
#ifndef NSPY_IDENTITY_H
#define NSPY_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

#include "core.h"

/* Fills nspy_core.id from the environment that nspy_core.env was read from. */
void nspy_identity_find(struct nspy_identity *ret);

/* Facts for the IDENT chunk: appends to a payload of *used bytes; what does not fit is left out. */
void nspy_identity_facts(const struct nspy_identity *id, uint8_t *payload, size_t capacity,
			 size_t *used);

#endif
