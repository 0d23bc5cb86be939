/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NSPY_COMPARE_READ_RUNS_H
#define NSPY_COMPARE_READ_RUNS_H

#include "profile.h"

/*
 * Adds all runs at a path: a directory of one or more jobs, the name of a job, or a baseline file.
 * What cannot be used is said on stderr.
 */
void nspy_runs_read(const char *path, struct nspy_runs *runs);

#endif
