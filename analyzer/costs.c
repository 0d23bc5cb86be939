/* SPDX-License-Identifier: Apache-2.0 */
#include "costs.h"

#include <stdlib.h>

#include "map.h"
#include "rounds.h"

struct loss {
	struct nspy_round round;
	size_t comm; /* place in attempt->comms */
	uint64_t ns; /* how long before last_ns the last but one came */
	size_t site; /* place in costs->sites */
};

/* The latest time that a process was held up by another one. */
struct held {
	uint64_t since_ns, until_ns;
	uint32_t by; /* proc->index */
	size_t site; /* what that one was late to */
};

/* Who is to blame for a loss, and for which part of it another one. */
struct verdict {
	uint32_t last; /* proc->index */
	uint32_t by;   /* whom those who wait now are held up by */
	size_t site;   /* and what that one was late to */
	uint64_t passed_ns;
	struct held held; /* how the last one was itself held up, if passed_ns */
};

struct losses {
	struct loss *items;
	struct verdict *verdicts; /* once they are in order */
	uint32_t **procs;         /* by place in attempt->comms: index of each member's process */
	size_t count, capacity;
};

static int compare_ns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t usual_spread(const struct nspy_rounds *rounds)
{
	uint64_t *spreads = nspy_xcalloc(rounds->count + 1, sizeof(*spreads)), median;

	for (size_t i = 0; i < rounds->count; i++)
		spreads[i] = rounds->items[i].last_ns - rounds->items[i].first_ns;
	qsort(spreads, rounds->count, sizeof(*spreads), compare_ns);
	median = spreads[rounds->count / 2];
	free(spreads);
	return median;
}

/* A gap beyond what a cell holds: the others are taken to have come as closely as they use to. */
static uint64_t gap_of(const struct nspy_round *round, uint64_t usual)
{
	uint64_t spread = round->last_ns - round->first_ns;

	if (round->gap_ns != UINT32_MAX)
		return round->gap_ns;
	return spread > usual + UINT32_MAX ? spread - usual : UINT32_MAX;
}

static bool one_clock(const struct nspy_comm *comm)
{
	for (size_t i = 1; i < comm->member_count; i++) {
		if (comm->members[i]->proc->clock != comm->members[0]->proc->clock)
			return false;
	}
	return true;
}

/* The site of an operation. sites: hash -> place + 1. */
static size_t site_of(struct nspy_map *sites, struct nspy_costs *costs,
		      const struct nspy_comm *comm, uint64_t seq)
{
	const struct nspy_cell *cell = nspy_cells_get(&comm->cells, seq);
	uint32_t signature = cell ? cell->signature : 0;
	uint64_t key = nspy_mix((uint64_t)comm->member_count << 32 | signature);
	uintptr_t known = (uintptr_t)nspy_map_get(sites, key);

	if (known)
		return known - 1;
	costs->sites = nspy_grow(costs->sites, costs->site_count, &costs->site_capacity,
				 sizeof(*costs->sites));
	costs->sites[costs->site_count++] = (struct nspy_cost_site){
		.comm = comm,
		.seq = seq,
		.fn = (uint16_t)(signature & ((1u << NSPY_CELL_FN_BITS) - 1)),
	};
	nspy_map_put(sites, key, (void *)(uintptr_t)costs->site_count);
	return costs->site_count - 1;
}

static void collect(const struct nspy_model *model, const struct nspy_comm *comm, size_t place,
		    struct nspy_map *sites, struct losses *losses, struct nspy_costs *ret)
{
	bool exact = one_clock(comm);
	struct nspy_rounds rounds;
	uint64_t usual;

	if (comm->member_count < 2)
		return;
	nspy_rounds_find(comm, &rounds);
	usual = usual_spread(&rounds);
	for (size_t i = 0; i < rounds.count; i++) {
		struct loss loss = {rounds.items[i], place, gap_of(&rounds.items[i], usual), 0};

		ret->rounds++;
		if (!exact && loss.ns <= model->clock_error_ns) {
			ret->withheld += loss.ns > 0;
			continue;
		}
		if (!loss.ns)
			continue;
		loss.site = site_of(sites, ret, comm, loss.round.seq);
		losses->items = nspy_grow(losses->items, losses->count, &losses->capacity,
					  sizeof(*losses->items));
		losses->items[losses->count++] = loss;
	}
	free(rounds.items);
}

