/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copies of a wrapped library in this process. A framework may bring one NCCL and a package
 * another, by path; or a library has one linked into it. Each copy has its own functions and its
 * own communicators, and a call must end in the copy it would have ended in without us. An object
 * is a copy if it defines the functions that its table says it is known by; other interposers do
 * not. A copy once seen is pinned: pointers into it outlive dlclose.
 *
 * context: any thread; no lock of ours, so that a fork at any time does no harm. Registering asks
 * the loader, which may hold its own lock: never called from within dl_iterate_phdr.
 */
#ifndef NSPY_COPIES_H
#define NSPY_COPIES_H

#include <stdbool.h>
#include <stdint.h>

#include "resolve.h"

struct link_map;

#define NSPY_NO_COPY 0xffu

/* Copies of that library known so far. */
unsigned int nspy_copies(unsigned int library);

/* Whether there were more than we can keep apart; calls through pointers into those are not seen.
 */
bool nspy_copies_too_many(unsigned int library);

const struct link_map *nspy_copy_map(unsigned int library, unsigned int copy);

/* The copy that an object, or the object around an address, is; NSPY_NO_COPY if it is none. */
unsigned int nspy_copy_of_map(unsigned int library, struct link_map *map);
unsigned int nspy_copy_of_address(unsigned int library, const void *address);

/* A copy's own function, NULL if that copy does not define it. */
nspy_any_fn *nspy_copy_find(unsigned int copy, unsigned int fn);

/* The copy that the object behind a dlopen handle, or one it depends on, is. */
unsigned int nspy_copy_of_handle(unsigned int library, void *handle);

/* Registers all copies loaded, in load order. Cheap if nothing was loaded since the last time. */
void nspy_copies_scan(void);

#endif
