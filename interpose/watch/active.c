/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "active.h"

#include <inttypes.h>

#include "core.h"
#include "say.h"

#define PATIENCE_NS (60ull * 1000000000ull)

static uint64_t first_ns; /* when the world was first seen to be made */
static bool said;

void nspy_active_start(void)
{
	first_ns = 0;
	said = false;
}

void nspy_active_look(const struct nspy_status *pages, uint32_t count, bool whole, uint64_t now_ns)
{
	struct nspy_active a;
	bool all;

	if (said)
		return;
	nspy_active_count(pages, count, &a);
	if (!a.expected)
		return;
	first_ns = first_ns ? first_ns : now_ns;
	all = a.seen == a.expected;
	if (!all && (!whole || now_ns < first_ns + PATIENCE_NS))
		return;
	said = true;
	if (all)
		nspy_say(NSPY_SAY_INFO,
			 "active on %" PRIu32 "/%" PRIu32 " ranks, %" PRIu32
			 " node%s; recording to %.200s",
			 a.seen, a.expected, a.nodes, a.nodes == 1 ? "" : "s", pages[0].job_dir);
	else if (nspy_core.id.node_local)
		nspy_say(NSPY_SAY_INFO,
			 "active on %" PRIu32 "/%" PRIu32
			 " ranks: those of this node; NCCLSPY_DIR is not set, others are not seen",
			 a.seen, a.expected);
	else
		nspy_say(NSPY_SAY_WARN,
			 "%" PRIu32 "/%" PRIu32 ": no ncclspy on ranks %s, as far as seen", a.seen,
			 a.expected, a.missing);
}
