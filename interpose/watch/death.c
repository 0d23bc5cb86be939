/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that ended while the others needed them. */
#include "compat.h"

#include "verdict.h"

#include <inttypes.h>
#include <signal.h>

#define LAST_NS  5000000000ull  /* a process that publishes pages so long after has survived it */
#define ASKED_NS 10000000000ull /* between the first and the last rank of a job that is ended */

static bool died(const struct nspy_status *page)
{
	return page->state == NSPY_STATUS_EXITED ? page->exit_code != 0 : page->dead;
}

static bool crashed(const struct nspy_status *page)
{
	return nspy_signal_is_crash(page->signal.number) &&
	       page->signal.when_ns + LAST_NS >= page->published_ns;
}

/* Half of the job or more has got SIGTERM with it: nothing is wrong with this rank. */
static bool ended_with_others(const struct nspy_scene *scene, const struct nspy_status *dead)
{
	uint64_t when_ns = dead->signal.when_ns;
	uint32_t asked = 0;

	if (dead->signal.number != SIGTERM)
		return false;
	for (uint32_t i = 0; i < scene->count; i++) {
		const struct nspy_signal_note *signal = &scene->pages[i].signal;

		asked += signal->number == SIGTERM && signal->when_ns + ASKED_NS >= when_ns &&
			 when_ns + ASKED_NS >= signal->when_ns;
	}
	return asked > 1 && 2 * asked >= scene->count;
}

/*
 * Some member that waits has used it as lately as any other. One that was left behind, after a
 * shrink say, is still there and nobody waits in it.
 */
static bool in_use(const struct nspy_scene *scene, const struct nspy_group *group)
{
	for (uint32_t m = group->first; m < group->first + group->count; m++) {
		const struct nspy_member *member = &scene->members[m];
		uint64_t last_ns = nspy_scene_comm(scene, member)->last_ns;

		if (scene->waits[member->page].waiting &&
		    (!last_ns || last_ns + NSPY_SEEN_LATE_NS >=
					 nspy_page_latest_use(&scene->pages[member->page])))
			return true;
	}
	return false;
}

static bool waited_for(const struct nspy_inquiry *q, const struct nspy_group *group,
		       struct nspy_verdict *v)
{
	uint32_t waiters = 0;
	uint64_t since = group ? nspy_verdict_longest_wait(&q->scene, group, &waiters) : 0;

	if (!since || !in_use(&q->scene, group))
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
	if (group->nranks != dead->world_size || dead->rank < 0 || dead->comm_count)
		return false;
	/* It was a helper of that rank, or the rank has begun anew. */
	for (uint32_t i = 0; i < scene->count; i++)
		if (scene->pages[i].rank == dead->rank && !nspy_page_gone(&scene->pages[i]))
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

		if (!died(page) || ended_with_others(&q->scene, page) || !needed(q, i, v))
			continue;
		if (first == NSPY_NOWHERE ||
		    page->published_ns < q->scene.pages[first].published_ns)
			first = i;
	}
	return first;
}

static void tell_crash(struct nspy_verdict *v, const struct nspy_status *page)
{
	const struct nspy_signal_note *signal = &page->signal;
	const char *code = nspy_signal_code(signal->number, signal->code);
	char scratch[16], line[160] = "";

	nspy_tell(line, sizeof(line), "%s",
		  nspy_signal_name(signal->number, scratch, sizeof(scratch)));
	if (nspy_signal_faults(signal->number, signal->code))
		nspy_tell(line, sizeof(line), " at address 0x%" PRIx64, signal->address);
	if (code[0])
		nspy_tell(line, sizeof(line), " (%s)", code);
	nspy_tell_line(v, "%s in thread %" PRIu32, line, signal->tid);
}

/* The verdict's communicator, and who waits since when, are set. */
static void tell_death(struct nspy_inquiry *q, uint32_t dead)
{
	struct nspy_verdict *v = q->out;
	const struct nspy_status *page = &q->scene.pages[dead];
	enum nspy_found_id id = crashed(page) ? NSPY_FOUND_RANK_CRASHED : NSPY_FOUND_RANK_DIED;
	char who[160] = "", doing[160] = "", group[96] = "";

	nspy_verdict_set(v, id, nspy_mix(page->run_id, NSPY_FOUND_RANK_DIED), v->since_ns);
	nspy_verdict_blame(v, dead);
	nspy_tell_rank(who, sizeof(who), page);
	nspy_tell_doing(doing, sizeof(doing), &q->scene, dead);
	nspy_tell_group(group, sizeof(group), &q->scene, nspy_scene_group(&q->scene, v->comm_key));
	nspy_tell(v->operation, sizeof(v->operation), "%s", group);
	nspy_tell(v->headline, sizeof(v->headline), "%s %s; %" PRIu32 " rank%s of %s wait%s", who,
		  doing, v->waiters, v->waiters == 1 ? "" : "s", group, v->waiters == 1 ? "s" : "");
	if (page->signal.number == SIGTERM && page->dead) {
		v->owner = "scheduler";
		v->action = "ask scheduler or launcher why it ended this rank";
		nspy_tell(v->cause, sizeof(v->cause), "%s alone was ended by SIGTERM", who);
	} else {
		nspy_tell(v->cause, sizeof(v->cause), "%s %s while the others needed it", who,
			  id == NSPY_FOUND_RANK_CRASHED ? "crashed" : "ended");
	}
	if (id == NSPY_FOUND_RANK_CRASHED)
		tell_crash(v, page);
	if (page->call_count)
		nspy_tell_line(v, "last heard of %llu s ago, inside %s",
			       nspy_seconds(q->scene.now_ns - page->published_ns),
			       nspy_status_name(page, page->calls_open[0].name));
}

bool nspy_verdict_death(struct nspy_inquiry *q)
{
	uint32_t first = first_death(q, q->out);

	if (first == NSPY_NOWHERE)
		return false;
	(void)needed(q, first, q->out);
	q->out->note = false;
	tell_death(q, first);
	return true;
}

bool nspy_verdict_death_behind(struct nspy_inquiry *q, uint64_t comm_key, uint32_t waiters,
			       uint64_t since_ns, const uint32_t *blamed, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct nspy_status *page = &q->scene.pages[blamed[i]];

		if (!died(page) || ended_with_others(&q->scene, page))
			continue;
		q->out->comm_key = comm_key;
		q->out->waiters = waiters;
		q->out->since_ns = since_ns;
		tell_death(q, blamed[i]);
		return true;
	}
	return false;
}
