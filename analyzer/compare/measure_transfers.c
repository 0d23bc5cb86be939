/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long operations took until the host saw them end, and how long the network took for its own:
 * medians and means of a run, without an error of their own. One run a side therefore decides
 * nothing about them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bandwidth.h"
#include "measure.h"
#include "text.h"

#define SAMPLES_MIN 8u  /* fewer say little */
#define KINDS_MAX   64u /* of operations, and of network cards, that are kept: the most frequent */

/* Operations of one kind on all communicators of one shape. */
struct timed {
	char *key;
	double weighted_ns, best_ns, high_ns, bus_bytes;
	uint64_t samples;
};

struct list {
	struct timed *items;
	size_t count, capacity;
};

static struct timed *find(struct list *list, char *key)
{
	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->items[i].key, key) == 0) {
			free(key);
			return &list->items[i];
		}
	}
	list->items = nspy_grow(list->items, list->count, &list->capacity, sizeof(*list->items));
	list->items[list->count] = (struct timed){.key = key};
	return &list->items[list->count++];
}

static int compare_samples(const void *a, const void *b)
{
	const struct timed *x = a, *y = b;

	if (x->samples != y->samples)
		return x->samples > y->samples ? -1 : 1;
	return strcmp(x->key, y->key);
}

static void keep(struct list *list, enum nspy_metric_kind kind, struct nspy_run *run)
{
	if (list->count)
		qsort(list->items, list->count, sizeof(*list->items), compare_samples);
	for (size_t i = 0; i < list->count; i++) {
		const struct timed *one = &list->items[i];
		double mean = one->weighted_ns / (double)one->samples;
		struct nspy_metric *metric;

		if (i < KINDS_MAX && one->samples >= SAMPLES_MIN) {
			metric = nspy_run_add_metric(run, kind, one->key);
			metric->ns = (struct nspy_summary){mean,
							   NAN,
							   mean,
							   fmax(mean, one->high_ns),
							   fmax(mean, one->high_ns),
							   one->samples};
			metric->bus_bytes = one->bus_bytes;
		}
		free(one->key);
	}
	free(list->items);
}

static char *series_key(const struct nspy_model *model, const struct nspy_bw_series *series)
{
	struct nspy_str s = {0};

	nspy_str_addf(&s, "time: %s ", nspy_model_get_fn(model, series->fn)->name);
	nspy_add_bytes_binary(&s, (uint64_t)series->size);
	if (series->burst > 1)
		nspy_str_addf(&s, " x %u", series->burst);
	nspy_str_addf(&s, ", %zu ranks on %zu node%s%s", series->ranks, series->nodes,
		      series->nodes == 1 ? "" : "s", series->alone ? "" : " (behind other work)");
	return nspy_str_take(&s);
}

static void take_operations(const struct nspy_model *model, const struct nspy_bandwidth *bandwidth,
			    struct nspy_run *run)
{
	struct list list = {0};

	for (size_t i = 0; i < bandwidth->series_count; i++) {
		const struct nspy_bw_series *series = &bandwidth->series[i];
		struct timed *one;

		if (!(series->size > 0) || !series->median_ns)
			continue;
		one = find(&list, series_key(model, series));
		one->weighted_ns += (double)series->median_ns * (double)series->samples;
		one->high_ns = fmax(one->high_ns, (double)series->high_ns);
		if (series->alone) /* else the time is mostly that of the other work */
			one->bus_bytes = series->size * series->factor;
		one->samples += series->samples;
	}
	keep(&list, NSPY_METRIC_TIME, run);
}

static void take_rails(const struct nspy_bandwidth *bandwidth, struct nspy_run *run)
{
	struct list list = {0};

	for (size_t i = 0; i < bandwidth->path_count; i++) {
		const struct nspy_bw_path *path = &bandwidth->paths[i];
		struct timed *one;

		if (!path->timed)
			continue;
		one = find(&list, nspy_xasprintf("network: %s %s", path->rail->provider,
						 nspy_net_rail_name(path->rail)));
		one->weighted_ns += (double)path->time_sum_ns;
		one->samples += path->timed;
	}
	keep(&list, NSPY_METRIC_NETWORK, run);
}

/* Registrations have no time of their own; more of them, or larger ones, are a change of the work.
 */
static void take_registrations(const struct nspy_attempt *attempt, struct nspy_run *run)
{
	static const char *const names[NSPY_NET_LAYER_COUNT] = {
		[NSPY_NET_LIBFABRIC] = "memory registrations of a rank (libfabric)",
		[NSPY_NET_VERBS] = "memory registrations of a rank (verbs)",
	};

	for (int layer = 0; layer < NSPY_NET_LAYER_COUNT; layer++) {
		double count = 0, bytes = 0;
		struct nspy_mix *mix;

		for (size_t i = 0; i < attempt->proc_count; i++) {
			const struct nspy_net_memory *memory =
				&attempt->procs[i]->net.memory[layer];

			count += (double)memory->registrations;
			bytes += (double)memory->bytes;
		}
		if (!(count > 0))
			continue;
		mix = nspy_run_add_mix(run, names[layer]);
		mix->per_step =
			count / (double)attempt->proc_count / (double)(run->steps ? run->steps : 1);
		mix->bytes = bytes / count;
	}
}

void nspy_measure_transfers(const struct nspy_model *model, const struct nspy_attempt *attempt,
			    struct nspy_run *run)
{
	struct nspy_bandwidth bandwidth;

	nspy_bandwidth_find(model, attempt, &bandwidth);
	take_operations(model, &bandwidth, run);
	take_rails(&bandwidth, run);
	take_registrations(attempt, run);
	nspy_bandwidth_done(&bandwidth);
}
