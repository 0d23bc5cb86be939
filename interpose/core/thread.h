/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread needs to record; initial-exec TLS, so that access never allocates. */
#ifndef NSPY_THREAD_H
#define NSPY_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "trace_live.h"

#define NSPY_RESULT_IN_PROGRESS 7 /* ncclInProgress: not an error */

struct nspy_tls {
	struct nspy_slot *slot;
	struct nspy_page *page;
	uint32_t page_used; /* records in page */
	uint32_t epoch;     /* valid while equal to *nspy_epoch_word */
	uint32_t depth;     /* open entries of the slot */
	uint32_t callno;
	uint32_t group_depth;   /* as far as we saw; NCCL's own may differ */
	uint32_t groups;        /* outermost groups begun */
	uint32_t pending_comms; /* communicators whose creation this group completes */
	bool busy;              /* inside the recorder's cold code: our own calls pass through */
};

extern __thread struct nspy_tls nspy_tls __attribute__((tls_model("initial-exec")));

/* Takes a slot for this thread; false if there is none. Cold. */
bool nspy_thread_attach(void);

/* Moves on to a free page; false (and a counted loss) if there is none. No system call, no lock. */
bool nspy_thread_next_page(void);

/* Appends a record of any kind to the calling thread's pages. */
void nspy_thread_append(const union nspy_any_rec *rec);

/* One-time set-up of the destructor that releases slots of threads that end. */
bool nspy_thread_key_init(void);

#endif
