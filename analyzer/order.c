/* SPDX-License-Identifier: Apache-2.0 */
#include "order.h"

#include <stdlib.h>
#include <string.h>

#include "case.h"
#include "reread.h"

#define WINDOW    64u /* latest operations of each communicator that are looked at */
#define COMMS_MAX 64u

/* --- a circle of waits tells it directly --- */

static void from_circle(struct nspy_case *c)
{
	const struct nspy_wait_object *a = NULL, *b = NULL;
	struct nspy_order *order = &c->order;

	for (size_t i = 0; i < c->waits.object_count; i++) {
		const struct nspy_wait_object *object = c->waits.objects[i];

		if (!object->cyclic || object->kind != NSPY_WAIT_COLL)
			continue;
		if (!a || object->waiters.count > a->waiters.count)
			a = object;
	}
	for (size_t i = 0; a && i < c->waits.object_count; i++) {
		const struct nspy_wait_object *object = c->waits.objects[i];

		if (!object->cyclic || object->kind != NSPY_WAIT_COLL || object->comm == a->comm)
			continue;
		if (!b || object->waiters.count < b->waiters.count)
			b = object;
	}
	if (!b)
		return;
	order->found = true;
	order->tie = a->waiters.count == b->waiters.count;
	order->usual_first = (struct nspy_order_op){a->comm, a->seq};
	order->odd_first = (struct nspy_order_op){b->comm, b->seq};
	for (size_t i = 0; i < a->waiters.count; i++)
		nspy_procs_add(&order->usual, a->waiters.items[i]);
	for (size_t i = 0; i < b->waiters.count; i++)
		nspy_procs_add(&order->odd, b->waiters.items[i]);
}

/* --- or a circle through an operation that all have joined --- */

static void from_held(struct nspy_case *c)
{
	const struct nspy_held *held = &c->waits.held;
	struct nspy_order *order = &c->order;

	order->found = true;
	order->usual_first = (struct nspy_order_op){held->op->comm, held->op->seq};
	order->odd_first = (struct nspy_order_op){held->behind->comm, held->behind->seq};
	for (size_t i = 0; i < held->procs.count; i++)
		nspy_procs_add(&order->odd, held->procs.items[i]);
	for (size_t i = 0; i < held->op->waiters.count; i++) {
		if (!nspy_procs_has(&held->procs, held->op->waiters.items[i]))
			nspy_procs_add(&order->usual, held->op->waiters.items[i]);
	}
	order->tie = held->procs.count >= held->peers.count;
}

/* --- else the order in which each rank queued its last operations --- */

struct queued {
	const struct nspy_comm *comm;
	uint64_t seq;
	uint64_t enter_ns;
	uint32_t thread;
};

struct queue {
	const struct nspy_proc *proc;
	size_t pair; /* the latest one that it was picked for */
	struct queued *items;
	size_t count, capacity;
};

struct collect {
	const struct nspy_model *model;
	struct queue *queue;
};

static void visit(void *context, const struct nspy_proc *proc, uint32_t thread,
		  const struct nspy_rec *rec)
{
	struct collect *collect = context;
	uint16_t id = rec->fn < proc->fn_map_count ? proc->fn_map[rec->fn] : 0;
	struct queue *queue = collect->queue;
	const struct nspy_member *member;

	if (nspy_model_get_fn(collect->model, id)->klass != NSPY_CLASS_COLL || !rec->seq ||
	    (rec->flags & NSPY_CALL_CAPTURED) || rec->comm >= proc->member_count)
		return;
	member = proc->members[rec->comm];
	if (!member || !member->comm || rec->seq + WINDOW <= member->comm->low_seq)
		return;
	queue->items =
		nspy_grow(queue->items, queue->count, &queue->capacity, sizeof(*queue->items));
	queue->items[queue->count++] = (struct queued){member->comm, rec->seq, rec->enter, thread};
}

static int compare_queued(const void *a, const void *b)
{
	const struct queued *x = a, *y = b;

	return x->enter_ns < y->enter_ns ? -1 : x->enter_ns > y->enter_ns;
}

/* The next operation of either communicator, from *at on. NULL at the end. */
static const struct queued *next_of(const struct queue *queue, size_t *at,
				    const struct nspy_comm *a, const struct nspy_comm *b)
{
	while (*at < queue->count) {
		const struct queued *op = &queue->items[(*at)++];

		if (op->comm == a || op->comm == b)
			return op;
	}
	return NULL;
}

/*
 * What followed most often where a queue had gone through the same communicators before: a job
 * repeats its steps. NULL if that is not clear. before: operations of the queue that come first.
 */
