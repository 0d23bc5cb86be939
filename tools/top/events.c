/* SPDX-License-Identifier: Apache-2.0 */
#include "top.h"

#include <string.h>
#include <time.h>

#include <cjson/cJSON.h>

void top_clean(char *text)
{
	for (; *text; text++)
		if (*text < 0x20 ||
		    *text == 0x7f) /* char is signed or not: 0x80 and more as well */
			*text = '?';
		else if ((unsigned char)*text >= 0x80)
			*text = '?';
}

static void take_text(const cJSON *object, const char *key, char *ret, size_t bytes)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

	(void)snprintf(ret, bytes, "%s",
		       cJSON_IsString(item) && item->valuestring ? item->valuestring : "");
	top_clean(ret);
}

static uint64_t take_time(const cJSON *object, char ret[24])
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, "time_ns");
	double ns = cJSON_IsNumber(item) ? item->valuedouble : 0;
	time_t s = ns > 0 && ns < 9e18 ? (time_t)(ns / 1e9) : 0;
	struct tm tm;

	ret[0] = '\0';
	if (s && gmtime_r(&s, &tm))
		(void)strftime(ret, 24, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return s ? (uint64_t)ns : 0;
}

static void take_event(struct top_snapshot *snap, const cJSON *object)
{
	struct top_event e = {0};

	take_text(object, "event", e.event, sizeof(e.event));
	take_text(object, "id", e.id, sizeof(e.id));
	take_text(object, "priority", e.priority, sizeof(e.priority));
	take_text(object, "summary", e.summary, sizeof(e.summary));
	e.time_ns = take_time(object, e.time);
	if (!e.event[0] || !e.id[0])
		return;
	if (strcmp(e.event, "end") == 0)
		for (size_t i = 0; i < snap->event_count; i++)
			if (strcmp(snap->events[i].id, e.id) == 0)
				snap->events[i].over = true;
	memmove(&snap->events[1], &snap->events[0], (TOP_EVENTS_MAX - 1) * sizeof(e));
	snap->events[0] = e;
	if (snap->event_count < TOP_EVENTS_MAX)
		snap->event_count++;
}

void top_take_events(struct top_snapshot *snap, const char *text, size_t bytes)
{
	const char *end = text + bytes;

	while (text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		cJSON *object;

		if (!stop) /* still being written */
			break;
		object = cJSON_ParseWithLength(text, (size_t)(stop - text));
		if (cJSON_IsObject(object))
			take_event(snap, object);
		cJSON_Delete(object);
		text = stop + 1;
	}
}
