/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "scene.h"

#include <errno.h>
#include <string.h>

const struct nspy_status_comm *nspy_scene_comm(const struct nspy_scene *scene,
					       const struct nspy_member *member)
{
	return &scene->pages[member->page].comms[member->comm];
}

const struct nspy_group *nspy_scene_group(const struct nspy_scene *scene, uint64_t key)
{
	uint32_t low = 0, high = scene->group_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (scene->groups[middle].key < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low < scene->group_count && scene->groups[low].key == key ? &scene->groups[low]
									 : NULL;
}

/* --- members and groups --- */

static bool before(const struct nspy_member *a, const struct nspy_member *b)
{
	return a->key != b->key ? a->key < b->key : a->page < b->page;
}

/* Heap sort: libc's qsort may allocate. */
static void sift(struct nspy_member *m, uint32_t root, uint32_t count)
{
	for (;;) {
		uint32_t child = 2 * root + 1;
		struct nspy_member swap = m[root];

		if (child >= count)
			return;
		if (child + 1 < count && before(&m[child], &m[child + 1]))
			child++;
		if (!before(&m[root], &m[child]))
			return;
		m[root] = m[child];
		m[child] = swap;
		root = child;
	}
}

static void sort_members(struct nspy_member *m, uint32_t count)
{
	for (uint32_t i = count / 2; i--;)
		sift(m, i, count);
	for (uint32_t end = count; end-- > 1;) {
		struct nspy_member swap = m[0];

		m[0] = m[end];
		m[end] = swap;
		sift(m, 0, end);
	}
}

/* A rank that took part in a split without becoming a member; only shows that it came. */
static bool no_member(const struct nspy_status_comm *comm)
{
	return comm->flags & (NSPY_COMM_GONE | NSPY_COMM_FAILED);
}

static void add_members(struct nspy_scene *scene)
{
	for (uint32_t i = 0; i < scene->count; i++) {
		/* Where it stands by now nobody knows. */
		if (scene->pages[i].silent)
			continue;
		for (uint32_t k = 0; k < scene->pages[i].comm_count; k++) {
			const struct nspy_status_comm *comm = &scene->pages[i].comms[k];

			/* Found in use: its key is the process's own. */
			if (no_member(comm) || comm->origin == NSPY_COMM_FOUND)
				continue;
			scene->members[scene->member_count++] =
				(struct nspy_member){comm->key, i, (uint16_t)k};
		}
	}
	sort_members(scene->members, scene->member_count);
}

static void add_groups(struct nspy_scene *scene)
{
	struct nspy_group *group = NULL;

	for (uint32_t i = 0; i < scene->member_count; i++) {
		const struct nspy_member *member = &scene->members[i];
		const struct nspy_status_comm *comm = nspy_scene_comm(scene, member);

		if (!group || group->key != member->key) {
			group = &scene->groups[scene->group_count++];
			*group = (struct nspy_group){
				.key = member->key,
				.first = i,
				.low = UINT64_MAX,
				.nranks = -1,
			};
		}
		group->count++;
		if (comm->enqueued < group->low)
			group->low = comm->enqueued;
		if (comm->enqueued > group->high)
			group->high = comm->enqueued;
		if (comm->nranks > 0)
			group->nranks = comm->nranks;
		group->created = group->created || (comm->flags & NSPY_COMM_READY);
	}
}

/* --- is a rank waiting? --- */

/* Seen live, a graph's launch waits too: its operations carry no numbers of their own. */
static bool waits_here(unsigned int klass)
{
	return nspy_class_waits(klass) || klass == NSPY_CLASS_GRAPH;
}

static void wait_since(struct nspy_page_wait *wait, uint64_t since_ns,
		       const struct nspy_status_call *call)
{
	if (wait->waiting && wait->since_ns <= since_ns)
		return;
	wait->waiting = true;
	wait->since_ns = since_ns;
	wait->call = call;
}

uint64_t nspy_page_latest_use(const struct nspy_status *page)
{
	uint64_t latest = 0;

	for (uint32_t k = 0; k < page->comm_count; k++)
		if (page->comms[k].last_ns > latest)
			latest = page->comms[k].last_ns;
	return latest;
}

/* One thread's long wait is no hang of a rank whose other threads go on. */
static bool moved_since(const struct nspy_status *page, const struct nspy_status_call *call)
{
	uint64_t last_ns = call->comm == NSPY_STATUS_NONE ? nspy_page_latest_use(page)
							  : page->comms[call->comm].last_ns;

	return last_ns > call->enter_ns + NSPY_SEEN_LATE_NS;
}

static void find_wait(const struct nspy_scene *scene, uint32_t i, uint64_t min_wait_ns)
{
	const struct nspy_status *page = &scene->pages[i];
	struct nspy_page_wait *wait = &scene->waits[i];

	if (nspy_page_gone(page) || page->stopped || page->silent)
		return;
	for (uint32_t k = 0; k < page->call_count; k++) {
		const struct nspy_status_call *call = &page->calls_open[k];

		/* What counts is what was so when the page was published. */
		if (waits_here(call->klass) && !moved_since(page, call) &&
		    call->enter_ns + min_wait_ns <= page->published_ns)
			wait_since(wait, call->enter_ns, call);
	}
	/* A nonblocking creation waits without a call. */
	for (uint32_t k = 0; k < page->comm_count; k++) {
		const struct nspy_status_comm *comm = &page->comms[k];

		if (!no_member(comm) && !(comm->flags & NSPY_COMM_READY) &&
		    (comm->flags & NSPY_COMM_NONBLOCKING) &&
		    comm->started_ns + min_wait_ns <= page->published_ns)
			wait_since(wait, comm->started_ns, NULL);
	}
}

/*
 * Silence as evidence, only where no rank shows an open wait: the host thread may be stuck in a
 * launch that is not wrapped. Who is ahead in some communicator then waits for who is behind.
 */
static void find_silence(const struct nspy_scene *scene, uint64_t silence_ns)
{
	for (uint32_t i = 0; i < scene->count; i++) {
		const struct nspy_status *page = &scene->pages[i];

		if (page->silent)
			continue;
		if (scene->waits[i].waiting ||
		    (!nspy_page_gone(page) && page->last_call_ns + silence_ns > scene->now_ns))
			return;
	}
	for (uint32_t g = 0; g < scene->group_count; g++) {
		const struct nspy_group *group = &scene->groups[g];

		for (uint32_t m = group->first; m < group->first + group->count; m++) {
			const struct nspy_member *member = &scene->members[m];
			const struct nspy_status *page = &scene->pages[member->page];

			if (nspy_page_gone(page) || page->stopped ||
			    nspy_scene_comm(scene, member)->enqueued <= group->low)
				continue;
			wait_since(&scene->waits[member->page], page->last_call_ns, NULL);
			scene->waits[member->page].weak = true;
		}
	}
}

/* --- what for? --- */

static struct nspy_object *add_object(struct nspy_scene *scene, enum nspy_object_kind kind,
				      uint32_t group, uint64_t seq)
{
	struct nspy_object *object = &scene->objects[scene->object_count++];

	*object = (struct nspy_object){
		.kind = kind,
		.group = group,
		.seq = seq,
		.first_blamed = scene->blamed_count,
		.longest = NSPY_NOWHERE,
	};
	return object;
}

static void add_waiter(struct nspy_scene *scene, struct nspy_object *object, uint32_t page)
{
	struct nspy_page_wait *wait = &scene->waits[page];
	struct nspy_link *link = &scene->links[scene->link_count];

	link->object = (uint32_t)(object - scene->objects);
	link->next = wait->first_link;
	wait->first_link = scene->link_count++;
	if (!object->waiters++ || wait->since_ns < object->since_ns) {
		object->since_ns = wait->since_ns;
		object->longest = page;
	}
}

/*
 * A page says where a rank stood when it was published. It can blame the rank only if the others
 * had waited by then, or if it is final: a rank that came a moment later is not late.
 */
static bool can_blame(const struct nspy_scene *scene, uint32_t page, uint64_t since_ns)
{
	const struct nspy_status *p = &scene->pages[page];

	return nspy_page_gone(p) || p->stopped || p->published_ns > since_ns + scene->min_wait_ns;
}

static void blame(struct nspy_scene *scene, struct nspy_object *object, uint32_t page)
{
	if (!can_blame(scene, page, object->since_ns) || scene->blamed_count == scene->blamed_room)
		return;
	scene->blamed[scene->blamed_count++] = page;
	object->blamed_count++;
	scene->waits[page].blamed = true;
}

/* Nobody waits for it, or nobody is missing: it explains nothing. */
static void drop_if_useless(struct nspy_scene *scene, const struct nspy_object *object,
			    uint32_t links_before)
{
	if (object->waiters &&
	    (object->blamed_count || object->unseen || object->kind == NSPY_OBJECT_CREATE))
		return;
	for (uint32_t i = 0; i < scene->count; i++)
		while (scene->waits[i].first_link != NSPY_NOWHERE &&
		       scene->waits[i].first_link >= links_before)
			scene->waits[i].first_link = scene->links[scene->waits[i].first_link].next;
	scene->link_count = links_before;
	scene->blamed_count = object->first_blamed;
	scene->object_count--;
}

static uint32_t unseen_of(const struct nspy_group *group)
{
	return group->nranks > 0 && (uint32_t)group->nranks > group->count
		       ? (uint32_t)group->nranks - group->count
		       : 0;
}

static uint64_t progress_of(const struct nspy_scene *scene, const struct nspy_member *member,
			    enum nspy_object_kind kind)
{
	return kind == NSPY_OBJECT_GRAPH ? scene->pages[member->page].graph_launches
					 : nspy_scene_comm(scene, member)->enqueued;
}

static void add_ordered(struct nspy_scene *scene, uint32_t g, enum nspy_object_kind kind,
			uint64_t low)
{
	const struct nspy_group *group = &scene->groups[g];
	uint32_t links_before = scene->link_count;
	struct nspy_object *object = add_object(scene, kind, g, low + 1);

	for (uint32_t m = group->first; m < group->first + group->count; m++) {
		const struct nspy_member *member = &scene->members[m];

		if (scene->waits[member->page].waiting && progress_of(scene, member, kind) > low)
			add_waiter(scene, object, member->page);
	}
	for (uint32_t m = group->first; m < group->first + group->count; m++) {
		const struct nspy_member *member = &scene->members[m];

		if (progress_of(scene, member, kind) == low)
			blame(scene, object, member->page);
	}
	drop_if_useless(scene, object, links_before);
}

static void add_collectives(struct nspy_scene *scene, uint32_t g)
{
	const struct nspy_group *group = &scene->groups[g];
	uint64_t low = UINT64_MAX, high = 0;
	bool captured = false;

	if (group->high > group->low)
		add_ordered(scene, g, NSPY_OBJECT_COLL, group->low);
	/* Operations of a graph carry no numbers of their own; its replays are counted. */
	for (uint32_t m = group->first; m < group->first + group->count; m++) {
		const struct nspy_member *member = &scene->members[m];
		uint64_t launches = scene->pages[member->page].graph_launches;

		captured = captured || nspy_scene_comm(scene, member)->captured;
		low = launches < low ? launches : low;
		high = launches > high ? launches : high;
	}
	if (captured && high > low)
		add_ordered(scene, g, NSPY_OBJECT_GRAPH, low);
}

/* Whether a rank has come to the making of that child, as a member or not. */
static bool came(const struct nspy_status *page, const struct nspy_status_comm *like)
{
	for (uint32_t k = 0; k < page->comm_count; k++) {
		const struct nspy_status_comm *comm = &page->comms[k];

		if (comm->key == like->key ||
		    (like->parent_key && comm->parent_key == like->parent_key &&
		     comm->origin == like->origin && comm->ordinal >= like->ordinal))
			return true;
	}
	return false;
}

static void blame_absent(struct nspy_scene *scene, struct nspy_object *object,
			 const struct nspy_status_comm *like)
{
	const struct nspy_group *parent =
		like->parent_key ? nspy_scene_group(scene, like->parent_key) : NULL;

	for (uint32_t m = 0; parent && m < parent->count; m++) {
		uint32_t page = scene->members[parent->first + m].page;

		if (!came(&scene->pages[page], like))
			blame(scene, object, page);
	}
	if (like->parent_key)
		object->unseen = parent ? unseen_of(parent) : 0;
	/* Everybody is expected in a communicator of the size of the world. */
	for (uint32_t i = 0; !like->parent_key && i < scene->count; i++) {
		const struct nspy_status *page = &scene->pages[i];

		if (page->world_size == like->nranks && !page->silent && !came(page, like))
			blame(scene, object, i);
	}
	if (!like->parent_key && object->unseen >= object->blamed_count)
		object->unseen -= object->blamed_count;
}

static void add_creation(struct nspy_scene *scene, uint32_t g)
{
	const struct nspy_group *group = &scene->groups[g];
	uint32_t links_before = scene->link_count;
	struct nspy_object *object = add_object(scene, NSPY_OBJECT_CREATE, g, 0);

	object->unseen = unseen_of(group);
	for (uint32_t m = group->first; m < group->first + group->count; m++) {
		const struct nspy_member *member = &scene->members[m];

		if (scene->waits[member->page].waiting &&
		    !(nspy_scene_comm(scene, member)->flags & NSPY_COMM_READY))
			add_waiter(scene, object, member->page);
	}
	if (object->waiters)
		blame_absent(scene, object, nspy_scene_comm(scene, &scene->members[group->first]));
	drop_if_useless(scene, object, links_before);
}

/* --- messages --- */

static const struct nspy_member *member_of_rank(const struct nspy_scene *scene,
						const struct nspy_group *group, int32_t rank)
{
	for (uint32_t m = group->first; m < group->first + group->count; m++)
		if (nspy_scene_comm(scene, &scene->members[m])->rank == rank)
			return &scene->members[m];
	return NULL;
}

static void counts_with(const struct nspy_scene *scene, const struct nspy_member *member,
			int32_t peer, uint32_t *ret_sent, uint32_t *ret_received)
{
	const struct nspy_status *page = &scene->pages[member->page];

	*ret_sent = *ret_received = 0;
	for (uint32_t i = 0; i < page->way_count; i++) {
		if (page->ways[i].comm != member->comm || page->ways[i].peer != peer)
			continue;
		*ret_sent = page->ways[i].sent;
		*ret_received = page->ways[i].received;
	}
}

static void add_message(struct nspy_scene *scene, uint32_t g, const struct nspy_member *waiter,
			const struct nspy_member *other, bool send_missing, uint32_t last)
{
	uint32_t links_before = scene->link_count;
	struct nspy_object *object = add_object(scene, NSPY_OBJECT_P2P, g, (uint64_t)last + 1);
	int32_t me = nspy_scene_comm(scene, waiter)->rank;
	int32_t peer = nspy_scene_comm(scene, other)->rank;

	object->send_missing = send_missing;
	object->src = send_missing ? peer : me;
	object->dst = send_missing ? me : peer;
	add_waiter(scene, object, waiter->page);
	blame(scene, object, other->page);
	drop_if_useless(scene, object, links_before);
}

static void add_messages(struct nspy_scene *scene, const struct nspy_member *member)
{
	const struct nspy_status *page = &scene->pages[member->page];
	const struct nspy_group *group = nspy_scene_group(scene, member->key);
	uint32_t g = (uint32_t)(group - scene->groups);
	int32_t me = nspy_scene_comm(scene, member)->rank;

	if (!scene->waits[member->page].waiting || me < 0)
		return;
	for (uint32_t i = 0; i < page->way_count; i++) {
		const struct nspy_status_way *way = &page->ways[i];
		const struct nspy_member *other;
		uint32_t sent, received;

		if (way->comm != member->comm || way->peer == me)
			continue;
		other = member_of_rank(scene, group, way->peer);
		if (!other)
			continue;
		counts_with(scene, other, me, &sent, &received);
		if (way->received > sent)
			add_message(scene, g, member, other, true, sent);
		if (way->sent > received)
			add_message(scene, g, member, other, false, received);
	}
}

/* --- all of it --- */

static int take_memory(struct nspy_scene *scene, struct nspy_arena *arena)
{
	size_t members = 0, ways = 0, links;

	for (uint32_t i = 0; i < scene->count; i++) {
		members += scene->pages[i].comm_count;
		ways += scene->pages[i].way_count;
	}
	/* A communicator makes at most three objects, a way two. */
	links = 3 * members + 2 * ways + 1;
	scene->waits = nspy_arena_take(arena, scene->count + 1u, sizeof(*scene->waits));
	scene->members = nspy_arena_take(arena, members + 1, sizeof(*scene->members));
	scene->groups = nspy_arena_take(arena, members + 1, sizeof(*scene->groups));
	scene->objects = nspy_arena_take(arena, links, sizeof(*scene->objects));
	scene->links = nspy_arena_take(arena, links, sizeof(*scene->links));
	/* Creations may blame anybody: what goes beyond this is left out of the list. */
	scene->blamed_room = (uint32_t)(links + 8u * scene->count);
	scene->blamed = nspy_arena_take(arena, scene->blamed_room, sizeof(*scene->blamed));
	return scene->waits && scene->members && scene->groups && scene->objects && scene->links &&
			       scene->blamed
		       ? 0
		       : -ENOMEM;
}

int nspy_scene_find(struct nspy_scene *scene, const struct nspy_status *pages, uint32_t count,
		    uint64_t now_ns, uint64_t min_wait_ns, uint64_t silence_ns,
		    struct nspy_arena *arena)
{
	int rc;

	*scene = (struct nspy_scene){
		.pages = pages, .count = count, .now_ns = now_ns, .min_wait_ns = min_wait_ns};
	rc = take_memory(scene, arena);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < count; i++) {
		scene->waits[i].first_link = NSPY_NOWHERE;
		find_wait(scene, i, min_wait_ns);
	}
	add_members(scene);
	add_groups(scene);
	find_silence(scene, silence_ns);
	for (uint32_t g = 0; g < scene->group_count; g++)
		scene->unseen += unseen_of(&scene->groups[g]);
	for (uint32_t g = 0; g < scene->group_count; g++) {
		if (!scene->groups[g].created)
			add_creation(scene, g);
		add_collectives(scene, g);
	}
	for (uint32_t m = 0; m < scene->member_count; m++)
		add_messages(scene, &scene->members[m]);
	return 0;
}
