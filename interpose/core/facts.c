/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "facts.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "api_schema.h"
#include "clock.h"
#include "core.h"
#include "identity.h"
#include "live.h"
#include "segment.h"
#include "trace_encode.h"
#include "versions.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t payload[NSPY_IDENT_MAX];
static size_t used;
static _Atomic uint32_t additions;
static uint32_t written_additions;

static void put_number(const char *key, uint64_t value)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%" PRIu64, value);
	(void)nspy_ident_put(payload, sizeof(payload), &used, key, text);
}

void nspy_facts_start(void)
{
	static const char *const sources[] = {"monotonic", "tsc", "cntvct"};
	const struct nspy_clock_piece *piece = &nspy_core.head->clock[0];

	pthread_mutex_init(&lock, NULL); /* a forked child may have inherited it locked */
	used = 0;
	nspy_identity_facts(&nspy_core.id, payload, sizeof(payload), &used);
	(void)nspy_ident_put(payload, sizeof(payload), &used, "clock.source",
			     sources[nspy_hot->clock_source]);
	put_number("start.mono_ns", piece->base_ns);
	put_number("start.real_ns", piece->base_ns + (uint64_t)piece->mono_to_real_ns);
	nspy_versions_facts(payload, sizeof(payload), &used);
	written_additions = additions;
	nspy_live_publish_ident(payload, used);
	nspy_live_publish_schema(nspy_schema_text, NSPY_SCHEMA_TEXT_BYTES);
}

/* Whether the latest value of key in a payload is this one. */
static bool is_latest(const char *key, const char *value)
{
	size_t cursor = 0, key_bytes, value_bytes, wanted = strlen(key), length = strlen(value);
	const char *k, *v;
	bool equal = false;

	while (nspy_ident_next(payload, used, &cursor, &k, &key_bytes, &v, &value_bytes) == 0)
		if (key_bytes == wanted && memcmp(k, key, wanted) == 0)
			equal = value_bytes == length && memcmp(v, value, length) == 0;
	return equal;
}

void nspy_facts_add(const char *key, const char *value)
{
	pthread_mutex_lock(&lock);
	if (!is_latest(key, value) &&
	    nspy_ident_put(payload, sizeof(payload), &used, key, value) == 0) {
		nspy_live_publish_ident(payload, used);
		atomic_fetch_add(&additions, 1);
	}
	pthread_mutex_unlock(&lock);
}

long nspy_facts_copy(uint8_t *out, size_t bytes)
{
	long n = -1;

	pthread_mutex_lock(&lock);
	if (used <= bytes) {
		memcpy(out, payload, used);
		n = (long)used;
	}
	pthread_mutex_unlock(&lock);
	return n;
}

void nspy_facts_add_number(const char *key, uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, value);
	nspy_facts_add(key, text);
}

uint32_t nspy_facts_count(void)
{
	return atomic_load_explicit(&additions, memory_order_acquire);
}

bool nspy_facts_changed(void)
{
	return additions != written_additions;
}

bool nspy_facts_write(void)
{
	static uint8_t copy[NSPY_IDENT_MAX];
	struct nspy_chunk_info info = {.kind = NSPY_CHUNK_IDENT};
	uint32_t now = additions;
	long bytes = nspy_facts_copy(copy, sizeof(copy));

	info.first_ns = info.last_ns = nspy_monotonic_ns();
	if (bytes < 0 || !nspy_segment_write(&info, copy, (size_t)bytes))
		return false;
	written_additions = now;
	return true;
}