#define CONTEXT 2u
static const struct nspy_comm *expected(const struct queue *queue, size_t before,
					const struct nspy_comm *a, const struct nspy_comm *b)
{
	size_t *ops = nspy_xcalloc(before + 1, sizeof(*ops)), count = 0, with_a = 0, with_b = 0;

	for (size_t i = 0; i < before; i++) {
		if (queue->items[i].comm == a || queue->items[i].comm == b)
			ops[count++] = i;
	}
	for (size_t i = CONTEXT; i < count; i++) {
		bool same = true;

		for (size_t k = 1; k <= CONTEXT; k++)
			same &= queue->items[ops[i - k]].comm == queue->items[ops[count - k]].comm;
		with_a += same && queue->items[ops[i]].comm == a;
		with_b += same && queue->items[ops[i]].comm == b;
	}
	free(ops);
	if (with_a + with_b < 2 || (with_a && with_b))
		return NULL;
	return with_a ? a : b;
}

/* Where as many say one as the other: who did otherwise than in all steps before? */
static const struct nspy_comm *by_habit(struct queue *const *queues, size_t count, const size_t *at,
					const struct nspy_comm *a, const struct nspy_comm *b)
{
	const struct nspy_comm *habit = NULL;

	for (size_t q = 0; q < count; q++) {
		const struct nspy_comm *mine;

		if (!at[q])
			continue;
		mine = expected(queues[q], at[q] - 1, a, b);
		if (!mine || (habit && mine != habit))
			return NULL;
		habit = mine;
	}
	return habit;
}

/*
 * Walks the queues of processes that use both communicators in step. At the first place where
 * they differ, the sides are known. Calls of several threads have no order that could be wrong.
 */
static bool compare_pair(struct queue *const *queues, size_t count, size_t unknown,
			 const struct nspy_comm *a, const struct nspy_comm *b,
			 struct nspy_order *order)
{
	const struct nspy_comm *habit = NULL;
	size_t *at = nspy_xcalloc(count, sizeof(*at));
	struct nspy_procs with_a = {0}, with_b = {0};
	struct nspy_order_op op_a = {0}, op_b = {0};
	uint32_t thread = 0;
	bool usable = true, usual_a;

	while (usable && (!with_a.count || !with_b.count)) {
		with_a.count = with_b.count = 0;
		for (size_t q = 0; q < count && usable; q++) {
			const struct queued *op;

			op = next_of(queues[q], &at[q], a, b);
			usable = op && (!thread || op->thread == thread);
			if (!usable)
				break;
			thread = op->thread;
			nspy_procs_add(op->comm == a ? &with_a : &with_b, queues[q]->proc);
			*(op->comm == a ? &op_a : &op_b) =
				(struct nspy_order_op){op->comm, op->seq};
		}
		usable = usable && with_a.count + with_b.count > 1;
	}
	if (usable)
		habit = by_habit(queues, count, at, a, b);
	free(at);
	if (!usable) {
		free(with_a.items);
		free(with_b.items);
		return false;
	}
	order->found = true;
	usual_a = habit ? habit == a : with_a.count >= with_b.count;
	order->usual = usual_a ? with_a : with_b;
	order->odd = usual_a ? with_b : with_a;
	order->usual_first = usual_a ? op_a : op_b;
	order->odd_first = usual_a ? op_b : op_a;
	order->tie = !habit && order->odd.count + unknown >= order->usual.count;
	return true;
}

static bool takes_part(const struct queue *queue, const struct nspy_comm *comm)
{
	for (size_t i = 0; i < queue->count; i++) {
		if (queue->items[i].comm == comm)
			return true;
	}
	return false;
}

/* Queues by index of their process, and room for those of one pair of communicators. */
struct pick {
	struct queue **by_proc, **common;
	size_t pair; /* so many have been looked at */
};

/* The queues of those who use both, into pick->common. */
static size_t common_queues(struct pick *pick, const struct nspy_comm *a, const struct nspy_comm *b)
{
	const struct nspy_comm *smaller = a->member_count < b->member_count ? a : b;
	const struct nspy_comm *larger = smaller == a ? b : a;
	size_t count = 0;

	pick->pair++;
	for (size_t m = 0; m < smaller->member_count; m++) {
		struct queue *queue = pick->by_proc[smaller->members[m]->proc->index];

		/* A process may be several members. */
		if (!queue || queue->pair == pick->pair || !takes_part(queue, smaller) ||
		    !takes_part(queue, larger))
			continue;
		queue->pair = pick->pair;
		pick->common[count++] = queue;
	}
	return count;
}

static bool compare(struct nspy_case *c, struct pick *pick, size_t unknown,
		    const struct nspy_comm *a, const struct nspy_comm *b)
{
	return a != b &&
	       compare_pair(pick->common, common_queues(pick, a, b), unknown, a, b, &c->order);
}

/* First with what all wait for, which is one of the two as a rule, then any with any other. */
static void compare_all(struct nspy_case *c, struct queue **by_proc, size_t unknown)
{
	const struct nspy_comm *main = c->waits.hangs[0].main->comm;
	struct nspy_comm **comms = c->attempt->comms;
	size_t count = c->attempt->comm_count;
	struct pick pick = {.by_proc = by_proc};
	bool found = false;

	pick.common = nspy_xcalloc(c->attempt->proc_count, sizeof(struct queue *));
	for (size_t i = 0; main && i < count && !found; i++)
		found = compare(c, &pick, unknown, main, comms[i]);
	count = count < COMMS_MAX ? count : COMMS_MAX;
	for (size_t i = 0; i < count && !found; i++) {
		for (size_t k = i + 1; k < count && !found; k++)
			found = compare(c, &pick, unknown, comms[i], comms[k]);
	}
	free(pick.common);
}

