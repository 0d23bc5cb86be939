/* SPDX-License-Identifier: Apache-2.0 */
#include "timed.h"

#include <stdlib.h>

#include "map.h"
#include "model.h"
#include "util.h"

/* A wait shorter than this share of the whole time came too late to show when it was over. */
#define REAL_WAIT_PERCENT 20u

static bool continues(const struct nspy_burst *burst, const struct nspy_member *member, uint16_t fn,
		      uint64_t bytes, const struct nspy_rec *rec)
{
	return burst->member == member && burst->fn == fn && burst->bytes == bytes &&
	       burst->peer == rec->peer && burst->stream == rec->arg;
}

void nspy_timed_op(struct nspy_burst *burst, struct nspy_member *member, uint16_t fn, bool message,
		   uint64_t bytes, const struct nspy_rec *rec)
{
	bool empty = burst->idle && !burst->member &&
		     (burst->device_idle || burst->idle_stream == rec->arg);

	if (rec->result != 0 || (rec->flags & NSPY_CALL_CAPTURED) || !bytes) {
		*burst = (struct nspy_burst){0};
		return;
	}
	if (continues(burst, member, fn, bytes, rec)) {
		burst->ops++;
		burst->seq = rec->seq;
		burst->last_leave_ns = rec->leave;
		return;
	}
	*burst = (struct nspy_burst){
		.member = member,
		.stream = rec->arg,
		.bytes = bytes,
		.first_enter_ns = rec->enter,
		.last_leave_ns = rec->leave,
		.seq = rec->seq,
		.ops = 1,
		.peer = rec->peer,
		.fn = fn,
		.message = message,
		.empty_before = empty,
	};
}

static struct nspy_timed_series *series_of(struct nspy_timed *timed, const struct nspy_burst *burst,
					   bool alone)
{
	struct nspy_timed_series *series;

	for (size_t i = 0; i < timed->count; i++) {
		series = &timed->series[i];
		if (series->bytes == burst->bytes && series->fn == burst->fn &&
		    series->peer == burst->peer && series->burst == burst->ops &&
		    series->alone == alone)
			return series;
	}
	if (timed->count == NSPY_TIMED_SERIES_MAX) {
		timed->refused++;
		return NULL;
	}
	timed->series =
		nspy_grow(timed->series, timed->count, &timed->capacity, sizeof(*timed->series));
	series = &timed->series[timed->count++];
	*series = (struct nspy_timed_series){
		.bytes = burst->bytes,
		.burst = burst->ops,
		.peer = burst->peer,
		.fn = burst->fn,
		.message = burst->message,
		.alone = alone,
	};
	return series;
}

static bool is_kept(const struct nspy_timed_series *series, uint64_t seq)
{
	return (nspy_mix(seq) & series->mask) == 0;
}

static void add_sample(struct nspy_timed_series *series, uint64_t seq, uint64_t ns)
{
	series->seen++;
	while (is_kept(series, seq) && series->count == NSPY_TIMED_SAMPLES_MAX) {
		size_t kept = 0;

		series->mask = series->mask << 1 | 1;
		for (size_t i = 0; i < series->count; i++) {
			if (is_kept(series, series->samples[i].seq))
				series->samples[kept++] = series->samples[i];
		}
		series->count = kept;
	}
	if (!is_kept(series, seq))
		return;
	series->samples = nspy_grow(series->samples, series->count, &series->capacity,
				    sizeof(*series->samples));
	series->samples[series->count++] = (struct nspy_timed_sample){seq, ns};
}

void nspy_timed_sync(struct nspy_burst *burst, const struct nspy_rec *rec, bool device)
{
	struct nspy_member *member = burst->member;
	uint64_t took = rec->leave - burst->first_enter_ns, waited = rec->leave - rec->enter;
	struct nspy_timed_series *series;

	if (rec->result == 0 && member && (device || rec->arg == burst->stream) &&
	    (int64_t)took > 0 && took < INT64_MAX && waited <= took) {
		bool alone = burst->empty_before && waited >= took / 100 * REAL_WAIT_PERCENT;

		if (!member->timed)
			member->timed = nspy_xcalloc(1, sizeof(*member->timed));
		series = series_of(member->timed, burst, alone);
		if (series)
			add_sample(series, burst->seq, took / burst->ops);
	}
	*burst = (struct nspy_burst){
		.idle = rec->result == 0,
		.device_idle = device,
		.idle_stream = rec->arg,
	};
}

void nspy_timed_done(struct nspy_timed *timed)
{
	if (!timed)
		return;
	for (size_t i = 0; i < timed->count; i++)
		free(timed->series[i].samples);
	free(timed->series);
	free(timed);
}
