/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that ended while the others needed them. */
#include "compat.h"

#include "verdict.h"

#include <inttypes.h>

static bool died(const struct nspy_status *page)
{
	return page->state == NSPY_STATUS_EXITED ? page->exit_code != 0 : page->dead;
}

static bool waited_for(const struct nspy_inquiry *q, const struct nspy_group *group,
		       struct nspy_verdict *v)
{
	uint32_t waiters = 0;
	uint64_t since = group ? nspy_verdict_longest_wait(&q->scene, group, &waiters) : 0;

	if (!since)
		return false;
	v->comm_key = group->key;
	v->waiters = waiters;
	v->since_ns = since;
	return true;
}

/* The world lacks exactly this rank: it died before its page could show what it belonged to. */
static bool lacks(const struct nspy_scene *scene, const struct nspy_group *group,
		  const struct nspy_status *dead)
{
	if (group->nranks != dead->world_size || dead->rank < 0)
		return false;
	for (uint32_t m = group->first; m < group->first + group->count; m++) {
		const struct nspy_status_comm *comm = nspy_scene_comm(scene, &scene->members[m]);

		if (comm->parent_key || comm->rank == dead->rank)
			return false;
	}
	return true;
}

/* Whether it died in the middle of things: the others still have a communicator with it and wait.
 */
static bool needed(const struct nspy_inquiry *q, uint32_t page, struct nspy_verdict *v)
{
	const struct nspy_status *dead = &q->scene.pages[page];

	for (uint32_t k = 0; k < dead->comm_count; k++)
		if (waited_for(q, nspy_scene_group(&q->scene, dead->comms[k].key), v))
			return true;
	for (uint32_t g = 0; g < q->scene.group_count; g++)
		if (lacks(&q->scene, &q->scene.groups[g], dead) &&
		    waited_for(q, &q->scene.groups[g], v))
			return true;
	return false;
}

/* Others may have fallen with it: the one that fell silent first is told first. */
static uint32_t first_death(const struct nspy_inquiry *q, struct nspy_verdict *v)
{
	uint32_t first = NSPY_NOWHERE;

	for (uint32_t i = 0; i < q->scene.count; i++) {
		const struct nspy_status *page = &q->scene.pages[i];

		if (!died(page) || !needed(q, i, v))
			continue;
		if (first == NSPY_NOWHERE ||
		    page->published_ns < q->scene.pages[first].published_ns)
			first = i;
	}
	return first;
}

bool nspy_verdict_death(struct nspy_inquiry *q)
{
	struct nspy_verdict *v = q->out;
	uint32_t first = first_death(q, v);
	const struct nspy_status *page;
	char who[160] = "", doing[160] = "", group[96] = "";

	if (first == NSPY_NOWHERE)
		return false;
	page = &q->scene.pages[first];
	(void)needed(q, first, v);
	nspy_verdict_set(v, NSPY_FOUND_RANK_DIED, nspy_mix(page->run_id, NSPY_FOUND_RANK_DIED),
			 v->since_ns);
	v->note = false;
	nspy_verdict_blame(v, first);
	nspy_tell_rank(who, sizeof(who), page);
	nspy_tell_doing(doing, sizeof(doing), &q->scene, first);
	nspy_tell_group(group, sizeof(group), &q->scene, nspy_scene_group(&q->scene, v->comm_key));
	nspy_tell(v->operation, sizeof(v->operation), "%s", group);
	nspy_tell(v->headline, sizeof(v->headline), "%s %s; %" PRIu32 " rank%s of %s wait%s", who,
		  doing, v->waiters, v->waiters == 1 ? "" : "s", group, v->waiters == 1 ? "s" : "");
	nspy_tell(v->cause, sizeof(v->cause), "%s ended while the others needed it", who);
	if (page->call_count)
		nspy_tell_line(v, "last heard of %llu s ago, inside %s",
			       nspy_seconds(q->scene.now_ns - page->published_ns),
			       nspy_status_name(page, page->calls_open[0].name));
	return true;
}
