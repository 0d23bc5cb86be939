/* SPDX-License-Identifier: Apache-2.0 */
#include "bandwidth.h"

#include <stdlib.h>
#include <string.h>

#include "who.h"

/* nccl-tests: what a call counts, times so many ranks, is its size; then the factor. */
bool nspy_bandwidth_factors(const char *fn, uint64_t bytes, size_t ranks, double *ret_size,
			    double *ret_factor)
{
	static const struct {
		const char *fn;
		bool per_rank; /* the call counts what one rank gives or gets */
		double turns;  /* times (n - 1) / n; 0 = the factor is 1 */
	} known[] = {
		{"ncclAllReduce", false, 2}, {"ncclReduceScatter", true, 1},
		{"ncclAllGather", true, 1},  {"ncclAlltoAll", true, 1},
		{"ncclGather", true, 1},     {"ncclScatter", true, 1},
		{"ncclBroadcast", false, 0}, {"ncclReduce", false, 0},
		{"ncclRecv", false, 0},
	};
	double n = (double)ranks;

	for (size_t i = 0; ranks && i < nspy_array_size(known); i++) {
		if (strcmp(known[i].fn, fn) != 0)
			continue;
		*ret_size = (double)bytes * (known[i].per_rank ? n : 1);
		*ret_factor = known[i].turns ? known[i].turns * (n - 1) / n : 1;
		return true;
	}
	return false;
}

/* --- collectives and messages --- */

struct sample {
	const struct nspy_timed_series *series;
	int32_t rank; /* of the receiver, for messages */
	uint64_t seq, ns;
};

struct samples {
	struct sample *items;
	size_t count, capacity;
};

