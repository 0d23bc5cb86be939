/* SPDX-License-Identifier: Apache-2.0 */
/* The 64-byte form of a record: fields in struct order, little-endian. Internal to the library. */
#ifndef NSPY_TRACE_RAW_H
#define NSPY_TRACE_RAW_H

#include <stdint.h>

#include "trace_record.h"

/* A record of a kind this version does not know is stored as all zero. */
void nspy_raw_store(uint8_t *p, const union nspy_any_rec *rec);
void nspy_raw_load(const uint8_t *p, union nspy_any_rec *ret);

#endif
