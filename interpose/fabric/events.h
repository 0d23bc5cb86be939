/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes wrong in the network layers, one by one, on its way to the writer thread; and memory
 * registrations, summed up. context: any thread, lock-free; errno is kept.
 */
#ifndef NSPY_EVENTS_H
#define NSPY_EVENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_net.h"

#define NSPY_EVENT_SLOTS 256u
#define NSPY_EVENTS_MAX  2000u /* of a process; a link that flaps must not fill the disk */
#define NSPY_EVENT_TEXT  96u

struct nspy_fabric_event {
	_Atomic uint32_t state; /* 0 free, 1 being filled in, 2 ready */
	uint32_t what;
	uint32_t rail, peer;
	int32_t error, provider;
	uint64_t when_ns;
	uint32_t value_count;
	uint64_t values[NSPY_NET_VALUES_MAX];
	char text[NSPY_EVENT_TEXT];
	char more[NSPY_EVENT_TEXT];
};

/* A free event, stamped with the time; NULL if there is none (counted). Then
 * nspy_fabric_event_ready. */
struct nspy_fabric_event *nspy_fabric_event_new(enum nspy_net_event_kind what);
void nspy_fabric_event_ready(struct nspy_fabric_event *event);
/* The next event that is ready, or NULL; free it with nspy_fabric_event_done. context: writer
 * thread. */
struct nspy_fabric_event *nspy_fabric_event_take(void);
void nspy_fabric_event_done(struct nspy_fabric_event *event);
uint64_t nspy_events_refused(void);

struct nspy_memory_sums {
	_Atomic uint64_t registrations, bytes, live, live_bytes, failures, no_memory, largest,
		largest_since;
};
extern struct nspy_memory_sums nspy_memory_sums[NSPY_NET_LAYER_COUNT];

void nspy_memory_registered(enum nspy_net_layer layer, uint64_t bytes);
void nspy_memory_released(enum nspy_net_layer layer, uint64_t bytes);
/* error: positive errno. Other errors than ENOMEM are usual when providers probe: only counted. */
void nspy_memory_failed(enum nspy_net_layer layer, const char *call, uint64_t bytes, int error);

#endif
