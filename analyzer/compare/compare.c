/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

#define START_MIN_SHARE 0.2 /* of the time that creating the communicator took before */
#define START_MIN_NS    1e9
#define TAIL_MIN_SHARE  0.1 /* of the slowest hundredth before */
#define TAIL_STEPS_MIN  200u

/* One quantity over the runs of a group. */
struct group {
	size_t runs; /* that have it */
	double mean;
	double square; /* sum of squared deviations of the runs */
	double error;  /* mean squared error within runs, NaN = not known of any */
};

static double value_of(const struct nspy_metric *metric, bool tail)
{
	return tail ? metric->ns.p99 : metric->ns.center;
}

static struct group group_of(const struct nspy_runs *runs, const char *key, bool tail)
{
	struct group group = {.error = NAN};
	double errors = 0;
	size_t known = 0;

	for (size_t i = 0; i < runs->count; i++) {
		const struct nspy_metric *metric = nspy_run_metric(&runs->items[i], key);

		if (!metric || (tail && metric->ns.count < TAIL_STEPS_MIN))
			continue;
		group.runs++;
		group.mean += value_of(metric, tail);
		if (!tail && !isnan(metric->ns.error)) {
			errors += metric->ns.error * metric->ns.error;
			known++;
		}
	}
	if (!group.runs)
		return group;
	group.mean /= (double)group.runs;
	if (known)
		group.error = errors / (double)known;
	for (size_t i = 0; i < runs->count; i++) {
		const struct nspy_metric *metric = nspy_run_metric(&runs->items[i], key);

		if (metric && (!tail || metric->ns.count >= TAIL_STEPS_MIN))
			group.square += (value_of(metric, tail) - group.mean) *
					(value_of(metric, tail) - group.mean);
	}
	return group;
}

/*
 * Standard error of the difference of the groups' means. Several runs on one side at least: from
 * how much they differ, but never less than what the samples within them say. One on each side:
 * only from within, which leaves out how much runs differ. False: cannot be told.
 */
static bool error_of(const struct group *base, const struct group *now, double *ret_error,
		     double *ret_df)
{
	double sides = 1 / (double)base->runs + 1 / (double)now->runs;
	double inside =
		(isnan(base->error) ? 0 : base->error) + (isnan(now->error) ? 0 : now->error);
	size_t spare = base->runs + now->runs - 2;

	if (!isnan(base->error) && !isnan(now->error))
		inside /= 2;
	if (spare) {
		double between = (base->square + now->square) / (double)spare;

		*ret_error = sqrt(fmax(between, inside) * sides);
		*ret_df = (double)spare;
		return *ret_error > 0;
	}
	if (isnan(base->error) || isnan(now->error))
		return false;
	*ret_error = sqrt(base->error + now->error);
	*ret_df = 14; /* batches of two runs, at least */
	return *ret_error > 0;
}

bool nspy_row_is_own_scale(const struct nspy_row *row)
{
	return row->kind == NSPY_METRIC_START || row->kind == NSPY_METRIC_TIME ||
	       row->kind == NSPY_METRIC_NETWORK;
}

bool nspy_row_is_likely(const struct nspy_comparison *comparison, const struct nspy_row *row)
{
	return row->verdict == NSPY_CHANGE_NONE && row->low > 0 &&
	       row->change >= comparison->options.min_effect;
}

/* What a change is a share of. */
static double scale_of(const struct nspy_comparison *c, const struct nspy_row *row)
{
	if (row->tail || nspy_row_is_own_scale(row))
		return row->base_ns;
	return c->step_ns;
}

