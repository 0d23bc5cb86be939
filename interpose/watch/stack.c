/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "facts.h"
#include "rules.h"
#include "trace_reader.h"

static uint32_t looked_at; /* facts then, plus one */

void nspy_stack_start(void)
{
	looked_at = 0;
}

/* FNV-1a: equal texts everywhere. */
static uint64_t hash(uint64_t h, const char *text)
{
	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3u;
	return (h ^ 0xff) * 0x100000001b3u;
}

#define HASH_START 0xcbf29ce484222325u

static void take_text(const char *value, char *ret, size_t bytes)
{
	(void)snprintf(ret, bytes, "%.*s", (int)bytes - 1, value);
}

static void take(struct nspy_status *s, const char *key, const char *value)
{
	if (strcmp(key, "nccl.version") == 0)
		s->nccl = (int32_t)strtoull(value, NULL, 10);
	else if (strcmp(key, "nccl.build_id") == 0)
		s->nccl_build = hash(HASH_START, value);
	else if (strcmp(key, "cudart.version") == 0)
		s->cudart = (int32_t)strtoull(value, NULL, 10);
	else if (strcmp(key, "cuda.driver") == 0)
		s->driver = (int32_t)strtoull(value, NULL, 10);
	else if (strcmp(key, "libfabric.version") == 0)
		take_text(value, s->libfabric, sizeof(s->libfabric));
	else if (strcmp(key, "net_plugin.version") == 0)
		take_text(value, s->plugin, sizeof(s->plugin));
	else if (strcmp(key, "gpu.name") == 0)
		take_text(value, s->gpu, sizeof(s->gpu));
	else if (strcmp(key, "instance.type") == 0)
		take_text(value, s->instance, sizeof(s->instance));
	else if (nspy_rules_is_shared_setting(key))
		s->settings ^= hash(hash(HASH_START, key), value); /* in any order */
}

void nspy_stack_look(struct nspy_status *status)
{
	static uint8_t payload[NSPY_IDENT_MAX];
	uint32_t now = nspy_facts_count() + 1;
	size_t cursor = 0, key_bytes, value_bytes;
	char key[64], value[256];
	const char *k, *v;
	long bytes;

	if (now == looked_at)
		return;
	looked_at = now;
	bytes = nspy_facts_copy(payload, sizeof(payload));
	status->settings = HASH_START;
	while (bytes > 0 && nspy_ident_next(payload, (size_t)bytes, &cursor, &k, &key_bytes, &v,
					    &value_bytes) == 0) {
		(void)snprintf(key, sizeof(key), "%.*s", (int)key_bytes, k);
		(void)snprintf(value, sizeof(value), "%.*s", (int)value_bytes, v);
		take(status, key, value);
	}
}
