/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flight_parts.h"
#include "text.h"

static int64_t last_seq(const struct nspy_fr_part *part)
{
	int64_t last = part->count ? part->ops[part->count - 1].seq : -1;

	return part->has_status && part->enqueued > last ? part->enqueued : last;
}

static const struct nspy_fr_op *op_at(const struct nspy_fr_part *part, int64_t seq)
{
	size_t low = 0, high = part->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (part->ops[middle].seq < seq)
			low = middle + 1;
		else
			high = middle;
	}
	return low < part->count && part->ops[low].seq == seq ? &part->ops[low] : NULL;
}

/* Sizes that all ranks must agree on. */
bool nspy_fr_sizes_agree(const char *name)
{
	static const char *const names[] = {"all_reduce",           "broadcast",
					    "_all_gather_base",     "reduce",
					    "_reduce_scatter_base", "allreduce_coalesced",
					    "all_reduce_barrier",   "_broadcast_oop",
					    "_reduce_oop"};

	for (size_t i = 0; i < nspy_array_size(names); i++) {
		if (strcmp(names[i], name) == 0)
			return true;
	}
	return false;
}

static bool texts_differ(const char *a, const char *b)
{
	return a && b && strcmp(a, b) != 0;
}

/* Roots and others of these give and take different things. */
static bool has_root(const char *name)
{
	return strcmp(name, "scatter") == 0 || strcmp(name, "gather") == 0;
}

static const char *difference(const struct nspy_fr_op *a, const struct nspy_fr_op *b)
{
	if (a->batch != b->batch)
		return "number of operations in the batch";
	if (strcmp(a->name, b->name) != 0)
		return "operation";
	if (!has_root(a->name) &&
	    (texts_differ(a->dtype, b->dtype) || texts_differ(a->dtype_out, b->dtype_out)))
		return "data type";
	if (nspy_fr_sizes_agree(a->name) && (a->in != b->in || a->out != b->out))
		return "size";
	if (a->batch > 1 && a->signature != b->signature)
		return "operations in the batch";
	return NULL;
}

void nspy_fr_add_group(struct nspy_str *s, const struct nspy_fr_group *group)
{
	nspy_str_addf(s, "process group %s", group->name);
	if (group->desc[0] && strcmp(group->desc, "undefined") != 0)
		nspy_str_addf(s, " (%s)", group->desc);
}

static void add_op(struct nspy_str *s, const struct nspy_fr_op *op)
{
	nspy_str_addf(s, "%s(%.0f x %s)", op->name, op->in, op->dtype ? op->dtype : "?");
	if (op->batch > 1)
		nspy_str_addf(s, " and %u more", op->batch - 1);
}

static struct nspy_proc *proc_of(struct nspy_model *model, int64_t rank)
{
	struct nspy_proc *proc;

	for (size_t i = 0; i < model->proc_count; i++) {
		if (model->procs[i]->rank == rank)
			return model->procs[i];
	}
	proc = nspy_model_add_proc(model, model->proc_count + 1);
	proc->rank = rank;
	return proc;
}

void nspy_fr_add_ranks(struct nspy_str *s, const int64_t *ranks, size_t count)
{
	nspy_str_add(s, count == 1 ? "rank " : "ranks ");
	nspy_add_ranges(s, ranks, count);
}

struct nspy_finding *nspy_fr_conclude(struct nspy_findings *out, enum nspy_finding_id id, int order,
				      struct nspy_str *s, struct nspy_model *model,
				      const int64_t *ranks, size_t count)
{
	struct nspy_finding *finding = nspy_findings_add(out, id);

	finding->priority = 0;
	/* A wait comes behind the causes that logs give, and before their symptoms (from 1 << 28).
	 */
	finding->order = id == NSPY_FINDING_COLLECTIVE_HANG ? (1 << 28) - 256 + order : order;
	finding->cause = nspy_xstrdup(s->text);
	finding->summary = nspy_str_take(s);
	for (size_t i = 0; i < count && i < 64; i++)
		nspy_finding_blame(finding, proc_of(model, ranks[i]));
	return finding;
}

/* --- disagreement --- */

