/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "storage.h"

#include <stdio.h>

#include "core.h"
#include "event.h"
#include "say.h"

#define SAID_MAX 3u /* a file system that comes and goes */

static struct nspy_storage state;
static uint32_t said;

void nspy_storage_start(void)
{
	state = (struct nspy_storage){0};
	said = 0;
}

static void tell_stuck(uint64_t for_ns, uint64_t now_ns)
{
	static struct nspy_verdict v; /* large, and the stack of the watcher is small */

	v = (struct nspy_verdict){0};
	nspy_verdict_set(&v, NSPY_FOUND_SHARED_DIR_SLOW, 1, now_ns - for_ns);
	nspy_tell(v.headline, sizeof(v.headline), "%.200s does not answer since %llu s",
		  nspy_core.id.dir, nspy_seconds(for_ns));
	nspy_tell(v.cause, sizeof(v.cause),
		  "a write into the directory of the traces has not come back; the job is not held "
		  "up by it, its newest records wait in memory");
	nspy_event_tell_aside(&v, now_ns);
}

static void tell_returned(uint64_t for_ns)
{
	char text[160];
	const char *texts[] = {text};

	(void)snprintf(text, sizeof(text), "SHARED_DIR_SLOW: the directory answered after %llu s",
		       nspy_seconds(for_ns));
	(void)nspy_say_block(NSPY_SAY_INFO, texts, 1);
}

void nspy_storage_look(uint64_t now_ns, bool speaks)
{
	uint64_t since = atomic_load_explicit(&nspy_core.writing_since, memory_order_relaxed);
	uint64_t for_ns;

	if (!speaks)
		return;
	switch (nspy_storage_judge(&state, since, now_ns, &for_ns)) {
	case NSPY_STORAGE_STUCK:
		if (said++ < SAID_MAX)
			tell_stuck(for_ns, now_ns);
		break;
	case NSPY_STORAGE_RETURNED:
		if (said <= SAID_MAX)
			tell_returned(for_ns);
		break;
	case NSPY_STORAGE_NOTHING:
		break;
	}
}
