/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A NET payload, as the analyzer takes it. Asserted: it is read to its end or refused, what is kept
 * of it is bounded, and reading it twice gives the same answer.
 */
#include <string.h>

#include "fuzz.h"
#include "net.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct nspy_net_view net = {0};
	struct nspy_net_record record;
	size_t cursor = 0, before = 0;
	int first = nspy_net_ingest(&net, data, bytes, 5);

	FUZZ_ASSERT(first == 0 || first == -74); /* EBADMSG */
	FUZZ_ASSERT(net.rail_count <= NSPY_NET_RAILS_KEPT);
	FUZZ_ASSERT(net.peer_count <= NSPY_NET_PEERS_KEPT);
	FUZZ_ASSERT(net.event_count <= NSPY_NET_EVENTS_KEPT);
	FUZZ_ASSERT(net.device_count <= NSPY_NET_DEVICES_KEPT);
	for (size_t i = 0; i < net.event_count; i++) {
		FUZZ_ASSERT(nspy_net_event_name(net.events[i].what) != NULL);
		FUZZ_ASSERT(nspy_net_error_name(net.events[i].error) != NULL);
	}
	nspy_net_done(&net);
	while (nspy_net_next(data, bytes, &cursor, &record) == 0) {
		FUZZ_ASSERT(cursor > before && cursor <= bytes);
		before = cursor;
	}
	FUZZ_ASSERT(nspy_net_ingest(&net, data, bytes, 5) == first);
	nspy_net_done(&net);
	return 0;
}
