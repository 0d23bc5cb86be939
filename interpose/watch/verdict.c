/* SPDX-License-Identifier: Apache-2.0 */
/* Missing ranks, hangs, and the choice between all verdicts. */
#include "compat.h"

#include "verdict.h"

#include <inttypes.h>
#include <string.h>

#define CHAIN_MAX 64u
/* A late rank works if it uses that part of a CPU, or moves that many bytes a second. */
#define BUSY_CPU_PERCENT 20u
#define BUSY_IO_BYTES    (256u << 10)

uint64_t nspy_mix(uint64_t a, uint64_t b)
{
	return (a ^ b * 0x9E3779B97F4A7C15ULL) * 0xBF58476D1CE4E5B9ULL;
}

static uint64_t object_key(const struct nspy_scene *scene, const struct nspy_object *object)
{
	uint64_t key = nspy_mix(scene->groups[object->group].key, object->seq);

	key = nspy_mix(key, (uint64_t)object->kind);
	return object->kind == NSPY_OBJECT_P2P
		       ? nspy_mix(key,
				  (uint64_t)(uint32_t)object->src << 32 | (uint32_t)object->dst)
		       : key;
}

/* --- how long is too long? --- */

/* How long this wait must be to be told of; the longest of what its ranks are used to. */
static uint64_t raised(const struct nspy_inquiry *q, const struct nspy_group *group, uint64_t limit)
{
	const struct nspy_scene *scene = &q->scene;
	bool starting = !group->created;
	uint64_t longest = 0;

	for (uint32_t m = group->first; m < group->first + group->count; m++) {
		const struct nspy_status *page = &scene->pages[scene->members[m].page];

		if (page->rounds < q->limits->warm_up_rounds)
			starting = true;
		if (page->longest_wait_ns > longest)
			longest = page->longest_wait_ns;
	}
	if (starting && q->limits->start_ns > limit)
		limit = q->limits->start_ns;
	return limit > 2 * longest ? limit : 2 * longest;
}

/* Neither: not worth a word. */
static bool long_enough(struct nspy_inquiry *q, const struct nspy_group *group, uint64_t since_ns)
{
	uint64_t waited = q->scene.now_ns > since_ns ? q->scene.now_ns - since_ns : 0;

	if (q->limits->serving)
		return false;
	q->out->note = waited < raised(q, group, q->limits->hang_ns);
	return waited >= raised(q, group, q->limits->note_ns) || !q->out->note;
}

/* The longest wait of a living member of that group; 0 if none waits. */
uint64_t nspy_verdict_longest_wait(const struct nspy_scene *scene, const struct nspy_group *group,
				   uint32_t *ret_waiters)
{
	uint64_t since = 0;

	for (uint32_t m = group->first; m < group->first + group->count; m++) {
		const struct nspy_page_wait *wait = &scene->waits[scene->members[m].page];

		if (!wait->waiting || wait->weak)
			continue;
		(*ret_waiters)++;
		if (!since || wait->since_ns < since)
			since = wait->since_ns;
	}
	return since;
}

/* --- hangs --- */

/* A rank at which chains of waits end: it does not wait, or it is stuck in a call of its own. */
static bool is_root(const struct nspy_scene *scene, uint32_t page)
{
	const struct nspy_page_wait *wait = &scene->waits[page];

	if (!wait->waiting)
		return true;
	if (wait->first_link != NSPY_NOWHERE)
		return false;
	/*
	 * Its operation has everybody, and yet it does not come back: not its fault. Nor is a call
	 * that may wait for a rank which no page shows.
	 */
	return wait->call && !scene->unseen && wait->call->klass != NSPY_CLASS_SYNC &&
	       wait->call->klass != NSPY_CLASS_COMM_INIT;
}

static uint32_t roots_of(const struct nspy_scene *scene, const struct nspy_object *object)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < object->blamed_count; i++)
		n += is_root(scene, scene->blamed[object->first_blamed + i]);
	return n;
}

/* The object with a root that was waited for longest. */
static const struct nspy_object *main_object(const struct nspy_scene *scene)
{
	const struct nspy_object *best = NULL;

	for (uint32_t i = 0; i < scene->object_count; i++) {
		const struct nspy_object *object = &scene->objects[i];

		if (roots_of(scene, object) && (!best || object->since_ns < best->since_ns))
			best = object;
	}
	return best;
}

