/* SPDX-License-Identifier: Apache-2.0 */
/* The IDENT payload of this recording: facts found at the start, and those learnt later. */
#ifndef NSPY_FACTS_H
#define NSPY_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Collects the facts known at the start and publishes them in the live area. Cold. */
void nspy_facts_start(void);

/* Adds a fact, unless it has this value already. context: any thread, takes a lock; cold. */
void nspy_facts_add(const char *key, const char *value);
void nspy_facts_add_number(const char *key, uint64_t value);

/* Copies the payload; its bytes, or -1 if it does not fit. */
long nspy_facts_copy(uint8_t *out, size_t bytes);

/* Counts facts added later: a change means that something new is known. */
uint32_t nspy_facts_count(void);

/* Whether facts were added since the last write. */
bool nspy_facts_changed(void);
/* Writes them as an IDENT chunk. context: writer thread. */
bool nspy_facts_write(void);

#endif