static void measure(struct nspy_comparison *c, struct nspy_row *row, double alpha)
{
	struct group base = group_of(c->base, row->key, row->tail);
	struct group now = group_of(c->now, row->key, row->tail);
	double error, df, scale, wide;

	row->base_ns = base.mean;
	row->now_ns = now.mean;
	row->low = row->high = row->detectable = row->p = row->p_better = NAN;
	row->verdict = NSPY_CHANGE_UNKNOWN;
	scale = scale_of(c, row);
	if (!(scale > 0))
		return;
	row->change = (now.mean - base.mean) / scale;
	if (!error_of(&base, &now, &error, &df))
		return;
	wide = nspy_t_quantile(0.025, df) * error;
	row->low = (now.mean - base.mean - wide) / scale;
	row->high = (now.mean - base.mean + wide) / scale;
	row->p = nspy_t_tail((now.mean - base.mean) / error, df);
	row->p_better = nspy_t_tail((base.mean - now.mean) / error, df);
	row->detectable = fmax(nspy_t_quantile(alpha, df) * error / scale, c->options.min_effect);
	row->verdict = NSPY_CHANGE_NONE;
}

static bool large_enough(const struct nspy_comparison *c, const struct nspy_row *row, double sign)
{
	if (row->kind == NSPY_METRIC_START)
		return sign * row->change >= START_MIN_SHARE &&
		       sign * (row->now_ns - row->base_ns) >= START_MIN_NS;
	if (row->tail)
		return sign * row->change >= fmax(TAIL_MIN_SHARE, c->options.min_effect);
	return sign * row->change >= c->options.min_effect;
}

static int compare_p(const void *a, const void *b)
{
	const struct nspy_row *x = *(struct nspy_row *const *)a;
	const struct nspy_row *y = *(struct nspy_row *const *)b;
	double p = fmin(x->p, x->p_better), q = fmin(y->p, y->p_better);

	return p < q ? -1 : p > q;
}

/* Holm: the smallest p must be below alpha / m, the next one below alpha / (m - 1), ... */
static void decide(const struct nspy_comparison *c, struct nspy_row **rows, size_t count)
{
	qsort(rows, count, sizeof(struct nspy_row *), compare_p);
	for (size_t i = 0; i < count; i++) {
		struct nspy_row *row = rows[i];
		bool worse = row->p <= row->p_better;

		if (fmin(row->p, row->p_better) > c->options.alpha / (double)(count - i))
			return;
		if (large_enough(c, row, worse ? 1 : -1))
			row->verdict = worse ? NSPY_CHANGE_WORSE : NSPY_CHANGE_BETTER;
	}
}

/* Step time is a family of its own: what matters most shall not pay for what is looked at besides.
 */
static void decide_all(struct nspy_comparison *c)
{
	struct nspy_row **rows = nspy_xcalloc(c->row_count + 1, sizeof(struct nspy_row *));

	for (int first = 1; first >= 0; first--) {
		size_t count = 0;

		for (size_t i = 0; i < c->row_count; i++) {
			bool step = c->rows[i].kind == NSPY_METRIC_STEP && !c->rows[i].tail;

			if (step == (first == 1) && c->rows[i].verdict != NSPY_CHANGE_UNKNOWN)
				rows[count++] = &c->rows[i];
		}
		if (count)
			decide(c, rows, count);
	}
	free(rows);
}

static bool in_all(const struct nspy_runs *runs, const char *key)
{
	for (size_t i = 0; i < runs->count; i++) {
		if (!nspy_run_metric(&runs->items[i], key))
			return false;
	}
	return true;
}

static void add_row(struct nspy_comparison *c, const struct nspy_metric *metric, bool tail)
{
	c->rows = nspy_grow(c->rows, c->row_count, &c->row_capacity, sizeof(*c->rows));
	c->rows[c->row_count] = (struct nspy_row){.kind = metric->kind,
						  .tail = tail,
						  .key = metric->key,
						  .bus_bytes = metric->bus_bytes};
	measure(c, &c->rows[c->row_count++], c->options.alpha);
}

#define PATTERN_SHARE 0.02 /* steps of lengths further apart are not the same work */

static double step_length(const struct nspy_runs *runs)
{
	double sum = 0;

	for (size_t i = 0; i < runs->count; i++)
		sum += (double)runs->items[i].step_length / (double)runs->count;
	return sum;
}