static bool all_alike(const struct nspy_fr_group *group, int64_t seq)
{
	const struct nspy_fr_op *first = NULL;

	for (size_t i = 0; i < group->part_count; i++) {
		const struct nspy_fr_op *op = op_at(&group->parts[i], seq);

		if (op && first && difference(first, op))
			return false;
		if (op && !first)
			first = op;
	}
	return true;
}

/* Ranks whose operation differs from the one that most have; all agree: 0. */
static size_t odd_ones(const struct nspy_fr_group *group, int64_t seq, int64_t *ret_ranks,
		       const struct nspy_fr_op **ret_usual, const struct nspy_fr_op **ret_odd)
{
	const struct nspy_fr_op *usual = NULL;
	size_t most = 0, count = 0;

	if (all_alike(group, seq))
		return 0;
	for (size_t i = 0; i < group->part_count && i < 64; i++) {
		const struct nspy_fr_op *op = op_at(&group->parts[i], seq);
		size_t like = 0;

		if (!op)
			continue;
		for (size_t k = 0; k < group->part_count; k++) {
			const struct nspy_fr_op *other = op_at(&group->parts[k], seq);

			like += other && !difference(op, other);
		}
		if (like > most) {
			most = like;
			usual = op;
		}
	}
	for (size_t i = 0; usual && i < group->part_count; i++) {
		const struct nspy_fr_op *op = op_at(&group->parts[i], seq);

		if (op && difference(usual, op)) {
			*ret_odd = op;
			ret_ranks[count++] = group->parts[i].rank;
		}
	}
	*ret_usual = usual;
	return count;
}

static bool judge_mismatch(const struct nspy_fr_group *group, int64_t from, int64_t to,
			   struct nspy_model *model, struct nspy_findings *out, int64_t *ranks)
{
	for (int64_t seq = from; seq <= to; seq++) {
		const struct nspy_fr_op *usual = NULL, *odd = NULL;
		size_t count = odd_ones(group, seq, ranks, &usual, &odd);
		struct nspy_finding *finding;
		struct nspy_str s = {0};

		if (!count)
			continue;
		nspy_str_addf(&s, "ranks disagree about the %s of operation #%" PRId64 " of ",
			      difference(usual, odd), seq);
		nspy_fr_add_group(&s, group);
		nspy_str_add(&s, ": ");
		nspy_fr_add_ranks(&s, ranks, nspy_sort_unique(ranks, count));
		nspy_str_add(&s, " called ");
		add_op(&s, odd);
		nspy_str_add(&s, ", the others ");
		add_op(&s, usual);
		finding = nspy_fr_conclude(out, NSPY_FINDING_COLLECTIVE_MISMATCH, 0, &s, model,
					   ranks, count);
		/* One against one says that they differ, not who is wrong. */
		if (count * 2 >= group->part_count)
			finding->confidence = NSPY_PROBABLE;
		finding->seq = (uint64_t)seq;
		return true;
	}
	return false;
}

/* What goes in must come out: of an all_to_all over all ranks, of these on each rank. */
static double surplus(const struct nspy_fr_group *group, const struct nspy_fr_op *op)
{
	double size = (double)group->rank_count;

	if (strcmp(op->name, "_all_gather_base") == 0)
		return op->out - op->in * size;
	if (strcmp(op->name, "_reduce_scatter_base") == 0)
		return op->in - op->out * size;
	return 0;
}

static bool sum_is_off(const struct nspy_fr_group *group, int64_t seq, double *ret_in,
		       double *ret_out)
{
	*ret_in = *ret_out = 0;
	for (size_t i = 0; i < group->part_count; i++) {
		const struct nspy_fr_op *op = op_at(&group->parts[i], seq);

		if (!op || op->batch > 1)
			return false;
		if (surplus(group, op) != 0) {
			*ret_in = op->in;
			*ret_out = op->out;
			return true;
		}
		if (strcmp(op->name, "all_to_all") != 0)
			return false;
		*ret_in += op->in;
		*ret_out += op->out;
	}
	return *ret_in != *ret_out;
}

