/* SPDX-License-Identifier: Apache-2.0 */
/* Heat map of lateness, time in parts, ranks, communicators, operations, clocks. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "page.h"
#include "survey.h"
#include "text.h"
#include "who.h"

#define ROWS_SINGLE 512u /* so many processes are drawn one by one */
#define ROWS_WORST  64u  /* of more, those charged most; then all in groups of neighbours */
#define GROUPS      256u
#define RANKS_SHOWN 1024u
#define COMMS_SHOWN 512u
#define LEVELS      8.0 /* steps for twice the time */

/* Processes that make one row of a chart: neighbours in the attempt's list. */
struct row {
	size_t first, count;
	double charged; /* ns */
};

struct rows {
	struct row *items;
	size_t count, worst;
};

static uint64_t charged_of(const struct nspy_report *report, size_t i)
{
	return report->c.costs.by_proc[report->attempt->procs[i]->index];
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->charged != y->charged)
		return x->charged > y->charged ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

/* All processes, those charged most first; caller frees. */
static struct row *by_charge(const struct nspy_report *report)
{
	struct row *rows = nspy_xcalloc(report->attempt->proc_count + 1, sizeof(*rows));

	for (size_t i = 0; i < report->attempt->proc_count; i++)
		rows[i] = (struct row){i, 1, (double)charged_of(report, i)};
	qsort(rows, report->attempt->proc_count, sizeof(*rows), compare_rows);
	return rows;
}

static void make_rows(const struct nspy_report *report, struct rows *ret)
{
	size_t count = report->attempt->proc_count;
	size_t step = count <= ROWS_SINGLE ? 1 : (count + GROUPS - 1) / GROUPS;
	struct row *worst = by_charge(report);

	*ret = (struct rows){
		.items = nspy_xcalloc(ROWS_WORST + count / step + 1, sizeof(*ret->items))};
	for (size_t i = 0; step > 1 && i < ROWS_WORST && worst[i].charged > 0; i++)
		ret->items[ret->count++] = worst[i];
	ret->worst = ret->count;
	for (size_t i = 0; i < count; i += step) {
		struct row *row = &ret->items[ret->count++];

		*row = (struct row){i, count - i < step ? count - i : step, 0};
		for (size_t k = 0; k < row->count; k++)
			row->charged += (double)charged_of(report, i + k);
	}
	free(worst);
}

static char *row_name(const struct nspy_report *report, const struct row *row)
{
	const struct nspy_proc *const *procs =
		(const struct nspy_proc *const *)&report->attempt->procs[row->first];
	struct nspy_str s = {0};

	if (row->count == 1)
		nspy_add_proc_short(&s, procs[0]);
	else
		nspy_add_procs_short(&s, procs, row->count);
	if (procs[0]->rank >= 0)
		nspy_str_addf(&s, ", %s", nspy_proc_host(procs[0]));
	if (row->count > 1 &&
	    strcmp(nspy_proc_host(procs[0]), nspy_proc_host(procs[row->count - 1])) != 0)
		nspy_str_addf(&s, " to %s", nspy_proc_host(procs[row->count - 1]));
	return nspy_str_take(&s);
}

static double rounded(double value)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%.4g", value);
	return strtod(text, NULL);
}

/* One number per row: what it was charged with in seconds, and the six parts of its time. */
static void add_rows(const struct nspy_report *report, const struct rows *rows, cJSON *data)
{
	cJSON *names = cJSON_AddArrayToObject(data, "rows");
	cJSON *charged = cJSON_AddArrayToObject(data, "charged");
	cJSON *parts = cJSON_AddArrayToObject(data, "parts");
	cJSON *words = cJSON_AddArrayToObject(data, "part_names");

	cJSON_AddNumberToObject(data, "worst", (double)rows->worst);
	for (int k = 0; k < NSPY_TIME_PARTS; k++)
		cJSON_AddItemToArray(
			words, cJSON_CreateString(nspy_time_part_words((enum nspy_time_part)k)));
	for (size_t r = 0; r < rows->count; r++) {
		const struct row *row = &rows->items[r];
		cJSON *one = cJSON_CreateArray();
		char *name = row_name(report, row);

		cJSON_AddItemToArray(names, cJSON_CreateString(name));
		free(name);
		cJSON_AddItemToArray(charged, cJSON_CreateNumber(rounded(row->charged / 1e9)));
		for (int k = 0; k < NSPY_TIME_PARTS; k++) {
			double sum = 0;

			for (size_t i = 0; i < row->count; i++)
				sum += (double)report->c.times.by_proc
					       [report->attempt->procs[row->first + i]->index][k];
			cJSON_AddItemToArray(
				one, cJSON_CreateNumber(rounded(sum / 1e9 / (double)row->count)));
		}
		cJSON_AddItemToArray(parts, one);
	}
}

