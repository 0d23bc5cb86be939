/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_live.h"

uint64_t nspy_clock_to_ns(const struct nspy_clock_piece *pieces, uint32_t count, uint64_t ticks)
{
	const struct nspy_clock_piece *p;
	uint32_t i = count;

	if (count == 0)
		return ticks;
	while (i > 1 && pieces[i - 1].base_ticks > ticks)
		i--;
	p = &pieces[i - 1];
	/* Before the first piece the same line is followed backwards. */
	if (ticks < p->base_ticks)
		return p->base_ns -
		       (uint64_t)(((unsigned __int128)(p->base_ticks - ticks) * p->mult) >> 32);
	return p->base_ns +
	       (uint64_t)(((unsigned __int128)(ticks - p->base_ticks) * p->mult) >> 32);
}
