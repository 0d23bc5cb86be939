/* SPDX-License-Identifier: Apache-2.0 */
/* PERF_REGRESSION: from rows to findings. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "compare.h"
#include "text.h"

#define SUSPECTS_MAX 6u
#define PARTS_MIN    0.1 /* share of the lost time that is worth a line */

static void add_signed(struct nspy_str *s, double ns)
{
	nspy_str_add(s, ns < 0 ? "-" : "+");
	nspy_add_duration(s, (uint64_t)fabs(ns));
}

void nspy_row_add_name(struct nspy_str *s, const struct nspy_row *row)
{
	static const char *const names[NSPY_METRIC_KINDS] = {
		[NSPY_METRIC_STEP] = "step time",
		[NSPY_METRIC_WAIT] = "waiting for the GPU",
		[NSPY_METRIC_CALLS] = "inside NCCL's calls",
		[NSPY_METRIC_OTHER] = "elsewhere on the host",
		[NSPY_METRIC_SPREAD] = "first to last arrival",
		[NSPY_METRIC_START] = "creation of the job's communicator",
		[NSPY_METRIC_TIME] = "",
		[NSPY_METRIC_NETWORK] = "time of an operation on the network card",
	};

	nspy_str_add(s, row->tail ? "slowest hundredth of the steps" : names[row->kind]);
	if (row->kind == NSPY_METRIC_SPREAD)
		nspy_str_addf(s, ", %s", row->key + strlen("spread: "));
	else if (row->kind == NSPY_METRIC_TIME)
		nspy_str_addf(s, "%s, until its end was seen", row->key + strlen("time: "));
	else if (row->kind == NSPY_METRIC_NETWORK)
		nspy_str_addf(s, " %s", row->key + strlen("network: "));
}

void nspy_row_add_change(struct nspy_str *s, const struct nspy_row *row)
{
	nspy_add_duration(s, (uint64_t)row->base_ns);
	nspy_str_add(s, " -> ");
	nspy_add_duration(s, (uint64_t)row->now_ns);
	nspy_str_addf(s, " (%+.1f %%", row->change * 100);
	if (row->kind != NSPY_METRIC_STEP && !nspy_row_is_own_scale(row))
		nspy_str_add(s, " of a step");
	if (!isnan(row->low))
		nspy_str_addf(s, ", 95 %% interval %+.1f to %+.1f %%", row->low * 100,
			      row->high * 100);
	nspy_str_add(s, ")");
	if (row->bus_bytes > 0 && row->base_ns > 0 && row->now_ns > 0)
		nspy_str_addf(s, ", busbw at least %.3g -> %.3g GB/s",
			      row->bus_bytes / row->base_ns, row->bus_bytes / row->now_ns);
}

static struct nspy_finding *add_finding(struct nspy_comparison *c, const struct nspy_row *row)
{
	struct nspy_finding *finding =
		nspy_findings_add(&c->findings, NSPY_FINDING_PERF_REGRESSION);
	double lost_us = fmin(fmax(row->now_ns - row->base_ns, 0) / 1e3, INT_MAX / 2.0);
	struct nspy_str s = {0};

	finding->order = INT_MAX / 2 - (int)lost_us; /* what costs most comes first */
	nspy_row_add_name(&s, row);
	nspy_str_add(&s, " ");
	nspy_row_add_change(&s, row);
	finding->summary = nspy_str_take(&s);
	if (!c->run_variation) {
		finding->priority = 2;
		finding->confidence = NSPY_WEAK;
		nspy_finding_detail(finding, "one run a side: how much runs differ anyway is not "
					     "known; compare several");
	}
	return finding;
}

/* Where the additional time of a step is spent. */
static void tell_parts(struct nspy_finding *finding, const struct nspy_comparison *c, double lost)
{
	struct nspy_str s = {0};

	for (size_t i = 0; i < c->row_count; i++) {
		const struct nspy_row *row = &c->rows[i];
		double more = row->now_ns - row->base_ns;

		if ((row->kind != NSPY_METRIC_WAIT && row->kind != NSPY_METRIC_CALLS &&
		     row->kind != NSPY_METRIC_OTHER) ||
		    fabs(more) < PARTS_MIN * lost)
			continue;
		nspy_str_add(&s, s.text ? ", " : "where: ");
		nspy_row_add_name(&s, row);
		nspy_str_add(&s, " ");
		add_signed(&s, more);
	}
	if (s.text)
		nspy_texts_add(&finding->details, nspy_str_take(&s));
}

