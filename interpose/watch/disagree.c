/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that call different things as the same operation, or the same ones in another order. */
#include "compat.h"

#include <inttypes.h>
#include <string.h>

#include "verdict.h"

/* One rank's call of an operation, returned or still open. */
struct sight {
	uint64_t seq;
	uint64_t count;
	uint32_t page;
	int32_t root;
	uint16_t name;
	uint8_t datatype, redop;
};

struct sights {
	struct sight *items;
	uint32_t count;
};

static bool sight_before(const struct sight *a, const struct sight *b)
{
	return a->seq != b->seq ? a->seq < b->seq : a->page < b->page;
}

/*
 * Shell sort; libc's qsort may allocate. The gaps are not powers of two, for which lists of the
 * same length for each of 2^n ranks are the worst case.
 */
static void sort_sights(struct sights *s)
{
	for (uint32_t gap = s->count / 2; gap; gap = gap == 2 ? 1 : gap * 5 / 11) {
		for (uint32_t i = gap; i < s->count; i++) {
			struct sight one = s->items[i];
			uint32_t k = i;

			for (; k >= gap && sight_before(&one, &s->items[k - gap]); k -= gap)
				s->items[k] = s->items[k - gap];
			s->items[k] = one;
		}
	}
}

static void add_sights(const struct nspy_scene *scene, const struct nspy_member *member,
		       struct sights *s)
{
	const struct nspy_status *page = &scene->pages[member->page];

	for (uint32_t i = 0; i < page->op_count; i++) {
		const struct nspy_status_op *op = &page->ops[i];

		if (op->comm == member->comm && op->klass == NSPY_CLASS_COLL && op->seq)
			s->items[s->count++] =
				(struct sight){op->seq,  op->count,    member->page, op->peer,
					       op->name, op->datatype, op->redop};
	}
	for (uint32_t i = 0; i < page->call_count; i++) {
		const struct nspy_status_call *call = &page->calls_open[i];

		if (call->comm == member->comm && call->klass == NSPY_CLASS_COLL && call->seq &&
		    !(call->flags & (NSPY_CALL_CAPTURED | NSPY_CALL_NOSEQ)))
			s->items[s->count++] =
				(struct sight){call->seq,  call->count,    member->page, call->peer,
					       call->name, call->datatype, call->redop};
	}
}

static bool same_function(const struct nspy_scene *scene, const struct sight *a,
			  const struct sight *b)
{
	const char *of_a = nspy_status_name(&scene->pages[a->page], a->name);
	const char *of_b = nspy_status_name(&scene->pages[b->page], b->name);
	char x[NSPY_STATUS_NAME_BYTES], y[NSPY_STATUS_NAME_BYTES];

	if (strcmp(of_a, of_b) == 0) /* nearly always, and quickly told */
		return true;
	nspy_canonical(of_a, x);
	nspy_canonical(of_b, y);
	return strcmp(x, y) == 0;
}

/* ncclDataType_t in bytes; 0 for one that this version does not know. */
static uint64_t type_bytes(uint8_t type)
{
	static const uint8_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

	return type < sizeof(bytes) ? bytes[type] : 0;
}

static bool same(const struct nspy_scene *scene, const struct sight *a, const struct sight *b)
{
	if (a->root != b->root || a->redop != b->redop || !same_function(scene, a, b))
		return false;
	/*
	 * Where nothing is computed, the same bytes may go under another type; that is a matter for
	 * the report, not for an alarm.
	 */
	if (a->redop == NSPY_REDOP_NONE && a->datatype != b->datatype)
		return a->count * type_bytes(a->datatype) == b->count * type_bytes(b->datatype);
	return a->count == b->count && a->datatype == b->datatype;
}

/* How many of the sights from..to agree with that one. */
static uint32_t agreeing(const struct nspy_scene *scene, const struct sights *s, uint32_t from,
			 uint32_t to, uint32_t which)
{
	uint32_t n = 0;

	for (uint32_t i = from; i < to; i++)
		n += same(scene, &s->items[i], &s->items[which]);
	return n;
}

static const char *type_name(uint8_t type)
{
	static const char *const names[] = {"int8",    "uint8",    "int32",      "uint32",
					    "int64",   "uint64",   "float16",    "float32",
					    "float64", "bfloat16", "float8e4m3", "float8e5m2"};

	return type < sizeof(names) / sizeof(names[0]) ? names[type] : "another type";
}

