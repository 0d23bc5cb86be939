/* SPDX-License-Identifier: Apache-2.0 */
/*
 * STATE and END payloads:
 *	when, calls, threads seen, number of loss counters, the counters,
 *	number of communicators, 64 raw bytes each,
 *	number of open calls, each: thread serial, tid, 64 raw bytes.
 */
#include <errno.h>

#include "trace_bytes.h"
#include "trace_encode.h"
#include "trace_raw.h"

static void put_raw(struct nspy_put *w, const union nspy_any_rec *rec)
{
	uint8_t *p = nspy_put_room(w, NSPY_REC_BYTES);

	if (p)
		nspy_raw_store(p, rec);
}

long nspy_state_encode(const struct nspy_state *state, const struct nspy_comm_rec *comms,
		       const struct nspy_open_call *open_calls, uint8_t *out, size_t out_bytes)
{
	struct nspy_put w = {out, out + out_bytes, false};

	if (state->comm_count > NSPY_STATE_COMMS_MAX || state->open_count > NSPY_STATE_OPEN_MAX)
		return -EINVAL;
	nspy_put_varint(&w, state->when_ns);
	nspy_put_varint(&w, state->calls);
	nspy_put_varint(&w, state->threads_seen);
	nspy_put_varint(&w, NSPY_LOSS_COUNT);
	for (int i = 0; i < NSPY_LOSS_COUNT; i++)
		nspy_put_varint(&w, state->loss[i]);
	nspy_put_varint(&w, state->comm_count);
	for (size_t i = 0; i < state->comm_count; i++)
		put_raw(&w, &(union nspy_any_rec){.comm = comms[i]});
	nspy_put_varint(&w, state->open_count);
	for (size_t i = 0; i < state->open_count; i++) {
		nspy_put_varint(&w, open_calls[i].thread_serial);
		nspy_put_varint(&w, open_calls[i].tid);
		put_raw(&w, &(union nspy_any_rec){.call = open_calls[i].rec});
	}
	return w.bad ? -ENOBUFS : (long)(w.at - out);
}

static void get_comms(struct nspy_get *g, size_t count, struct nspy_comm_rec *comms)
{
	for (size_t i = 0; i < count; i++) {
		const uint8_t *raw = nspy_get_bytes(g, NSPY_REC_BYTES);
		union nspy_any_rec rec;

		if (!raw)
			return;
		nspy_raw_load(raw, &rec);
		if (rec.comm.kind != NSPY_REC_COMM)
			g->bad = true;
		comms[i] = rec.comm;
	}
}

static void get_open_calls(struct nspy_get *g, size_t count, struct nspy_open_call *calls)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t serial = (uint32_t)nspy_get_limited(g, UINT32_MAX);
		uint32_t tid = (uint32_t)nspy_get_limited(g, UINT32_MAX);
		const uint8_t *raw = nspy_get_bytes(g, NSPY_REC_BYTES);
		union nspy_any_rec rec;

		if (!raw)
			return;
		nspy_raw_load(raw, &rec);
		if (rec.call.kind != NSPY_REC_CALL)
			g->bad = true;
		calls[i] = (struct nspy_open_call){serial, tid, rec.call};
	}
}

int nspy_state_decode(const uint8_t *payload, size_t bytes, struct nspy_state *ret,
		      struct nspy_comm_rec *comms, size_t comm_capacity,
		      struct nspy_open_call *open_calls, size_t open_capacity)
{
	struct nspy_get g = {payload, payload + bytes, false};
	struct nspy_state state = {0};
	uint64_t losses;

	state.when_ns = nspy_get_varint(&g);
	state.calls = nspy_get_varint(&g);
	state.threads_seen = (uint32_t)nspy_get_limited(&g, UINT32_MAX);
	losses = nspy_get_limited(&g, 256);
	for (uint64_t i = 0; i < losses; i++) {
		uint64_t value = nspy_get_varint(&g);

		if (i < NSPY_LOSS_COUNT) /* counters added later are ignored */
			state.loss[i] = value;
	}
	state.comm_count = nspy_get_limited(&g, NSPY_STATE_COMMS_MAX);
	if (g.bad)
		return -EBADMSG;
	if (state.comm_count > comm_capacity)
		return -E2BIG;
	get_comms(&g, state.comm_count, comms);
	state.open_count = nspy_get_limited(&g, NSPY_STATE_OPEN_MAX);
	if (g.bad)
		return -EBADMSG;
	if (state.open_count > open_capacity)
		return -E2BIG;
	get_open_calls(&g, state.open_count, open_calls);
	if (g.bad || nspy_get_left(&g))
		return -EBADMSG;
	*ret = state;
	return 0;
}
