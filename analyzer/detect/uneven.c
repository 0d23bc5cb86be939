/* SPDX-License-Identifier: Apache-2.0 */
#include "uneven.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "detect.h"
#include "text.h"
#include "who.h"

#define SHARE_NOTE 0.95
#define SHARE_ACT  0.80
#define SPREADS    3.0
#define NORMAL_MIN 3u /* runs that are not slow */
#define TOLD_MAX   8u

static uint64_t hash_text(const char *text)
{
	uint64_t hash = 1;

	while (*text)
		hash = nspy_mix(hash + (unsigned char)*text++);
	return hash | 1;
}

void nspy_uneven_hosts_number(const struct nspy_case *c, struct nspy_uneven_hosts *ret)
{
	struct nspy_map seen = {0};

	ret->of_proc = nspy_xcalloc(c->model->proc_count + 1, sizeof(*ret->of_proc));
	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		const struct nspy_proc *proc = c->attempt->procs[i];
		const char *name = nspy_proc_host(proc);
		uintptr_t known = (uintptr_t)nspy_map_get(&seen, hash_text(name));

		if (!known) {
			ret->names = nspy_grow(ret->names, ret->count, &ret->capacity,
					       sizeof(*ret->names));
			ret->names[ret->count++] = name;
			known = ret->count;
			nspy_map_put(&seen, hash_text(name), (void *)known);
		}
		ret->of_proc[proc->index] = (uint32_t)(known - 1);
	}
	nspy_map_done(&seen);
}

/* The k-th of the hosts of a run, or NSPY_NO_HOST; one may come several times. */
uint32_t nspy_uneven_host_of(const struct nspy_uneven_runs *runs, const struct nspy_uneven_run *run,
			     size_t k)
{
	const struct nspy_proc *proc;

	if (run->path) {
		if (k > 1)
			return NSPY_NO_HOST;
		proc = k ? run->path->to : run->path->from;
	} else {
		if (k >= run->series->comm->member_count)
			return NSPY_NO_HOST;
		proc = run->series->comm->members[k]->proc;
	}
	return runs->hosts->of_proc[proc->index];
}

void nspy_uneven_add(struct nspy_uneven_runs *runs, const struct nspy_uneven_run *run)
{
	runs->items = nspy_grow(runs->items, runs->count, &runs->capacity, sizeof(*runs->items));
	runs->items[runs->count++] = *run;
}

