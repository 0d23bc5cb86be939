/* SPDX-License-Identifier: Apache-2.0 */
/* From NCCL's names for functions, algorithms and types to the trace's numbers. NULL is allowed. */
#ifndef NSPY_PROFILER_NAMES_H
#define NSPY_PROFILER_NAMES_H

#include <stdint.h>

uint8_t nspy_prof_func(const char *name);     /* enum nspy_prof_func */
uint8_t nspy_prof_algo(const char *name);     /* enum nspy_prof_algo */
uint8_t nspy_prof_proto(const char *name);    /* enum nspy_prof_proto */
uint8_t nspy_prof_datatype(const char *name); /* ncclDataType_t, or NSPY_DATATYPE_NONE */

#endif
