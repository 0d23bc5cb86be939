/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "nccl_hear.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core.h"
#include "facts.h"
#include "judge.h"
#include "nccl_line.h"
#include "service.h"

#define LINE_BYTES 1024u /* NCCL cuts its lines there */
#define LINE_MIN   24u
#define FACTS_MAX  64u /* of one process: values may alternate for ever */

static _Atomic uint32_t kept;
static _Atomic uint64_t latest[NSPY_NCCL_FACTS]; /* hash of the value */

static uint64_t hash_of(const char *text)
{
	uint64_t hash = 1469598103934665603u;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 1099511628211u;
	return hash | 1;
}

static void hear(const char *line)
{
	char value[NSPY_NCCL_WORD_BYTES];
	enum nspy_nccl_fact fact;
	uint64_t hash;

	if (!nspy_nccl_line(line, &fact, value))
		return;
	hash = hash_of(value);
	if (atomic_exchange_explicit(&latest[fact], hash, memory_order_relaxed) == hash ||
	    atomic_fetch_add_explicit(&kept, 1, memory_order_relaxed) >= FACTS_MAX)
		return;
	nspy_facts_add(nspy_nccl_fact_keys[fact], value);
	nspy_judge_again();
}

void nspy_nccl_hear(const void *data, size_t bytes)
{
	int saved = errno;
	char line[LINE_BYTES + 1];

	if (bytes < LINE_MIN || bytes > LINE_BYTES || !nspy_is_recording())
		return;
	memcpy(line, data, bytes);
	line[bytes] = '\0';
	hear(line);
	errno = saved;
}

void nspy_nccl_hear_format(const char *format, va_list args)
{
	int saved = errno;
	char line[LINE_BYTES + 1];
	va_list again;

	if (!nspy_is_recording())
		return;
	va_copy(again, args);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): the callers have started it */
	(void)vsnprintf(line, sizeof(line), format, again);
	va_end(again);
	hear(line);
	errno = saved;
}

/* A new recording, also in a forked child, knows of nothing. */
static void forget(void)
{
	atomic_store_explicit(&kept, 0, memory_order_relaxed);
	for (int i = 0; i < NSPY_NCCL_FACTS; i++)
		atomic_store_explicit(&latest[i], 0, memory_order_relaxed);
}

static __attribute__((constructor)) void loaded(void)
{
	static struct nspy_service service = {.start = forget};

	nspy_service_register(&service);
}