/* The ranks agree, and the sizes cannot be right. Whose are wrong cannot be told. */
static bool judge_sums(const struct nspy_flights *flights, const struct nspy_fr_group *group,
		       int64_t from, int64_t to, struct nspy_model *model,
		       struct nspy_findings *out)
{
	/* Before format 2.4 sizes of all_to_all were not recorded. */
	if (flights->minor < 4 || !group->rank_count || group->part_count != group->rank_count)
		return false;
	for (int64_t seq = from; seq <= to; seq++) {
		struct nspy_str s = {0};
		double in, out_size;

		if (!sum_is_off(group, seq, &in, &out_size))
			continue;
		nspy_str_addf(&s, "sizes of operation #%" PRId64 " ", seq);
		add_op(&s, op_at(&group->parts[0], seq));
		nspy_str_add(&s, " of ");
		nspy_fr_add_group(&s, group);
		nspy_str_addf(&s, " cannot be right: %.0f elements go in, %.0f come out", in,
			      out_size);
		nspy_fr_conclude(out, NSPY_FINDING_COLLECTIVE_MISMATCH, 0, &s, model, NULL, 0);
		return true;
	}
	return false;
}

/* --- who did not come --- */

static size_t without_dump(const struct nspy_fr_group *group, int64_t *ret_ranks)
{
	size_t count = 0;

	for (size_t i = 0; i < group->rank_count; i++) {
		bool here = false;

		for (size_t k = 0; k < group->part_count && !here; k++)
			here = group->parts[k].rank == group->ranks[i];
		if (!here)
			ret_ranks[count++] = group->ranks[i];
	}
	return count;
}

/* The first operation that is not over on some rank; -1 if all are. */
static int64_t first_open(const struct nspy_fr_group *group)
{
	int64_t first = INT64_MAX;

	for (size_t i = 0; i < group->part_count; i++) {
		for (size_t k = 0; k < group->parts[i].count; k++) {
			if (group->parts[i].ops[k].state == NSPY_FR_COMPLETED)
				continue;
			if (group->parts[i].ops[k].seq < first)
				first = group->parts[i].ops[k].seq;
			break;
		}
	}
	return first == INT64_MAX ? -1 : first;
}

static const struct nspy_fr_op *any_op(const struct nspy_fr_group *group, int64_t seq)
{
	for (size_t i = 0; i < group->part_count; i++) {
		const struct nspy_fr_op *op = op_at(&group->parts[i], seq);

		if (op)
			return op;
	}
	return NULL;
}

/* The first operation that somebody has and those at `low` lack. */
static int64_t next_after(const struct nspy_fr_group *group, int64_t low)
{
	int64_t next = INT64_MAX;

	for (size_t i = 0; i < group->part_count; i++) {
		const struct nspy_fr_part *part = &group->parts[i];

		for (size_t k = 0; k < part->count; k++) {
			if (part->ops[k].seq <= low)
				continue;
			next = part->ops[k].seq < next ? part->ops[k].seq : next;
			break;
		}
	}
	return next == INT64_MAX ? low + 1 : next;
}

static void add_waited_for(struct nspy_str *s, const struct nspy_fr_group *group, int64_t seq)
{
	const struct nspy_fr_op *op = any_op(group, seq);

	nspy_str_addf(s, "operation #%" PRId64, seq);
	if (op) {
		nspy_str_add(s, " ");
		add_op(s, op);
	}
	nspy_str_add(s, " of ");
	nspy_fr_add_group(s, group);
}

/* Who has begun this operation and not ended it. */
static int64_t *waiting_in(const struct nspy_fr_group *group, int64_t seq, size_t *ret_count)
{
	int64_t *ranks = nspy_xcalloc(group->part_count + 1, sizeof(*ranks));

	*ret_count = 0;
	for (size_t i = 0; i < group->part_count; i++) {
		const struct nspy_fr_op *op = op_at(&group->parts[i], seq);

		if (op && op->state != NSPY_FR_COMPLETED)
			ranks[(*ret_count)++] = group->parts[i].rank;
	}
	return ranks;
}

static bool counts(const struct nspy_fr_part *part)
{
	/* Of a ring that lost its beginning nothing may be left of this group. */
	return part->count || part->has_status || !part->lost;
}

