/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends and receives. Their numbers are counted by each rank on its own, and batches give one
 * number to many, so numbers do not pair them: NCCL pairs the calls between two ranks in the order
 * they were made, and so does this. If a ring lost its beginning, the order is counted from the
 * first call that has not completed, and sizes are not compared.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "flight_parts.h"
#include "text.h"

/* What one rank called towards one peer, in one direction. */
struct run {
	const struct nspy_fr_p2p *ops;
	size_t count;
};

static const struct nspy_fr_part *part_at(const struct nspy_fr_group *group, int64_t group_rank)
{
	for (size_t i = 0; i < group->part_count; i++) {
		if (group->parts[i].group_rank == group_rank)
			return &group->parts[i];
	}
	/* One that neither sent nor received: known by the group's list of members. */
	if (group_rank >= 0 && (size_t)group_rank < group->rank_count) {
		for (size_t i = 0; i < group->part_count; i++) {
			if (group->parts[i].rank == group->ranks[group_rank])
				return &group->parts[i];
		}
	}
	return NULL;
}

static int64_t global_rank(const struct nspy_fr_group *group, int64_t group_rank)
{
	const struct nspy_fr_part *part = part_at(group, group_rank);

	if (part)
		return part->rank;
	return (size_t)group_rank < group->rank_count ? group->ranks[group_rank] : -1;
}

static struct run run_at(const struct nspy_fr_part *part, size_t first)
{
	struct run run = {&part->p2p[first], 1};

	while (first + run.count < part->p2p_count && run.ops[run.count].send == run.ops->send &&
	       run.ops[run.count].peer == run.ops->peer)
		run.count++;
	return run;
}

static struct run run_of(const struct nspy_fr_part *part, bool send, int64_t peer)
{
	size_t low = 0, high = part->p2p_count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct nspy_fr_p2p *op = &part->p2p[middle];

		if (op->send != send ? op->send : op->peer < peer)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == part->p2p_count || part->p2p[low].send != send || part->p2p[low].peer != peer)
		return (struct run){NULL, 0};
	return run_at(part, low);
}

/* Calls that have completed, from the beginning on. */
static size_t completed(const struct run *run)
{
	size_t count = 0;

	while (count < run->count && run->ops[count].state == NSPY_FR_COMPLETED)
		count++;
	return count;
}

/* --- what does not fit --- */

static void add_call(struct nspy_str *s, const struct nspy_fr_p2p *op)
{
	nspy_str_addf(s, "%.0f x %s", op->elements, op->dtype ? op->dtype : "?");
}

static bool sizes_differ(const struct nspy_fr_p2p *a, const struct nspy_fr_p2p *b)
{
	return a->elements != b->elements ||
	       (a->dtype && b->dtype && strcmp(a->dtype, b->dtype) != 0);
}

static bool judge_sizes(const struct nspy_fr_group *group, const struct run *sends,
			const struct run *receives, int64_t source, int64_t target,
			struct nspy_model *model, struct nspy_findings *out)
{
	int64_t ranks[2] = {source, target};

	for (size_t k = 0; k < sends->count && k < receives->count; k++) {
		struct nspy_finding *finding;
		struct nspy_str s = {0};

		if (!sizes_differ(&sends->ops[k], &receives->ops[k]))
			continue;
		nspy_str_addf(&s, "rank %" PRId64 " sends ", source);
		add_call(&s, &sends->ops[k]);
		nspy_str_addf(&s, ", rank %" PRId64 " expects ", target);
		add_call(&s, &receives->ops[k]);
		nspy_str_addf(&s, " (message %zu between them in ", k + 1);
		nspy_fr_add_group(&s, group);
		nspy_str_add(&s, ")");
		finding = nspy_fr_conclude(out, NSPY_FINDING_P2P_MISMATCH, 0, &s, model, ranks, 2);
		finding->confidence = NSPY_PROBABLE; /* one against one */
		return true;
	}
	return false;
}

/* --- who waits for whom --- */