static size_t without_steps(const struct nspy_runs *runs)
{
	size_t count = 0;

	for (size_t i = 0; i < runs->count; i++)
		count += runs->items[i].steps == 0;
	return count;
}

/* Steps of another number of operations are other work: then only single operations compare. */
static bool same_steps(struct nspy_comparison *c)
{
	double base = step_length(c->base), now = step_length(c->now);
	size_t missing = without_steps(c->base) + without_steps(c->now);

	if (missing) {
		nspy_texts_add(
			&c->reasons,
			nspy_xasprintf("no repeating pattern of operations in %zu run%s: step "
				       "times are not compared",
				       missing, missing == 1 ? "" : "s"));
		return false;
	}
	if (fabs(now - base) <= PATTERN_SHARE * fmax(now, base))
		return true;
	nspy_texts_add(&c->reasons,
		       nspy_xasprintf("a step is another pattern now (%.4g operations of the job's "
				      "communicator, %.4g before): step times are not compared",
				      now, base));
	return false;
}

static bool of_steps(enum nspy_metric_kind kind)
{
	return kind == NSPY_METRIC_STEP || kind == NSPY_METRIC_WAIT || kind == NSPY_METRIC_CALLS ||
	       kind == NSPY_METRIC_OTHER;
}

/* Quantities that every run has; what differs in the mix of operations is said elsewhere. */
static void make_rows(struct nspy_comparison *c)
{
	const struct nspy_run *first = &c->base->items[0];
	const struct nspy_metric *step =
		nspy_run_metric(first, nspy_metric_kind_name(NSPY_METRIC_STEP));
	bool same = same_steps(c);

	if (step && in_all(c->base, step->key) && in_all(c->now, step->key))
		c->step_ns = group_of(c->base, step->key, false).mean;
	for (size_t i = 0; i < first->metric_count; i++) {
		const struct nspy_metric *metric = &first->metrics[i];

		if (!in_all(c->base, metric->key) || !in_all(c->now, metric->key) ||
		    (!same && of_steps(metric->kind)))
			continue;
		add_row(c, metric, false);
		if (metric->kind == NSPY_METRIC_STEP && c->run_variation &&
		    group_of(c->base, metric->key, true).runs == c->base->count &&
		    group_of(c->now, metric->key, true).runs == c->now->count)
			add_row(c, metric, true);
	}
}

const struct nspy_row *nspy_comparison_row(const struct nspy_comparison *comparison,
					   const char *key)
{
	for (size_t i = 0; i < comparison->row_count; i++) {
		if (strcmp(comparison->rows[i].key, key) == 0)
			return &comparison->rows[i];
	}
	return NULL;
}

/* Only runs of one size are the same job. */
static bool same_size(struct nspy_comparison *c)
{
	const struct nspy_run *first = &c->base->items[0];

	for (int side = 0; side < 2; side++) {
		const struct nspy_runs *runs = side ? c->now : c->base;

		for (size_t i = 0; i < runs->count; i++) {
			const struct nspy_run *run = &runs->items[i];

			if (run->ranks == first->ranks)
				continue;
			nspy_texts_add(&c->reasons,
				       nspy_xasprintf("job %s ran on %lld ranks, job %s on %lld: "
						      "times are not comparable",
						      first->job, (long long)first->ranks, run->job,
						      (long long)run->ranks));
			return false;
		}
	}
	return true;
}

/* --- the node that holds up the others --- */

#define NODE_SHARE 0.5 /* of the growth of all that is waited */

static double charged(const struct nspy_runs *runs, const char *name, size_t *ret_runs)
{
	double sum = 0;

	*ret_runs = 0;
	for (size_t i = 0; i < runs->count; i++) {
		const struct nspy_run_host *host = nspy_run_host(&runs->items[i], name);

		if (host) {
			sum += host->charged_ns;
			++*ret_runs;
		}
	}
	return *ret_runs ? sum / (double)*ret_runs : 0;
}