static uint8_t level_of(uint64_t lag_plus_1)
{
	double level;

	if (!lag_plus_1)
		return 0;
	level = 1 + round(LEVELS * log2(1 + (double)(lag_plus_1 - 1) / 1e3));
	return level > 255 ? 255 : (uint8_t)level;
}

static void add_lags(const struct nspy_report *report, const struct nspy_survey *survey,
		     const struct rows *rows, cJSON *data)
{
	cJSON *lag = cJSON_AddObjectToObject(data, "lag");
	uint8_t *levels = nspy_xcalloc(rows->count * survey->columns + 1, 1);
	struct nspy_str from = {0};
	char *text;

	for (size_t r = 0; r < rows->count; r++) {
		for (size_t i = 0; i < rows->items[r].count; i++) {
			const uint64_t *lags =
				&survey->lags[report->attempt->procs[rows->items[r].first + i]
						      ->index *
					      (size_t)NSPY_SURVEY_COLUMNS];

			for (size_t c = 0; c < survey->columns; c++) {
				uint8_t level = level_of(lags[c]);
				uint8_t *at = &levels[r * survey->columns + c];

				*at = level > *at ? level : *at;
			}
		}
	}
	nspy_add_time(&from, survey->from_ns);
	cJSON_AddStringToObject(lag, "from", from.text);
	nspy_str_done(&from);
	cJSON_AddNumberToObject(lag, "column_s", (double)survey->column_ns / 1e9);
	cJSON_AddNumberToObject(lag, "columns", (double)survey->columns);
	if (report->model->clock_count > 1 &&
	    report->model->clock_error_ns != NSPY_CLOCK_ERROR_UNKNOWN)
		cJSON_AddNumberToObject(lag, "error_s",
					(double)report->model->clock_error_ns / 1e9);
	text = nspy_html_base64(levels, rows->count * survey->columns);
	cJSON_AddStringToObject(lag, "levels", text);
	free(text);
	free(levels);
}

static void add_rank(struct nspy_str *s, const struct nspy_report *report,
		     const struct nspy_proc *proc)
{
	const char *gpu = nspy_proc_fact(proc, "gpu.index");

	if (proc->rank >= 0)
		nspy_html_number(s, (double)proc->rank);
	else
		nspy_html_none(s);
	nspy_html_cell(s, nspy_proc_host(proc));
	nspy_html_cell(s, gpu && !proc->whole ? gpu : "");
	nspy_html_cell(s, proc->state == NSPY_PROC_COMPLETE  ? "complete"
			  : proc->state == NSPY_PROC_RUNNING ? "running"
							     : "cut");
	nspy_html_number(s, (double)proc->ops);
	nspy_html_duration(s, (double)report->c.costs.by_proc[proc->index]);
	nspy_html_duration(s, (double)report->c.costs.waited[proc->index]);
	for (int k = 0; k < NSPY_TIME_PARTS; k++)
		nspy_html_duration(s, (double)report->c.times.by_proc[proc->index][k]);
	nspy_str_add(s, "</tr>\n<tr>");
}

