/* SPDX-License-Identifier: Apache-2.0 */
/* Setting up the memory that records go to. Cold. */
#ifndef NSPY_LIVE_H
#define NSPY_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Makes the live area: a reserved file on tmpfs if want_file and there is room, else private
 * memory; plus the private overflow. Fills nspy_core's pointers. false: no memory at all.
 */
bool nspy_live_create(bool want_file);

/*
 * A new file on tmpfs, reserved before it is mapped, not inherited by a fork. NULL if that cannot
 * be had; no file stays behind then.
 */
void *nspy_live_map_file(const char *path, size_t bytes);

/* Private memory that a fork does not inherit; flags are more of mmap's. NULL: none. */
void *nspy_live_map_private(size_t bytes, int flags);

/* Publish ident and schema texts for whoever reads the pages after a crash. */
void nspy_live_publish_ident(const uint8_t *ident, size_t bytes);
void nspy_live_publish_schema(const char *schema, size_t bytes);

/* Removes the file (a clean end: everything is in segments). The mapping stays. */
void nspy_live_remove(void);

#endif