static int compare_losses(const void *a, const void *b)
{
	const struct loss *x = a, *y = b;

	if (x->round.last_ns != y->round.last_ns)
		return x->round.last_ns < y->round.last_ns ? -1 : 1;
	return x->comm < y->comm ? -1 : x->comm > y->comm;
}

/* How much of the time before the last arrival its rank was held up itself. */
static uint64_t excused(const struct held *held, const struct loss *loss)
{
	uint64_t from = loss->round.last_ns - loss->ns;

	if (held->until_ns <= from || held->until_ns > loss->round.last_ns)
		return 0;
	return held->until_ns - (held->since_ns > from ? held->since_ns : from);
}

static struct verdict judge(const struct nspy_model *model, const struct loss *loss,
			    const struct held *held)
{
	uint32_t last = model->members[loss->round.last_member]->proc->index;
	const struct held *mine = &held[last];
	uint64_t passed = excused(mine, loss);
	bool other = passed * 2 > loss->ns;

	return (struct verdict){
		.last = last,
		.by = other ? mine->by : last,
		.site = other ? mine->site : loss->site,
		.passed_ns = passed,
		.held = *mine,
	};
}

/* Those who wait are held up by now. */
static void hold(const uint32_t *procs, size_t count, const struct loss *loss,
		 const struct verdict *verdict, struct held *held, uint64_t *waited)
{
	const struct held now = {loss->round.last_ns - loss->ns, loss->round.last_ns, verdict->by,
				 verdict->site};

	for (size_t i = 0; i < count; i++) {
		if (procs[i] == verdict->last)
			continue;
		held[procs[i]] = now;
		waited[procs[i]] += loss->ns;
	}
}

static void charge(const struct nspy_comm *comm, const struct loss *loss,
		   const struct verdict *verdict, struct nspy_costs *ret)
{
	uint64_t others = comm->member_count - 1;

	ret->lost_ns += loss->ns * others;
	ret->passed_ns += verdict->passed_ns * others;
	ret->by_comm[loss->comm] += loss->ns * others;
	ret->by_proc[verdict->last] += (loss->ns - verdict->passed_ns) * others;
	ret->sites[loss->site].ns += (loss->ns - verdict->passed_ns) * others;
	ret->sites[loss->site].rounds++;
	if (!verdict->passed_ns)
		return;
	ret->by_proc[verdict->held.by] += verdict->passed_ns * others;
	ret->sites[verdict->held.site].ns += verdict->passed_ns * others;
}

static void charge_all(const struct nspy_model *model, const struct nspy_attempt *attempt,
		       struct losses *losses, struct nspy_costs *ret)
{
	struct held *held = nspy_xcalloc(model->proc_count + 1, sizeof(*held));

	losses->verdicts = nspy_xcalloc(losses->count + 1, sizeof(*losses->verdicts));
	losses->procs = nspy_xcalloc(attempt->comm_count + 1, sizeof(uint32_t *));
	for (size_t i = 0; i < losses->count; i++) {
		const struct loss *loss = &losses->items[i];
		const struct nspy_comm *comm = attempt->comms[loss->comm];
		uint32_t **procs = &losses->procs[loss->comm];

		if (!*procs) {
			*procs = nspy_xcalloc(comm->member_count, sizeof(**procs));
			for (size_t m = 0; m < comm->member_count; m++)
				(*procs)[m] = comm->members[m]->proc->index;
		}
		losses->verdicts[i] = judge(model, loss, held);
		charge(comm, loss, &losses->verdicts[i], ret);
		hold(*procs, comm->member_count, loss, &losses->verdicts[i], held, ret->waited);
	}
	free(held);
}

static void losses_done(struct losses *losses, size_t comm_count)
{
	for (size_t i = 0; i < comm_count; i++)
		free(losses->procs[i]);
	free(losses->procs);
	free(losses->verdicts);
	free(losses->items);
}

/* --- when others waited for those that cost most --- */

#define READ_SHARE_MIN 0.005 /* of all time: less is not worth reading traces again */
#define READ_PART_MIN  0.01  /* of what was lost, charged to that rank */

