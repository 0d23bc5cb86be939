/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast data went: per communicator, operation and size from operations that the host saw end
 * (timed.h), and per pair of nodes and network card from what was counted on the network (net.h).
 *
 * Of an operation that nobody can leave before all have come, the rank that waited least shows best
 * how long it took; since durations of one rank are compared, clocks do not matter, and a rank that
 * comes late makes nothing look slow. Of one with a root the longest duration counts. Either is
 * more than the operation took: bandwidths from host calls are lower bounds.
 *
 * Sizes and factors are those of nccl-tests: the size of an operation is that of its largest
 * buffer; bus bandwidth is algorithm bandwidth times a factor by which every operation on n ranks
 * comes to the speed of the wires.
 *
 * Times are nanoseconds, bandwidths bytes per second. Ownership: nspy_bandwidth_done.
 */
#ifndef NSPY_BANDWIDTH_H
#define NSPY_BANDWIDTH_H

#include "model.h"

#define NSPY_BW_PATHS_MAX 65536u /* pairs of nodes and cards kept apart */

/* One communicator (of messages: one pair), operation and size. */
struct nspy_bw_series {
	const struct nspy_comm *comm;
	uint16_t fn;
	bool message;
	bool alone;   /* its stream was seen empty before */
	int32_t peer; /* root, or receiver of messages, in comm; else NSPY_PEER_NONE */
	int32_t from; /* sender of messages */
	uint32_t burst;
	uint64_t bytes; /* as in the call */
	double size;    /* as nccl-tests counts it; 0 for operations that are not known */
	double factor;  /* of bus bandwidth */
	size_t ranks, nodes;
	size_t samples;
	uint64_t best_ns, low_ns, median_ns, high_ns; /* least, quartiles */
	uint64_t seq;                                 /* an operation that took the median time */
};

/* Traffic of one node to another over one network card. */
struct nspy_bw_path {
	const struct nspy_proc *from, *to; /* a process of each node */
	const struct nspy_net_rail_view *rail;
	uint64_t bytes, operations;
	uint64_t timed, time_sum_ns;
	uint64_t busy_ns; /* of processes' seconds in which data went */
};

struct nspy_bandwidth {
	struct nspy_bw_series *series;
	size_t series_count, series_capacity;
	struct nspy_bw_path *paths;
	size_t path_count, path_capacity;
	uint64_t left_out; /* bursts of series, or paths, beyond what is kept */
};

void nspy_bandwidth_find(const struct nspy_model *model, const struct nspy_attempt *attempt,
			 struct nspy_bandwidth *ret);
void nspy_bandwidth_done(struct nspy_bandwidth *bandwidth);

/*
 * Size and factor of bus bandwidth of an operation on ranks ranks, by nccl-tests' definitions;
 * false if the operation is not known.
 */
bool nspy_bandwidth_factors(const char *fn, uint64_t bytes, size_t ranks, double *ret_size,
			    double *ret_factor);

/* What an operation of the path came to, bytes per second of its own time; 0 = none was timed. */
static inline double nspy_bw_path_rate(const struct nspy_bw_path *path)
{
	if (!path->timed || !path->time_sum_ns || !path->operations)
		return 0;
	return (double)path->bytes / (double)path->operations * 1e9 * (double)path->timed /
	       (double)path->time_sum_ns;
}

/* Lower bound of the algorithm bandwidth for a duration, bytes per second. */
static inline double nspy_bw_alg(const struct nspy_bw_series *series, uint64_t ns)
{
	return ns ? series->size * 1e9 / (double)ns : 0;
}

static inline double nspy_bw_bus(const struct nspy_bw_series *series, uint64_t ns)
{
	return nspy_bw_alg(series, ns) * series->factor;
}

#endif
