/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "session.h"

#include <errno.h>
#include <string.h>

#include "core.h"
#include "part.h"
#include "publish.h"
#include "thread.h"
#include "traffic.h"

static uint32_t phase(void)
{
	return atomic_load_explicit(&nspy_core.phase, memory_order_acquire);
}

bool nspy_session_off(void)
{
	return phase() == NSPY_PHASE_OFF;
}

/* Only NCCL wakes us; but who asks for all providers wants to see programs without NCCL too. */
static bool may_wake(void)
{
	const char *wanted = nspy_env_get("NCCLSPY_FABRIC");

	return wanted && strcmp(wanted, "all") == 0;
}

static bool recording(void)
{
	uint32_t now = phase();
	bool ready;

	if (now == NSPY_PHASE_OFF || now == NSPY_PHASE_STOPPED)
		return false;
	if (now == NSPY_PHASE_RECORDING && nspy_hot->epoch)
		return true;
	if (nspy_tls.busy || !may_wake())
		return false;
	nspy_tls.busy = true;
	nspy_fabric_depth++;
	ready = nspy_start();
	nspy_fabric_depth--;
	nspy_tls.busy = false;
	return ready;
}

bool nspy_session_on(void)
{
	int saved = errno;
	bool on = recording() && nspy_traffic_start();

	if (on)
		nspy_publish_start();
	errno = saved;
	return on;
}

bool nspy_session_wants(const char *provider)
{
	const char *wanted = nspy_core.env.NCCLSPY_FABRIC;

	if (strcmp(wanted, "all") == 0)
		return true;
	if (strcmp(wanted, "none") == 0)
		return false;
	/* Any part of "verbs;ofi_rxm" may be any part of "efa,verbs". */
	for (const char *part = provider; part && *part;) {
		size_t bytes = strcspn(part, ";");

		for (const char *name = wanted; *name;) {
			size_t name_bytes = strcspn(name, ",");

			if (bytes == name_bytes && bytes && memcmp(part, name, bytes) == 0)
				return true;
			name += name_bytes + (name[name_bytes] == ',');
		}
		part += bytes + (part[bytes] == ';');
	}
	return false;
}
