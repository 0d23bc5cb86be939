/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"

#define STATUS_BYTES     4096u
#define CAP_IPC_LOCK_BIT 14

struct nspy_memory_sums nspy_memory_sums[NSPY_NET_LAYER_COUNT];
static struct nspy_fabric_event slots[NSPY_EVENT_SLOTS];
static _Atomic uint32_t next_slot;
static _Atomic uint32_t total;
static _Atomic uint64_t refused;

struct nspy_fabric_event *nspy_fabric_event_new(enum nspy_net_event_kind what)
{
	if (atomic_fetch_add(&total, 1) >= NSPY_EVENTS_MAX) {
		atomic_fetch_sub(&total, 1);
		atomic_fetch_add(&refused, 1);
		return NULL;
	}
	for (uint32_t tries = 0; tries < 8; tries++) {
		struct nspy_fabric_event *event =
			&slots[atomic_fetch_add(&next_slot, 1) % NSPY_EVENT_SLOTS];
		uint32_t expected = 0;

		if (!atomic_compare_exchange_strong(&event->state, &expected, 1))
			continue;
		event->what = what;
		event->rail = event->peer = NSPY_NET_NONE;
		event->error = event->provider = 0;
		event->when_ns = nspy_monotonic_ns();
		event->value_count = 0;
		event->text[0] = event->more[0] = '\0';
		return event;
	}
	atomic_fetch_add(&refused, 1);
	return NULL;
}

void nspy_fabric_event_ready(struct nspy_fabric_event *event)
{
	atomic_store_explicit(&event->state, 2, memory_order_release);
}

struct nspy_fabric_event *nspy_fabric_event_take(void)
{
	static uint32_t at;

	for (uint32_t i = 0; i < NSPY_EVENT_SLOTS; i++) {
		struct nspy_fabric_event *event = &slots[at % NSPY_EVENT_SLOTS];

		at++;
		if (atomic_load_explicit(&event->state, memory_order_acquire) == 2)
			return event;
	}
	return NULL;
}

void nspy_fabric_event_done(struct nspy_fabric_event *event)
{
	atomic_store_explicit(&event->state, 0, memory_order_release);
}

uint64_t nspy_events_refused(void)
{
	return atomic_load(&refused);
}

/* --- memory --- */

static void raise_to(_Atomic uint64_t *largest, uint64_t bytes)
{
	uint64_t have = atomic_load(largest);

	while (have < bytes && !atomic_compare_exchange_weak(largest, &have, bytes))
		;
}

void nspy_memory_registered(enum nspy_net_layer layer, uint64_t bytes)
{
	struct nspy_memory_sums *sums = &nspy_memory_sums[layer];

	atomic_fetch_add(&sums->registrations, 1);
	atomic_fetch_add(&sums->bytes, bytes);
	atomic_fetch_add(&sums->live, 1);
	atomic_fetch_add(&sums->live_bytes, bytes);
	raise_to(&sums->largest, bytes);
	raise_to(&sums->largest_since, bytes);
}

void nspy_memory_released(enum nspy_net_layer layer, uint64_t bytes)
{
	struct nspy_memory_sums *sums = &nspy_memory_sums[layer];

	/* Never below zero: registrations from before we looked are released too. */
	if (atomic_load(&sums->live) == 0 || atomic_load(&sums->live_bytes) < bytes)
		return;
	atomic_fetch_sub(&sums->live, 1);
	atomic_fetch_sub(&sums->live_bytes, bytes);
}

static uint64_t status_number(const char *status, const char *key, int base)
{
	const char *at = strstr(status, key);

	return at ? strtoull(at + strlen(key), NULL, base) : 0;
}

/* What the kernel allows this process, at this moment. */
static void add_limits(struct nspy_fabric_event *event)
{
	char status[STATUS_BYTES] = "";
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, status, sizeof(status) - 1);

	if (fd >= 0)
		close(fd);
	status[n > 0 ? n : 0] = '\0';
	(void)getrlimit(RLIMIT_MEMLOCK, &limit);
	event->values[NSPY_NET_REG_LIMIT] =
		limit.rlim_cur == RLIM_INFINITY ? NSPY_NET_UNLIMITED : limit.rlim_cur;
	event->values[NSPY_NET_REG_LOCKED] = status_number(status, "\nVmLck:", 10) * 1024;
	event->values[NSPY_NET_REG_PINNED] = status_number(status, "\nVmPin:", 10) * 1024;
	event->values[NSPY_NET_REG_MAY_LOCK] =
		status_number(status, "\nCapEff:", 16) >> CAP_IPC_LOCK_BIT & 1;
}

void nspy_memory_failed(enum nspy_net_layer layer, const char *call, uint64_t bytes, int error)
{
	struct nspy_memory_sums *sums = &nspy_memory_sums[layer];
	struct nspy_fabric_event *event;
	int saved = errno;

	atomic_fetch_add(&sums->failures, 1);
	if (error != ENOMEM)
		return;
	atomic_store(&sums->largest_since, 0);
	if (atomic_fetch_add(&sums->no_memory, 1) >= 16)
		return;
	event = nspy_fabric_event_new(NSPY_NET_REG_FAILED);
	if (event) {
		event->error = error;
		event->values[NSPY_NET_REG_BYTES] = bytes;
		add_limits(event);
		event->values[NSPY_NET_REG_LIVE] = atomic_load(&sums->live_bytes);
		event->values[NSPY_NET_REG_BEFORE] = atomic_load(&sums->registrations);
		event->values[NSPY_NET_REG_LAYER] = layer;
		event->value_count = NSPY_NET_VALUES_MAX;
		(void)snprintf(event->text, sizeof(event->text), "%s", call);
		nspy_fabric_event_ready(event);
	}
	errno = saved;
}
