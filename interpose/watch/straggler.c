/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "straggler.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define SEEN_MIN    3u /* of two nobody can tell which is odd */
#define LATE_MIN_NS 1000000ull
#define HOLD_NS     5000000000ull /* short rounds must go wrong for that long */

#define COST_FAIL_PCT 5u  /* of the round: told */
#define COST_NOTE_PCT 2u  /* ... noted */
#define SPREAD_TIMES  6u  /* of the median deviation: beyond what ranks differ anyway */
#define ALONE_TIMES   2u  /* twice as late as the next one */
#define ROUND_PCT     20u /* ranks of one rhythm */
#define WINDOW_ROUNDS 16u /* both windows together */
#define GROWTH_PCT    30u /* rounds that much longer than the best are worth a note */

struct crowd {
	const struct nspy_status *pages;
	uint32_t *pages_of; /* of those that can be compared */
	uint64_t *sorted, *spread;
	uint32_t count;
	uint64_t round_ns; /* median of whole rounds */
};

/* Whoever is late, in one window. */
struct late {
	uint32_t page; /* the latest, or the first of its node */
	bool node;     /* all ranks of it */
	uint64_t late_ns;
};

static uint64_t sort_median(uint64_t *values, uint32_t count)
{
	for (uint32_t gap = count / 2; gap; gap /= 2) {
		for (uint32_t n = gap; n < count; n++) {
			uint64_t value = values[n];
			uint32_t i = n;

			for (; i >= gap && values[i - gap] > value; i -= gap)
				values[i] = values[i - gap];
			values[i] = value;
		}
	}
	return values[(count - 1) / 2];
}

/* Several ranks of a process take turns in what it measures. */
static bool has_several_ranks(const struct nspy_status *page)
{
	for (uint32_t i = 0; i < page->comm_count; i++)
		for (uint32_t k = 0; k < i; k++)
			if (page->comms[i].key && page->comms[i].key == page->comms[k].key)
				return true;
	return false;
}

static bool comparable(const struct nspy_status *page)
{
	return !nspy_page_gone(page) && !page->stopped && !page->silent && page->rank >= 0 &&
	       page->round_ns[0] && page->round_ns[1] && !has_several_ranks(page);
}

static bool near(uint64_t value, uint64_t middle)
{
	uint64_t apart = value > middle ? value - middle : middle - value;

	return apart <= middle / 100 * ROUND_PCT;
}

/* Ranks that go round together; false if these are not nearly all. */
static bool gather(struct crowd *crowd, uint32_t count)
{
	uint32_t able = 0;
	int32_t world = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (crowd->pages[i].world_size > world)
			world = crowd->pages[i].world_size;
		if (!comparable(&crowd->pages[i]))
			continue;
		crowd->pages_of[able] = i;
		crowd->sorted[able++] = crowd->pages[i].round_ns[0];
	}
	if (able < SEEN_MIN || (uint64_t)able * 4 < (uint64_t)world * 3)
		return false;
	crowd->round_ns = sort_median(crowd->sorted, able);
	for (uint32_t i = 0; i < able; i++) {
		const struct nspy_status *page = &crowd->pages[crowd->pages_of[i]];

		if (near(page->round_ns[0], crowd->round_ns) &&
		    near(page->round_ns[1], crowd->round_ns))
			crowd->pages_of[crowd->count++] = crowd->pages_of[i];
	}
	return crowd->count >= SEEN_MIN && crowd->count * 4 >= able * 3;
}

static const struct nspy_status *page_at(const struct crowd *crowd, uint32_t i)
{
	return &crowd->pages[crowd->pages_of[i]];
}

static bool same_node(const struct nspy_status *a, const struct nspy_status *b)
{
	return strcmp(a->node, b->node) == 0;
}

/* How far all ranks of that node are behind the middle at least; 0 if it is the only node. */
static uint64_t node_late(const struct crowd *crowd, const struct nspy_status *of, int window,
			  uint64_t middle, uint64_t *ret_next)
{
	uint64_t least = UINT64_MAX;
	uint32_t mine = 0;

	*ret_next = 0;
	for (uint32_t i = 0; i < crowd->count; i++) {
		const struct nspy_status *page = page_at(crowd, i);
		uint64_t work = page->work_ns[window];
		uint64_t late = work > middle ? work - middle : 0;

		if (!same_node(page, of)) {
			*ret_next = late > *ret_next ? late : *ret_next;
			continue;
		}
		mine++;
		least = late < least ? late : least;
	}
	return mine < 2 || mine * 2 >= crowd->count ? 0 : least;
}

/* Who is late in that window; late_ns is 0 if nobody stands out. */
static struct late judge_window(const struct crowd *crowd, int window)
{
	struct late late = {0};
	uint64_t middle, deviation, first = 0, next = 0;

	for (uint32_t i = 0; i < crowd->count; i++)
		crowd->sorted[i] = page_at(crowd, i)->work_ns[window];
	middle = sort_median(crowd->sorted, crowd->count);
	for (uint32_t i = 0; i < crowd->count; i++) {
		uint64_t work = page_at(crowd, i)->work_ns[window];

		crowd->spread[i] = work > middle ? work - middle : middle - work;
		if (work <= middle)
			continue;
		if (work - middle > first) {
			next = first;
			first = work - middle;
			late.page = crowd->pages_of[i];
		} else if (work - middle > next) {
			next = work - middle;
		}
	}
	deviation = sort_median(crowd->spread, crowd->count);
	if (first < LATE_MIN_NS)
		return late;
	if (first >= ALONE_TIMES * next && first >= SPREAD_TIMES * deviation) {
		late.late_ns = first;
		return late;
	}
	late.node = true;
	first = node_late(crowd, &crowd->pages[late.page], window, middle, &next);
	if (first >= LATE_MIN_NS && first >= ALONE_TIMES * next)
		late.late_ns = first;
	return late;
}

