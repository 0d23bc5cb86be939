/* SPDX-License-Identifier: Apache-2.0 */
/* Reference sections embedded at build time (embed_references.py), by finding id. */
#ifndef NSPY_EXPLAIN_H
#define NSPY_EXPLAIN_H

#include "finding.h"

extern const char *const nspy_explain_text[NSPY_FINDING_COUNT];

#endif
