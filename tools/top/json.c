/* SPDX-License-Identifier: Apache-2.0 */
#include "top.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include <cjson/cJSON.h>

/* 64-bit numbers that are names go as text: JSON's readers keep 53 bits. */
static void add_key(cJSON *object, const char *name, uint64_t key)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%016" PRIx64, key);
	cJSON_AddStringToObject(object, name, text);
}

static cJSON *make_rank(const struct top_rank *r)
{
	cJSON *o = cJSON_CreateObject();
	char doing[160];

	top_tell(r, doing, sizeof(doing));
	cJSON_AddNumberToObject(o, "rank", r->page.rank);
	cJSON_AddStringToObject(o, "node", r->page.node);
	cJSON_AddNumberToObject(o, "pid", r->page.pid);
	cJSON_AddStringToObject(o, "state", top_state_name(r->state));
	cJSON_AddStringToObject(o, "doing", doing);
	cJSON_AddNumberToObject(o, "age_s", (double)r->age_ns / 1e9);
	cJSON_AddNumberToObject(o, "waiting_s", (double)r->waiting_ns / 1e9);
	cJSON_AddNumberToObject(o, "behind", (double)r->behind);
	cJSON_AddNumberToObject(o, "ops_per_s", r->ops_per_s);
	cJSON_AddNumberToObject(o, "bus_bytes_per_s", r->bus_bytes_per_s);
	if (r->lag_ns >= 0)
		cJSON_AddNumberToObject(o, "lag_ms", r->lag_ns / 1e6);
	else
		cJSON_AddNullToObject(o, "lag_ms");
	cJSON_AddNumberToObject(o, "calls", (double)r->page.calls);
	cJSON_AddNumberToObject(o, "lost", (double)r->page.lost);
	return o;
}

static cJSON *make_comm(const struct top_comm *c)
{
	cJSON *o = cJSON_CreateObject();

	add_key(o, "key", c->key);
	cJSON_AddBoolToObject(o, "world", c->world);
	cJSON_AddNumberToObject(o, "nranks", c->nranks);
	cJSON_AddNumberToObject(o, "seen", c->seen);
	cJSON_AddNumberToObject(o, "waiting", c->waiting);
	cJSON_AddNumberToObject(o, "fewest_collectives", (double)c->low);
	cJSON_AddNumberToObject(o, "most_collectives", (double)c->high);
	cJSON_AddNumberToObject(o, "ops_per_s", c->ops_per_s);
	cJSON_AddNumberToObject(o, "bus_bytes_per_s", c->bus_bytes_per_s);
	return o;
}

static cJSON *make_event(const struct top_event *e)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "time", e->time);
	cJSON_AddStringToObject(o, "event", e->event);
	cJSON_AddStringToObject(o, "id", e->id);
	cJSON_AddStringToObject(o, "priority", e->priority);
	cJSON_AddStringToObject(o, "summary", e->summary);
	cJSON_AddBoolToObject(o, "over", e->over);
	return o;
}

int top_print_json(const struct top_snapshot *snap, FILE *out)
{
	cJSON *root = cJSON_CreateObject();
	cJSON *states = cJSON_AddObjectToObject(root, "states");
	cJSON *events = cJSON_AddArrayToObject(root, "events");
	cJSON *comms = cJSON_AddArrayToObject(root, "communicators");
	cJSON *ranks = cJSON_AddArrayToObject(root, "ranks");
	char *text;

	cJSON_AddStringToObject(root, "schema", "ncclspy-top/1");
	cJSON_AddStringToObject(root, "job", snap->job);
	cJSON_AddStringToObject(root, "directory", snap->job_dir);
	cJSON_AddNumberToObject(root, "time_s", (double)snap->now_real_ns / 1e9);
	cJSON_AddNumberToObject(root, "world_size", snap->world_size);
	cJSON_AddNumberToObject(root, "nodes", snap->nodes);
	cJSON_AddNumberToObject(root, "damaged", snap->bad);
	for (int i = 0; i < TOP_STATES; i++)
		cJSON_AddNumberToObject(states, top_state_name((enum top_state)i), snap->states[i]);
	for (size_t i = 0; i < snap->event_count; i++)
		cJSON_AddItemToArray(events, make_event(&snap->events[i]));
	for (size_t i = 0; i < snap->comm_count; i++)
		cJSON_AddItemToArray(comms, make_comm(&snap->comms[i]));
	for (size_t i = 0; i < snap->rank_count; i++)
		cJSON_AddItemToArray(ranks, make_rank(&snap->ranks[i]));
	text = cJSON_Print(root);
	cJSON_Delete(root);
	if (!text)
		return -ENOMEM;
	(void)fprintf(out, "%s\n", text);
	free(text);
	return 0;
}