static bool is_busy(const struct nspy_status *page)
{
	uint64_t seconds = page->busy_for_ns / 1000000000u;

	if (nspy_page_gone(page) || page->stopped || page->call_count || !page->busy_for_ns)
		return false;
	return page->busy_cpu_ns * 100u >= page->busy_for_ns * BUSY_CPU_PERCENT ||
	       (seconds && page->busy_io_bytes / seconds >= BUSY_IO_BYTES);
}

static uint32_t count_waiting(const struct nspy_scene *scene, uint64_t *ret_since)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < scene->count; i++) {
		if (!scene->waits[i].waiting || is_root(scene, i))
			continue;
		n++;
		if (!*ret_since || scene->waits[i].since_ns < *ret_since)
			*ret_since = scene->waits[i].since_ns;
	}
	return n;
}

static void blame_roots(struct nspy_inquiry *q, const struct nspy_object *object)
{
	for (uint32_t i = 0; i < object->blamed_count; i++) {
		uint32_t page = q->scene.blamed[object->first_blamed + i];

		if (is_root(&q->scene, page))
			nspy_verdict_blame(q->out, page);
	}
}

static void tell_culprits(struct nspy_inquiry *q)
{
	struct nspy_verdict *v = q->out;

	for (uint32_t i = 0; i < v->culprit_count && i < 2; i++) {
		char who[160] = "", doing[240] = "";

		nspy_tell_rank(who, sizeof(who), &q->scene.pages[v->culprits[i]]);
		nspy_tell_doing(doing, sizeof(doing), &q->scene, v->culprits[i]);
		nspy_tell_line(v, "%s %s", who, doing);
	}
}

/* Who waits for the culprits only through others. */
static void tell_chain(struct nspy_inquiry *q, const struct nspy_object *main)
{
	const struct nspy_scene *scene = &q->scene;
	uint32_t told = 0;

	for (uint32_t i = 0; i < scene->object_count && told < 2; i++) {
		const struct nspy_object *object = &scene->objects[i];
		char what[200] = "", whom[120] = "", who[120] = "";

		if (object == main || roots_of(scene, object) || !object->blamed_count)
			continue;
		nspy_tell_object(what, sizeof(what), scene, object);
		nspy_tell_ranks(whom, sizeof(whom), scene, &scene->blamed[object->first_blamed],
				object->blamed_count);
		nspy_tell_ranks(who, sizeof(who), scene, &object->longest, 1);
		nspy_tell_line(q->out, "%s waits in turn for %s, which lacks %s", who, whom, what);
		told++;
	}
}

static enum nspy_found_id hang_id(const struct nspy_inquiry *q, const struct nspy_object *object)
{
	const struct nspy_verdict *v = q->out;

	if (object->kind == NSPY_OBJECT_CREATE)
		return NSPY_FOUND_RANKS_MISSING;
	for (uint32_t i = 0; i < v->culprit_count && i < NSPY_CULPRITS_MAX; i++)
		if (!is_busy(&q->scene.pages[v->culprits[i]]))
			return NSPY_FOUND_COLLECTIVE_HANG;
	return NSPY_FOUND_PROGRESS_STALLED_OUTSIDE_NCCL;
}

static bool conclude_missing(struct nspy_inquiry *q, const struct nspy_object *object)
{
	const struct nspy_group *group = &q->scene.groups[object->group];
	struct nspy_verdict *v = q->out;
	uint64_t since = 0;
	char who[200] = "";

	if (!long_enough(q, group, object->since_ns))
		return false;
	v->waiters = count_waiting(&q->scene, &since);
	if (nspy_verdict_death_behind(q, group->key, v->waiters, since,
				      &q->scene.blamed[object->first_blamed], object->blamed_count))
		return true;
	blame_roots(q, object);
	nspy_verdict_set(v, hang_id(q, object), object_key(&q->scene, object), since);
	v->comm_key = group->key;
	v->seq = object->seq;
	nspy_tell_object(v->operation, sizeof(v->operation), &q->scene, object);
	nspy_tell_ranks(who, sizeof(who), &q->scene, v->culprits,
			v->culprit_count < NSPY_CULPRITS_MAX ? v->culprit_count
							     : NSPY_CULPRITS_MAX);
	nspy_tell(v->headline, sizeof(v->headline),
		  "%s: %" PRIu32 " wait since %llu s, %s never arrived", v->operation, v->waiters,
		  nspy_seconds(q->scene.now_ns - v->since_ns), who);
	if (v->id == NSPY_FOUND_PROGRESS_STALLED_OUTSIDE_NCCL)
		nspy_tell(v->cause, sizeof(v->cause), "%s works outside NCCL and is late", who);
	else
		nspy_tell(v->cause, sizeof(v->cause), "%s never came to %s", who, v->operation);
	tell_culprits(q);
	tell_chain(q, object);
	return true;
}

