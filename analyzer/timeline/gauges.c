/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations as NCCL's profiler interface told of them, one slice each with the source of its time,
 * and the bytes per second of each network card.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "timeline.h"
#include "who.h"

/* Seconds follow each other with small gaps. */
#define GAP_NS (100 * NSPY_NS_PER_MS)

struct rail {
	uint64_t track, end_ns;
	bool used;
};

struct prof_comm {
	uint32_t id;
	const struct nspy_comm *comm; /* NULL = not joined */
	struct nspy_lanes lanes;
};

struct nspy_gauges {
	struct nspy_timeline *t;
	const struct nspy_proc *proc;
	uint64_t track;
	struct rail rails[NSPY_NET_RAILS_KEPT];
	struct prof_comm *comms;
	size_t comm_count, comm_capacity;
	struct nspy_prof_op *ops; /* of the payload being read */
	size_t op_count, op_capacity;
};

struct nspy_gauges *nspy_gauges_new(struct nspy_timeline *t, const struct nspy_proc *proc)
{
	struct nspy_gauges *g = nspy_xcalloc(1, sizeof(*g));

	g->t = t;
	g->proc = proc;
	g->track = t->process_tracks[proc->index];
	return g;
}

/* --- profiler --- */

static struct prof_comm *comm_of(struct nspy_gauges *g, uint32_t id)
{
	const struct nspy_prof_comm_view *view = nspy_prof_comm_by_id(&g->proc->prof, id);
	const struct nspy_member *member;
	struct nspy_str name = {0};
	struct prof_comm *comm;

	for (size_t i = g->comm_count; i-- > 0;) {
		if (g->comms[i].id == id)
			return &g->comms[i];
	}
	if (!view || g->comm_count == NSPY_PROF_COMMS_KEPT)
		return NULL;
	g->comms = nspy_grow(g->comms, g->comm_count, &g->comm_capacity, sizeof(*g->comms));
	comm = &g->comms[g->comm_count++];
	*comm = (struct prof_comm){.id = id, .lanes = {.parent = g->track}};
	member = view->comm < g->proc->member_count ? g->proc->members[view->comm] : NULL;
	comm->comm = member ? member->comm : NULL;
	nspy_str_add(&name, "profiler: ");
	if (comm->comm)
		nspy_add_comm(&name, comm->comm);
	else
		nspy_str_addf(&name, "NCCL's communicator 0x%" PRIx64, view->hash);
	comm->lanes.name = nspy_str_take(&name);
	return comm;
}

static void put_prof(struct nspy_gauges *g, const struct nspy_prof_op *op)
{
	struct prof_comm *comm = comm_of(g, op->comm);
	uint64_t begin_ns = op->start_ns, end_ns = op->start_ns + op->queued_ns;
	struct nspy_perfetto_event event = {.category = NSPY_CATEGORY_PROFILER,
					    .name = nspy_prof_func_name(op->func)};
	const char *source = "profiler, host: time to queue it";

	if (!comm) {
		g->t->perfetto.left_out++;
		return;
	}
	if (op->kernels && op->kernel_last_ns >= op->kernel_first_ns) {
		begin_ns = op->start_ns + op->kernel_first_ns;
		end_ns = op->start_ns + op->kernel_last_ns;
		source = "profiler, host callback: kernel";
	} else if (op->proxies && op->proxy_last_ns >= op->proxy_first_ns) {
		begin_ns = op->start_ns + op->proxy_first_ns;
		end_ns = op->start_ns + op->proxy_last_ns;
		source = "profiler, host callback: network";
	}
	event.when_ns = nspy_proc_when(g->proc, begin_ns);
	end_ns = nspy_proc_when(g->proc, end_ns);
	if (!nspy_timeline_has_time(g->t, event.when_ns, end_ns) ||
	    !nspy_timeline_has_comm(g->t, comm->comm))
		return;
	nspy_perfetto_text(&event, NSPY_ARG_SOURCE, source);
	nspy_perfetto_arg(&event, NSPY_ARG_SEQ, (int64_t)op->seq);
	if (op->channels)
		nspy_perfetto_arg(&event, NSPY_ARG_CHANNELS, op->channels);
	if (nspy_prof_is_exact(op) && !(op->flags & NSPY_PROF_CUT))
		nspy_perfetto_arg(&event, NSPY_ARG_EXACT_NS, (int64_t)op->gpu_ns);
	nspy_lanes_put(&g->t->perfetto, &comm->lanes, &event, end_ns);
}