static int compare_rates(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

double nspy_uneven_median(double *values, size_t count)
{
	if (!count)
		return 0;
	qsort(values, count, sizeof(*values), compare_rates);
	return values[count / 2];
}

size_t nspy_uneven_count_hosts(const struct nspy_uneven_runs *runs)
{
	bool *seen = nspy_xcalloc(runs->hosts->count + 1, sizeof(*seen));
	size_t count = 0;

	for (size_t i = 0; i < runs->count; i++) {
		uint32_t host;

		for (size_t k = 0;
		     (host = nspy_uneven_host_of(runs, &runs->items[i], k)) != NSPY_NO_HOST; k++) {
			count += !seen[host];
			seen[host] = true;
		}
	}
	free(seen);
	return count;
}

/* The median of what each node has best. */
static double median_best(const struct nspy_uneven_runs *runs)
{
	double *best = nspy_xcalloc(runs->hosts->count + 1, sizeof(*best)), median;
	size_t count = 0;

	for (size_t i = 0; i < runs->count; i++) {
		uint32_t host;

		for (size_t k = 0;
		     (host = nspy_uneven_host_of(runs, &runs->items[i], k)) != NSPY_NO_HOST; k++) {
			if (runs->items[i].rate > best[host])
				best[host] = runs->items[i].rate;
		}
	}
	for (size_t h = 0; h < runs->hosts->count; h++) {
		if (best[h] > 0)
			best[count++] = best[h];
	}
	median = count > 2 ? nspy_uneven_median(best, count) : 0;
	free(best);
	return median;
}

/* The median of runs; a few slow nodes make most of them slow: then of what nodes have best. */
static double reference(const struct nspy_uneven_runs *runs)
{
	double *values = nspy_xcalloc(runs->count + 1, sizeof(*values)), median, best;

	for (size_t i = 0; i < runs->count; i++)
		values[i] = runs->items[i].rate;
	median = nspy_uneven_median(values, runs->count);
	best = median_best(runs);
	free(values);
	return median < SHARE_NOTE * best ? best : median;
}

/* Marks the slow ones. How far apart are those that are not? Slow is what lies well outside. */
size_t nspy_uneven_mark(struct nspy_uneven_runs *runs)
{
	double *off = nspy_xcalloc(runs->count + 1, sizeof(*off)), spread;
	size_t normal = 0, slow = 0;

	runs->median = reference(runs);
	for (size_t i = 0; i < runs->count; i++) {
		double share = runs->items[i].rate / runs->median;

		if (share >= SHARE_NOTE)
			off[normal++] = share > 1 ? share - 1 : 1 - share;
	}
	/* The farthest but a tenth of them: a median would take two clusters for one. */
	if (normal)
		qsort(off, normal, sizeof(*off), compare_rates);
	spread = normal ? off[(normal - 1) - (normal - 1) / 10] : 0;
	spread = spread > 1 - SHARE_NOTE ? 1 - SHARE_NOTE : spread;
	free(off);
	if (normal < NORMAL_MIN)
		return 0;
	for (size_t i = 0; i < runs->count; i++) {
		double below = 1 - runs->items[i].rate / runs->median;

		runs->items[i].slow = below > 1 - SHARE_NOTE && below > SPREADS * spread;
		slow += runs->items[i].slow;
	}
	return slow;
}

/* --- whom it is about --- */

/* What the runs of a node or card say about it. */
struct record {
	const void *first; /* partner */
	bool partners;     /* several, or it needs none */
	bool fine;         /* one of its runs is not slow */
	size_t slow;       /* runs that nobody found before explains */
};

/* The other end of a path; of a communicator: itself, or NULL if it has one node only. */
static const void *partner(const struct nspy_uneven_runs *runs, const struct nspy_uneven_run *run,
			   uint32_t host)
{
	if (!run->path)
		return run->series->nodes > 1 ? (const void *)run->series->comm : NULL;
	return runs->hosts
		->names[nspy_uneven_host_of(runs, run, nspy_uneven_host_of(runs, run, 0) == host)];
}

static void note(const struct nspy_uneven_runs *runs, const struct nspy_uneven_run *run,
		 uint32_t host, struct record *record)
{
	const void *other = partner(runs, run, host);

	record->fine |= !run->slow;
	record->slow += run->slow && !run->explained;
	record->partners |= !other || (record->first && record->first != other);
	record->first = record->first ? record->first : other;
}

static size_t guilt(const struct record *record)
{
	return record->fine || !record->partners ? 0 : record->slow;
}

static bool concerns(const struct nspy_uneven_runs *runs, const struct nspy_uneven_run *run,
		     const struct nspy_uneven_subject *subject)
{
	uint32_t host;

	/* Cards of the same name on both ends are usually those that talk to each other. */
	if (subject->rail && strcmp(nspy_net_rail_name(run->path->rail), subject->rail) != 0)
		return false;
	for (size_t k = 0; (host = nspy_uneven_host_of(runs, run, k)) != NSPY_NO_HOST; k++) {
		if (host == subject->host &&
		    (subject->end == NSPY_UNEVEN_BOTH || k == (size_t)subject->end))
			return true;
	}
	return false;
}

static void explain(struct nspy_uneven_runs *runs, const struct nspy_uneven_subject *subject)
{
	for (size_t i = 0; i < runs->count; i++)
		runs->items[i].explained |=
			runs->items[i].slow && concerns(runs, &runs->items[i], subject);
}

/* The node with most slow runs among those all of whose runs (that way) are slow. */
static bool worst_node(const struct nspy_uneven_runs *runs, enum nspy_uneven_end end,
		       struct nspy_uneven_subject *ret)
{
	struct record *records = nspy_xcalloc(runs->hosts->count + 1, sizeof(*records));
	size_t most = 0;

	for (size_t i = 0; i < runs->count; i++) {
		const struct nspy_uneven_run *run = &runs->items[i];
		uint32_t host, last = NSPY_NO_HOST;

		for (size_t k = 0; (host = nspy_uneven_host_of(runs, run, k)) != NSPY_NO_HOST;
		     k++) {
			/* Ranks of a node are neighbours. */
			if (host != last &&
			    (end == NSPY_UNEVEN_BOTH || (run->path && k == (size_t)end)))
				note(runs, run, host, &records[host]);
			last = host;
		}
	}
	for (uint32_t h = 0; h < runs->hosts->count; h++) {
		if (guilt(&records[h]) <= most)
			continue;
		most = guilt(&records[h]);
		*ret = (struct nspy_uneven_subject){.host = h, .end = end};
	}
	free(records);
	return most > 0;
}

static bool worst_card(const struct nspy_uneven_runs *runs, struct nspy_uneven_subject *ret)
{
	size_t most = 0;

	for (size_t i = 0; i < runs->count; i++) {
		const struct nspy_uneven_run *slow = &runs->items[i];

		for (size_t end = 0; slow->path && slow->slow && !slow->explained && end < 2;
		     end++) {
			struct nspy_uneven_subject card = {
				.host = nspy_uneven_host_of(runs, slow, end),
				.end = NSPY_UNEVEN_BOTH,
				.rail = nspy_net_rail_name(slow->path->rail),
			};
			struct record record = {0};

			for (size_t k = 0; k < runs->count; k++) {
				if (concerns(runs, &runs->items[k], &card))
					note(runs, &runs->items[k], card.host, &record);
			}
			if (guilt(&record) <= most)
				continue;
			most = guilt(&record);
			*ret = card;
		}
	}
	return most > 0;
}

size_t nspy_uneven_subjects(struct nspy_uneven_runs *runs, struct nspy_uneven_subject *ret)
{
	size_t count = 0;

	while (count < NSPY_UNEVEN_SUBJECTS_MAX && worst_node(runs, NSPY_UNEVEN_BOTH, &ret[count]))
		explain(runs, &ret[count++]);
	while (count < NSPY_UNEVEN_SUBJECTS_MAX && worst_card(runs, &ret[count]))
		explain(runs, &ret[count++]);
	for (int end = NSPY_UNEVEN_TO; end >= NSPY_UNEVEN_FROM; end--) {
		while (count < NSPY_UNEVEN_SUBJECTS_MAX &&
		       worst_node(runs, (enum nspy_uneven_end)end, &ret[count]))
			explain(runs, &ret[count++]);
	}
	return count;
}

/* --- telling --- */

static void add_path(struct nspy_str *s, const struct nspy_bw_path *path)
{
	nspy_str_addf(s, "%s to %s on %s", nspy_proc_host(path->from), nspy_proc_host(path->to),
		      nspy_net_rail_name(path->rail));
}

static void add_nodes(struct nspy_str *s, const struct nspy_comm *comm)
{
	const char **names = nspy_xcalloc(comm->member_count, sizeof(*names));

	for (size_t i = 0; i < comm->member_count; i++)
		names[i] = nspy_proc_host(comm->members[i]->proc);
	nspy_add_hostlist(s, names, comm->member_count);
	free(names);
}

static void tell_run(const struct nspy_case *c, struct nspy_finding *finding,
		     const struct nspy_uneven_run *run, double median)
{
	struct nspy_str s = {0};

	if (run->path) {
		add_path(&s, run->path);
		nspy_str_add(&s, ": ");
		nspy_add_bytes(&s, run->rate);
		nspy_str_add(&s, "/s per operation, ");
		nspy_add_duration(&s, run->path->time_sum_ns / run->path->timed);
		nspy_str_add(&s, " for ");
		nspy_add_bytes_binary(&s, run->path->bytes / run->path->operations);
	} else {
		nspy_add_comm(&s, run->series->comm);
		nspy_str_add(&s, " on ");
		add_nodes(&s, run->series->comm);
		nspy_str_addf(&s, ": %s of ", nspy_model_get_fn(c->model, run->series->fn)->name);
		nspy_add_bytes_binary(&s, (uint64_t)run->series->size);
		nspy_str_add(&s, " at ");
		nspy_add_bytes(&s, run->rate * run->series->factor);
		nspy_str_add(&s, "/s bus bandwidth (upper bound of its time: ");
		nspy_add_duration(&s, run->series->median_ns);
		nspy_str_addf(&s, ", #%" PRIu64 ")", run->series->seq);
	}
	nspy_str_addf(&s, ", %.0f %% of the others'", 100 * run->rate / median);
	nspy_texts_add(&finding->details, nspy_str_take(&s));
}

static void blame_node(const struct nspy_case *c, struct nspy_finding *finding,
		       const struct nspy_uneven_hosts *hosts, uint32_t host)
{
	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		if (hosts->of_proc[c->attempt->procs[i]->index] == host)
			nspy_finding_blame(finding, c->attempt->procs[i]);
	}
}