static void tell_ranks(struct nspy_page *page, const struct nspy_report *report)
{
	static const char *const columns[] = {
		"#rank",        "node",        "gpu",         "trace",      "#operations",
		"#cost others", "#waited",     "#outside",    "#late peer", "#transfer at most",
		"#queued",      "#NCCL calls", "#CUDA calls", NULL};
	size_t count = report->attempt->proc_count;
	struct row *worst = by_charge(report);

	nspy_html_table(&page->body, "Ranks, those that cost the others most first", columns);
	for (size_t i = 0; i < count && i < RANKS_SHOWN; i++)
		add_rank(&page->body, report, report->attempt->procs[worst[i].first]);
	nspy_html_table_end(&page->body, count < RANKS_SHOWN ? count : RANKS_SHOWN, count);
	free(worst);
}

static void tell_time(struct nspy_page *page, const struct nspy_report *report,
		      const struct nspy_survey *survey, cJSON *data)
{
	struct rows rows;

	make_rows(report, &rows);
	add_rows(report, &rows, data);
	add_lags(report, survey, &rows, data);
	nspy_html_section(page, "lag", "Who came late, and when");
	nspy_str_addf(&page->body,
		      "<p>How long after the first rank of its communicator a rank came to a "
		      "collective: the longest in each %.3g s.%s</p>\n",
		      (double)survey->column_ns / 1e9,
		      rows.worst ? " The ranks that cost most come first, then all in groups."
				 : "");
	nspy_html_chart(page, "lag", "Arrival lag of ranks over time");
	nspy_html_section_end(page);
	nspy_html_section(page, "time", "Where the time of each rank went");
	nspy_str_add(&page->body,
		     "<p>Times of the thread that calls NCCL. <em>Outside</em>: in no recorded "
		     "call. <em>Late peer</em>: waiting until the last peer had come. <em>Transfer "
		     "at most</em>: waiting for operations seen alone on their stream. "
		     "<em>Queued</em>: waiting behind other work.</p>\n");
	nspy_html_chart(page, "parts", "Time of ranks in parts");
	tell_ranks(page, report);
	nspy_html_section_end(page);
	free(rows.items);
}

static void tell_comms(struct nspy_page *page, const struct nspy_report *report)
{
	static const char *const columns[] = {"communicator", "#ranks",     "#with traces",
					      "#operations",  "#differing", "#bytes sent in",
					      "#lost in it",  NULL};
	const struct nspy_attempt *attempt = report->attempt;
	struct row *order = nspy_xcalloc(attempt->comm_count + 1, sizeof(*order));
	struct nspy_str *s = &page->body;
	size_t shown = 0;

	for (size_t i = 0; i < attempt->comm_count; i++)
		order[i] = (struct row){i, 1, (double)report->c.costs.by_comm[i]};
	qsort(order, attempt->comm_count, sizeof(*order), compare_rows);
	nspy_html_section(page, "communicators", "Communicators");
	nspy_html_table(s, "Communicators, most time lost first", columns);
	for (; shown < attempt->comm_count && shown < COMMS_SHOWN; shown++) {
		const struct nspy_comm *comm = attempt->comms[order[shown].first];
		double bytes = 0;

		for (size_t m = 0; m < comm->member_count; m++)
			bytes += (double)comm->members[m]->bytes;
		nspy_str_addf(s, "<td><code>%016" PRIx64 "</code>%s</td>", comm->shown,
			      comm == attempt->world ? " world" : "");
		nspy_html_number(s, comm->nranks < 0 ? (double)NAN : comm->nranks);
		nspy_html_number(s, (double)comm->rank_count);
		nspy_html_number(s, (double)comm->high_seq);
		nspy_html_number(s, (double)comm->mixed_count);
		nspy_html_bytes(s, bytes);
		nspy_html_duration(s, order[shown].charged);
		nspy_str_add(s, "</tr>\n<tr>");
	}
	nspy_html_table_end(s, shown, attempt->comm_count);
	nspy_html_section_end(page);
	free(order);
}

static void add_size(struct nspy_str *s, size_t size)
{
	if (!size) {
		nspy_str_add(s, "<td class=\"n\" data-v=\"0\">-</td>");
		return;
	}
	nspy_str_addf(s, "<td class=\"n\" data-v=\"%zu\">", size);
	nspy_add_bytes_binary(s, 1ULL << (size - 1));
	nspy_str_add(s, " and more</td>");
}