static int by_start(const void *a, const void *b)
{
	const struct nspy_prof_op *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

void nspy_gauges_prof(struct nspy_gauges *g, const uint8_t *payload, size_t bytes)
{
	struct nspy_prof_record record;
	size_t cursor = 0;

	g->op_count = 0;
	while (nspy_prof_next(payload, bytes, &cursor, &record) == 0) {
		if (record.kind != NSPY_PROF_OP)
			continue;
		g->ops = nspy_grow(g->ops, g->op_count, &g->op_capacity, sizeof(*g->ops));
		g->ops[g->op_count++] = record.op;
	}
	if (g->op_count)
		qsort(g->ops, g->op_count, sizeof(*g->ops), by_start);
	for (size_t i = 0; i < g->op_count; i++)
		put_prof(g, &g->ops[i]);
}

/* --- network --- */

static void put_rate(struct nspy_gauges *g, struct rail *rail, uint64_t when_ns, double rate)
{
	const struct nspy_perfetto_event event = {
		.type = NSPY_PERFETTO_COUNTER,
		.track = rail->track,
		.when_ns = when_ns,
		.value = rate,
	};

	(void)nspy_perfetto_put(&g->t->perfetto, &event);
}

static void put_second(struct nspy_gauges *g, uint32_t id, uint64_t from_ns, uint64_t to_ns,
		       uint64_t bytes)
{
	struct rail *rail = &g->rails[id];
	const struct nspy_net_rail_view *view = nspy_net_rail(&g->proc->net, id);
	struct nspy_str name = {0};

	if (from_ns < rail->end_ns)
		from_ns = rail->end_ns;
	if (!view || to_ns <= from_ns || !nspy_timeline_has_time(g->t, from_ns, to_ns))
		return;
	if (!rail->track) {
		nspy_str_addf(&name, "network %s (%s)", nspy_net_rail_name(view),
			      view->provider ? view->provider : "");
		rail->track =
			nspy_perfetto_counter(&g->t->perfetto, g->track, name.text, "bytes/s");
		nspy_str_done(&name);
	}
	if (rail->used && from_ns > rail->end_ns + GAP_NS)
		put_rate(g, rail, rail->end_ns, 0);
	put_rate(g, rail, from_ns, (double)bytes * 1e9 / (double)(to_ns - from_ns));
	rail->used = true;
	rail->end_ns = to_ns;
}

void nspy_gauges_net(struct nspy_gauges *g, const uint8_t *payload, size_t payload_bytes)
{
	struct nspy_net_record record;
	size_t cursor = 0;

	while (nspy_net_next(payload, payload_bytes, &cursor, &record) == 0) {
		uint64_t bytes[NSPY_NET_RAILS_KEPT] = {0}, end_ns;
		bool seen[NSPY_NET_RAILS_KEPT] = {false};
		struct nspy_net_row row;

		if (record.kind != NSPY_NET_SECOND || record.second.span_ns > record.second.when_ns)
			continue;
		while (nspy_net_next_row(&record.second, &row) == 0) {
			const struct nspy_net_peer_view *peer =
				nspy_net_peer(&g->proc->net, row.peer);

			if (!peer || peer->rail >= NSPY_NET_RAILS_KEPT)
				continue;
			seen[peer->rail] = true;
			bytes[peer->rail] += nspy_net_bytes(row.counter);
		}
		end_ns = nspy_proc_when(g->proc, record.second.when_ns);
		for (uint32_t i = 0; i < NSPY_NET_RAILS_KEPT; i++) {
			if (seen[i])
				put_second(g, i, end_ns - record.second.span_ns, end_ns, bytes[i]);
		}
	}
}

void nspy_gauges_finish(struct nspy_gauges *g)
{
	for (uint32_t i = 0; i < NSPY_NET_RAILS_KEPT; i++) {
		if (g->rails[i].used)
			put_rate(g, &g->rails[i], g->rails[i].end_ns, 0);
	}
	for (size_t i = 0; i < g->comm_count; i++)
		free(g->comms[i].lanes.name);
	free(g->comms);
	free(g->ops);
	free(g);
}
