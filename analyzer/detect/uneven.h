/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of many that should be equally fast are not, and what they have in common: for
 * UNEVEN_NODE_BANDWIDTH. Rates are bytes per second.
 *
 * Ownership: the lists' memory is the caller's (free items; names and of_proc), what they point to
 * belongs to the case.
 */
#ifndef NSPY_UNEVEN_H
#define NSPY_UNEVEN_H

#include "case.h"

#define NSPY_NO_HOST             UINT32_MAX
#define NSPY_UNEVEN_SUBJECTS_MAX 8u

/* Hosts by number, of all processes once. */
struct nspy_uneven_hosts {
	const char **names;
	size_t count, capacity;
	uint32_t *of_proc; /* by proc->index */
};

/* One communicator at one size, or one path. */
struct nspy_uneven_run {
	const struct nspy_bw_series *series;
	const struct nspy_bw_path *path;
	double rate;
	bool slow, explained;
};

struct nspy_uneven_runs {
	const struct nspy_uneven_hosts *hosts;
	struct nspy_uneven_run *items;
	size_t count, capacity;
	double median;
};

/* Which end of a path. */
enum nspy_uneven_end { NSPY_UNEVEN_FROM, NSPY_UNEVEN_TO, NSPY_UNEVEN_BOTH };

/* A node or one of its cards, in both directions or one. */
struct nspy_uneven_subject {
	uint32_t host;
	enum nspy_uneven_end end;
	const char *rail; /* or NULL */
};

void nspy_uneven_hosts_number(const struct nspy_case *c, struct nspy_uneven_hosts *ret);
void nspy_uneven_add(struct nspy_uneven_runs *runs, const struct nspy_uneven_run *run);
/* The k-th of the hosts of a run, or NSPY_NO_HOST; one may come several times. */
uint32_t nspy_uneven_host_of(const struct nspy_uneven_runs *runs, const struct nspy_uneven_run *run,
			     size_t k);
size_t nspy_uneven_count_hosts(const struct nspy_uneven_runs *runs);
/* Sorts values. */
double nspy_uneven_median(double *values, size_t count);
/* Works out runs->median, marks those well below it and returns how many they are. */
size_t nspy_uneven_mark(struct nspy_uneven_runs *runs);
/*
 * Nodes, and cards of nodes, all of whose runs are slow, at most NSPY_UNEVEN_SUBJECTS_MAX; the runs
 * that they explain are marked.
 */
size_t nspy_uneven_subjects(struct nspy_uneven_runs *runs, struct nspy_uneven_subject *ret);
/* The finding; what no subject explains is told as a link. */
void nspy_uneven_report(const struct nspy_case *c, struct nspy_findings *out,
			struct nspy_uneven_runs *runs, const struct nspy_uneven_subject *subjects,
			size_t subject_count);

#endif
