/* SPDX-License-Identifier: Apache-2.0 */
/* Which NCCL and CUDA are loaded: versions, paths, build ids. Cold, caller's thread. */
#ifndef NSPY_VERSIONS_H
#define NSPY_VERSIONS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Appends facts (nccl.version, nccl.path, nccl.build_id, nccl.unknown, nccl.copies, nccl.copy.*,
 * cudart.*, cuda.driver) to an IDENT payload. Asks only functions that are already loaded and
 * purely local.
 */
void nspy_versions_facts(uint8_t *payload, size_t capacity, size_t *used);

/* A copy of NCCL was met: while recording, further ones become facts and are reported. */
void nspy_versions_copy_found(void);

/* A communicator of one copy is used through another: reported once. errno may change. */
void nspy_versions_mixed(unsigned int made_by, unsigned int used_through);

#endif