static struct nspy_finding *judge_behind(const struct nspy_fr_group *group, int64_t low,
					 struct nspy_model *model, struct nspy_findings *out,
					 int64_t *ranks)
{
	struct nspy_str s = {0};
	size_t count = 0;

	for (size_t i = 0; i < group->part_count; i++) {
		if (counts(&group->parts[i]) && last_seq(&group->parts[i]) == low)
			ranks[count++] = group->parts[i].rank;
	}
	nspy_fr_add_ranks(&s, ranks, nspy_sort_unique(ranks, count));
	nspy_str_add(&s, " did not join ");
	add_waited_for(&s, group, next_after(group, low));
	nspy_str_addf(&s, " that %zu other %s in", group->part_count - count,
		      group->part_count - count == 1 ? "rank waits" : "ranks wait");
	return nspy_fr_conclude(out, NSPY_FINDING_COLLECTIVE_HANG, 1, &s, model, ranks, count);
}

static struct nspy_finding *judge_absent(const struct nspy_fr_group *group, int64_t low,
					 struct nspy_model *model, struct nspy_findings *out,
					 int64_t *ranks)
{
	size_t count = without_dump(group, ranks);
	struct nspy_finding *finding;
	struct nspy_str s = {0};

	if (count) {
		nspy_str_add(&s, "all ranks with a dump wait in ");
		add_waited_for(&s, group, low);
		nspy_str_add(&s, "; no dump from ");
		nspy_fr_add_ranks(&s, ranks, count);
		nspy_str_add(&s, ", which may have failed first");
		finding = nspy_fr_conclude(out, NSPY_FINDING_COLLECTIVE_HANG, 2, &s, model, ranks,
					   count);
		finding->confidence = NSPY_PROBABLE;
		return finding;
	}
	nspy_str_addf(&s, "all %zu ranks %sjoined ", group->part_count,
		      group->rank_count ? "" : "with a dump ");
	add_waited_for(&s, group, low);
	nspy_str_add(
		&s, group->rank_count
			    ? " and not all finished it: nobody is late, the data path stands still"
			    : " and not all finished it; the dumps do not tell who belongs to the "
			      "group, so a rank without a dump may be missing");
	finding = nspy_fr_conclude(out, NSPY_FINDING_COLLECTIVE_HANG, 3, &s, model, ranks, 0);
	finding->confidence = NSPY_PROBABLE;
	return finding;
}

/*
 * Gloo's records never complete, they only end, after a failure too. Where a rank lacks the last
 * one it did not come, or its dump was made earlier.
 */
static void judge_ended(const struct nspy_fr_group *group, int64_t low, struct nspy_model *model,
			struct nspy_findings *out, int64_t *ranks)
{
	const struct nspy_fr_op *op = any_op(group, next_after(group, low));
	struct nspy_finding *finding;
	struct nspy_str s = {0};
	size_t count = 0;

	if (!op || !op->ended || strstr(op->name, "broadcast") || has_root(op->name) ||
	    strcmp(op->name, "reduce") == 0)
		return;
	for (size_t i = 0; i < group->part_count; i++) {
		if (counts(&group->parts[i]) && last_seq(&group->parts[i]) == low)
			ranks[count++] = group->parts[i].rank;
	}
	nspy_fr_add_ranks(&s, ranks, nspy_sort_unique(ranks, count));
	nspy_str_add(&s, " never joined ");
	add_waited_for(&s, group, next_after(group, low));
	nspy_str_add(&s, ", which ended on the others, perhaps with an error");
	finding = nspy_fr_conclude(out, NSPY_FINDING_COLLECTIVE_HANG, 4, &s, model, ranks, count);
	finding->priority = 1;
	finding->confidence = NSPY_WEAK;
	nspy_finding_detail(finding, "holds if the dumps were made at the same moment: Gloo's "
				     "records do not tell success from failure");
}

static void judge_group(const struct nspy_flights *flights, const struct nspy_fr_group *group,
			struct nspy_model *model, struct nspy_findings *out, int64_t *ranks,
			struct nspy_fr_verdicts *verdicts)
{
	int64_t low = INT64_MAX, high = -1, from = -1, open;
	struct nspy_finding *finding;
	size_t count;

