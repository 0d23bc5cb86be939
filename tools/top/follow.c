/* SPDX-License-Identifier: Apache-2.0 */
/* ncclspy-top --follow: a line for what changes, for logs and pipes. Nothing is said twice. */
#include "top.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>

struct seen {
	uint64_t run_id;
	uint32_t pid;
	enum top_state said, last;
	bool is_said, changed;
};

static int by_process(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	if (x->run_id != y->run_id)
		return x->run_id < y->run_id ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* What comes and goes every few milliseconds has to be so twice. */
static bool lasts(enum top_state state)
{
	return state != TOP_BEHIND && state != TOP_WAITING && state != TOP_RUNNING;
}

static bool is_over(enum top_state state)
{
	return state == TOP_ENDED || state == TOP_FAILED || state == TOP_DEAD;
}

/* Ranks are in order of their numbers: "0-2,5". Cut with "..." if there is no more room. */
static void list_ranks(const struct top_snapshot *snap, const struct seen *seen,
		       enum top_state state, char *out, size_t bytes)
{
	int32_t first = -1, last = -1;
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i <= snap->rank_count && n + 32 < bytes; i++) {
		bool mine = i < snap->rank_count && seen[i].changed && seen[i].said == state;
		int32_t rank = mine ? snap->ranks[i].page.rank : -1;

		if (i < snap->rank_count && (!mine || rank < 0 || rank == last))
			continue;
		if (i < snap->rank_count && last >= 0 && rank == last + 1) {
			last = rank;
			continue;
		}
		if (last >= 0)
			n += (size_t)snprintf(out + n, bytes - n,
					      first < last ? "%s%" PRId32 "-%" PRId32
							   : "%s%" PRId32,
					      n ? "," : "", first, last);
		first = last = rank;
	}
	if (n + 32 >= bytes)
		(void)snprintf(out + n, bytes - n, ",...");
}

