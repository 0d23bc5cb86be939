/* SPDX-License-Identifier: Apache-2.0 */
/* From pages to OPS chunks. context: writer thread. */
#ifndef NSPY_DRAIN_H
#define NSPY_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

bool nspy_drain_start(void);

struct nspy_drain_level {
	uint32_t pending;      /* records not yet in a segment */
	uint32_t live_pages;   /* in all */
	uint32_t pages_in_use; /* live and extra */
};
void nspy_drain_level(struct nspy_drain_level *ret);

/* Writes all pending records. false: the disk refused some; they stay pending. */
bool nspy_drain_pages(void);

/* Gives up the oldest full pages until half of the live pages are free; counts what is lost. */
void nspy_drain_drop_oldest(void);
/* The same where nothing is to be kept: extra pages too, and what goes is a hole, not a loss. */
void nspy_drain_forget_oldest(void);
/* Forgets all that is pending. */
void nspy_drain_forget_all(void);

/* Frees the slots of threads that have ended and whose records are all written. */
void nspy_drain_free_slots(void);

#endif