struct wait {
	const struct nspy_fr_group *group;
	const struct nspy_fr_p2p *op; /* NULL: this rank waits for no message */
	int64_t rank, on;
	uint32_t onto; /* index of the wait of whom it waits for, UINT32_MAX = no dump */
};

struct waits {
	struct wait *items;
	size_t count, capacity;
	struct nspy_map by_rank; /* rank + 1 -> index + 1 */
};

/* The first call of `own` that has no counterpart, if it has not completed. */
static const struct nspy_fr_p2p *unanswered(const struct run *own, bool own_lost,
					    const struct run *other, bool other_lost)
{
	size_t first = own_lost || other_lost ? completed(own) : other->count;

	if (first >= own->count || own->ops[first].state == NSPY_FR_COMPLETED)
		return NULL;
	/* Nothing to count by: the other side must have nothing open. */
	if ((own_lost || other_lost) && completed(other) < other->count)
		return NULL;
	return &own->ops[first];
}

static void note_wait(struct waits *waits, const struct nspy_fr_group *group, int64_t rank,
		      int64_t on, const struct nspy_fr_p2p *op)
{
	size_t index = (uintptr_t)nspy_map_get(&waits->by_rank, (uint64_t)rank + 1);

	if (index) {
		/* The call that came first is the one it waits in. */
		if (waits->items[index - 1].group == group &&
		    waits->items[index - 1].op->index <= op->index)
			return;
		if (waits->items[index - 1].group != group)
			return;
		waits->items[index - 1].op = op;
		waits->items[index - 1].on = on;
		return;
	}
	waits->items =
		nspy_grow(waits->items, waits->count, &waits->capacity, sizeof(*waits->items));
	waits->items[waits->count++] = (struct wait){group, op, rank, on, UINT32_MAX};
	nspy_map_put(&waits->by_rank, (uint64_t)rank + 1, (void *)(uintptr_t)waits->count);
}

static bool judge_pair(const struct nspy_fr_group *group, const struct nspy_fr_part *part,
		       const struct run *own, struct waits *waits, struct nspy_model *model,
		       struct nspy_findings *out)
{
	const struct nspy_fr_part *peer = part_at(group, own->ops->peer);
	const struct nspy_fr_p2p *op;
	struct run other = {NULL, 0};
	bool send = own->ops->send;

	if (peer)
		other = run_of(peer, !send, part->group_rank);
	if (peer && send && !part->lost && !peer->lost &&
	    judge_sizes(group, own, &other, part->rank, peer->rank, model, out))
		return true;
	op = unanswered(own, part->lost, &other, !peer || peer->lost);
	if (op)
		note_wait(waits, group, part->rank, global_rank(group, own->ops->peer), op);
	return false;
}

static void add_wait(struct nspy_str *s, const struct wait *wait)
{
	nspy_str_addf(s, "rank %" PRId64 " %s rank %" PRId64, wait->rank,
		      wait->op->send ? "sends to" : "receives from", wait->on);
}

/* Follows who waits for whom to the end; a ring is where it was before. */
static size_t last_of_chain(const struct waits *waits, size_t from, bool *ret_ring)
{
	size_t at = from;

	*ret_ring = false;
	for (size_t steps = 0; waits->items[at].onto != UINT32_MAX; steps++) {
		if (steps > waits->count) {
			*ret_ring = true;
			return at;
		}
		at = waits->items[at].onto;
	}
	return at;
}

static void tell_ring(const struct waits *waits, size_t at, struct nspy_model *model,
		      struct nspy_findings *out, struct nspy_fr_verdicts *verdicts)
{
	struct nspy_str s = {0};
	int64_t *ranks = nspy_xcalloc(waits->count, sizeof(*ranks));
	size_t count = 0, begin = at;

