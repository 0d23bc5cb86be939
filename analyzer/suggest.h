/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suggested commands of the references with the names of a finding filled in, and how to get to
 * where they are to be run. Nothing is ever run by us. Only plain names get into a command: facts
 * of a trace are somebody else's text.
 */
#ifndef NSPY_SUGGEST_H
#define NSPY_SUGGEST_H

#include "finding.h"

/* Fills finding->commands; nothing if the finding names nobody or a name is missing. */
void nspy_suggest(struct nspy_finding *finding);

/*
 * One line of a command with its <places> filled in from a process; NULL if one is left over.
 * Caller frees. when_ns: time of the finding on the model's scale, 0 = unknown.
 */
char *nspy_suggest_fill(const char *line, const struct nspy_proc *proc, uint64_t when_ns);

#endif