/* "node a with all its partners; the link between b and c" */
static void add_subjects(struct nspy_str *s, const struct nspy_uneven_runs *runs,
			 const struct nspy_uneven_subject *subjects, size_t count)
{
	size_t links = 0;

	for (size_t i = 0; i < count; i++) {
		nspy_str_addf(s, "%s%s %s", i ? ", " : "", subjects[i].rail ? "card" : "node",

			      subjects[i].rail ? subjects[i].rail
					       : runs->hosts->names[subjects[i].host]);
		if (subjects[i].rail)
			nspy_str_addf(s, " of node %s", runs->hosts->names[subjects[i].host]);
		if (subjects[i].end != NSPY_UNEVEN_BOTH)
			nspy_str_add(s, subjects[i].end == NSPY_UNEVEN_TO ? " (receiving)"
									  : " (sending)");
	}
	for (size_t i = 0; i < runs->count; i++) {
		const struct nspy_uneven_run *run = &runs->items[i];

		if (!run->slow || run->explained || links++ >= 3)
			continue;
		nspy_str_add(s, links > 1 || count ? ", " : "");
		nspy_str_add(s, run->path || run->series->nodes == 2 ? "the link " : "some of ");
		if (run->path)
			add_path(s, run->path);
		else
			add_nodes(s, run->series->comm);
	}
	if (links > 3)
		nspy_str_addf(s, " and %zu more links", links - 3);
}

