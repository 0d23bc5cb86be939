/* SPDX-License-Identifier: Apache-2.0 */
/* Reference sections embedded at build time (embed_references.py), by finding id. */
#ifndef NSPY_EXPLAIN_H
#define NSPY_EXPLAIN_H

#include "finding.h"

extern const char *const nspy_explain_text[NSPY_FINDING_COUNT];
/* Its suggested command: lines, "" if it has none. */
extern const char *const nspy_explain_command[NSPY_FINDING_COUNT];

/* A section of a page that belongs to no finding. */
struct nspy_topic {
	const char *name; /* "guide.7" */
	const char *title;
	const char *text;
};

extern const struct nspy_topic nspy_topics[]; /* ends with a name of NULL */

#endif