/* --- nodes that are not heard of --- */

static bool has_comm(const struct nspy_status *page, uint64_t key)
{
	for (uint32_t k = 0; k < page->comm_count; k++)
		if (page->comms[k].key == key)
			return true;
	return false;
}

/* The group of which somebody waits longest and a member has fallen silent. */
static const struct nspy_group *deserted(const struct nspy_scene *scene, uint64_t *ret_since)
{
	const struct nspy_group *best = NULL;

	for (uint32_t g = 0; g < scene->group_count; g++) {
		const struct nspy_group *group = &scene->groups[g];
		bool silent = false;
		uint32_t waiters = 0;
		uint64_t since;

		for (uint32_t i = 0; i < scene->count && !silent; i++)
			silent = scene->pages[i].silent && has_comm(&scene->pages[i], group->key);
		since = silent ? nspy_verdict_longest_wait(scene, group, &waiters) : 0;
		if (!since || (best && since >= *ret_since))
			continue;
		best = group;
		*ret_since = since;
	}
	return best;
}

static bool conclude_silent(struct nspy_inquiry *q)
{
	const struct nspy_scene *scene = &q->scene;
	struct nspy_verdict *v = q->out;
	uint64_t since = 0, heard = 0, waits = 0;
	const struct nspy_group *group = deserted(scene, &since);
	char who[200] = "", node[80] = "";
	uint32_t listed;

	if (!group || !long_enough(q, group, since))
		return false;
	for (uint32_t i = 0; i < scene->count; i++) {
		const struct nspy_status *page = &scene->pages[i];

		if (!page->silent || !has_comm(page, group->key))
			continue;
		nspy_verdict_blame(v, i);
		heard = page->published_ns > heard ? page->published_ns : heard;
		if (!node[0])
			nspy_tell(node, sizeof(node), "%s", page->node);
	}
	nspy_verdict_set(v, NSPY_FOUND_COLLECTIVE_HANG, nspy_mix(group->key, 0x51e47), since);
	v->comm_key = group->key;
	v->waiters = count_waiting(scene, &waits);
	v->owner = "node";
	v->action = "see whether the node is up and reaches the job's directory";
	listed = v->culprit_count < NSPY_CULPRITS_MAX ? v->culprit_count : NSPY_CULPRITS_MAX;
	nspy_tell_ranks(who, sizeof(who), scene, v->culprits, listed);
	nspy_tell_group(v->operation, sizeof(v->operation), scene, group);
	nspy_tell(v->headline, sizeof(v->headline),
		  "%" PRIu32
		  " ranks of %s wait since %llu s; %s (node %s) not heard of since %llu s",
		  v->waiters, v->operation, nspy_seconds(scene->now_ns - since), who, node,
		  nspy_seconds(scene->now_ns - heard));
	nspy_tell(v->cause, sizeof(v->cause), "%s on node %s cannot be heard of", who, node);
	return true;
}

/* --- creations whose missing ranks have left no page --- */

/* Ranks of the communicator that no page belongs to, as "4,6-7". */
static void tell_unseen(char *out, size_t bytes, const struct nspy_scene *scene,
			const struct nspy_group *group)
{
	const char *comma = "";
	int32_t from = -1;

	for (int32_t rank = 0; rank <= group->nranks; rank++) {
		bool seen = rank == group->nranks;

		for (uint32_t m = group->first; !seen && m < group->first + group->count; m++)
			seen = nspy_scene_comm(scene, &scene->members[m])->rank == rank;
		if (!seen && from < 0)
			from = rank;
		if (!seen || from < 0)
			continue;
		nspy_tell(out, bytes, rank - 1 > from ? "%s%" PRId32 "-%" PRId32 : "%s%" PRId32,
			  comma, from, rank - 1);
		comma = ",";
		from = -1;
	}
}