	for (size_t i = 0; i < group->part_count; i++) {
		const struct nspy_fr_part *part = &group->parts[i];
		int64_t last = last_seq(part), first = part->count ? part->ops[0].seq : last;

		if (!counts(part))
			continue;
		low = last < low ? last : low;
		high = last > high ? last : high;
		from = first > from ? first : from; /* what all rings still hold */
	}
	if (group->part_count == 0 || high < 0)
		return;
	from = from < 0 ? 0 : from;
	if (judge_mismatch(group, from, low, model, out, ranks) ||
	    judge_sums(flights, group, from, low, model, out))
		return;
	open = first_open(group);
	/*
	 * Ranks queue operations ahead: what counts is the first one that does not end. If all end,
	 * the dumps were only made at different moments.
	 */
	if (open < 0) {
		if (high > low)
			judge_ended(group, low, model, out, ranks);
		return;
	}
	finding = open > low ? judge_behind(group, low, model, out, ranks)
			     : judge_absent(group, open, model, out, ranks);
	ranks = waiting_in(group, open > low ? next_after(group, low) : open, &count);
	nspy_fr_verdict(verdicts, finding, ranks, count);
}

/* --- several groups --- */

void nspy_fr_verdict(struct nspy_fr_verdicts *verdicts, struct nspy_finding *finding,
		     int64_t *waiting, size_t waiting_count)
{
	verdicts->items = nspy_grow(verdicts->items, verdicts->count, &verdicts->capacity,
				    sizeof(*verdicts->items));
	verdicts->items[verdicts->count++] =
		(struct nspy_fr_verdict){finding, waiting, waiting_count};
}

static bool waits(const struct nspy_fr_verdict *verdict, const struct nspy_proc *proc)
{
	for (size_t i = 0; i < verdict->waiting_count; i++) {
		if (verdict->waiting[i] == proc->rank)
			return !nspy_finding_blames(verdict->finding, proc);
	}
	return false;
}

static bool explained(const struct nspy_fr_verdicts *verdicts, size_t own,
		      const struct nspy_proc *proc)
{
	for (size_t k = 0; k < verdicts->count; k++) {
		if (k != own && verdicts->items[k].finding->culprit_count &&
		    waits(&verdicts->items[k], proc))
			return true;
	}
	return false;
}

static void keep_unexplained(const struct nspy_fr_verdicts *verdicts, size_t own)
{
	struct nspy_finding *finding = verdicts->items[own].finding;
	size_t left = 0;

	for (size_t c = 0; c < finding->culprit_count; c++) {
		if (!explained(verdicts, own, finding->culprits[c]))
			finding->culprits[left++] = finding->culprits[c];
	}
	finding->culprit_count = left;
}

/*
 * Who is late in one group because it waits in another is not the one to look at first. Whom
 * another finding does not explain comes before.
 */
static void fold(const struct nspy_fr_verdicts *verdicts)
{
	for (size_t i = 0; i < verdicts->count; i++) {
		struct nspy_finding *finding = verdicts->items[i].finding;
		size_t left = 0;

		if (finding->culprit_count == 0 && verdicts->count > 1)
			finding->order += 100;
		for (size_t c = 0; c < finding->culprit_count; c++) {
			if (!explained(verdicts, i, finding->culprits[c]))
				left++;
		}
		if (left == finding->culprit_count)
			continue;
		nspy_finding_detail(finding,
				    "%s named here wait%s in another process group or for "
				    "a message",
				    left ? "some of those" : "who is", left ? "" : "s");
		finding->confidence = NSPY_PROBABLE;
		if (left)
			keep_unexplained(verdicts, i);
		else
			finding->order += 10;
	}
}

void nspy_flights_judge(const struct nspy_flights *flights, struct nspy_model *model,
			struct nspy_findings *out)
{
	int64_t *ranks = nspy_xcalloc(2 * 65536 + 2, sizeof(*ranks));
	struct nspy_fr_verdicts verdicts = {0};
	size_t before = out->count;

	nspy_fr_complete(flights);
	for (size_t i = 0; i < flights->group_count && out->count - before < 16; i++)
		judge_group(flights, flights->groups[i], model, out, ranks, &verdicts);
	nspy_flights_judge_p2p(flights, model, out, &verdicts);
	fold(&verdicts);
	for (size_t i = before; flights->guessed && i < out->count; i++)
		nspy_finding_detail(
			out->items[i],
			"file names do not tell all ranks: some are numbered as they came");
	for (size_t i = 0; i < verdicts.count; i++)
		free(verdicts.items[i].waiting);
	free(verdicts.items);
	free(ranks);
}