static void now_text(const struct top_snapshot *snap, char ret[24])
{
	time_t now = (time_t)(snap->now_real_ns / 1000000000u);
	struct tm tm;

	ret[0] = '\0';
	if (gmtime_r(&now, &tm))
		(void)strftime(ret, 24, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static void print_object(cJSON *object, FILE *out)
{
	char *text = cJSON_PrintUnformatted(object);

	cJSON_Delete(object);
	if (text)
		(void)fprintf(out, "%s\n", text);
	free(text);
}

/* All ranks that have come to a state, in one line; where the first of them stands. */
static void tell_ranks(const struct top_snapshot *snap, const struct seen *seen,
		       enum top_state state, bool json, FILE *out)
{
	const struct top_rank *first = NULL;
	char time[24], ranks[200], doing[160];
	uint32_t count = 0;

	for (size_t i = 0; i < snap->rank_count; i++) {
		if (!seen[i].changed || seen[i].said != state)
			continue;
		first = first ? first : &snap->ranks[i];
		count++;
	}
	if (!first)
		return;
	now_text(snap, time);
	list_ranks(snap, seen, state, ranks, sizeof(ranks));
	top_tell(first, doing, sizeof(doing));
	if (json) {
		cJSON *o = cJSON_CreateObject();

		cJSON_AddStringToObject(o, "time", time);
		cJSON_AddStringToObject(o, "job", snap->job);
		cJSON_AddStringToObject(o, "what", "ranks");
		cJSON_AddStringToObject(o, "state", top_state_name(state));
		cJSON_AddNumberToObject(o, "count", count);
		cJSON_AddStringToObject(o, "ranks", ranks);
		cJSON_AddStringToObject(o, "node", first->page.node);
		cJSON_AddNumberToObject(o, "pid", first->page.pid);
		cJSON_AddStringToObject(o, "doing", doing);
		print_object(o, out);
		return;
	}
	if (count == 1)
		(void)fprintf(out, "%s job %s rank %s (node %s, pid %" PRIu32 ") %s%s%s\n", time,
			      snap->job, ranks[0] ? ranks : "?", first->page.node, first->page.pid,
			      top_state_name(state), doing[0] ? ": " : "", doing);
	else
		(void)fprintf(out, "%s job %s %" PRIu32 " ranks (%s) %s%s%s\n", time, snap->job,
			      count, ranks[0] ? ranks : "?", top_state_name(state),
			      doing[0] ? "; the first: " : "", doing);
}

static void tell_event(const struct top_snapshot *snap, const struct top_event *e, bool json,
		       FILE *out)
{
	if (json) {
		cJSON *o = cJSON_CreateObject();

		cJSON_AddStringToObject(o, "time", e->time);
		cJSON_AddStringToObject(o, "job", snap->job);
		cJSON_AddStringToObject(o, "what", e->event);
		cJSON_AddStringToObject(o, "id", e->id);
		cJSON_AddStringToObject(o, "priority", e->priority);
		cJSON_AddStringToObject(o, "summary", e->summary);
		print_object(o, out);
		return;
	}
	(void)fprintf(out, "%s job %s %s %s %s %s\n", e->time, snap->job, e->event, e->priority,
		      e->id, e->summary);
}

/* Those behind the last one told, the oldest first. */
static void tell_events(const struct top_snapshot *snap, uint64_t *told_ns, bool json, FILE *out)
{
	uint64_t newest = *told_ns;

	for (size_t i = snap->event_count; i-- > 0;) {
		const struct top_event *e = &snap->events[i];

		if (e->time_ns <= *told_ns)
			continue;
		tell_event(snap, e, json, out);
		newest = e->time_ns > newest ? e->time_ns : newest;
	}
	*told_ns = newest;
}

static void take_state(struct seen *now, const struct seen *before, enum top_state state)
{
	if (before)
		*now = *before;
	now->changed =
		!now->is_said || (state != now->said && (lasts(state) || state == now->last));
	if (now->changed)
		now->said = state;
	now->is_said = true;
	now->last = state;
}

int top_follow_look(const struct top_snapshot *snap, struct top_follow *follow, bool json,
		    FILE *out)
{
	struct seen *now = calloc(snap->rank_count + 1, sizeof(*now)), *before = follow->seen;

	if (!now)
		return -ENOMEM;
	for (size_t i = 0; i < snap->rank_count; i++) {
		const struct top_rank *r = &snap->ranks[i];
		struct seen key = {.run_id = r->page.run_id, .pid = r->page.pid};
		const struct seen *found =
			before ? bsearch(&key, before, follow->count, sizeof(key), by_process)
			       : NULL;

		now[i] = key;
		take_state(&now[i], found, r->state);
	}
	for (int state = 0; state < TOP_STATES; state++)
		tell_ranks(snap, now, (enum top_state)state, json, out);
	tell_events(snap, &follow->told_ns, json, out);
	free(before);
	follow->count = snap->rank_count;
	follow->seen = now;
	qsort(now, follow->count, sizeof(*now), by_process);
	return 0;
}

/* Pages of a host are removed with the last process of the job there. */
bool top_follow_over(const struct top_snapshot *snap, const struct top_follow *follow)
{
	for (size_t i = 0; i < snap->rank_count; i++)
		if (!is_over(snap->ranks[i].state))
			return false;
	return snap->rank_count || follow->had_ranks;
}

static void tell_over(const struct top_snapshot *snap, bool json, FILE *out)
{
	char time[24];

	now_text(snap, time);
	if (json)
		(void)fprintf(out, "{\"time\":\"%s\",\"job\":\"%s\",\"what\":\"over\"}\n", time,
			      snap->job);
	else
		(void)fprintf(out, "%s job %s: no process of it runs any more\n", time, snap->job);
}

int top_follow(struct top_snapshot *snap, unsigned int period_ms, bool json)
{
	struct top_follow follow = {0};
	/* Nothing may change for hours after whoever reads has gone away. */
	struct pollfd reader = {.fd = STDOUT_FILENO};
	bool over = false;
	int rc = 0;

	while (rc == 0 && !over) {
		rc = top_look(snap);
		if (rc < 0)
			break;
		top_sort(snap, TOP_SORT_RANK);
		rc = top_follow_look(snap, &follow, json, stdout);
		over = top_follow_over(snap, &follow);
		follow.had_ranks = follow.had_ranks || snap->rank_count;
		if (over)
			tell_over(snap, json, stdout);
		if (fflush(stdout) != 0)
			break;
		if (!over && poll(&reader, 1, (int)period_ms) > 0)
			break;
	}
	free(follow.seen);
	return rc < 0 ? 4 : 0;
}
