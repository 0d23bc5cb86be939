/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a whole file into memory. Internal to the library. */
#ifndef NSPY_TRACE_FILE_H
#define NSPY_TRACE_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Larger files are refused: a segment is at most a few MiB, live pages less. */
#define NSPY_FILE_BYTES_MAX (256u << 20)

/*
 * Reads path (a regular file) as far as it goes at this moment. *ret_data is to be freed.
 * Errors: errno of open/fstat/read, -EBADMSG not a regular file, -E2BIG, -ENOMEM.
 */
int nspy_file_read(const char *path, uint8_t **ret_data, size_t *ret_bytes);

#endif