/* Series of different members that are the same operation come together. */
static int compare_series(const struct sample *a, const struct sample *b)
{
	const struct nspy_timed_series *x = a->series, *y = b->series;

	if (x->message != y->message)
		return x->message ? 1 : -1;
	if (x->fn != y->fn)
		return x->fn < y->fn ? -1 : 1;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	if (x->burst != y->burst)
		return x->burst < y->burst ? -1 : 1;
	if (x->peer != y->peer)
		return x->peer < y->peer ? -1 : 1;
	if (x->message && a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return x->alone == y->alone ? 0 : x->alone ? -1 : 1;
}

static int compare_samples(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;
	int order = compare_series(x, y);

	if (order)
		return order;
	if (x->seq != y->seq)
		return x->seq < y->seq ? -1 : 1;
	return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static int compare_times(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static const char *host_of(const struct nspy_comm *comm, int32_t rank)
{
	const struct nspy_member *member = nspy_member_by_rank(comm, rank);

	return member ? nspy_proc_host(member->proc) : NULL;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	while (*text)
		hash = nspy_mix(hash + (unsigned char)*text++);
	return nspy_mix(hash + 256) | 1;
}

/* Hosts of the members seen. */
static size_t count_nodes(const struct nspy_comm *comm)
{
	struct nspy_map hosts = {0};
	size_t count;

	for (size_t i = 0; i < comm->member_count; i++)
		nspy_map_put(&hosts, hash_text(1, nspy_proc_host(comm->members[i]->proc)),
			     comm->members[i]->proc);
	count = hosts.count;
	nspy_map_done(&hosts);
	return count;
}

static size_t nodes_of(const struct nspy_comm *comm, const struct nspy_bw_series *series,
		       size_t comm_nodes)
{
	const char *from, *to;

	if (!series->message)
		return comm_nodes;
	from = host_of(comm, series->from);
	to = host_of(comm, series->peer);
	return from && to && strcmp(from, to) == 0 ? 1 : 2;
}

/* Samples of one series, one for each operation, in order of time. */
static void add_series(const struct nspy_model *model, const struct nspy_comm *comm,
		       const struct sample *first, struct sample *ops, size_t count,
		       size_t comm_nodes, struct nspy_bandwidth *ret)
{
	const struct nspy_timed_series *like = first->series;
	struct nspy_bw_series series = {
		.comm = comm,
		.fn = like->fn,
		.message = like->message,
		.alone = like->alone,
		.peer = like->message ? first->rank : like->peer,
		.from = like->message ? like->peer : NSPY_PEER_NONE,
		.burst = like->burst,
		.bytes = like->bytes,
		.ranks = like->message      ? 2
			 : comm->nranks > 0 ? (size_t)comm->nranks
					    : comm->member_count,
		.samples = count,
	};

	series.nodes = nodes_of(comm, &series, comm_nodes);
	(void)nspy_bandwidth_factors(nspy_model_get_fn(model, like->fn)->name, like->bytes,
				     series.ranks, &series.size, &series.factor);
	qsort(ops, count, sizeof(*ops), compare_times);
	series.best_ns = ops[0].ns;
	series.low_ns = ops[count / 4].ns;
	series.median_ns = ops[count / 2].ns;
	series.high_ns = ops[count - 1 - count / 4].ns;
	series.seq = ops[count / 2].seq;
	ret->series = nspy_grow(ret->series, ret->series_count, &ret->series_capacity,
				sizeof(*ret->series));
	ret->series[ret->series_count++] = series;
}

/* Of a run of samples of one operation: the least, or with a root the most. */
static void find_comm(const struct nspy_model *model, const struct nspy_comm *comm,
		      struct nspy_bandwidth *ret)
{
	struct samples all = {0};
	size_t nodes, count = 0, begin = 0;

	for (size_t m = 0; m < comm->member_count; m++) {
		const struct nspy_timed *timed = comm->members[m]->timed;

		ret->left_out += timed ? timed->refused : 0;
		for (size_t s = 0; timed && s < timed->count; s++) {
			const struct nspy_timed_series *series = &timed->series[s];

			for (size_t i = 0; i < series->count; i++) {
				all.items = nspy_grow(all.items, all.count, &all.capacity,
						      sizeof(*all.items));
				all.items[all.count++] = (struct sample){
					series, comm->members[m]->rec.rank, series->samples[i].seq,
					series->samples[i].ns};
			}
		}
	}
	if (!all.count)
		return;
	nodes = count_nodes(comm);
	qsort(all.items, all.count, sizeof(*all.items), compare_samples);
	for (size_t i = 0; i < all.count; i++) {
		struct sample *at = &all.items[i];
		bool rooted = at->series->peer != NSPY_PEER_NONE;
		bool same = i > begin && compare_series(at, &all.items[begin]) == 0;

		if (i > begin && !same) {
			/* Operations were moved to the front of their run. */
			add_series(model, comm, &all.items[begin], all.items + begin, count, nodes,
				   ret);
			begin = i;
			count = 0;
		}
		if (count && all.items[begin + count - 1].seq == at->seq) {
			if (rooted)
				all.items[begin + count - 1] = *at;
			continue;
		}
		all.items[begin + count++] = *at;
	}
	add_series(model, comm, &all.items[begin], all.items + begin, count, nodes, ret);
	free(all.items);
}

/* --- the network --- */

/* Addresses of all rails -> the process that told them as its own. */
static void learn_addresses(const struct nspy_attempt *attempt, struct nspy_map *addresses)
{
	for (size_t i = 0; i < attempt->proc_count; i++) {
		const struct nspy_net_view *net = &attempt->procs[i]->net;

		for (size_t r = 0; r < net->rail_count; r++) {
			if (net->rails[r].known && *net->rails[r].address)
				nspy_map_put(addresses, hash_text(1, net->rails[r].address),
					     attempt->procs[i]);
		}
	}
}

static struct nspy_bw_path *path_of(struct nspy_bandwidth *ret, struct nspy_map *paths,
				    const struct nspy_proc *from, const struct nspy_proc *to,
				    const struct nspy_net_rail_view *rail)
{
	uint64_t key = hash_text(
		hash_text(hash_text(hash_text(1, nspy_proc_host(from)), nspy_proc_host(to)),
			  rail->provider),
		nspy_net_rail_name(rail));
	uintptr_t at = (uintptr_t)nspy_map_get(paths, key);

	if (at)
		return &ret->paths[at - 1];
	if (ret->path_count == NSPY_BW_PATHS_MAX) {
		ret->left_out++;
		return NULL;
	}
	ret->paths =
		nspy_grow(ret->paths, ret->path_count, &ret->path_capacity, sizeof(*ret->paths));
	ret->paths[ret->path_count++] = (struct nspy_bw_path){.from = from, .to = to, .rail = rail};
	nspy_map_put(paths, key, (void *)(uintptr_t)ret->path_count);
	return &ret->paths[ret->path_count - 1];
}

static void find_paths(const struct nspy_proc *proc, const struct nspy_map *addresses,
		       struct nspy_map *paths, struct nspy_bandwidth *ret)
{
	const struct nspy_net_view *net = &proc->net;

	for (size_t i = 0; i < net->peer_count; i++) {
		const struct nspy_net_peer_view *peer = net->peers[i];
		const struct nspy_net_rail_view *rail =
			peer ? nspy_net_rail(net, peer->rail) : NULL;
		const struct nspy_proc *to;
		struct nspy_bw_path *path;

		if (!rail || !nspy_net_operations(peer->counter))
			continue;
		to = nspy_map_get(addresses, hash_text(1, peer->address));
		path = to ? path_of(ret, paths, proc, to, rail) : NULL;
		if (!path)
			continue;
		path->bytes += nspy_net_bytes(peer->counter);
		path->operations += nspy_net_operations(peer->counter);
		path->timed += peer->counter[NSPY_NET_TIMED];
		path->time_sum_ns += peer->counter[NSPY_NET_TIME_SUM];
		path->busy_ns += peer->busy_ns;
	}
}

static int compare_paths(const void *a, const void *b)
{
	const struct nspy_bw_path *x = a, *y = b;
	int order = strcmp(nspy_proc_host(x->from), nspy_proc_host(y->from));

	if (!order)
		order = strcmp(nspy_proc_host(x->to), nspy_proc_host(y->to));
	if (!order)
		order = strcmp(x->rail->provider, y->rail->provider);
	return order ? order : strcmp(nspy_net_rail_name(x->rail), nspy_net_rail_name(y->rail));
}

void nspy_bandwidth_find(const struct nspy_model *model, const struct nspy_attempt *attempt,
			 struct nspy_bandwidth *ret)
{
	struct nspy_map addresses = {0}, paths = {0}, seen = {0};

	*ret = (struct nspy_bandwidth){0};
	for (size_t i = 0; i < attempt->comm_count; i++)
		find_comm(model, attempt->comms[i], ret);
	learn_addresses(attempt, &addresses);
	for (size_t i = 0; addresses.count && i < attempt->proc_count; i++) {
		const struct nspy_proc *proc = attempt->procs[i];
		const struct nspy_proc *whole = nspy_proc_whole(proc);

		/* Parts of a process share its network. */
		if (nspy_map_get(&seen, whole->index + 1))
			continue;
		nspy_map_put(&seen, whole->index + 1, attempt->procs[i]);
		find_paths(proc, &addresses, &paths, ret);
	}
	if (ret->path_count)
		qsort(ret->paths, ret->path_count, sizeof(*ret->paths), compare_paths);
	nspy_map_done(&addresses);
	nspy_map_done(&paths);
	nspy_map_done(&seen);
}

void nspy_bandwidth_done(struct nspy_bandwidth *bandwidth)
{
	free(bandwidth->series);
	free(bandwidth->paths);
	*bandwidth = (struct nspy_bandwidth){0};
}
