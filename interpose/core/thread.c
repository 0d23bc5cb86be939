/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "thread.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core.h"
#include "export.h"

__thread struct nspy_tls nspy_tls __attribute__((tls_model("initial-exec")));

static pthread_key_t end_key;
static bool end_key_made;

static bool is_current(const struct nspy_tls *t)
{
	return t->slot && t->epoch == nspy_hot->epoch;
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
	if (t->page)
		atomic_store_explicit(&t->page->state, NSPY_PAGE_FULL, memory_order_release);
	atomic_store_explicit(&t->slot->depth, 0, memory_order_release);
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

static struct nspy_slot *take_slot(void)
{
	for (uint32_t i = 0; i < nspy_slot_total(); i++) {
		struct nspy_slot *slot = nspy_slot_at(i);
		uint32_t expected = NSPY_SLOT_FREE;

		if (atomic_load_explicit(&slot->state, memory_order_relaxed) == NSPY_SLOT_FREE &&
		    atomic_compare_exchange_strong_explicit(&slot->state, &expected, NSPY_SLOT_USED,
							    memory_order_acquire,
							    memory_order_relaxed))
			return slot;
	}
	return NULL;
}

bool nspy_thread_attach(void)
{
	struct nspy_tls *t = &nspy_tls;
	struct nspy_slot *slot = take_slot();
	int saved = errno;

	if (!slot) {
		nspy_count_loss(NSPY_LOSS_RECORDS_NO_SLOT, 1);
		return false;
	}
	slot->tid = (uint32_t)syscall(SYS_gettid);
	slot->serial =
		atomic_fetch_add_explicit(&nspy_core.thread_serial, 1, memory_order_relaxed) + 1;
	atomic_store_explicit(&slot->depth, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->next_index, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->calls, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->lost, 0, memory_order_relaxed);
	t->page = NULL;
	t->page_used = 0;
	t->index = 0;
	t->last_handle = NULL;
	t->depth = 0;
	t->callno = 0;
	t->group_depth = 0;
	t->groups = 0;
	t->pending_comms = 0;
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
		return true;
	}
	return false;
}