static const char *redop_name(uint8_t redop)
{
	static const char *const names[] = {"sum", "prod", "max", "min", "avg"};

	return redop < sizeof(names) / sizeof(names[0]) ? names[redop] : "an own operator";
}

static void tell_difference(const struct nspy_scene *scene, char *out, size_t bytes,
			    const struct sight *odd, const struct sight *right)
{
	const char *comma = "";

	if (!same_function(scene, odd, right)) {
		nspy_tell(out, bytes, "%s instead of %s",
			  nspy_status_name(&scene->pages[odd->page], odd->name),
			  nspy_status_name(&scene->pages[right->page], right->name));
		return;
	}
	if (odd->count != right->count) {
		nspy_tell(out, bytes, "%scount %" PRIu64 " instead of %" PRIu64, comma, odd->count,
			  right->count);
		comma = ", ";
	}
	if (odd->datatype != right->datatype) {
		nspy_tell(out, bytes, "%s%s instead of %s", comma, type_name(odd->datatype),
			  type_name(right->datatype));
		comma = ", ";
	}
	if (odd->redop != right->redop) {
		nspy_tell(out, bytes, "%s%s instead of %s", comma, redop_name(odd->redop),
			  redop_name(right->redop));
		comma = ", ";
	}
	if (odd->root != right->root)
		nspy_tell(out, bytes, "%sroot %" PRId32 " instead of %" PRId32, comma, odd->root,
			  right->root);
}

static void conclude(struct nspy_inquiry *q, const struct nspy_group *group, const struct sights *s,
		     uint32_t from, uint32_t to, uint32_t right)
{
	struct nspy_verdict *v = q->out;
	uint32_t majority = agreeing(&q->scene, s, from, to, right), odd = right;
	char who[200] = "", what[240] = "", where[96] = "";
	uint32_t listed;

	for (uint32_t i = from; i < to; i++) {
		if (same(&q->scene, &s->items[i], &s->items[right]))
			continue;
		odd = odd == right ? i : odd;
		nspy_verdict_blame(v, s->items[i].page);
	}
	nspy_verdict_set(v, NSPY_FOUND_COLLECTIVE_MISMATCH,
			 group->key ^ NSPY_FOUND_COLLECTIVE_MISMATCH, q->scene.now_ns);
	v->note = false;
	v->comm_key = group->key;
	v->seq = s->items[right].seq;
	listed = v->culprit_count < NSPY_CULPRITS_MAX ? v->culprit_count : NSPY_CULPRITS_MAX;
	nspy_tell_ranks(who, sizeof(who), &q->scene, v->culprits, listed);
	nspy_tell_group(where, sizeof(where), &q->scene, group);
	nspy_tell(v->operation, sizeof(v->operation), "%s #%" PRIu64 " of %s",
		  nspy_status_name(&q->scene.pages[s->items[right].page], s->items[right].name),
		  v->seq, where);
	tell_difference(&q->scene, what, sizeof(what), &s->items[odd], &s->items[right]);
	nspy_tell(v->headline, sizeof(v->headline), "%s: %s called %s; %" PRIu32 " agree on it",
		  v->operation, who, what, majority);
	if (majority * 2 > to - from) {
		nspy_tell(v->cause, sizeof(v->cause), "%s disagrees about %s", who, v->operation);
		return;
	}
	/* Equally many on both sides: which is right cannot be told. */
	v->culprit_count = 0;
	nspy_tell(v->cause, sizeof(v->cause),
		  "ranks disagree about %s; which side is right is not "
		  "determinable",
		  v->operation);
}

/* A tie may be none once the other ranks have come to it or are heard of: they get time. */
static bool too_early(const struct nspy_inquiry *q, const struct nspy_group *group, uint32_t agree,
		      uint32_t all)
{
	uint32_t waiters = 0;
	uint64_t since;

	if (agree * 2 > all || group->nranks < 0 || all >= (uint32_t)group->nranks)
		return false;
	since = nspy_verdict_longest_wait(&q->scene, group, &waiters);
	return !since || since + q->limits->unseen_ns > q->scene.now_ns;
}

/* The first operation of a group on which sights differ. */
static bool check_group(struct nspy_inquiry *q, const struct nspy_group *group, struct sights *s)
{
	uint32_t to;

	s->count = 0;
	for (uint32_t m = 0; m < group->count; m++)
		add_sights(&q->scene, &q->scene.members[group->first + m], s);
	sort_sights(s);
	for (uint32_t from = 0; from < s->count; from = to) {
		uint32_t best = from, agree = 0;

		for (to = from; to < s->count && s->items[to].seq == s->items[from].seq; to++)
			;
		for (uint32_t i = from; i < to; i++) {
			uint32_t n = agreeing(&q->scene, s, from, to, i);

			if (n > agree) {
				agree = n;
				best = i;
			}
			/* As good as always: all agree with the first. */
			if (n == to - from)
				break;
		}
		if (agree < to - from && !too_early(q, group, agree, to - from)) {
			conclude(q, group, s, from, to, best);
			return true;
		}
	}
	return false;
}

