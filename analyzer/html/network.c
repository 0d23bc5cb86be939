/* SPDX-License-Identifier: Apache-2.0 */
/* Bandwidths by size, and what went from node to node. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "page.h"
#include "text.h"

#define NODES_DRAWN 96u /* more are drawn in groups of neighbours */
#define ROWS_SHOWN  500u

static double number(const cJSON *object, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

	return cJSON_IsNumber(item) ? item->valuedouble : (double)NAN;
}

void nspy_page_bandwidth(struct nspy_page *page, const cJSON *job, cJSON *data)
{
	static const char *const columns[] = {"operation",
					      "shape",
					      "#ranks",
					      "#size from",
					      "#size below",
					      "stream",
					      "#timed",
					      "#busbw, median at least",
					      "#busbw, best at least",
					      NULL};
	const cJSON *bandwidth = cJSON_GetObjectItemCaseSensitive(job, "bandwidth");
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(bandwidth, "operations"), *one;
	size_t count = (size_t)cJSON_GetArraySize(list), shown = 0;
	struct nspy_str *s = &page->body;

	nspy_html_section(page, "bandwidth", "Bandwidth by size");
	if (!count) {
		nspy_str_add(s, "<p class=\"unseen\">Not seen: no host waited for the end of an "
				"operation in a way that times it.</p>\n");
		nspy_html_section_end(page);
		return;
	}
	cJSON_AddItemToObject(data, "bandwidth", cJSON_Duplicate(list, true));
	nspy_str_add(s, "<p>");
	nspy_html_text(s, nspy_export_text(bandwidth, "basis"));
	nspy_str_add(s, "</p>\n");
	nspy_html_chart(page, "bandwidth", "Bus bandwidth by size, lower bounds");
	nspy_html_table(s, "Bandwidth by operation and size, lower bounds", columns);
	cJSON_ArrayForEach(one, list)
	{
		const cJSON *busbw = cJSON_GetObjectItemCaseSensitive(one, "busbw_at_least");

		if (shown == ROWS_SHOWN)
			break;
		nspy_html_cell(s, nspy_export_text(one, "function"));
		nspy_html_cell(s, nspy_export_text(one, "shape"));
		nspy_html_number(s, number(one, "ranks"));
		nspy_html_bytes(s, number(one, "size_from"));
		nspy_html_bytes(s, number(one, "size_below"));
		nspy_html_cell(
			s, cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(one, "stream_seen_empty"))
				   ? "seen empty"
				   : "may hold more");
		nspy_html_number(s, number(one, "timed"));
		nspy_html_rate(s, number(busbw, "median"));
		nspy_html_rate(s, number(busbw, "best"));
		nspy_str_add(s, "</tr>\n<tr>");
		shown++;
	}
	nspy_html_table_end(s, shown, count);
	nspy_html_section_end(page);
}

/* --- from node to node --- */

struct pair {
	uint32_t from, to;
	double bytes;
};

struct pairs {
	const struct nspy_report *report;
	const char **nodes; /* in the order of ranks */
	size_t node_count;
	uint32_t *node_of; /* by proc->index */
	struct nspy_map known;
	struct pair *items;
	size_t count, capacity;
};

struct named {
	const char *name;
	size_t proc; /* place in the attempt's list */
};

static int compare_named(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : x->proc < y->proc ? -1 : x->proc > y->proc;
}

/* Numbers the nodes in the order of their first ranks. */
static void find_nodes(struct pairs *pairs)
{
	const struct nspy_attempt *attempt = pairs->report->attempt;
	struct named *all = nspy_xcalloc(attempt->proc_count + 1, sizeof(*all));
	size_t *first = nspy_xcalloc(attempt->proc_count + 1, sizeof(*first));

	for (size_t i = 0; i < attempt->proc_count; i++)
		all[i] = (struct named){nspy_proc_host(attempt->procs[i]), i};
	qsort(all, attempt->proc_count, sizeof(*all), compare_named);
	for (size_t i = 0; i < attempt->proc_count; i++) {
		bool same = i && strcmp(all[i].name, all[i - 1].name) == 0;

		first[all[i].proc] = same ? first[all[i - 1].proc] : all[i].proc;
	}
	for (size_t i = 0; i < attempt->proc_count; i++) {
		uint32_t *node = &pairs->node_of[attempt->procs[i]->index];

		if (first[i] == i) {
			*node = (uint32_t)pairs->node_count;
			pairs->nodes[pairs->node_count++] = nspy_proc_host(attempt->procs[i]);
		} else {
			*node = pairs->node_of[attempt->procs[first[i]]->index];
		}
	}
	free(first);
	free(all);
}