static void tell_operations(struct nspy_page *page, const struct nspy_report *report,
			    const struct nspy_survey *survey)
{
	static const char *const columns[] = {"operation",           "#bytes of one, up to twice",
					      "#operations",         "#calls of ranks",
					      "#bytes of all calls", "#mean spread",
					      "#longest spread",     NULL};
	struct nspy_str *s = &page->body;
	size_t shown = 0;

	nspy_html_section(page, "operations", "Operations");
	nspy_html_table(s, "Operations; spread: from the first rank's arrival to the last one's",
			columns);
	for (size_t i = 0; i < survey->fn_count * NSPY_SURVEY_SIZES; i++) {
		const struct nspy_survey_kind *kind = &survey->kinds[i];

		if (!kind->calls)
			continue;
		nspy_html_cell(
			s,
			nspy_model_get_fn(report->model, (uint16_t)(i / NSPY_SURVEY_SIZES))->name);
		add_size(s, i % NSPY_SURVEY_SIZES);
		nspy_html_number(s, (double)kind->operations);
		nspy_html_number(s, (double)kind->calls);
		nspy_html_bytes(s, kind->bytes);
		nspy_html_duration(s, kind->spreads
					      ? (double)kind->spread_sum_ns / (double)kind->spreads
					      : (double)NAN);
		nspy_html_duration(s, kind->spreads ? (double)kind->spread_max_ns : (double)NAN);
		nspy_str_add(s, "</tr>\n<tr>");
		shown++;
	}
	nspy_html_table_end(s, shown, shown);
	nspy_html_section_end(page);
}

static void tell_clocks(struct nspy_page *page, const struct nspy_report *report)
{
	static const char *const columns[] = {"node", "#processes", "#system time corrected by",
					      "#may be off by", NULL};
	const struct nspy_attempt *attempt = report->attempt;
	size_t clocks = report->model->clock_count, shown = 0, all = 0;
	size_t *members = nspy_xcalloc(clocks + 1, sizeof(*members));
	const struct nspy_proc **first = nspy_xcalloc(clocks + 1, sizeof(struct nspy_proc *));
	struct nspy_str *s = &page->body;

	for (size_t i = 0; i < attempt->proc_count; i++) {
		const struct nspy_proc *proc = attempt->procs[i];

		if (!proc->has_clock || proc->clock >= clocks)
			continue;
		if (!members[proc->clock]++)
			first[proc->clock] = proc;
	}
	nspy_html_section(page, "clocks", "Clocks");
	nspy_str_add(s, "<p>Processes of one node share a clock and are exact against each other; "
			"between nodes times are bounded by what nobody can leave before all have "
			"come.</p>\n");
	nspy_html_table(s, "Clocks of the nodes, against the first one", columns);
	for (size_t i = 0; i < clocks; i++) {
		all += first[i] != NULL;
		if (!first[i] || shown == RANKS_SHOWN)
			continue;
		nspy_html_cell(s, nspy_proc_host(first[i]));
		nspy_html_number(s, (double)members[i]);
		nspy_html_duration(s, (double)first[i]->clock_corrected_ns);
		nspy_html_duration(s, first[i]->clock_error_ns == NSPY_CLOCK_ERROR_UNKNOWN
					      ? (double)NAN
					      : (double)first[i]->clock_error_ns);
		nspy_str_add(s, "</tr>\n<tr>");
		shown++;
	}
	nspy_html_table_end(s, shown, all);
	nspy_html_section_end(page);
	free(first);
	free(members);
}

void nspy_page_model(struct nspy_page *page, const cJSON *job, const struct nspy_report *report,
		     cJSON *data)
{
	struct nspy_survey survey;

	nspy_survey_make(report, &survey);
	tell_time(page, report, &survey, data);
	tell_comms(page, report);
	tell_operations(page, report, &survey);
	nspy_page_bandwidth(page, job, data);
	nspy_page_pairs(page, report, data);
	tell_clocks(page, report);
	nspy_survey_done(&survey);
}