static void add_window(struct nspy_costs *costs, uint32_t proc, uint64_t waiters, uint64_t from_ns,
		       uint64_t to_ns)
{
	if (from_ns >= to_ns)
		return;
	costs->windows = nspy_grow(costs->windows, costs->window_count, &costs->window_capacity,
				   sizeof(*costs->windows));
	costs->windows[costs->window_count++] =
		(struct nspy_cost_window){proc, (uint32_t)waiters, from_ns, to_ns};
}

/* The ranks that most is charged to. */
static bool *choose_ranks(const struct nspy_model *model, const struct nspy_attempt *attempt,
			  const struct nspy_costs *costs)
{
	bool *chosen = nspy_xcalloc(model->proc_count + 1, sizeof(*chosen));

	for (size_t k = 0; k < NSPY_COSTS_READ_MAX; k++) {
		const struct nspy_proc *most = NULL;

		for (size_t i = 0; i < attempt->proc_count; i++) {
			const struct nspy_proc *proc = attempt->procs[i];

			if (!chosen[proc->index] &&
			    (!most || costs->by_proc[proc->index] > costs->by_proc[most->index]))
				most = proc;
		}
		if (!most ||
		    (double)costs->by_proc[most->index] < READ_PART_MIN * (double)costs->lost_ns)
			break;
		chosen[most->index] = true;
	}
	return chosen;
}

/* What was charged on is not the last one's time. */
static void find_windows(const struct nspy_model *model, const struct nspy_attempt *attempt,
			 const struct losses *losses, struct nspy_costs *ret)
{
	bool *chosen;

	if ((double)ret->lost_ns < READ_SHARE_MIN * (double)ret->rank_ns || !ret->lost_ns)
		return;
	chosen = choose_ranks(model, attempt, ret);
	for (size_t i = 0; i < losses->count; i++) {
		const struct loss *loss = &losses->items[i];
		const struct verdict *verdict = &losses->verdicts[i];
		uint64_t others = attempt->comms[loss->comm]->member_count - 1;
		uint64_t from = loss->round.last_ns - loss->ns;

		if (!chosen[verdict->last])
			continue;
		if (verdict->passed_ns) {
			add_window(ret, verdict->last, others, from, verdict->held.since_ns);
			from = verdict->held.until_ns;
		}
		add_window(ret, verdict->last, others, from, loss->round.last_ns);
	}
	free(chosen);
}

/* --- who waited for whom --- */

#define NOT_KEPT UINT32_MAX

struct nodes {
	uint32_t *of_proc; /* by proc->index: number of its node */
	uint32_t *row_of;  /* by node: its row in ns, or NOT_KEPT */
	const struct nspy_proc **first;
	uint64_t *charged; /* by node */
	uint64_t *ns;      /* [row * count + waiting node] */
	size_t count, rows;
};

static uint64_t hash_text(const char *text)
{
	uint64_t hash = 1;

	while (*text)
		hash = nspy_mix(hash + (unsigned char)*text++);
	return hash | 1;
}

static void number_nodes(const struct nspy_model *model, const struct nspy_attempt *attempt,
			 const struct nspy_costs *costs, struct nodes *ret)
{
	struct nspy_map seen = {0};

	ret->of_proc = nspy_xcalloc(model->proc_count + 1, sizeof(*ret->of_proc));
	ret->first = nspy_xcalloc(attempt->proc_count + 1, sizeof(const struct nspy_proc *));
	ret->charged = nspy_xcalloc(attempt->proc_count + 1, sizeof(*ret->charged));
	for (size_t i = 0; i < attempt->proc_count; i++) {
		const struct nspy_proc *proc = attempt->procs[i];
		uint64_t key = hash_text(nspy_proc_host(proc));
		uintptr_t known = (uintptr_t)nspy_map_get(&seen, key);

		if (!known) {
			ret->first[ret->count] = proc;
			known = ++ret->count;
			nspy_map_put(&seen, key, (void *)known);
		}
		ret->of_proc[proc->index] = (uint32_t)(known - 1);
		ret->charged[known - 1] += costs->by_proc[proc->index];
	}
	nspy_map_done(&seen);
}

