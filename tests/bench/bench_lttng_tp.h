/* SPDX-License-Identifier: Apache-2.0 */
/* A tracepoint with five integer fields, the nearest thing LTTng has to our record. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER nspy_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "bench_lttng_tp.h"

#if !defined(NSPY_BENCH_LTTNG_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define NSPY_BENCH_LTTNG_TP_H

#include <lttng/tracepoint.h>

/* clang-format off */
LTTNG_UST_TRACEPOINT_EVENT(
	nspy_bench, call,
	LTTNG_UST_TP_ARGS(int, fn, unsigned long, count, int, datatype, unsigned long, comm,
			  unsigned long, stream),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(int, fn, fn)
		lttng_ust_field_integer(unsigned long, count, count)
		lttng_ust_field_integer(int, datatype, datatype)
		lttng_ust_field_integer(unsigned long, comm, comm)
		lttng_ust_field_integer(unsigned long, stream, stream)
	)
)
/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
