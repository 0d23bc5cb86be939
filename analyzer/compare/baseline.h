/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run is compared with if nobody says: the newest earlier runs of the same job beside it
 * that had no P0 or P1. Beside means in the same directory: that of all jobs.
 */
#ifndef NSPY_COMPARE_BASELINE_H
#define NSPY_COMPARE_BASELINE_H

#include "compare.h"

#define NSPY_BASELINE_RUNS  5u  /* that are taken */
#define NSPY_BASELINE_TRIED 40u /* jobs that are read in search of them */

/*
 * Looks for runs beside the directory of one, which must be known. The same job: the same tag
 * (NCCLSPY_TAG), or none in both; the same number of ranks; the same operations in a step. Adds
 * them to ret, newest first, and one sentence on what was taken and passed over to said.
 */
void nspy_baseline_find(const struct nspy_run *run, struct nspy_runs *ret, struct nspy_str *said);
/* Whether a run does the same work as another: ranks, tag, operations in a step. */
bool nspy_baseline_same_job(const struct nspy_run *a, const struct nspy_run *b);

/*
 * "vs baseline: step time 147 ms -> 154 ms (+5.1 %, ...), 5 runs": one line, owned by the caller.
 */
char *nspy_baseline_line(const struct nspy_runs *base, const struct nspy_runs *now);

#endif