/* Rows for the nodes that cost most. */
static void choose_nodes(struct nodes *nodes)
{
	uint64_t *sorted = nspy_xcalloc(nodes->count + 1, sizeof(*sorted)), least;

	nodes->row_of = nspy_xcalloc(nodes->count + 1, sizeof(*nodes->row_of));
	for (size_t n = 0; n < nodes->count; n++)
		sorted[n] = nodes->charged[n];
	qsort(sorted, nodes->count, sizeof(*sorted), compare_ns);
	least = nodes->count > NSPY_COSTS_NODES_MAX ? sorted[nodes->count - NSPY_COSTS_NODES_MAX]
						    : 0;
	for (size_t n = 0; n < nodes->count; n++) {
		bool kept = nodes->charged[n] && nodes->charged[n] >= least &&
			    nodes->rows < NSPY_COSTS_NODES_MAX;

		nodes->row_of[n] = kept ? (uint32_t)nodes->rows++ : NOT_KEPT;
	}
	nodes->ns = nspy_xcalloc(nodes->rows * nodes->count + 1, sizeof(*nodes->ns));
	free(sorted);
}

static void add_waiting(struct nodes *nodes, const uint32_t *procs, size_t count, uint32_t last,
			uint32_t late, uint64_t ns)
{
	uint32_t row = nodes->row_of[nodes->of_proc[late]];
	uint64_t *waited = row == NOT_KEPT ? NULL : nodes->ns + row * nodes->count;

	for (size_t i = 0; waited && ns && i < count; i++) {
		if (procs[i] != last)
			waited[nodes->of_proc[procs[i]]] += ns;
	}
}

static int compare_links(const void *a, const void *b)
{
	const struct nspy_cost_link *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	if (x->late->index != y->late->index)
		return x->late->index < y->late->index ? -1 : 1;
	return x->waiting->index < y->waiting->index ? -1 : x->waiting->index > y->waiting->index;
}

static void list_links(const struct nodes *nodes, struct nspy_costs *ret)
{
	for (size_t late = 0; late < nodes->count; late++) {
		for (size_t n = 0; nodes->row_of[late] != NOT_KEPT && n < nodes->count; n++) {
			uint64_t ns = nodes->ns[nodes->row_of[late] * nodes->count + n];

			if (!ns)
				continue;
			ret->links = nspy_grow(ret->links, ret->link_count, &ret->link_capacity,
					       sizeof(*ret->links));
			ret->links[ret->link_count++] =
				(struct nspy_cost_link){nodes->first[late], nodes->first[n], ns};
		}
	}
	if (ret->link_count)
		qsort(ret->links, ret->link_count, sizeof(*ret->links), compare_links);
}

static void find_links(const struct nspy_model *model, const struct nspy_attempt *attempt,
		       const struct losses *losses, struct nspy_costs *ret)
{
	struct nodes nodes = {0};

	number_nodes(model, attempt, ret, &nodes);
	choose_nodes(&nodes);
	for (size_t i = 0; i < losses->count; i++) {
		const struct loss *loss = &losses->items[i];
		const struct verdict *verdict = &losses->verdicts[i];
		const uint32_t *procs = losses->procs[loss->comm];
		size_t count = attempt->comms[loss->comm]->member_count;

		add_waiting(&nodes, procs, count, verdict->last, verdict->last,
			    loss->ns - verdict->passed_ns);
		if (verdict->passed_ns)
			add_waiting(&nodes, procs, count, verdict->last, verdict->held.by,
				    verdict->passed_ns);
	}
	list_links(&nodes, ret);
	free(nodes.of_proc);
	free(nodes.row_of);
	free(nodes.first);
	free(nodes.charged);
	free(nodes.ns);
}

void nspy_costs_find(const struct nspy_model *model, const struct nspy_attempt *attempt,
		     struct nspy_costs *ret)
{
	struct nspy_map sites = {0};
	struct losses losses = {0};