bool nspy_verdict_mismatch(struct nspy_inquiry *q)
{
	struct sights s = {0};
	size_t most = 0;

	for (uint32_t i = 0; i < q->scene.count; i++)
		most += q->scene.pages[i].op_count + q->scene.pages[i].call_count;
	s.items = nspy_arena_take(q->arena, most + 1, sizeof(*s.items));
	for (uint32_t g = 0; s.items && g < q->scene.group_count; g++)
		if (q->scene.groups[g].count > 1 && check_group(q, &q->scene.groups[g], &s))
			return true;
	return false;
}

/* --- order --- */

static bool same_op(const struct nspy_status *a, const struct nspy_status_op *x,
		    const struct nspy_status *b, const struct nspy_status_op *y)
{
	return x->seq == y->seq && y->klass == NSPY_CLASS_COLL && x->klass == NSPY_CLASS_COLL &&
	       a->comms[x->comm].key == b->comms[y->comm].key;
}

/* Place of an operation in another rank's list, or -1. */
static long place_of(const struct nspy_status *a, const struct nspy_status_op *op,
		     const struct nspy_status *b)
{
	for (uint32_t i = b->op_count; i--;)
		if (same_op(a, op, b, &b->ops[i]))
			return (long)i;
	return -1;
}

struct inversion {
	const struct nspy_status *page; /* whose operations these are */
	const struct nspy_status_op *first, *second;
};

#define ORDER_OPS_MAX   64u  /* latest operations that are compared */
#define ORDER_PAIRS_MAX 512u /* pairs of ranks, so that a look stays short in large jobs */

/*
 * Two operations of different communicators that a and b entered in opposite order. Streams do not
 * matter: kernels of two communicators may keep each other off the GPU on different streams too.
 */
static bool inverted(const struct nspy_status *a, const struct nspy_status *b,
		     struct inversion *ret)
{
	uint32_t from = a->op_count > ORDER_OPS_MAX ? a->op_count - ORDER_OPS_MAX : 0;

	for (uint32_t i = from + 1; i < a->op_count; i++) {
		const struct nspy_status_op *one = &a->ops[i - 1], *two = &a->ops[i];
		long x, y;

		if (one->comm == two->comm)
			continue;
		x = place_of(a, one, b);
		y = x < 0 ? -1 : place_of(a, two, b);
		if (y < 0 || x < y)
			continue;
		*ret = (struct inversion){a, one, two};
		return true;
	}
	return false;
}

static bool find_inversion(const struct nspy_scene *scene, const struct nspy_group *group,
			   struct inversion *ret)
{
	const struct nspy_member *members = &scene->members[group->first];
	uint32_t pairs = 0;

	for (uint32_t a = 0; a < group->count; a++)
		for (uint32_t b = 0; b < a && pairs < ORDER_PAIRS_MAX; b++, pairs++)
			if (inverted(&scene->pages[members[a].page], &scene->pages[members[b].page],
				     ret))
				return true;
	return false;
}

/* 1: in the order of the inversion, -1: the other way round, 0: did not enter both. */
static int order_of(const struct nspy_status *page, const struct inversion *in)
{
	long x = place_of(in->page, in->first, page), y = place_of(in->page, in->second, page);

	return x < 0 || y < 0 ? 0 : x < y ? 1 : -1;
}

