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

/* Publish ident and schema texts for whoever reads the pages after a crash. */
void nspy_live_publish_ident(const uint8_t *ident, size_t bytes);
void nspy_live_publish_schema(const char *schema, size_t bytes);

/* Removes the file (a clean end: everything is in segments). The mapping stays. */
void nspy_live_remove(void);

#endif
