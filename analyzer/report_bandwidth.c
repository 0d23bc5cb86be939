/* SPDX-License-Identifier: Apache-2.0 */
/* The section about bandwidths of a report, in both forms. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "text.h"
#include "who.h"

#define TOLD_MAX      6u
#define TOLD_SIZE_MIN 65536.0 /* what is smaller is told by its latency, not by its bandwidth */
#define JSON_MAX      1024u

/* All series of an operation, a range of sizes (a power of two to the next) and a shape. */
struct row {
	const struct nspy_bw_series **series;
	size_t count;
	uint64_t from_bytes; /* the range begins here, as nccl-tests counts */
	size_t comms, samples;
	double best_alg, median_alg, best_bus, median_bus;
};

struct rows {
	struct row *items;
	size_t count, capacity;
	const struct nspy_bw_series **sorted;
};

static uint64_t range_of(const struct nspy_bw_series *series)
{
	uint64_t range = 1;

	while ((double)range * 2 <= series->size && range < UINT64_MAX / 2)
		range *= 2;
	return range;
}

static int compare_series(const void *a, const void *b)
{
	const struct nspy_bw_series *x = *(const struct nspy_bw_series *const *)a;
	const struct nspy_bw_series *y = *(const struct nspy_bw_series *const *)b;
	uint64_t p = range_of(x), q = range_of(y);

	if (x->alone != y->alone)
		return x->alone ? -1 : 1;
	if (p != q)
		return p > q ? -1 : 1;
	if (x->fn != y->fn)
		return x->fn < y->fn ? -1 : 1;
	if (x->ranks != y->ranks)
		return x->ranks > y->ranks ? -1 : 1;
	if (x->nodes != y->nodes)
		return x->nodes > y->nodes ? -1 : 1;
	return x->comm->key < y->comm->key ? -1 : x->comm->key > y->comm->key;
}

static bool same_row(const struct nspy_bw_series *x, const struct nspy_bw_series *y)
{
	return x->alone == y->alone && x->fn == y->fn && x->ranks == y->ranks &&
	       x->nodes == y->nodes && range_of(x) == range_of(y);
}

