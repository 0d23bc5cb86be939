/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread needs to record; initial-exec TLS, so that access never allocates. */
#ifndef NSPY_THREAD_H
#define NSPY_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "export.h"
#include "hot.h"
#include "trace_live.h"

#define NSPY_RESULT_IN_PROGRESS 7 /* ncclInProgress: not an error */

struct nspy_tls {
	struct nspy_slot *slot;
	struct nspy_page *page;
	uint64_t index;     /* records appended; slot->next_index */
	uint32_t page_used; /* records in page */
	uint32_t epoch;     /* valid while equal to nspy_hot->epoch */
	uint32_t depth;     /* open entries of the slot */
	uint32_t callno;
	uint32_t group_depth;    /* as far as we saw; NCCL's own may differ */
	uint32_t groups;         /* outermost groups begun */
	const void *last_handle; /* communicator used last, valid while comm_version holds */
	struct nspy_comm *last_comm;
	uint32_t comm_version;
	uint32_t pending_comms;        /* communicators whose creation this group completes */
	struct nspy_seen_thread *seen; /* NULL: events and waits are not observed */
	bool busy;    /* inside the recorder's cold code: our own calls pass through */
	uint8_t copy; /* of NCCL, that the current call ends in (copies.h) */
} __attribute__((aligned(64)));

extern __thread struct nspy_tls nspy_tls __attribute__((tls_model("initial-exec")));

/* Takes a slot for this thread; false if there is none. Cold. */
bool nspy_thread_attach(void);

/* Moves on to a free page; false if there is none. No system call, no lock. */
bool nspy_thread_next_page(void);

/* One-time set-up of the destructor that releases slots of threads that end. */
bool nspy_thread_key_init(void);

/* Appends a record of any kind to the calling thread's pages. A loss is counted. */
static inline void nspy_thread_append(struct nspy_tls *t, const union nspy_any_rec *rec)
{
	if (nspy_unlikely(!t->page || t->page_used == NSPY_PAGE_RECORDS) &&
	    !nspy_thread_next_page()) {
		atomic_store_explicit(&t->slot->lost,
				      atomic_load_explicit(&t->slot->lost, memory_order_relaxed) +
					      1,
				      memory_order_relaxed);
	} else {
		t->page->rec[t->page_used] = *rec;
		/* Pairs with the acquire load of the writer and of readers of live pages. */
		atomic_store_explicit(&t->page->committed, ++t->page_used, memory_order_release);
	}
	atomic_store_explicit(&t->slot->next_index, ++t->index, memory_order_relaxed);
}

#endif