/* In words, from the side of those that are named. */
static void conclude_order(struct nspy_inquiry *q, const struct inversion *in, int side, bool tie)
{
	const struct nspy_scene *scene = &q->scene;
	const struct nspy_status_op *first = side > 0 ? in->first : in->second;
	const struct nspy_status_op *second = side > 0 ? in->second : in->first;
	struct nspy_verdict *v = q->out;
	char who[200] = "", x[96] = "", y[96] = "";
	uint32_t listed =
		v->culprit_count < NSPY_CULPRITS_MAX ? v->culprit_count : NSPY_CULPRITS_MAX;

	nspy_tell_group(x, sizeof(x), scene,
			nspy_scene_group(scene, in->page->comms[first->comm].key));
	nspy_tell_group(y, sizeof(y), scene,
			nspy_scene_group(scene, in->page->comms[second->comm].key));
	nspy_tell_ranks(who, sizeof(who), scene, v->culprits, listed);
	nspy_tell(v->operation, sizeof(v->operation), "%s #%" PRIu64 " of %s",
		  nspy_status_name(in->page, first->name), first->seq, x);
	nspy_tell(v->headline, sizeof(v->headline),
		  "%s entered %s before %s #%" PRIu64 " of %s, the others the other way round", who,
		  v->operation, nspy_status_name(in->page, second->name), second->seq, y);
	if (!tie) {
		nspy_tell(v->cause, sizeof(v->cause),
			  "the order of two communicators differs on %s", who);
		return;
	}
	v->culprit_count = 0;
	nspy_tell(v->cause, sizeof(v->cause),
		  "ranks use two communicators in different order; which "
		  "is meant is not determinable");
}

/* Ranks that entered two operations in another order than most; the operations' own ranks vote. */
static bool order_in_rings(struct nspy_inquiry *q, const struct nspy_group *group)
{
	const struct nspy_scene *scene = &q->scene;
	const struct nspy_member *members = &scene->members[group->first];
	uint32_t votes[2] = {0, 0};
	struct inversion in;
	int side;

	if (!find_inversion(scene, group, &in))
		return false;
	for (uint32_t m = 0; m < group->count; m++) {
		int order = order_of(&scene->pages[members[m].page], &in);

		if (order)
			votes[order > 0]++;
	}
	side = votes[1] <= votes[0] ? 1 : -1;
	for (uint32_t m = 0; m < group->count; m++)
		if (order_of(&scene->pages[members[m].page], &in) == side)
			nspy_verdict_blame(q->out, members[m].page);
	conclude_order(q, &in, side, votes[0] == votes[1]);
	return true;
}

/* Objects that are waited for in a circle: follow the first wait of each rank. */
static bool order_in_circle(struct nspy_inquiry *q)
{
	const struct nspy_scene *scene = &q->scene;
	struct nspy_verdict *v = q->out;
	const struct nspy_object *before = NULL;
	uint32_t page = NSPY_NOWHERE;

	for (uint32_t i = 0; i < scene->count && page == NSPY_NOWHERE; i++)
		if (scene->waits[i].waiting && scene->waits[i].first_link != NSPY_NOWHERE)
			page = i;
	for (uint32_t step = 0; page != NSPY_NOWHERE && step <= 2 * scene->count + 2; step++) {
		const struct nspy_object *object =
			scene->waits[page].first_link == NSPY_NOWHERE
				? NULL
				: &scene->objects[scene->links[scene->waits[page].first_link]
							  .object];
		char a[160] = "", b[160] = "", x[32] = "", y[32] = "";

		if (!object || !object->blamed_count)
			return false;
		/* After as many steps as there are ranks we are on the circle. */
		if (before && step > scene->count && before->group != object->group) {
			uint32_t next = scene->blamed[object->first_blamed];

			nspy_tell_object(a, sizeof(a), scene, before);
			nspy_tell_object(b, sizeof(b), scene, object);
			nspy_tell_ranks(x, sizeof(x), scene, &page, 1);
			nspy_tell_ranks(y, sizeof(y), scene, &next, 1);
			nspy_tell(v->operation, sizeof(v->operation), "%s", a);
			nspy_tell(v->headline, sizeof(v->headline),
				  "%s has not come to %s and waits in %s, to which %s has not come",
				  x, a, b, y);
			nspy_tell(v->cause, sizeof(v->cause),
				  "ranks wait for each other in two communicators; which order is "
				  "meant is not determinable");
			return true;
		}
		before = object;
		page = scene->blamed[object->first_blamed];
	}
	return false;
}

bool nspy_verdict_order(struct nspy_inquiry *q, const struct nspy_group *group)
{
	struct nspy_verdict *v = q->out;
	uint32_t waiting = v->waiters, page = 0;
	uint64_t since = UINT64_MAX;

	for (; page < q->scene.count; page++)
		if (q->scene.waits[page].waiting && q->scene.waits[page].since_ns < since)
			since = q->scene.waits[page].since_ns;
	if (!order_in_rings(q, group) && !order_in_circle(q))
		return false;
	v->waiters = waiting;
	nspy_verdict_set(v, NSPY_FOUND_ORDER_INVERSION, group->key ^ NSPY_FOUND_ORDER_INVERSION,
			 since);
	return true;
}
