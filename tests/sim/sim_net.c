/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cards send to other nodes, as the recorder counts it below libfabric. Each rank has a card
 * of its own, named alike on all nodes. Collectives go round a ring in the order of ranks, in
 * pieces; of each the time from posting to completion is known.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "trace_net.h"

#define PIECE_BYTES    (512u << 10)
#define BYTES_PER_S    12500000000ull
#define POST_NS        15000u
#define ELEMENT_BYTES  4u
#define PAYLOAD_MAX    (1u << 20)
#define TIMED_MIN      1000u /* operations of a path that can be judged */
#define EQUAL_PERCENT  10u
#define ADDRESS_FORMAT "fi_addr_efa://[fe80::%x]:1"

static int node_of(const struct sim *sim, int rank)
{
	return rank / sim->per_node;
}

bool sim_crosses(const struct sim *sim, const struct sim_comm *comm)
{
	return node_of(sim, comm->first) !=
	       node_of(sim, comm->first + (comm->size - 1) * comm->stride);
}

static int next_in_ring(const struct sim_comm *comm, int rank)
{
	return comm->first + (rank - comm->first + comm->stride) % (comm->size * comm->stride);
}

double sim_link_slowness(const struct sim *sim, int from, int to)
{
	const struct sim_fault *f = &sim->fault;
	int node = node_of(sim, f->rank);

	if (from == to)
		return 1;
	if ((f->kind == SIM_SLOW_LINK && (from == node || to == node)) ||
	    (f->kind == SIM_SLOW_PAIR && from == node && to == f->to_node))
		return 1 + f->strength;
	return 1;
}

/* Where most of what its node sends goes: round the ring of a communicator of several nodes. */
void sim_draw_pair(struct sim *sim)
{
	struct sim_fault *f = &sim->fault;
	int node = node_of(sim, f->rank);

	f->to_node = node;
	for (int i = node * sim->per_node; i < (node + 1) * sim->per_node && i < sim->ranks; i++) {
		const struct sim_comm *comm = sim->all[i].comms[SIM_DP];

		if (comm && f->to_node == node)
			f->to_node = node_of(sim, next_in_ring(comm, i));
	}
}

/* --- counting --- */

static struct sim_sent *row_of(struct sim_rank *r, int to, uint64_t second)
{
	for (size_t i = r->sent_count; i-- > 0 && r->sent[i].second == second;) {
		if (r->sent[i].to == to)
			return &r->sent[i];
	}
	if (r->sent_count == r->sent_capacity) {
		r->sent_capacity = r->sent_capacity ? r->sent_capacity * 2 : 64;
		r->sent = realloc(r->sent, r->sent_capacity * sizeof(*r->sent));
		if (!r->sent)
			abort();
	}
	r->sent[r->sent_count] = (struct sim_sent){.second = second, .to = to};
	return &r->sent[r->sent_count++];
}

/* Paths differ by up to 1 %, and each does from second to second. */
static double noise(const struct sim *sim, const struct sim_rank *r, int to, uint64_t second)
{
	uint64_t path = sim->seed * 31 + (uint64_t)r->rank * 65537 + (uint64_t)to;
	uint64_t now = path ^ second << 40;

	return 1 + (double)sim_below(&path, 10001) / 1e6 + (double)sim_below(&now, 10001) / 1e6;
}

static void count_pieces(const struct sim *sim, struct sim_rank *r, int to, uint64_t bytes,
			 uint64_t end_ns)
{
	uint64_t pieces = bytes / PIECE_BYTES, second = end_ns / SIM_S;
	uint64_t ns = POST_NS + PIECE_BYTES * SIM_S / BYTES_PER_S;
	struct sim_sent *row;

	if (!pieces) /* what is small goes in messages of its own, which nobody times */
		return;
	ns = (uint64_t)((double)ns * noise(sim, r, to, second) *
			sim_link_slowness(sim, r->node, node_of(sim, to)));
	row = row_of(r, to, second);
	row->operations += pieces;
	row->bytes += pieces * PIECE_BYTES;
	row->time_ns += pieces * ns;
	row->longest_ns = 2 * ns > row->longest_ns ? 2 * ns : row->longest_ns;
}

void sim_count_ring(struct sim *sim, const struct sim_comm *comm, const struct sim_op *op,
		    uint64_t end_ns)
{
	if (!sim->net || !sim_crosses(sim, comm))
		return;
	for (int i = 0; i < comm->size; i++) {
		struct sim_rank *r = &sim->all[comm->first + i * comm->stride];
		int to = next_in_ring(comm, r->rank);

		if (node_of(sim, to) != r->node)
			count_pieces(sim, r, to, op->count * ELEMENT_BYTES, end_ns);
	}
}

void sim_count_message(struct sim *sim, struct sim_rank *from, int to, const struct sim_op *op,
		       uint64_t end_ns)
{
	if (sim->net && node_of(sim, to) != from->node)
		count_pieces(sim, from, to, op->count * ELEMENT_BYTES, end_ns);
}

/* --- payloads --- */

static struct nspy_net_text text_of(const char *text)
{
	return (struct nspy_net_text){text, strlen(text)};
}

static int put_peers(struct nspy_net_buffer *b, const struct sim_rank *r, uint32_t *ret_peers)
{
	uint32_t count = 0;
	char address[48];
	int rc = 0;

	for (size_t i = 0; i < r->sent_count && rc == 0; i++) {
		size_t k = 0;

		while (r->sent[k].to != r->sent[i].to)
			k++;
		ret_peers[i] = k < i ? ret_peers[k] : count++;
		if (k < i)
			continue;
		(void)snprintf(address, sizeof(address), ADDRESS_FORMAT,
			       (unsigned int)r->sent[i].to + 1);
		rc = nspy_net_put_peer(b, &(struct nspy_net_peer){.id = ret_peers[i],
								  .address = text_of(address)});
	}
	return rc;
}