static bool same_late(const struct crowd *crowd, const struct late *a, const struct late *b)
{
	if (!a->late_ns || !b->late_ns || a->node != b->node)
		return false;
	return a->node ? same_node(&crowd->pages[a->page], &crowd->pages[b->page])
		       : a->page == b->page;
}

/* Sixteen rounds of a few milliseconds are over before something else has left the CPUs. */
static uint64_t hold_ns(const struct crowd *crowd)
{
	uint64_t seen = crowd->round_ns * WINDOW_ROUNDS;

	return seen < HOLD_NS ? HOLD_NS - seen : 0;
}

static void tell_late(const struct crowd *crowd, const struct late *late, uint64_t now_ns,
		      struct nspy_verdict *ret)
{
	const struct nspy_status *page = &crowd->pages[late->page];
	unsigned long long percent = late->late_ns * 100 / crowd->round_ns;
	char who[200] = "";

	for (uint32_t i = 0; i < crowd->count; i++)
		if (crowd->pages_of[i] == late->page ||
		    (late->node && same_node(page_at(crowd, i), page)))
			nspy_verdict_blame(ret, crowd->pages_of[i]);
	if (late->node)
		nspy_tell(who, sizeof(who), "node %s (all %" PRIu32 " ranks of it)", page->node,
			  ret->culprit_count);
	else
		nspy_tell_rank(who, sizeof(who), page);
	nspy_verdict_set(ret, NSPY_FOUND_STRAGGLER_RANK, nspy_mix(0x57a6, page->run_id), now_ns);
	ret->note = percent < COST_FAIL_PCT;
	ret->hold_ns = hold_ns(crowd);
	nspy_tell(ret->headline, sizeof(ret->headline),
		  "%s comes %llu.%llu ms after the others in every round of %llu ms", who,
		  (unsigned long long)late->late_ns / 1000000u,
		  (unsigned long long)late->late_ns / 100000u % 10,
		  (unsigned long long)crowd->round_ns / 1000000u);
	nspy_tell(ret->cause, sizeof(ret->cause),
		  "%s is late again and again, all wait, %llu %% of the time", who, percent);
	nspy_tell_line(ret,
		       "late on the host: what it does between two waits takes longer than on "
		       "the other %" PRIu32
		       " ranks seen; a GPU that is slow does not show this way",
		       crowd->count - ret->culprit_count);
}

/* Longer rounds and nobody late: on the GPUs or in the network, which no host call shows. */
static bool note_slower(const struct crowd *crowd, uint64_t now_ns, struct nspy_verdict *ret)
{
	const struct nspy_status *page = page_at(crowd, 0);

	for (uint32_t i = 0; i < crowd->count; i++) {
		const struct nspy_status *p = page_at(crowd, i);
		uint64_t limit = p->best_round_ns / 100 * (100 + GROWTH_PCT);

		if (!p->best_round_ns || p->round_ns[0] < limit || p->round_ns[1] < limit ||
		    p->round_ns[0] - p->best_round_ns < LATE_MIN_NS)
			return false;
	}
	nspy_verdict_set(ret, NSPY_FOUND_STRAGGLER_RANK, nspy_mix(0x57a6, 0), now_ns);
	ret->note = true;
	ret->hold_ns = hold_ns(crowd);
	nspy_tell(ret->headline, sizeof(ret->headline),
		  "rounds take %llu ms, at best they took %llu ms, and no rank comes late",
		  (unsigned long long)crowd->round_ns / 1000000u,
		  (unsigned long long)page->best_round_ns / 1000000u);
	nspy_tell(ret->cause, sizeof(ret->cause),
		  "nobody is to blame by host times; if a GPU is slow, times of kernels would show "
		  "which: a GPU profile of one step on each rank, or NCCL's Inspector");
	return true;
}

int nspy_straggler_find(const struct nspy_status *pages, uint32_t count, uint64_t now_ns,
			struct nspy_arena *arena, struct nspy_verdict *ret)
{
	struct crowd crowd = {.pages = pages};
	struct late now, before;

	memset(ret, 0, sizeof(*ret));
	ret->id = NSPY_FOUND_NONE;
	crowd.pages_of = nspy_arena_take(arena, count, sizeof(*crowd.pages_of));
	crowd.sorted = nspy_arena_take(arena, count, sizeof(*crowd.sorted));
	crowd.spread = nspy_arena_take(arena, count, sizeof(*crowd.spread));
	if (!crowd.pages_of || !crowd.sorted || !crowd.spread)
		return -ENOMEM;
	if (!gather(&crowd, count))
		return 0;
	now = judge_window(&crowd, 0);
	before = judge_window(&crowd, 1);
	if (same_late(&crowd, &now, &before)) {
		if (before.late_ns < now.late_ns)
			now.late_ns = before.late_ns;
		if (now.late_ns * 100 >= crowd.round_ns * COST_NOTE_PCT)
			tell_late(&crowd, &now, now_ns, ret);
	} else if (!now.late_ns && !before.late_ns) {
		(void)note_slower(&crowd, now_ns, ret);
	}
	return 0;
}