static int compare_rates(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void settle(struct row *row)
{
	double *rates = nspy_xcalloc(row->count, sizeof(*rates));

	for (size_t i = 0; i < row->count; i++) {
		const struct nspy_bw_series *series = row->series[i];
		double best = nspy_bw_alg(series, series->best_ns);

		row->comms += i == 0 || series->comm != row->series[i - 1]->comm;
		row->samples += series->samples;
		row->best_alg = best > row->best_alg ? best : row->best_alg;
		rates[i] = nspy_bw_alg(series, series->median_ns);
	}
	qsort(rates, row->count, sizeof(*rates), compare_rates);
	row->median_alg = rates[row->count / 2];
	row->best_bus = row->best_alg * row->series[0]->factor;
	row->median_bus = row->median_alg * row->series[0]->factor;
	row->from_bytes = range_of(row->series[0]);
	free(rates);
}

static void find_rows(const struct nspy_bandwidth *bandwidth, struct rows *ret)
{
	size_t count = 0;

	ret->sorted =
		nspy_xcalloc(bandwidth->series_count + 1, sizeof(const struct nspy_bw_series *));
	for (size_t i = 0; i < bandwidth->series_count; i++) {
		if (bandwidth->series[i].size > 0)
			ret->sorted[count++] = &bandwidth->series[i];
	}
	qsort(ret->sorted, count, sizeof(const struct nspy_bw_series *), compare_series);
	for (size_t i = 0; i < count; i++) {
		if (i && same_row(ret->sorted[i - 1], ret->sorted[i])) {
			ret->items[ret->count - 1].count++;
			continue;
		}
		ret->items = nspy_grow(ret->items, ret->count, &ret->capacity, sizeof(*ret->items));
		ret->items[ret->count++] = (struct row){.series = &ret->sorted[i], .count = 1};
	}
	for (size_t i = 0; i < ret->count; i++)
		settle(&ret->items[i]);
}

static void rows_done(struct rows *rows)
{
	free(rows->items);
	free(rows->sorted);
}

static const char *shape_of(const struct nspy_bw_series *series)
{
	return series->nodes > 1 ? "inter-node" : "intra-node";
}

/* --- text --- */

static void add_rate(struct nspy_str *s, double bytes_per_s)
{
	nspy_add_bytes(s, bytes_per_s);
	nspy_str_add(s, "/s");
}

static void tell_row(const struct nspy_report *report, const struct row *row,
		     struct nspy_texts *ret)
{
	const struct nspy_bw_series *series = row->series[0];
	struct nspy_str s = {0};

	nspy_str_addf(&s, "  %-18s %4zu ranks on %zu node%s  from ",
		      nspy_model_get_fn(report->model, series->fn)->name, series->ranks,
		      series->nodes, series->nodes == 1 ? " " : "s");
	nspy_add_bytes_binary(&s, row->from_bytes);
	nspy_str_add(&s, "  busbw >= ");
	add_rate(&s, row->median_bus);
	nspy_str_add(&s, ", best ");
	add_rate(&s, row->best_bus);
	nspy_str_add(&s, "  algbw >= ");
	add_rate(&s, row->median_alg);
	nspy_str_addf(&s, "  (%zu timed, %zu communicator%s)", row->samples, row->comms,
		      row->comms == 1 ? "" : "s");
	nspy_texts_add(ret, nspy_str_take(&s));
}

static int compare_paths(const void *a, const void *b)
{
	const struct nspy_bw_path *x = *(const struct nspy_bw_path *const *)a;
	const struct nspy_bw_path *y = *(const struct nspy_bw_path *const *)b;
	double p = nspy_bw_path_rate(x), q = nspy_bw_path_rate(y);

	return p < q ? -1 : p > q;
}

/* The paths between nodes in one line: median and slowest. */
static void tell_paths(const struct nspy_bandwidth *bandwidth, struct nspy_texts *ret)
{
	const struct nspy_bw_path **paths =
		nspy_xcalloc(bandwidth->path_count + 1, sizeof(const struct nspy_bw_path *));
	struct nspy_str s = {0};
	size_t count = 0;

	for (size_t i = 0; i < bandwidth->path_count; i++) {
		if (nspy_bw_path_rate(&bandwidth->paths[i]) > 0)
			paths[count++] = &bandwidth->paths[i];
	}
	qsort(paths, count, sizeof(const struct nspy_bw_path *), compare_paths);
	if (count > 1) {
		nspy_str_addf(&s, "network paths: %zu (node to node, per card); an operation went ",
			      count);
		nspy_str_add(&s, "at ");
		add_rate(&s, nspy_bw_path_rate(paths[count / 2]));
		nspy_str_addf(&s, " in the median, slowest %s to %s on %s: ",
			      nspy_proc_host(paths[0]->from), nspy_proc_host(paths[0]->to),
			      nspy_net_rail_name(paths[0]->rail));
		add_rate(&s, nspy_bw_path_rate(paths[0]));
		nspy_texts_add(ret, nspy_str_take(&s));
	}
	free(paths);
}

void nspy_report_bandwidth(const struct nspy_report *report, struct nspy_texts *ret)
{
	struct rows rows = {0};
	size_t told = 0, more = 0;

	find_rows(&report->c.bandwidth, &rows);
	for (size_t i = 0; i < rows.count; i++) {
		const struct nspy_bw_series *series = rows.items[i].series[0];

		if (!series->alone || series->size < TOLD_SIZE_MIN)
			continue;
		if (told == TOLD_MAX) {
			more++;
			continue;
		}
		if (!told++)
			nspy_texts_add(ret,
				       nspy_xstrdup("bandwidth, lower bounds: times are upper "
						    "bounds of the host, not of the GPU; sizes "
						    "and busbw as in nccl-tests"));
		tell_row(report, &rows.items[i], ret);
	}
	if (more)
		nspy_texts_add(ret, nspy_xasprintf("  %zu more in --json", more));
	tell_paths(&report->c.bandwidth, ret);
	rows_done(&rows);
}

/* --- JSON --- */

static void add_bound(cJSON *object, const char *name, double best, double median)
{
	cJSON *pair = cJSON_AddObjectToObject(object, name);

	cJSON_AddNumberToObject(pair, "best", best);
	cJSON_AddNumberToObject(pair, "median", median);
}

static cJSON *row_json(const struct nspy_report *report, const struct row *row)
{
	const struct nspy_bw_series *series = row->series[0];
	cJSON *object = cJSON_CreateObject();

	cJSON_AddStringToObject(object, "function",
				nspy_model_get_fn(report->model, series->fn)->name);
	cJSON_AddStringToObject(object, "shape", shape_of(series));
	cJSON_AddNumberToObject(object, "ranks", (double)series->ranks);
	cJSON_AddNumberToObject(object, "nodes", (double)series->nodes);
	cJSON_AddNumberToObject(object, "size_from", (double)row->from_bytes);
	cJSON_AddNumberToObject(object, "size_below", (double)row->from_bytes * 2);
	cJSON_AddBoolToObject(object, "stream_seen_empty", series->alone);
	cJSON_AddNumberToObject(object, "communicators", (double)row->comms);
	cJSON_AddNumberToObject(object, "timed", (double)row->samples);
	add_bound(object, "algbw_at_least", row->best_alg, row->median_alg);
	add_bound(object, "busbw_at_least", row->best_bus, row->median_bus);
	return object;
}

static cJSON *series_json(const struct nspy_report *report, const struct nspy_bw_series *series)
{
	cJSON *object = cJSON_CreateObject();
	char key[24];

	(void)snprintf(key, sizeof(key), "%016" PRIx64, series->comm->shown);
	cJSON_AddStringToObject(object, "communicator", key);
	cJSON_AddStringToObject(object, "function",
				nspy_model_get_fn(report->model, series->fn)->name);
	if (series->message) {
		const struct nspy_member *from = nspy_member_by_rank(series->comm, series->from);
		const struct nspy_member *to = nspy_member_by_rank(series->comm, series->peer);

		cJSON_AddStringToObject(object, "from_node",
					from ? nspy_proc_host(from->proc) : "?");
		cJSON_AddStringToObject(object, "to_node", to ? nspy_proc_host(to->proc) : "?");
		cJSON_AddNumberToObject(object, "from", series->from);
		cJSON_AddNumberToObject(object, "to", series->peer);
	} else if (series->peer != NSPY_PEER_NONE) {
		cJSON_AddNumberToObject(object, "root", series->peer);
	}
	cJSON_AddStringToObject(object, "shape", shape_of(series));
	cJSON_AddNumberToObject(object, "size", series->size);
	cJSON_AddNumberToObject(object, "in_a_row", series->burst);
	cJSON_AddBoolToObject(object, "stream_seen_empty", series->alone);
	cJSON_AddNumberToObject(object, "timed", (double)series->samples);
	cJSON_AddNumberToObject(object, "operation", (double)series->seq);
	add_bound(object, "seconds_at_most", (double)series->best_ns / 1e9,
		  (double)series->median_ns / 1e9);
	add_bound(object, "algbw_at_least", nspy_bw_alg(series, series->best_ns),
		  nspy_bw_alg(series, series->median_ns));
	add_bound(object, "busbw_at_least", nspy_bw_bus(series, series->best_ns),
		  nspy_bw_bus(series, series->median_ns));
	return object;
}

static cJSON *path_json(const struct nspy_bw_path *path)
{
	cJSON *object = cJSON_CreateObject();

	cJSON_AddStringToObject(object, "from_node", nspy_proc_host(path->from));
	cJSON_AddStringToObject(object, "to_node", nspy_proc_host(path->to));
	cJSON_AddStringToObject(object, "provider", path->rail->provider);
	cJSON_AddStringToObject(object, "rail", nspy_net_rail_name(path->rail));
	cJSON_AddNumberToObject(object, "bytes", (double)path->bytes);
	cJSON_AddNumberToObject(object, "operations", (double)path->operations);
	cJSON_AddNumberToObject(object, "timed", (double)path->timed);
	if (path->timed)
		cJSON_AddNumberToObject(object, "seconds_per_operation",
					(double)path->time_sum_ns / 1e9 / (double)path->timed);
	cJSON_AddNumberToObject(object, "bytes_per_s_per_operation", nspy_bw_path_rate(path));
	cJSON_AddNumberToObject(object, "busy_seconds", (double)path->busy_ns / 1e9);
	if (path->busy_ns)
		cJSON_AddNumberToObject(object, "bytes_per_s",
					(double)path->bytes * 1e9 / (double)path->busy_ns);
	return object;
}

cJSON *nspy_report_bandwidth_json(const struct nspy_report *report)
{
	const struct nspy_bandwidth *bandwidth = &report->c.bandwidth;
	cJSON *object = cJSON_CreateObject(), *array;
	struct rows rows = {0};

	cJSON_AddStringToObject(object, "basis",
				"times of the host: upper bounds of durations, lower bounds of "
				"bandwidths (bytes per second); no times of the GPU");
	find_rows(bandwidth, &rows);
	array = cJSON_AddArrayToObject(object, "operations");
	for (size_t i = 0; i < rows.count && i < JSON_MAX; i++)
		cJSON_AddItemToArray(array, row_json(report, &rows.items[i]));
	array = cJSON_AddArrayToObject(object, "communicators");
	for (size_t i = 0, told = 0; i < bandwidth->series_count && told < JSON_MAX; i++) {
		if (bandwidth->series[i].size > 0 && ++told)
			cJSON_AddItemToArray(array, series_json(report, &bandwidth->series[i]));
	}
	array = cJSON_AddArrayToObject(object, "paths");
	for (size_t i = 0; i < bandwidth->path_count && i < JSON_MAX; i++)
		cJSON_AddItemToArray(array, path_json(&bandwidth->paths[i]));
	cJSON_AddNumberToObject(object, "left_out", (double)bandwidth->left_out);
	rows_done(&rows);
	return object;
}
