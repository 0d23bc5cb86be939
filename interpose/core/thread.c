/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "thread.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core.h"
#include "export.h"
#include "seen.h"

__thread struct nspy_tls nspy_tls __attribute__((tls_model("initial-exec")));

static pthread_key_t end_key;
static bool end_key_made;

static bool is_current(const struct nspy_tls *t)
{
	return t->slot && t->epoch == __atomic_load_n(&nspy_hot->epoch, __ATOMIC_RELAXED);
}

/*
 * A thread ends. Later destructors may still call NCCL: the thread then attaches again and leaks
 * nothing but a slot that is found orphaned at the end.
 */
static void thread_ends(void *unused)
{
	struct nspy_tls *t = &nspy_tls;

	(void)unused;
	if (!is_current(t))
		return;
	t->slot->groups = t->groups;
	atomic_store_explicit(&t->slot->depth, 0, memory_order_release);
	/* Pairs with the acquire of the thread, or the writer, that takes the slot over. */
	atomic_store_explicit(&t->slot->state, NSPY_SLOT_ORPHAN, memory_order_release);
	t->slot = NULL;
	t->page = NULL;
}

bool nspy_thread_key_init(void)
{
	if (!end_key_made)
		end_key_made = nspy_sys_pthread_key_create(&end_key, thread_ends) == 0;
	return end_key_made;
}

static bool take(struct nspy_slot *slot, uint32_t expected)
{
	return atomic_load_explicit(&slot->state, memory_order_relaxed) == expected &&
	       atomic_compare_exchange_strong_explicit(&slot->state, &expected, NSPY_SLOT_USED,
						       memory_order_acquire, memory_order_relaxed);
}

/* Continues the slot of a thread that has ended, with its page and its numbers. */
static struct nspy_slot *continue_orphan(struct nspy_tls *t)
{
	for (uint32_t i = 0; i < nspy_slot_total(); i++) {
		struct nspy_slot *slot = nspy_slot_at(i);

		if (!take(slot, NSPY_SLOT_ORPHAN))
			continue;
		t->page = slot->page ? nspy_page_at(slot->page - 1) : NULL;
		t->page_used =
			t->page ? atomic_load_explicit(&t->page->committed, memory_order_relaxed)
				: 0;
		t->index = atomic_load_explicit(&slot->next_index, memory_order_relaxed);
		t->callno = (uint32_t)atomic_load_explicit(&slot->calls, memory_order_relaxed);
		t->groups = slot->groups;
		return slot;
	}
	return NULL;
}

static struct nspy_slot *begin_slot(struct nspy_tls *t)
{
	for (uint32_t i = 0; i < nspy_slot_total(); i++) {
		struct nspy_slot *slot = nspy_slot_at(i);

		if (!take(slot, NSPY_SLOT_FREE))
			continue;
		slot->serial = atomic_fetch_add_explicit(&nspy_core.thread_serial, 1,
							 memory_order_relaxed) +
			       1;
		atomic_store_explicit(&slot->next_index, 0, memory_order_relaxed);
		atomic_store_explicit(&slot->calls, 0, memory_order_relaxed);
		atomic_store_explicit(&slot->lost, 0, memory_order_relaxed);
		slot->page = 0;
		t->page = NULL;
		t->page_used = 0;
		t->index = 0;
		t->callno = 0;
		t->groups = 0;
		return slot;
	}
	return NULL;
}

static uint32_t slot_number(const struct nspy_slot *slot)
{
	uint32_t i = 0;

	while (i < nspy_slot_total() && nspy_slot_at(i) != slot)
		i++;
	return i;
}

bool nspy_thread_attach(void)
{
	struct nspy_tls *t = &nspy_tls;
	struct nspy_slot *slot = continue_orphan(t);
	int saved = errno;

	if (!slot)
		slot = begin_slot(t);
	if (!slot) {
		nspy_count_loss(NSPY_LOSS_RECORDS_NO_SLOT, 1);
		return false;
	}
	slot->tid = (uint32_t)syscall(SYS_gettid);
	t->depth = 0;
	t->group_depth = 0;
	t->pending_comms = 0;
	t->last_handle = NULL;
	t->seen = nspy_seen_thread_at(slot_number(slot));
	t->slot = slot;
	t->epoch = nspy_hot->epoch;
	/* Any non-NULL value makes the destructor run. glibc keeps the first 32 keys in the TCB. */
	(void)nspy_sys_pthread_setspecific(end_key, slot);
	errno = saved;
	return true;
}

bool nspy_thread_next_page(void)
{
	struct nspy_tls *t = &nspy_tls;
	uint32_t total = nspy_page_total();
	uint32_t live = nspy_core.head->page_count;
	uint32_t start = atomic_load_explicit(&nspy_core.page_hint, memory_order_relaxed);

	if (t->page)
		atomic_store_explicit(&t->page->state, NSPY_PAGE_FULL, memory_order_release);
	t->page = NULL;
	t->slot->page = 0;
	for (uint32_t n = 0; n < total; n++) {
		/* Live pages first: they survive SIGKILL. */
		uint32_t i = n < live ? (start + n) % live : n;
		struct nspy_page *page = nspy_page_at(i);
		uint32_t expected = NSPY_PAGE_FREE;

		if (atomic_load_explicit(&page->state, memory_order_relaxed) != NSPY_PAGE_FREE ||
		    !atomic_compare_exchange_strong_explicit(&page->state, &expected,
							     NSPY_PAGE_OWNED, memory_order_acquire,
							     memory_order_relaxed))
			continue;
		/* committed and drained are 0 since the writer freed it: nothing shows yet. */
		page->serial = t->slot->serial;
		page->tid = t->slot->tid;
		page->first_index =
			atomic_load_explicit(&t->slot->next_index, memory_order_relaxed);
		page->generation = atomic_fetch_add_explicit(&nspy_core.page_generation, 1,
							     memory_order_relaxed);
		atomic_store_explicit(&nspy_core.page_hint, live ? (i + 1) % live : 0,
				      memory_order_relaxed);
		t->page = page;
		t->page_used = 0;
		t->slot->page = i + 1;
		return true;
	}
	return false;
}
