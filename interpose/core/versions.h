/* SPDX-License-Identifier: Apache-2.0 */
/* Which NCCL and CUDA are loaded: versions, paths, build ids. Cold, caller's thread. */
#ifndef NSPY_VERSIONS_H
#define NSPY_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NSPY_BUILD_ID_BYTES 129u

struct dl_phdr_info;

/*
 * Appends facts (nccl.version, nccl.path, nccl.build_id, nccl.unknown, nccl.copies, nccl.copy.*,
 * cudart.*, cuda.driver) to an IDENT payload. Asks only functions that are already loaded and
 * purely local.
 */
void nspy_versions_facts(uint8_t *payload, size_t capacity, size_t *used);

/*
 * The build id of an object as hexadecimal text, "" if it has none. context: within the callback
 * of dl_iterate_phdr, which keeps the object mapped.
 */
void nspy_versions_build_id(const struct dl_phdr_info *info, char ret[NSPY_BUILD_ID_BYTES]);

/*
 * Whether an address lies in NCCL, in a plugin of it or in libfabric; ret gets the name of its
 * object in any case ("?" if there is none). Takes the loader's lock. context: writer thread.
 */
bool nspy_versions_is_nccl(const void *address, char *ret, size_t bytes);
/* A copy of NCCL was met: while recording, further ones become facts and are reported. */
void nspy_versions_copy_found(void);

/* A communicator of one copy is used through another: reported once. errno may change. */
void nspy_versions_mixed(unsigned int made_by, unsigned int used_through);

#endif
