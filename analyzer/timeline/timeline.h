/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job as a picture for Perfetto. The traces are read once more, process after process, and
 * written as they are read: memory holds a few thousand calls a thread, whatever the length of the
 * job. Every time is on the aligned clock of the model; what comes of host calls, host callbacks
 * and the GPU's clock says so.
 */
#ifndef NSPY_TIMELINE_H
#define NSPY_TIMELINE_H

#include "perfetto.h"
#include "report.h"

#define NSPY_TIMELINE_RANGES_MAX 256u
#define NSPY_TIMELINE_MIB        256u  /* default bound of the file */
#define NSPY_TIMELINE_MIB_MAX    2047u /* viewers stop at 2 GiB */

struct nspy_timeline_choice {
	uint64_t from_ns, to_ns; /* 0 = not chosen */
	struct {
		int64_t first, last;
	} ranks[NSPY_TIMELINE_RANGES_MAX];
	size_t range_count; /* 0 = all */
	uint64_t comm;      /* key as shown, 0 = all */
	uint64_t limit_bytes;
};

struct nspy_timeline {
	const struct nspy_model *model;
	const struct nspy_attempt *attempt;
	const struct nspy_report *report;
	struct nspy_timeline_choice choice;
	struct nspy_perfetto perfetto;
	uint64_t *process_tracks; /* by index of the process in the model, 0 = not chosen */
	uint64_t calls;           /* slices of calls */
};

/* Comma-separated ranks and ranges, "0-3,7". */
bool nspy_timeline_parse_ranks(struct nspy_timeline_choice *choice, const char *text);
/* Seconds after start_ns ("12.5"), or a time of day in UTC as reports print it ("10:14:44.297"). */
bool nspy_timeline_parse_time(const char *text, uint64_t start_ns, uint64_t *ret_ns);
bool nspy_timeline_has_time(const struct nspy_timeline *t, uint64_t from_ns, uint64_t to_ns);
bool nspy_timeline_has_proc(const struct nspy_timeline *t, const struct nspy_proc *proc);
bool nspy_timeline_has_comm(const struct nspy_timeline *t, const struct nspy_comm *comm);
/* If all that is chosen cannot fit: keeps the end, and returns true. */
bool nspy_timeline_shorten(struct nspy_timeline *t);

/* Writes the picture. p.out has been opened; write errors show in it. */
void nspy_timeline_write(struct nspy_timeline *t, FILE *out);

/* The parts of it. */
void nspy_timeline_arrivals(struct nspy_timeline *t);
void nspy_timeline_findings(struct nspy_timeline *t);
void nspy_timeline_process(struct nspy_timeline *t, const struct nspy_proc *proc);

/* calls.c: the calls of a process, thread by thread. */
struct nspy_strands;
struct nspy_strands *nspy_strands_new(struct nspy_timeline *t, const struct nspy_proc *proc);
void nspy_strands_take(struct nspy_strands *s, uint32_t serial, uint64_t first_index,
		       const union nspy_any_rec *records, size_t count);
/* Adds what never returned, writes what was held back, frees. */
void nspy_strands_finish(struct nspy_strands *s);

/* gauges.c: what NCCL's profiler interface and the network's counters say. */
struct nspy_gauges;
struct nspy_gauges *nspy_gauges_new(struct nspy_timeline *t, const struct nspy_proc *proc);
void nspy_gauges_prof(struct nspy_gauges *g, const uint8_t *payload, size_t bytes);
void nspy_gauges_net(struct nspy_gauges *g, const uint8_t *payload, size_t bytes);
void nspy_gauges_finish(struct nspy_gauges *g);

#endif