static void add_pair(struct pairs *pairs, const struct nspy_proc *from, const struct nspy_proc *to,
		     double bytes)
{
	uint64_t key = (uint64_t)pairs->node_of[from->index] << 32 | pairs->node_of[to->index];
	size_t at = (size_t)(uintptr_t)nspy_map_get(&pairs->known, key + 1);

	if (!at) {
		pairs->items = nspy_grow(pairs->items, pairs->count, &pairs->capacity,
					 sizeof(*pairs->items));
		pairs->items[pairs->count++] =
			(struct pair){pairs->node_of[from->index], pairs->node_of[to->index], 0};
		at = pairs->count;
		/* NOLINTNEXTLINE(performance-no-int-to-ptr): the map's values are numbers here */
		nspy_map_put(&pairs->known, key + 1, (void *)(uintptr_t)at);
	}
	pairs->items[at - 1].bytes += bytes;
}

static void add_messages(struct pairs *pairs, const struct nspy_comm *comm)
{
	for (size_t m = 0; m < comm->member_count; m++) {
		const struct nspy_member *member = comm->members[m];

		for (size_t p = 0; p < member->peer_count; p++) {
			const struct nspy_peer *peer = member->peers[p];
			size_t low = 0, high = comm->member_count;

			if (!peer || !peer->send.bytes)
				continue;
			while (low < high) { /* members are in the order of their ranks */
				size_t middle = low + (high - low) / 2;

				if (comm->members[middle]->rec.rank < peer->peer)
					low = middle + 1;
				else
					high = middle;
			}
			if (low < comm->member_count && comm->members[low]->rec.rank == peer->peer)
				add_pair(pairs, member->proc, comm->members[low]->proc,
					 (double)peer->send.bytes);
		}
	}
}

static int compare_pairs(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->from != y->from ? (x->from < y->from ? -1 : 1) : x->to < y->to ? -1 : 1;
}

/* Levels of 1 + 4 log2(KiB), 0 for none. */
static void draw_pairs(const struct pairs *pairs, cJSON *data)
{
	size_t step = 1 + (pairs->node_count - 1) / NODES_DRAWN; /* there are at least two */
	size_t side = (pairs->node_count + step - 1) / step;
	double *sums = nspy_xcalloc(side * side + 1, sizeof(*sums));
	uint8_t *levels = nspy_xcalloc(side * side + 1, 1);
	cJSON *object = cJSON_AddObjectToObject(data, "pairs");
	cJSON *names = cJSON_AddArrayToObject(object, "nodes");
	char *text;

	for (size_t i = 0; i < pairs->count; i++)
		sums[pairs->items[i].from / step * side + pairs->items[i].to / step] +=
			pairs->items[i].bytes;
	for (size_t i = 0; i < side * side; i++) {
		double level = sums[i] > 0 ? 1 + round(4 * log2(1 + sums[i] / 1024)) : 0;

		levels[i] = level > 255 ? 255 : (uint8_t)level;
	}
	for (size_t i = 0; i < side; i++) {
		size_t last =
			(i + 1) * step < pairs->node_count ? (i + 1) * step : pairs->node_count;
		char *name = step == 1 ? nspy_xstrdup(pairs->nodes[i])
				       : nspy_xasprintf("%s to %s", pairs->nodes[i * step],
							pairs->nodes[last - 1]);

		cJSON_AddItemToArray(names, cJSON_CreateString(name));
		free(name);
	}
	text = nspy_html_base64(levels, side * side);
	cJSON_AddStringToObject(object, "levels", text);
	free(text);
	free(levels);
	free(sums);
}