static bool conclude_creation(struct nspy_inquiry *q, const struct nspy_object *object)
{
	const struct nspy_group *group = &q->scene.groups[object->group];
	struct nspy_verdict *v = q->out;
	char unseen[160] = "";

	if (!long_enough(q, group, object->since_ns + (object->unseen ? q->limits->unseen_ns : 0)))
		return false;
	nspy_tell_object(v->operation, sizeof(v->operation), &q->scene, object);
	v->waiters = object->waiters;
	v->comm_key = group->key;
	nspy_verdict_set(v, object->unseen ? NSPY_FOUND_RANKS_MISSING : NSPY_FOUND_INIT_TIMEOUT,
			 object_key(&q->scene, object), object->since_ns);
	if (object->unseen) {
		tell_unseen(unseen, sizeof(unseen), &q->scene, group);
		nspy_tell(v->headline, sizeof(v->headline),
			  "%s: %" PRIu32 " of %" PRId32
			  " ranks wait since %llu s, no sign of rank%s %s of it",
			  v->operation, v->waiters, group->nranks,
			  nspy_seconds(q->scene.now_ns - v->since_ns),
			  object->unseen == 1 ? "" : "s", unseen);
		nspy_tell(v->cause, sizeof(v->cause), "rank%s %s never called it, as far as seen",
			  object->unseen == 1 ? "" : "s", unseen);
		nspy_tell_line(v, "not started, stuck before NCCL, without ncclspy, or on a node "
				  "that is not heard of");
		return true;
	}
	nspy_tell(v->headline, sizeof(v->headline),
		  "%s: all %" PRIu32 " ranks seen have come and wait since %llu s", v->operation,
		  group->count, nspy_seconds(q->scene.now_ns - v->since_ns));
	nspy_tell(v->cause, sizeof(v->cause), "all ranks have come; the rendezvous does not end");
	return true;
}

static const struct nspy_object *stuck_creation(const struct nspy_scene *scene)
{
	const struct nspy_object *best = NULL;

	for (uint32_t i = 0; i < scene->object_count; i++) {
		const struct nspy_object *object = &scene->objects[i];

		if (object->kind == NSPY_OBJECT_CREATE && !object->blamed_count &&
		    (!best || object->since_ns < best->since_ns))
			best = object;
	}
	return best;
}

/* --- messages without a partner, while everybody waits --- */

/*
 * Nobody is late, yet a receive has no send, or a send no receive: the other side has gone past it
 * and waits itself, in the end for what this message holds up. A receive without a send is certain
 * to hang; a message that went astray is told by the rank that misses it.
 */
static const struct nspy_object *lone_message(const struct nspy_scene *scene)
{
	const struct nspy_object *best = NULL;

	for (uint32_t i = 0; i < scene->object_count; i++) {
		const struct nspy_object *object = &scene->objects[i];

		if (object->kind == NSPY_OBJECT_P2P && object->blamed_count &&
		    (!best || object->send_missing > best->send_missing))
			best = object;
	}
	return best;
}

static bool conclude_message(struct nspy_inquiry *q)
{
	const struct nspy_object *object = lone_message(&q->scene);
	struct nspy_verdict *v = q->out;
	char who[64] = "", whom[64] = "";
	uint64_t since = 0;
	uint32_t culprit;

	if (!object || !long_enough(q, &q->scene.groups[object->group], object->since_ns))
		return false;
	culprit = q->scene.blamed[object->first_blamed];
	nspy_verdict_blame(v, culprit);
	v->waiters = count_waiting(&q->scene, &since);
	nspy_verdict_set(v, NSPY_FOUND_COLLECTIVE_HANG, object_key(&q->scene, object), since);
	v->comm_key = q->scene.groups[object->group].key;
	v->seq = object->seq;
	nspy_tell_object(v->operation, sizeof(v->operation), &q->scene, object);
	nspy_tell_ranks(who, sizeof(who), &q->scene, &culprit, 1);
	nspy_tell_ranks(whom, sizeof(whom), &q->scene, &object->longest, 1);
	nspy_tell(v->headline, sizeof(v->headline),
		  "%s: %s waits for it since %llu s, %s never called it and waits itself",
		  v->operation, whom, nspy_seconds(q->scene.now_ns - object->since_ns), who);
	nspy_tell(v->cause, sizeof(v->cause), "%s left out %s", who, v->operation);
	tell_culprits(q);
	return true;
}

/* --- nobody is missing --- */

static const struct nspy_page_wait *longest_wait(const struct nspy_scene *scene, uint32_t *ret_page)
{
	const struct nspy_page_wait *best = NULL;

	for (uint32_t i = 0; i < scene->count; i++) {
		const struct nspy_page_wait *wait = &scene->waits[i];

		if (!wait->waiting || (best && wait->since_ns >= best->since_ns))
			continue;
		best = wait;
		*ret_page = i;
	}
	return best;
}

