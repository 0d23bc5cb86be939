/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process's own status page, from what the recorder knows: open-call stacks, the counters of
 * communicators, and records still in their pages. Records that were written out and freed between
 * two looks are missed; the counters are exact nevertheless, and in a job that stands still the
 * latest records of each thread are always there.
 */
#ifndef NSPY_WATCH_GATHER_H
#define NSPY_WATCH_GATHER_H

#include <stdbool.h>
#include <stdint.h>

#include "trace_status.h"

/* Memory and a first, empty page. false: no memory. context: watcher thread, as all here. */
bool nspy_gather_start(void);

/* Brings the page up to date; it is valid until the next call. */
struct nspy_status *nspy_gather(uint64_t now_ns);

#endif
