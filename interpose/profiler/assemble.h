/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts operations together from the rings' records. Knows of no files: gather.c writes what comes
 * out. One thread at a time: the writer.
 */
#ifndef NSPY_PROFILER_ASSEMBLE_H
#define NSPY_PROFILER_ASSEMBLE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool.h"

/* An operation of which not all is known yet; times in ticks, 0 = none. */
struct nspy_prof_live_op {
	struct nspy_node node; /* key: its handle */
	uint32_t context;
	uint32_t open; /* events below it that have not ended */
	uint64_t start, stop, touched;
	uint64_t seq, count;
	int32_t peer;
	uint8_t what, func, algo, proto, datatype, channels;
	bool captured;
	uint32_t proxies, kernels, gpu_kernels;
	uint64_t proxy_first, proxy_last, kernel_first, kernel_last;
	uint64_t gpu_first, gpu_last; /* ns of the GPU's clock */
};

typedef void nspy_assemble_op(const struct nspy_prof_live_op *op, bool cut);
/* context: 0 = another process's. Times of the counters are in ticks. */
typedef void nspy_assemble_wait(uint32_t context, int32_t peer, const uint64_t *counter);

/* Memory; false: none. */
bool nspy_assemble_start(void);

/* Takes in what lies in the rings. last: also what waits for something that did not come. */
void nspy_assemble_read(bool last);

/*
 * Gives out and forgets operations of which all is known; all of contexts that have ended (by
 * place), and all there are if this is the last time.
 */
void nspy_assemble_finished(nspy_assemble_op *out, const uint8_t *ended, bool last);

/* Gives out and clears the sums for each peer. */
void nspy_assemble_waits(nspy_assemble_wait *out);

/* enum nspy_prof_sum */
void nspy_assemble_sums(uint64_t *ret);

/* Records of the latest reading; many also if many operations wait to be finished. */
uint32_t nspy_assemble_busy(void);

#endif
