/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of NCCL and the CUDA runtime that failed, on their way to the one line that is said of
 * them while the job runs: NCCL_CALL_FAILED, CUDA_DEVICE_FAULT, DRIVER_RUNTIME_MISMATCH, CUDA_OOM.
 * The first failure of a kind is kept; the report has them all.
 *
 * Memory that was refused is told only if as much was not obtained within a second: caching
 * allocators try, free what they keep and try again.
 */
#ifndef NSPY_CALL_FAILURES_H
#define NSPY_CALL_FAILURES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "resolve.h"
#include "rules.h"
#include "trace_format.h"
#include "trace_record.h"

/* Bytes that were refused and not obtained since; 0 = none. */
extern _Atomic uint64_t nspy_refused_bytes;

/*
 * A call that failed; text: what NCCL says of it, or NULL. context: the application's thread; no
 * lock, no malloc, no system call.
 */
void nspy_call_failed(const struct nspy_rec *rec, const char *text);

/* Memory was obtained. context: as above, on the way of every allocation. */
static inline void nspy_memory_obtained(const struct nspy_rec *rec)
{
	uint64_t refused = atomic_load_explicit(&nspy_refused_bytes, memory_order_relaxed);

	/* Not if it was host memory. */
	if (refused && rec->count >= refused &&
	    nspy_fn_table[rec->fn].klass == NSPY_CLASS_MEM_ALLOC)
		atomic_store_explicit(&nspy_refused_bytes, 0, memory_order_relaxed);
}

/* Forgets what was kept: a new recording begins. */
void nspy_call_failures_start(void);

/* Gives what is due to the sink; last: the recording ends, nothing can wait. context: writer. */
void nspy_call_failures_tell(uint64_t now_ns, bool last, nspy_rule_sink *sink);

#endif
