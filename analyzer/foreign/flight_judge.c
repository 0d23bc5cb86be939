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
static bool sizes_agree(const char *name)
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

static const char *difference(const struct nspy_fr_op *a, const struct nspy_fr_op *b)
{
	if (a->coalesced || b->coalesced)
		return NULL;
	if (strcmp(a->name, b->name) != 0)
		return "operation";
	if (a->dtype && b->dtype && strcmp(a->dtype, b->dtype) != 0)
		return "data type";
	if (sizes_agree(a->name) && (a->in != b->in || a->out != b->out))
		return "size";
	return NULL;
}

static void add_group(struct nspy_str *s, const struct nspy_fr_group *group)
{
	nspy_str_addf(s, "process group %s", group->name);
	if (group->desc[0] && strcmp(group->desc, "undefined") != 0)
		nspy_str_addf(s, " (%s)", group->desc);
}

static void add_op(struct nspy_str *s, const struct nspy_fr_op *op)
{
	nspy_str_addf(s, "%s(%.0f x %s)", op->name, op->in, op->dtype ? op->dtype : "?");
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

static void add_ranks(struct nspy_str *s, const int64_t *ranks, size_t count)
{
	nspy_str_add(s, count == 1 ? "rank " : "ranks ");
	nspy_add_ranges(s, ranks, count);
}

static struct nspy_finding *conclude(struct nspy_findings *out, enum nspy_finding_id id, int order,
				     struct nspy_str *s, struct nspy_model *model, int64_t *ranks,
				     size_t count)
{
	struct nspy_finding *finding = nspy_findings_add(out, id);

	finding->priority = 0;
	finding->order = order;
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
		add_group(&s, group);
		nspy_str_add(&s, ": ");
		add_ranks(&s, ranks, nspy_sort_unique(ranks, count));
		nspy_str_add(&s, " called ");
		add_op(&s, odd);
		nspy_str_add(&s, ", the others ");
		add_op(&s, usual);
		finding =
			conclude(out, NSPY_FINDING_COLLECTIVE_MISMATCH, 0, &s, model, ranks, count);
		/* One against one says that they differ, not who is wrong. */
		if (count * 2 >= group->part_count)
			finding->confidence = NSPY_PROBABLE;
		finding->seq = (uint64_t)seq;
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

static void add_waited_for(struct nspy_str *s, const struct nspy_fr_group *group, int64_t seq)
{
	const struct nspy_fr_op *op = any_op(group, seq);

	nspy_str_addf(s, "operation #%" PRId64, seq);
	if (op) {
		nspy_str_add(s, " ");
		add_op(s, op);
	}
	nspy_str_add(s, " of ");
	add_group(s, group);
}

static bool judge_behind(const struct nspy_fr_group *group, int64_t low, struct nspy_model *model,
			 struct nspy_findings *out, int64_t *ranks)
{
	struct nspy_str s = {0};
	size_t count = 0;

	for (size_t i = 0; i < group->part_count; i++) {
		if (last_seq(&group->parts[i]) == low)
			ranks[count++] = group->parts[i].rank;
	}
	add_ranks(&s, ranks, nspy_sort_unique(ranks, count));
	nspy_str_add(&s, " did not join ");
	add_waited_for(&s, group, low + 1);
	nspy_str_addf(&s, " that %zu other rank%s wait in", group->part_count - count,
		      group->part_count - count == 1 ? "" : "s");
	conclude(out, NSPY_FINDING_COLLECTIVE_HANG, 1, &s, model, ranks, count);
	return true;
}

static bool judge_absent(const struct nspy_fr_group *group, int64_t low, struct nspy_model *model,
			 struct nspy_findings *out, int64_t *ranks)
{
	size_t count = without_dump(group, ranks);
	struct nspy_finding *finding;
	struct nspy_str s = {0};

	if (count) {
		nspy_str_add(&s, "all ranks with a dump wait in ");
		add_waited_for(&s, group, low);
		nspy_str_add(&s, "; no dump from ");
		add_ranks(&s, ranks, count);
		nspy_str_add(&s, ", which may have failed first");
		finding = conclude(out, NSPY_FINDING_COLLECTIVE_HANG, 2, &s, model, ranks, count);
		finding->confidence = NSPY_PROBABLE;
		return true;
	}
	nspy_str_addf(&s, "all %zu ranks %sjoined ", group->part_count,
		      group->rank_count ? "" : "with a dump ");
	add_waited_for(&s, group, low);
	nspy_str_add(
		&s, group->rank_count
			    ? " and not all finished it: nobody is late, the data path stands still"
			    : " and not all finished it; the dumps do not tell who belongs to the "
			      "group, "
			      "so a rank without a dump may be missing");
	finding = conclude(out, NSPY_FINDING_COLLECTIVE_HANG, 3, &s, model, ranks, 0);
	finding->confidence = NSPY_PROBABLE;
	return true;
}

static void judge_group(const struct nspy_fr_group *group, struct nspy_model *model,
			struct nspy_findings *out, int64_t *ranks)
{
	int64_t low = INT64_MAX, high = -1, from = -1, open;

	for (size_t i = 0; i < group->part_count; i++) {
		const struct nspy_fr_part *part = &group->parts[i];
		int64_t last = last_seq(part), first = part->count ? part->ops[0].seq : last;

		low = last < low ? last : low;
		high = last > high ? last : high;
		from = first > from ? first : from; /* what all rings still hold */
	}
	if (group->part_count == 0 || high < 0)
		return;
	if (judge_mismatch(group, from < 0 ? 0 : from, low, model, out, ranks))
		return;
	open = first_open(group);
	/*
	 * Ranks queue operations ahead: what counts is the first one that does not end. If all end,
	 * the dumps were only made at different moments.
	 */
	if (open > low)
		judge_behind(group, low, model, out, ranks);
	else if (open >= 0)
		judge_absent(group, open, model, out, ranks);
}

/* A wait in one group that a wait in another explains: those blamed there cannot come here. */
static void fold(struct nspy_findings *out, size_t from)
{
	for (size_t i = from; i < out->count; i++) {
		struct nspy_finding *finding = out->items[i];

		if (finding->culprit_count == 0 && out->count - from > 1)
			finding->order += 100;
	}
}

void nspy_flights_judge(const struct nspy_flights *flights, struct nspy_model *model,
			struct nspy_findings *out)
{
	int64_t *ranks = nspy_xcalloc(2 * 65536 + 2, sizeof(*ranks));
	size_t before = out->count;

	for (size_t i = 0; i < flights->group_count && out->count - before < 16; i++)
		judge_group(flights->groups[i], model, out, ranks);
	fold(out, before);
	for (size_t i = before; flights->guessed && i < out->count; i++)
		nspy_finding_detail(
			out->items[i],
			"file names do not tell all ranks: some are numbered as they came");
	free(ranks);
}