	nspy_str_add(&s, "ranks wait for each other: ");
	do {
		if (count && count < 6)
			nspy_str_add(&s, ", ");
		if (count < 6)
			add_wait(&s, &waits->items[at]);
		ranks[count++] = waits->items[at].rank;
		at = waits->items[at].onto;
	} while (at != begin && count < waits->count);
	if (count > 6)
		nspy_str_addf(&s, " and %zu more", count - 6);
	count = nspy_sort_unique(ranks, count);
	nspy_fr_verdict(
		verdicts,
		nspy_fr_conclude(out, NSPY_FINDING_P2P_MISMATCH, 1, &s, model, ranks, count), ranks,
		0);
}

static void tell_end(const struct waits *waits, size_t at, struct nspy_model *model,
		     struct nspy_findings *out, struct nspy_fr_verdicts *verdicts)
{
	const struct wait *wait = &waits->items[at];
	int64_t *waiting = nspy_xcalloc(waits->count, sizeof(*waiting));
	struct nspy_finding *finding;
	struct nspy_str s = {0};
	size_t count = 0;
	bool ring;

	for (size_t i = 0; i < waits->count; i++) {
		if (waits->items[last_of_chain(waits, i, &ring)].on == wait->on && !ring)
			waiting[count++] = waits->items[i].rank;
	}
	count = nspy_sort_unique(waiting, count);
	nspy_str_addf(&s, "rank %" PRId64 " did not %s rank %" PRId64 " ", wait->on,
		      wait->op->send ? "receive from" : "send to", wait->rank);
	add_call(&s, wait->op);
	nspy_str_add(&s, " in ");
	nspy_fr_add_group(&s, wait->group);
	nspy_str_add(&s, "; ");
	nspy_fr_add_ranks(&s, waiting, count);
	nspy_str_add(&s, count == 1 ? " waits for it" : " wait for it, one behind the other");
	finding = nspy_fr_conclude(out, NSPY_FINDING_COLLECTIVE_HANG, 2, &s, model, &wait->on, 1);
	finding->confidence = NSPY_PROBABLE;
	nspy_fr_verdict(verdicts, finding, waiting, count);
}

static void judge_waits(struct waits *waits, struct nspy_model *model, struct nspy_findings *out,
			struct nspy_fr_verdicts *verdicts)
{
	struct nspy_map told = {0};

	for (size_t i = 0; i < waits->count; i++) {
		size_t index =
			(uintptr_t)nspy_map_get(&waits->by_rank, (uint64_t)waits->items[i].on + 1);

		if (index)
			waits->items[i].onto = (uint32_t)index - 1;
	}
	for (size_t i = 0; i < waits->count; i++) {
		bool ring;
		size_t at = last_of_chain(waits, i, &ring);
		uint64_t key = ring ? (uint64_t)waits->items[at].rank + 1
				    : ((uint64_t)waits->items[at].on + 2) << 20;

		if (nspy_map_get(&told, key) || (!ring && waits->items[at].on < 0))
			continue;
		if (!ring) {
			nspy_map_put(&told, key, waits);
			tell_end(waits, at, model, out, verdicts);
			continue;
		}
		for (size_t k = at, n = 0; n == 0 || k != at; n++, k = waits->items[k].onto)
			nspy_map_put(&told, (uint64_t)waits->items[k].rank + 1, waits);
		tell_ring(waits, at, model, out, verdicts);
	}
	nspy_map_done(&told);
}

void nspy_flights_judge_p2p(const struct nspy_flights *flights, struct nspy_model *model,
			    struct nspy_findings *out, struct nspy_fr_verdicts *verdicts)
{
	struct waits waits = {0};

	for (size_t g = 0; g < flights->group_count; g++) {
		const struct nspy_fr_group *group = flights->groups[g];
		bool told = false;

		for (size_t i = 0; i < group->part_count && !told; i++) {
			const struct nspy_fr_part *part = &group->parts[i];
			size_t at = 0;

			while (at < part->p2p_count && !told) {
				struct run run = run_at(part, at);

				told = judge_pair(group, part, &run, &waits, model, out);
				at += run.count;
			}
		}
	}
	judge_waits(&waits, model, out, verdicts);
	free(waits.items);
	nspy_map_done(&waits.by_rank);
}