static double lost(const struct nspy_runs *runs)
{
	double sum = 0;

	for (size_t i = 0; i < runs->count; i++)
		sum += runs->items[i].lost_ns / (double)runs->count;
	return sum;
}

/* A node that is new is compared with what the usual node cost before. */
static double usual_charge(const struct nspy_runs *runs)
{
	double sum = 0;
	size_t hosts = 0;

	for (size_t i = 0; i < runs->count; i++) {
		for (size_t h = 0; h < runs->items[i].host_count; h++, hosts++)
			sum += runs->items[i].hosts[h].charged_ns;
	}
	return hosts ? sum / (double)hosts : 0;
}

static void find_node(struct nspy_comparison *c)
{
	const struct nspy_run *last = &c->now->items[c->now->count - 1];
	double ranks = (double)last->ranks;

	c->lost_growth_ns = lost(c->now) - lost(c->base);
	if (last->host_count < 2 || !c->step_ns ||
	    c->lost_growth_ns < c->options.min_effect * c->step_ns * ranks / 2)
		return;
	for (size_t h = 0; h < last->host_count; h++) {
		const char *name = last->hosts[h].name;
		size_t before, after;
		double base = charged(c->base, name, &before), now = charged(c->now, name, &after);

		if (!before)
			base = usual_charge(c->base);
		if (after != c->now->count || now - base < NODE_SHARE * c->lost_growth_ns ||
		    (c->node && now - base <= c->node_now_ns - c->node_base_ns))
			continue;
		c->node = name;
		c->node_base_ns = base;
		c->node_now_ns = now;
	}
}

/* As a file keeps numbers. */
static bool nearly(double a, double b)
{
	return fabs(a - b) <= 1e-6 * fabs(a);
}

static bool same_run(const struct nspy_run *a, const struct nspy_run *b)
{
	if (a->start_ns != b->start_ns || a->ranks != b->ranks || strcmp(a->job, b->job) != 0 ||
	    a->metric_count != b->metric_count || !nearly(a->lost_ns, b->lost_ns))
		return false;
	for (size_t i = 0; i < a->metric_count; i++) {
		if (!nearly(a->metrics[i].ns.center, b->metrics[i].ns.center))
			return false;
	}
	return true;
}

/* One run on both sides hides what changed. */
static void find_same_runs(struct nspy_comparison *c)
{
	for (size_t i = 0; i < c->now->count; i++) {
		const struct nspy_run *now = &c->now->items[i];

		for (size_t k = 0; k < c->base->count; k++) {
			const struct nspy_run *base = &c->base->items[k];

			if (!same_run(now, base))
				continue;
			nspy_texts_add(&c->reasons,
				       nspy_xasprintf("job %s is on both sides: a run compared "
						      "with itself shows no change",
						      now->job));
			break;
		}
	}
}

void nspy_compare(const struct nspy_runs *base, const struct nspy_runs *now,
		  const struct nspy_compare_options *options, struct nspy_comparison *ret)
{
	*ret = (struct nspy_comparison){.base = base, .now = now, .options = *options};
	ret->run_variation = base->count + now->count > 2;
	ret->comparable = same_size(ret);
	find_same_runs(ret);
	if (ret->comparable) {
		make_rows(ret);
		decide_all(ret);
		find_node(ret);
	}
	nspy_compare_differences(ret);
	if (ret->comparable)
		nspy_compare_judge(ret);
}

void nspy_comparison_done(struct nspy_comparison *comparison)
{
	struct nspy_texts *const lists[] = {&comparison->reasons, &comparison->differences};

	for (size_t k = 0; k < nspy_array_size(lists); k++) {
		for (size_t i = 0; i < lists[k]->count; i++)
			free(lists[k]->text[i]);
		free(lists[k]->text);
	}
	free(comparison->rows);
	nspy_findings_done(&comparison->findings);
	*comparison = (struct nspy_comparison){0};
}