/* The communicator that the rank used last. */
static const struct nspy_group *latest_group(const struct nspy_scene *scene, uint32_t page,
					     uint64_t *ret_seq)
{
	const struct nspy_status *p = &scene->pages[page];
	const struct nspy_status_comm *best = NULL;

	for (uint32_t k = 0; k < p->comm_count; k++) {
		const struct nspy_status_comm *comm = &p->comms[k];

		if (nspy_scene_group(scene, comm->key) && (!best || comm->last_ns > best->last_ns))
			best = comm;
	}
	*ret_seq = best ? best->enqueued : 0;
	return best ? nspy_scene_group(scene, best->key) : NULL;
}

static void tell_below(struct nspy_inquiry *q, const struct nspy_group *group)
{
	struct nspy_verdict *v = q->out;
	unsigned long long waited = nspy_seconds(q->scene.now_ns - v->since_ns);
	uint32_t unseen = group->nranks > 0 && (uint32_t)group->nranks > group->count
				  ? (uint32_t)group->nranks - group->count
				  : 0;

	nspy_tell_group(v->operation, sizeof(v->operation), &q->scene, group);
	v->owner = unseen ? "unknown" : "fabric";
	v->action = unseen ? "look at the ranks that are not seen from here"
			   : "look at kernel logs and network counters of all nodes of the job";
	if (unseen) {
		nspy_tell(v->headline, sizeof(v->headline),
			  "%" PRIu32 " ranks of %s wait since %llu s; %" PRIu32
			  " ranks of it are not seen from here",
			  v->waiters, v->operation, waited, unseen);
		nspy_tell(v->cause, sizeof(v->cause),
			  "not determinable here: the culprit may be among the ranks not seen");
		return;
	}
	nspy_tell(v->headline, sizeof(v->headline),
		  "all %" PRIu32 " ranks of %s have joined its operations, and %" PRIu32
		  " wait since %llu s",
		  group->count, v->operation, v->waiters, waited);
	nspy_tell(v->cause, sizeof(v->cause),
		  "nobody is missing: a GPU, the network or NCCL itself; who is not determinable "
		  "from host calls");
}

/* Whether all of them have been heard of since: else one may have missed what it had joined. */
static bool all_fresh(const struct nspy_inquiry *q, const struct nspy_group *group,
		      uint64_t since_ns)
{
	for (uint32_t m = group->first; m < group->first + group->count; m++)
		if (q->scene.pages[q->scene.members[m].page].published_ns <
		    since_ns + q->limits->confirm_ns)
			return false;
	return true;
}

static bool conclude_below(struct nspy_inquiry *q)
{
	struct nspy_verdict *v = q->out;
	const struct nspy_group *group;
	uint32_t page = 0;
	const struct nspy_page_wait *wait = longest_wait(&q->scene, &page);
	uint64_t since = 0, patience = q->scene.unseen ? q->limits->unseen_ns : 0;

	group = wait ? latest_group(&q->scene, page, &v->seq) : NULL;
	if (!group || !long_enough(q, group, wait->since_ns + patience) ||
	    !all_fresh(q, group, wait->since_ns))
		return false;
	v->waiters = count_waiting(&q->scene, &since);
	if (!v->waiters) /* stuck in a call of its own, and nobody minds */
		return false;
	v->comm_key = group->key;
	/* Of a message either end may wait for a rank that no page shows. */
	if (nspy_verdict_order(q, group) || (!q->scene.unseen && conclude_message(q)))
		return true;
	nspy_verdict_set(v, NSPY_FOUND_COLLECTIVE_HANG, nspy_mix(group->key, v->seq), since);
	tell_below(q, group);
	return true;
}

int nspy_verdict_find(const struct nspy_status *pages, uint32_t count, uint64_t now_ns,
		      const struct nspy_limits *limits, struct nspy_arena *arena,
		      struct nspy_verdict *ret)
{
	struct nspy_inquiry q = {.limits = limits, .arena = arena, .out = ret};
	const struct nspy_object *object;
	int rc;

	memset(ret, 0, sizeof(*ret));
	ret->id = NSPY_FOUND_NONE;
	rc = nspy_scene_find(&q.scene, pages, count, now_ns, limits->confirm_ns, limits->note_ns,
			     arena);
	if (rc < 0 || nspy_verdict_death(&q) || nspy_verdict_mismatch(&q))
		return rc;
	object = main_object(&q.scene);
	if (object && conclude_missing(&q, object))
		return 0;
	if (!object && conclude_silent(&q))
		return 0;
	object = object ? NULL : stuck_creation(&q.scene);
	if (object && conclude_creation(&q, object))
		return 0;
	if (!main_object(&q.scene) && !object)
		(void)conclude_below(&q);
	return 0;
}
