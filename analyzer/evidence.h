/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes a finding checkable: the operations it rests on, by the ids that `dump` takes; what
 * was not seen and could change it; what else looks the same; and the command that shows more.
 */
#ifndef NSPY_EVIDENCE_H
#define NSPY_EVIDENCE_H

#include "case.h"

/* Completes findings of traces; what detectors have filled in themselves stays. */
void nspy_evidence_complete(const struct nspy_case *c, struct nspy_findings *findings);

/* "3f2a91c4d5e6f708#41", "rank 3: 3f2a91c4d5e6f708#40", "rank 3" */
void nspy_add_evidence(struct nspy_str *s, const struct nspy_evidence *evidence);
/* The command that prints these records; where: a directory or job. */
char *nspy_evidence_command(const struct nspy_evidence *evidence, const char *where);
/* The k-th thing that looks the same as findings of this kind, or NULL. */
const char *nspy_alternative(enum nspy_finding_id id, size_t k);

#endif
