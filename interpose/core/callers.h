/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which copy of a library each calling object is linked to: a small table of address ranges, read
 * without a lock. A writer that finds another one at work gives up: the answer is then worked out
 * again at the next call.
 */
#ifndef NSPY_CALLERS_H
#define NSPY_CALLERS_H

#include <stdbool.h>
#include <stdint.h>

/* An object that calls: its addresses and the copy it is linked to. */
struct nspy_caller {
	uintptr_t begin;
	uintptr_t bytes;
	unsigned int copy;
};

/* What is known about the object around an address. */
bool nspy_callers_find(unsigned int library, const void *address, struct nspy_caller *ret);

void nspy_callers_add(unsigned int library, const struct nspy_caller *caller);

/*
 * Forgets everything if objects were unloaded since the last time: others may lie in their place.
 * Asks the loader (some 100 ns).
 */
void nspy_callers_refresh(void);

/* A forked child: no writer is at work, whatever the table says. */
void nspy_callers_forked(void);

#endif
