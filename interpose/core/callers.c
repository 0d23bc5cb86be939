/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "callers.h"

#include <link.h>
#include <stdatomic.h>
#include <stddef.h>

#define CALLERS_MAX 32u

struct entry {
	_Atomic uintptr_t begin;
	_Atomic uintptr_t bytes;
	_Atomic uint32_t library;
	_Atomic uint32_t copy;
};

static struct entry entries[CALLERS_MAX];
static _Atomic uint32_t used;
static _Atomic uint32_t next;    /* to be overwritten when all are used */
static _Atomic uint32_t version; /* odd while somebody writes */
static _Atomic uint64_t unloads; /* objects ever unloaded, as of the last refresh */

bool nspy_callers_find(unsigned int library, const void *address, struct nspy_caller *ret)
{
	uint32_t before = atomic_load_explicit(&version, memory_order_acquire);
	uint32_t count = atomic_load_explicit(&used, memory_order_relaxed);
	bool found = false;

	for (uint32_t i = 0; i < count && !found; i++) {
		struct entry *e = &entries[i];

		ret->begin = atomic_load_explicit(&e->begin, memory_order_relaxed);
		ret->bytes = atomic_load_explicit(&e->bytes, memory_order_relaxed);
		ret->copy = atomic_load_explicit(&e->copy, memory_order_relaxed);
		found = (uintptr_t)address - ret->begin < ret->bytes &&
			atomic_load_explicit(&e->library, memory_order_relaxed) == library;
	}
	atomic_thread_fence(memory_order_acquire);
	return found && !(before & 1) &&
	       atomic_load_explicit(&version, memory_order_relaxed) == before;
}

static bool begin_writing(void)
{
	uint32_t now = atomic_load_explicit(&version, memory_order_relaxed);

	if ((now & 1) || !atomic_compare_exchange_strong(&version, &now, now + 1))
		return false;
	atomic_thread_fence(memory_order_release);
	return true;
}

static void end_writing(void)
{
	atomic_fetch_add_explicit(&version, 1, memory_order_release);
}

void nspy_callers_add(unsigned int library, const struct nspy_caller *caller)
{
	struct entry *e;
	uint32_t i;

	if (!begin_writing())
		return;
	i = atomic_load_explicit(&used, memory_order_relaxed);
	if (i < CALLERS_MAX)
		atomic_store_explicit(&used, i + 1, memory_order_relaxed);
	else
		i = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % CALLERS_MAX;
	e = &entries[i];
	atomic_store_explicit(&e->begin, caller->begin, memory_order_relaxed);
	atomic_store_explicit(&e->bytes, caller->bytes, memory_order_relaxed);
	atomic_store_explicit(&e->library, library, memory_order_relaxed);
	atomic_store_explicit(&e->copy, caller->copy, memory_order_relaxed);
	end_writing();
}

static int note_unloads(struct dl_phdr_info *info, size_t size, void *data)
{
	if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs))
		*(uint64_t *)data = info->dlpi_subs;
	return 1; /* the first one tells */
}

void nspy_callers_refresh(void)
{
	uint64_t now = 0;

	dl_iterate_phdr(note_unloads, &now);
	if (atomic_load_explicit(&unloads, memory_order_relaxed) == now || !begin_writing())
		return;
	atomic_store_explicit(&used, 0, memory_order_relaxed);
	atomic_store_explicit(&unloads, now, memory_order_relaxed);
	end_writing();
}

void nspy_callers_forked(void)
{
	atomic_fetch_and_explicit(&version, ~1u, memory_order_relaxed);
}