static void read_queue(const struct nspy_case *c, const struct nspy_proc *proc, struct queue *ret)
{
	struct collect collect = {c->model, ret};

	ret->proc = proc;
	nspy_reread(proc, visit, &collect);
	if (ret->count)
		qsort(ret->items, ret->count, sizeof(*ret->items), compare_queued);
}

/* unknown: so many ranks that wait with them have no trace. */
static void from_queues(struct nspy_case *c, size_t unknown)
{
	struct queue *queues = nspy_xcalloc(c->attempt->proc_count, sizeof(*queues));
	struct queue **by_proc = nspy_xcalloc(c->model->proc_count, sizeof(struct queue *));
	size_t count = 0;

	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		const struct nspy_proc *proc = c->attempt->procs[i];

		if (!c->waits.procs[proc->index].waiting)
			continue;
		read_queue(c, proc, &queues[count]);
		by_proc[proc->index] = &queues[count];
		count++;
	}
	compare_all(c, by_proc, unknown);
	for (size_t i = 0; i < count; i++)
		free(queues[i].items);
	free(queues);
	free(by_proc);
}

/* --- as many on both sides of a circle: which one departed from its own steps? --- */

#define SIDE_MAX        4u /* processes of a side that are read again */
#define CONTEXT_SHORT   2u
#define CONTEXT_LONGEST 32u

/* What came whenever the operations before were these: 1 odd_first, 0 the other, -1 not clear. */
static int always_next(const bool *ops, size_t at, size_t context)
{
	int next = -1;
	size_t cases = 0;

	for (size_t i = context; i < at; i++) {
		if (memcmp(ops + i - context, ops + at - context, context * sizeof(*ops)) != 0)
			continue;
		if (cases++ && next != ops[i])
			return -1;
		next = ops[i];
	}
	return cases < 2 ? -1 : next;
}

/* Somewhere it went on otherwise than it always had after the same operations. */
static bool departs(const struct queue *queue, const struct nspy_order *order)
{
	bool *ops = nspy_xcalloc(queue->count + 1, sizeof(*ops)), found = false;
	size_t count = 0;

	for (size_t i = 0; i < queue->count; i++) {
		bool is_odd = queue->items[i].comm == order->odd_first.comm;

		if (!is_odd && queue->items[i].comm != order->usual_first.comm)
			continue;
		/* The window of the one reaches further back than that of the other. */
		if (count == 1 && is_odd == ops[0])
			continue;
		ops[count++] = is_odd;
	}
	/* What comes first only teaches; by the end of it there are exceptions to what is none. */
	for (size_t at = count * 2 / 3 + CONTEXT_SHORT; at < count && !found; at++) {
		int next = -1;

		for (size_t n = CONTEXT_SHORT; n <= CONTEXT_LONGEST && n <= at && next < 0; n *= 2)
			next = always_next(ops, at, n);
		found = next >= 0 && next != ops[at];
	}
	free(ops);
	return found;
}

static bool any_departs(const struct nspy_case *c, const struct nspy_procs *procs)
{
	bool found = false;

	for (size_t i = 0; i < procs->count && i < SIDE_MAX && !found; i++) {
		struct queue queue = {0};

		read_queue(c, procs->items[i], &queue);
		found = departs(&queue, &c->order);
		free(queue.items);
	}
	return found;
}

static void settle_tie(struct nspy_case *c)
{
	const struct nspy_held *held = &c->waits.held;
	struct nspy_order *order = &c->order;
	const struct nspy_procs *rivals = held->op ? &held->peers : &order->usual;
	bool rival = any_departs(c, rivals), odd = any_departs(c, &order->odd);
	struct nspy_order_op op = order->usual_first;
	struct nspy_procs procs = {0};

	if (rival == odd)
		return;
	order->tie = false;
	if (!rival)
		return;
	for (size_t i = 0; i < rivals->count; i++)
		nspy_procs_add(&procs, rivals->items[i]);
	free(order->usual.items);
	order->usual = order->odd;
	order->usual_first = order->odd_first;
	order->odd = procs;
	order->odd_first = op;
}

void nspy_order_find(struct nspy_case *c)
{
	const struct nspy_hang *hang = c->waits.hang_count == 1 ? &c->waits.hangs[0] : NULL;

	if (!hang || hang->culprits.count || c->attempt->comm_count < 2)
		return;
	if (c->waits.held.op)
		from_held(c);
	else if (hang->main->cyclic)
		from_circle(c);
	else if (hang->main->kind == NSPY_WAIT_BELOW)
		from_queues(c, hang->main->untraced);
	if (c->order.found && c->order.tie)
		settle_tie(c);
}

void nspy_order_done(struct nspy_order *order)
{
	free(order->usual.items);
	free(order->odd.items);
	*order = (struct nspy_order){0};
}