static void list_pairs(struct nspy_page *page, struct pairs *pairs)
{
	static const char *const columns[] = {"from", "to", "#bytes", NULL};
	size_t shown = 0;

	qsort(pairs->items, pairs->count, sizeof(*pairs->items), compare_pairs);
	nspy_html_table(&page->body, "Pairs of nodes, most bytes first", columns);
	for (; shown < pairs->count && shown < ROWS_SHOWN; shown++) {
		nspy_html_cell(&page->body, pairs->nodes[pairs->items[shown].from]);
		nspy_html_cell(&page->body, pairs->nodes[pairs->items[shown].to]);
		nspy_html_bytes(&page->body, pairs->items[shown].bytes);
		nspy_str_add(&page->body, "</tr>\n<tr>");
	}
	nspy_html_table_end(&page->body, shown, pairs->count);
}

static void list_paths(struct nspy_page *page, const struct nspy_bandwidth *bandwidth)
{
	static const char *const columns[] = {
		"from", "to", "network card", "#bytes", "#of an operation", "#over busy seconds",
		NULL};
	struct nspy_str *s = &page->body;
	size_t shown = 0;

	nspy_html_table(s, "Rates by network card", columns);
	for (; shown < bandwidth->path_count && shown < ROWS_SHOWN; shown++) {
		const struct nspy_bw_path *path = &bandwidth->paths[shown];

		nspy_html_cell(s, nspy_proc_host(path->from));
		nspy_html_cell(s, nspy_proc_host(path->to));
		nspy_html_cell(s, nspy_net_rail_name(path->rail));
		nspy_html_bytes(s, (double)path->bytes);
		nspy_html_rate(s, nspy_bw_path_rate(path));
		nspy_html_rate(s, path->busy_ns ? (double)path->bytes * 1e9 / (double)path->busy_ns
						: 0);
		nspy_str_add(s, "</tr>\n<tr>");
	}
	nspy_html_table_end(s, shown, bandwidth->path_count);
}

void nspy_page_pairs(struct nspy_page *page, const struct nspy_report *report, cJSON *data)
{
	const struct nspy_attempt *attempt = report->attempt;
	const struct nspy_bandwidth *bandwidth = &report->c.bandwidth;
	struct pairs pairs = {
		.report = report,
		.nodes = nspy_xcalloc(attempt->proc_count + 1, sizeof(char *)),
		.node_of = nspy_xcalloc(report->model->proc_count + 1, sizeof(uint32_t)),
	};

	find_nodes(&pairs);
	for (size_t i = 0; i < bandwidth->path_count; i++)
		add_pair(&pairs, bandwidth->paths[i].from, bandwidth->paths[i].to,
			 (double)bandwidth->paths[i].bytes);
	for (size_t i = 0; !bandwidth->path_count && i < attempt->comm_count; i++)
		add_messages(&pairs, attempt->comms[i]);
	nspy_html_section(page, "pairs", "From node to node");
	nspy_str_add(
		&page->body,
		bandwidth->path_count
			? "<p>As counted on the network below NCCL.</p>\n"
			: "<p class=\"unseen\">Not seen: traffic of the network below NCCL.</p>\n");
	if (pairs.count && pairs.node_count < 2) {
		nspy_str_add(&page->body, "<p>There is one node only.</p>\n");
	} else if (pairs.count) {
		if (!bandwidth->path_count)
			nspy_str_add(&page->body,
				     "<p>Instead, what ncclSend was asked to send:</p>\n");
		nspy_html_chart(page, "pairs", "Bytes from node to node");
		draw_pairs(&pairs, data);
		list_pairs(page, &pairs);
	}
	if (bandwidth->path_count)
		list_paths(page, bandwidth);
	nspy_html_section_end(page);
	nspy_map_done(&pairs.known);
	free(pairs.items);
	free(pairs.node_of);
	free((void *)pairs.nodes);
}