static int put_rows(const struct sim *sim, struct nspy_net_buffer *b, const struct sim_rank *r,
		    const uint32_t *peers)
{
	int rc = 0;

	for (size_t i = 0; i < r->sent_count && rc == 0; i++) {
		const struct sim_sent *sent = &r->sent[i];
		struct nspy_net_row row = {.peer = peers[i]};

		if (i == 0 || r->sent[i - 1].second != sent->second)
			rc = nspy_net_put_second(
				b, &(struct nspy_net_second){
					   .when_ns = sim_shown(sim, r->node,
								(sent->second + 1) * SIM_S),
					   .span_ns = SIM_S});
		row.counter[NSPY_NET_WRITES] = row.counter[NSPY_NET_COMPLETIONS] =
			row.counter[NSPY_NET_TIMED] = sent->operations;
		row.counter[NSPY_NET_WRITE_BYTES] = sent->bytes;
		row.counter[NSPY_NET_TIME_SUM] = sent->time_ns;
		row.counter[NSPY_NET_TIME_MAX] = sent->longest_ns;
		rc = rc ? rc : nspy_net_put_row(b, &row);
	}
	return rc;
}

void sim_put_net(const struct sim *sim, struct sim_rank *r)
{
	uint32_t *peers = calloc(r->sent_count + 1, sizeof(*peers));
	struct nspy_net_buffer b = {.data = malloc(PAYLOAD_MAX), .capacity = PAYLOAD_MAX};
	char domain[24], address[48];
	struct nspy_net_rail rail = {.sight = NSPY_NET_SEEN, .domains = 1};

	(void)snprintf(domain, sizeof(domain), "rdmap%d-rdm", r->rank % sim->per_node);
	(void)snprintf(address, sizeof(address), ADDRESS_FORMAT, (unsigned int)r->rank + 1);
	rail.provider = text_of("efa");
	rail.domain = text_of(domain);
	rail.address = text_of(address);
	if (!peers || !b.data || nspy_net_put_rail(&b, &rail) < 0 || put_peers(&b, r, peers) < 0 ||
	    put_rows(sim, &b, r, peers) < 0)
		abort();
	r->trace->net = b.data;
	r->trace->net_bytes = b.used;
	free(peers);
}

/* --- what can be told from them --- */

struct path {
	int from, to, rail;
	uint64_t operations, bytes;
};

static bool has_trace(const struct sim *sim, int rank)
{
	return rank != sim->untraced && rank != sim->torn && !sim->all[rank].trace->silent;
}

static int compare_bytes(const void *a, const void *b)
{
	const struct path *x = a, *y = b;

	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* A rank sends to few others, and only its own node's ranks to the same place: neighbours. */
static size_t add_paths(const struct sim *sim, const struct sim_rank *r, struct path *paths,
			size_t count)
{
	size_t mine = count;

	for (size_t i = 0; i < r->sent_count; i++) {
		int to = node_of(sim, r->sent[i].to);
		size_t k = mine;

		if (!has_trace(sim, r->rank) || !has_trace(sim, r->sent[i].to))
			continue;
		while (k < count && paths[k].to != to)
			k++;
		if (k == count)
			paths[count++] = (struct path){r->node, to, r->rank % sim->per_node, 0, 0};
		paths[k].operations += r->sent[i].operations;
		paths[k].bytes += r->sent[i].bytes;
	}
	return count;
}

static size_t count_nodes(const struct sim *sim, const struct path *paths, size_t count,
			  bool slow_only)
{
	bool *seen = calloc((size_t)sim->nodes + 1, sizeof(*seen));
	size_t nodes = 0;

	for (size_t i = 0; i < count; i++) {
		if (slow_only && sim_link_slowness(sim, paths[i].from, paths[i].to) == 1)
			continue;
		nodes += !seen[paths[i].from];
		seen[paths[i].from] = true;
		nodes += !seen[paths[i].to];
		seen[paths[i].to] = true;
	}
	free(seen);
	return nodes;
}

void sim_find_paths(const struct sim *sim, struct sim_paths *ret)
{
	size_t rows = 1, count = 0, kept = 0, slow_nodes;
	struct path *paths;
	uint64_t median;

	*ret = (struct sim_paths){0};
	for (int i = 0; i < sim->ranks; i++)
		rows += sim->all[i].sent_count;
	paths = calloc(rows, sizeof(*paths));
	for (int i = 0; i < sim->ranks; i++)
		count = add_paths(sim, &sim->all[i], paths, count);
	for (size_t i = 0; i < count; i++) {
		if (paths[i].operations >= TIMED_MIN)
			paths[kept++] = paths[i];
	}
	qsort(paths, kept, sizeof(*paths), compare_bytes);
	median = kept ? paths[kept / 2].bytes : 0;
	for (size_t i = 0; i < kept; i++) {
		uint64_t bytes = paths[i].bytes;

		if (bytes * 100 >= median * (100 - EQUAL_PERCENT) &&
		    bytes * 100 <= median * (100 + EQUAL_PERCENT))
			paths[ret->equal++] = paths[i];
	}
	for (size_t i = 0; i < ret->equal; i++) {
		int node = node_of(sim, sim->fault.rank);
		bool slow = sim_link_slowness(sim, paths[i].from, paths[i].to) > 1;

		ret->slow += slow;
		ret->spared |= !slow && (paths[i].from == node || paths[i].to == node);
	}
	ret->nodes = count_nodes(sim, paths, ret->equal, false);
	slow_nodes = count_nodes(sim, paths, ret->equal, true);
	ret->partners = slow_nodes ? slow_nodes - 1 : 0;
	free(paths);
}