void nspy_uneven_report(const struct nspy_case *c, struct nspy_findings *out,
			struct nspy_uneven_runs *runs, const struct nspy_uneven_subject *subjects,
			size_t subject_count)
{
	struct nspy_finding *finding = nspy_findings_add(out, NSPY_FINDING_UNEVEN_NODE_BANDWIDTH);
	const struct nspy_uneven_run *worst = &runs->items[0]; /* there is one that is slow */
	struct nspy_str s = {0};
	size_t slow = 0, told = 0;

	for (size_t i = 0; i < runs->count; i++) {
		const struct nspy_uneven_run *run = &runs->items[i];

		if (!run->slow)
			continue;
		slow++;
		worst = worst->rate <= run->rate ? worst : run;
		if (told++ < TOLD_MAX)
			tell_run(c, finding, run, runs->median);
	}
	add_subjects(&s, runs, subjects, subject_count);
	nspy_str_addf(&s, " %s slow: %zu of %zu %s are below the median of ",
		      subject_count > 1 || (!subject_count && slow > 1) ? "are" : "is", slow,
		      runs->count, worst->path ? "paths" : "communicators");
	nspy_add_bytes(&s, runs->median * (worst->path ? 1 : worst->series->factor));
	nspy_str_addf(&s, "/s, the slowest reaches %.0f %% of it",
		      100 * worst->rate / runs->median);
	finding->summary = nspy_str_take(&s);
	add_subjects(&s, runs, subjects, subject_count);
	nspy_str_addf(&s, " reaches %.0f %% of the bandwidth of the others",
		      100 * worst->rate / runs->median);
	finding->cause = nspy_str_take(&s);
	finding->priority = worst->rate < SHARE_ACT * runs->median ? 1 : 2;
	finding->confidence = NSPY_PROBABLE;
	if (!subject_count) {
		finding->owner = "fabric";
		finding->action = "check cables and switch ports between the nodes named";
	}
	finding->when_ns = c->attempt->start_ns;
	if (worst->series) {
		finding->comm = worst->series->comm;
		finding->seq = worst->series->seq;
	}
	for (size_t i = 0; i < subject_count; i++)
		blame_node(c, finding, runs->hosts, subjects[i].host);
}
