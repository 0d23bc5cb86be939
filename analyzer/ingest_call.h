/* SPDX-License-Identifier: Apache-2.0 */
/* Between ingest.c and ingest_call.c. */
#ifndef NSPY_INGEST_CALL_H
#define NSPY_INGEST_CALL_H

#include "ingest.h"

void nspy_ingest_comm(struct nspy_loader *loader, struct nspy_proc *proc, uint32_t serial,
		      const struct nspy_comm_rec *rec);

/* A call that was still open at the end: counts as entered. */
void nspy_ingest_open_call(struct nspy_loader *loader, struct nspy_proc *proc,
			   const struct nspy_open_call *call);

#endif
