/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time. The hot path reads ticks: the CPU's counter where the kernel itself trusts it as its clock
 * source, else CLOCK_MONOTONIC through the vDSO. The writer thread anchors ticks to
 * CLOCK_MONOTONIC and CLOCK_REALTIME once a second as line segments (struct nspy_clock_piece)
 * that join without a jump, so that converted times never run backwards within an epoch.
 */
#ifndef NSPY_CLOCK_H
#define NSPY_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "hot.h"
#include "trace_live.h"

static inline uint64_t nspy_monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* context: any thread, async-signal-safe, no system call where the vDSO serves the clock. */
static inline uint64_t nspy_ticks(void)
{
#if defined(__x86_64__)
	if (__builtin_expect(nspy_hot->clock_source == NSPY_CLOCK_TSC, 1))
		return __rdtsc();
#elif defined(__aarch64__)
	if (__builtin_expect(nspy_hot->clock_source == NSPY_CLOCK_CNTVCT, 1)) {
		uint64_t ticks;

		__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
		return ticks;
	}
#endif
	return nspy_monotonic_ns();
}

/* Remembers a first anchor at load time; two clock reads. */
void nspy_clock_load(void);
/* CLOCK_MONOTONIC of that moment. */
uint64_t nspy_clock_load_ns(void);

/*
 * Chooses the source (cold: reads /sys) and writes the first piece. allow_counter = false forces
 * CLOCK_MONOTONIC.
 */
void nspy_clock_start(struct nspy_live_head *head, bool allow_counter);

/* Adds a piece. context: writer thread only. */
void nspy_clock_anchor(struct nspy_live_head *head);

/* Pieces in order of age; returns their number. context: writer thread only. */
uint32_t nspy_clock_pieces(const struct nspy_live_head *head,
			   struct nspy_clock_piece ret[NSPY_CLOCK_PIECES]);

#endif
