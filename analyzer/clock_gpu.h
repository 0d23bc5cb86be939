/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU's clock on the scale of its host. NCCL's thread sees a kernel begin and end a little after
 * it did, by a latency that is never negative and now and then small: the line below all
 * observations is too late by the smallest latency only. How much that is cannot be seen; it is
 * taken to be at most what the observations are usually above the line.
 */
#ifndef NSPY_CLOCK_GPU_H
#define NSPY_CLOCK_GPU_H

#include <stdint.h>

#include "prof.h"

struct nspy_clock_gpu {
	bool known;
	uint64_t base_ns; /* of the GPU's clock */
	uint64_t host_ns; /* of the host's, at the same time or a little later */
	double rate;      /* what has to be added to the host's per ns since base_ns */
	uint64_t margin_ns;
};

/* known = false if there are too few observations, or no line lies below all of them. */
void nspy_clock_gpu_fit(const struct nspy_prof_view *prof, struct nspy_clock_gpu *ret);

/* The latest that the host's clock may have shown then; the earliest is margin_ns before. */
static inline uint64_t nspy_clock_gpu_when(const struct nspy_clock_gpu *clock, uint64_t gpu_ns)
{
	uint64_t since = gpu_ns - clock->base_ns;

	return clock->host_ns + since + (uint64_t)(int64_t)(clock->rate * (double)(int64_t)since);
}

#endif
