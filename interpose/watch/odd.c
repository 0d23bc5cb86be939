/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "odd.h"

#include <stdio.h>
#include <string.h>

#include "facts.h"
#include "say.h"
#include "verdict.h"

static const struct {
	enum nspy_found_id id;
	int priority;
	uint32_t looks; /* known at the start, or learnt by one rank a moment later than by another
			 */
	bool probable;
} topics[NSPY_ODD_TOPICS] = {
	[NSPY_ODD_NCCL] = {NSPY_FOUND_VERSION_MISMATCH, 0, 1, false},
	[NSPY_ODD_BUILD] = {NSPY_FOUND_VERSION_MISMATCH, 1, 2, true},
	[NSPY_ODD_SETTINGS] = {NSPY_FOUND_STACK_DRIFT, 1, 2, false},
	[NSPY_ODD_SOFTWARE] = {NSPY_FOUND_STACK_DRIFT, 2, 2, false},
	[NSPY_ODD_HARDWARE] = {NSPY_FOUND_MIXED_HARDWARE, 1, 2, false},
};

static struct {
	uint32_t looks;
	bool said;
} state[NSPY_ODD_TOPICS];

void nspy_odd_start(void)
{
	memset(state, 0, sizeof(state));
}

static void say(enum nspy_odd_topic topic, const char *text)
{
	const struct nspy_catalog_entry *info = &nspy_catalog[topics[topic].id];
	char key[64];

	(void)snprintf(key, sizeof(key), "finding.%s", info->id);
	nspy_facts_add(key, text);
	nspy_say(topics[topic].priority < 2 ? NSPY_SAY_FAIL : NSPY_SAY_WARN,
		 "P%d %s%s %s (ncclspy explain %s)", topics[topic].priority, info->id,
		 topics[topic].probable ? " (probable)" : "", text, info->id);
}

void nspy_odd_look(const struct nspy_status *pages, uint32_t count)
{
	char text[NSPY_ODD_TEXT];

	for (int i = 0; i < NSPY_ODD_TOPICS; i++) {
		if (state[i].said)
			continue;
		if (!nspy_odd_find(pages, count, (enum nspy_odd_topic)i, text)) {
			state[i].looks = 0;
		} else if (++state[i].looks == topics[i].looks) {
			state[i].said = true;
			say((enum nspy_odd_topic)i, text);
		}
	}
}
