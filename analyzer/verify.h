/* SPDX-License-Identifier: Apache-2.0 */
/* report --verify: what became of the findings of an earlier report. */
#ifndef NSPY_VERIFY_H
#define NSPY_VERIFY_H

#include <stdio.h>

struct cJSON;

/*
 * Compares the "jobs" array of this run with the report in the file: one line per finding, [GONE],
 * [REMAINS] or [NEW]. Findings are the same if id and culprits are. Returns an exit code: usage if
 * the file is no report.
 */
int nspy_verify(const char *path, const struct cJSON *jobs, FILE *out);

#endif
