/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads plain data out of a Python pickle as a tree of JSON values, and executes nothing: of the
 * functions that a pickle may ask for, only those that PyTorch's writer uses to tag lists are
 * understood, and skipped. Source of the format: CPython's pickletools,
 * torch/csrc/jit/serialization.
 */
#ifndef NSPY_PICKLE_H
#define NSPY_PICKLE_H

#include <stddef.h>

struct cJSON;

/*
 * NULL if it is no such pickle; then error says what and where, in one line. The tree is deleted by
 * the caller with cJSON_Delete. Values that a pickle refers to several times are copied; their
 * number is bounded.
 */
struct cJSON *nspy_pickle_read(const void *data, size_t bytes, char *ret_error, size_t error_bytes);

#endif