static void tell_node(struct nspy_finding *finding, const struct nspy_comparison *c)
{
	const struct nspy_run *last = &c->now->items[c->now->count - 1];
	double others = last->ranks > 1 ? (double)(last->ranks - 1) : 1;
	struct nspy_str s = {0};

	nspy_str_addf(&s, "node %s holds up the others: ", c->node);
	nspy_add_duration(&s, (uint64_t)(c->node_now_ns / others));
	nspy_str_add(&s, " per step and rank, ");
	nspy_add_duration(&s, (uint64_t)(c->node_base_ns / others));
	nspy_str_addf(&s, " before; %.0f %% of what is waited more for late ranks",
		      fmin((c->node_now_ns - c->node_base_ns) / c->lost_growth_ns, 1) * 100);
	nspy_texts_add(&finding->details, nspy_str_take(&s));
}

static void tell_suspects(struct nspy_finding *finding, const struct nspy_comparison *c)
{
	size_t count = c->differences.count;

	for (size_t i = 0; i < count && i < SUSPECTS_MAX; i++)
		nspy_finding_detail(finding, "changed too: %s", c->differences.text[i]);
	if (count > SUSPECTS_MAX)
		nspy_finding_detail(finding, "and %zu more differences", count - SUSPECTS_MAX);
	finding->action = "undo what changed, one thing at a time, the first one named first";
	if (count)
		return;
	nspy_finding_detail(finding, "no recorded setting, version or node differs");
	finding->action = "run the earlier version again on these nodes: if it is as slow now, the "
			  "cluster changed, else the code";
}

/* Beside a step that takes longer they are evidence, without one a note. */
static bool is_of_operations(const struct nspy_row *row)
{
	return row->kind == NSPY_METRIC_SPREAD || row->kind == NSPY_METRIC_TIME ||
	       row->kind == NSPY_METRIC_NETWORK;
}

static void tell_step(struct nspy_comparison *c, const struct nspy_row *row)
{
	struct nspy_finding *finding = add_finding(c, row);
	double lost = row->now_ns - row->base_ns;
	double hours = lost * (double)c->now->items[0].ranks * 1000 / 3600e9;

	nspy_finding_detail(finding, "costs %.3g GPU-hours in 1,000 steps", hours);
	tell_parts(finding, c, lost);
	if (c->node)
		tell_node(finding, c);
	for (size_t i = 0; i < c->row_count; i++) {
		const struct nspy_row *other = &c->rows[i];
		struct nspy_str s = {0};

		if (!is_of_operations(other) || other->verdict != NSPY_CHANGE_WORSE)
			continue;
		nspy_row_add_name(&s, other);
		nspy_str_add(&s, ": ");
		nspy_row_add_change(&s, other);
		nspy_texts_add(&finding->details, nspy_str_take(&s));
	}
	tell_suspects(finding, c);
	finding->cause =
		nspy_xasprintf("steps take %.1f %% longer than before%s%s%s", row->change * 100,
			       c->node ? ", and node " : "", c->node ? c->node : "",
			       c->node ? " holds up the others" : "");
	if (c->node) {
		finding->owner = "node";
		finding->restart = "helps-elsewhere";
		finding->action = "compare CPU load, clocks and input of that node with the others";
	}
}

/* Beside the step time: worth a note, not an alarm. */
static void tell_other(struct nspy_comparison *c, const struct nspy_row *row)
{
	struct nspy_finding *finding = add_finding(c, row);
	struct nspy_str s = {0};

	finding->priority = 2;
	nspy_row_add_name(&s, row);
	nspy_str_add(&s, " grew");
	finding->cause = nspy_str_take(&s);
	tell_suspects(finding, c);
}

void nspy_compare_judge(struct nspy_comparison *comparison)
{
	bool slower = false;

	for (size_t i = 0; i < comparison->row_count; i++) {
		const struct nspy_row *row = &comparison->rows[i];

		if (row->verdict != NSPY_CHANGE_WORSE)
			continue;
		if (row->kind == NSPY_METRIC_STEP && !row->tail) {
			slower = true;
			tell_step(comparison, row);
		} else if (row->kind == NSPY_METRIC_START ||
			   (!slower && (row->tail || is_of_operations(row)))) {
			tell_other(comparison, row);
		}
	}
	nspy_findings_sort(&comparison->findings);
}
