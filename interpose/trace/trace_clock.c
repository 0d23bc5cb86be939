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

void nspy_rec_to_ns(const struct nspy_clock_piece *pieces, uint32_t count, union nspy_any_rec *rec)
{
	struct nspy_done_rec *done = &rec->done;

	if (rec->call.kind == NSPY_REC_DONE) {
		done->gap = (uint32_t)(nspy_clock_to_ns(pieces, count, done->when) -
				       nspy_clock_to_ns(pieces, count, done->when - done->gap));
		done->began = nspy_clock_to_ns(pieces, count, done->began);
		if (done->not_done)
			done->not_done = nspy_clock_to_ns(pieces, count, done->not_done);
	}
	/* `enter` and the `when` of the other kinds share their place. */
	rec->call.enter = nspy_clock_to_ns(pieces, count, rec->call.enter);
	if (rec->call.kind == NSPY_REC_CALL && rec->call.leave)
		rec->call.leave = nspy_clock_to_ns(pieces, count, rec->call.leave);
}