	*ret = (struct nspy_costs){
		.by_proc = nspy_xcalloc(model->proc_count + 1, sizeof(uint64_t)),
		.waited = nspy_xcalloc(model->proc_count + 1, sizeof(uint64_t)),
		.by_comm = nspy_xcalloc(attempt->comm_count + 1, sizeof(uint64_t)),
	};
	for (size_t i = 0; i < attempt->proc_count; i++) {
		const struct nspy_proc *proc = attempt->procs[i];

		if (proc->end_ns > proc->start_ns)
			ret->rank_ns += proc->end_ns - proc->start_ns;
	}
	for (size_t i = 0; i < attempt->comm_count; i++)
		collect(model, attempt->comms[i], i, &sites, &losses, ret);
	if (losses.count)
		qsort(losses.items, losses.count, sizeof(*losses.items), compare_losses);
	nspy_map_done(&sites);
	charge_all(model, attempt, &losses, ret);
	find_links(model, attempt, &losses, ret);
	find_windows(model, attempt, &losses, ret);
	losses_done(&losses, attempt->comm_count);
}

void nspy_costs_done(struct nspy_costs *costs)
{
	free(costs->by_proc);
	free(costs->by_comm);
	free(costs->waited);
	free(costs->windows);
	free(costs->sites);
	free(costs->links);
	*costs = (struct nspy_costs){0};
}

/* --- steps --- */

#define WINDOW     4096u /* operations looked at */
#define LENGTH_MAX 1024u
#define STEPS_MIN  4u
#define DIFFERENT  50u /* one operation in so many may be another one */

static const struct nspy_cell *whole_cell(const struct nspy_comm *comm, uint64_t seq)
{
	const struct nspy_cell *cell = nspy_cells_get(&comm->cells, seq);

	return cell && nspy_cell_count(cell) >= comm->member_count ? cell : NULL;
}

static bool repeats(const struct nspy_cell *const *cells, size_t count, size_t length)
{
	size_t different = 0;

	for (size_t i = length; i < count; i++) {
		different += cells[i]->signature != cells[i - length]->signature;
		if (different * DIFFERENT > count)
			return false;
	}
	return true;
}

/* Where a step begins: there the ranks are longest without an operation. */
static size_t find_phase(const struct nspy_cell *const *cells, size_t count, size_t length)
{
	double most = -1;
	size_t phase = 0;

	for (size_t r = 0; r < length; r++) {
		double idle = 0;

		for (size_t i = r ? r : length; i < count; i += length) {
			if (cells[i]->first_ns > cells[i - 1]->last_ns)
				idle += (double)(cells[i]->first_ns - cells[i - 1]->last_ns);
		}
		if (idle > most) {
			most = idle;
			phase = r;
		}
	}
	return phase;
}

static void measure(const struct nspy_cell *const *cells, size_t count, uint64_t first_seq,
		    struct nspy_steps *ret)
{
	uint64_t *ns = nspy_xcalloc(count, sizeof(*ns));
	size_t phase = find_phase(cells, count, ret->length);

	ret->first_seq = first_seq + phase;
	for (size_t i = phase; i + ret->length < count; i += ret->length) {
		uint64_t took = cells[i + ret->length]->first_ns - cells[i]->first_ns;

		if ((int64_t)took < 0)
			took = 0;
		if (took > ret->slowest_ns) {
			ret->slowest_ns = took;
			ret->slowest_seq = first_seq + i;
		}
		ns[ret->count++] = took;
	}
	qsort(ns, ret->count, sizeof(*ns), compare_ns);
	ret->median_ns = ret->count ? ns[ret->count / 2] : 0;
	free(ns);
}

void nspy_steps_find(const struct nspy_comm *comm, struct nspy_steps *ret)
{
	const struct nspy_cell **cells = nspy_xcalloc(WINDOW, sizeof(struct nspy_cell *));
	uint64_t first = comm->low_seq > WINDOW ? comm->low_seq - WINDOW + 1 : 1;
	size_t count = 0;

	*ret = (struct nspy_steps){0};
	for (uint64_t seq = comm->low_seq; seq >= first && whole_cell(comm, seq); seq--)
		count++;
	first = comm->low_seq - count + 1;
	for (size_t i = 0; i < count; i++)
		cells[i] = whole_cell(comm, first + i);
	for (size_t length = 1; length <= LENGTH_MAX && length * STEPS_MIN <= count; length++) {
		if (!repeats(cells, count, length))
			continue;
		ret->length = length;
		measure(cells, count, first, ret);
		break;
	}
	free(cells);
}
