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
 * One line of a command with its <places>, and DIR, filled in from the finding's first culprit;
 * NULL if one is left over. Caller frees.
 */
char *nspy_suggest_fill(const char *line, const struct nspy_finding *finding);

#endif
