/* SPDX-License-Identifier: Apache-2.0 */
/* Two groups of runs beside each other. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/compare.h"
#include "export/export.h"
#include "page.h"
#include "text.h"

#define ROWS_SHOWN 500u

static void tell_head(struct nspy_page *page, const struct nspy_comparison *c)
{
	const struct nspy_finding *top = c->findings.count ? c->findings.items[0] : NULL;
	bool proven = top && top->priority <= 1;
	struct nspy_str *s = &page->body;

	nspy_str_addf(s,
		      "<header><h1>comparison</h1>\n<div class=\"verdict %s\"><p><strong>VERDICT"
		      "</strong> ",
		      proven ? "bad" : "fine");
	nspy_html_text(s, proven           ? top->cause
			  : !c->comparable ? "not comparable"
			  : top            ? "no regression is proven, but see below"
			  : c->step_ns > 0 ? "no regression is seen"
					   : "steps could not be compared, see below");
	nspy_str_add(s, "</p>\n<p><span><strong>page</strong> ");
	nspy_html_text(s, proven ? top->owner : "nobody");
	nspy_str_add(s, "</span> <span><strong>do</strong> ");
	nspy_html_text(s, proven                              ? top->action
			  : c->run_variation && c->comparable ? "nothing"
							      : "compare several runs of one size");
	nspy_str_add(s, "</span> <span><strong>restart</strong> ");
	nspy_html_text(s, proven ? top->restart : "not needed");
	nspy_str_add(s, "</span></p></div>\n<nav></nav></header>\n");
}

static void list_runs(struct nspy_page *page, const struct nspy_runs *runs, const char *side)
{
	for (size_t i = 0; i < runs->count; i++) {
		const struct nspy_run *run = &runs->items[i];
		const struct nspy_metric *step = NULL;
		struct nspy_str *s = &page->body;

		for (size_t m = 0; m < run->metric_count && !step; m++) {
			if (run->metrics[m].kind == NSPY_METRIC_STEP)
				step = &run->metrics[m];
		}
		nspy_html_cell(s, side);
		nspy_html_cell(s, run->job);
		nspy_html_number(s, (double)run->ranks);
		nspy_html_number(s, (double)run->nodes);
		nspy_html_number(s, (double)run->steps);
		nspy_html_duration(s, step ? step->ns.center : (double)NAN);
		nspy_html_duration(s, step ? step->ns.p99 : (double)NAN);
		nspy_html_duration(s, run->lost_ns);
		nspy_str_add(s, "</tr>\n<tr>");
	}
}

static void tell_runs(struct nspy_page *page, const struct nspy_comparison *c)
{
	static const char *const columns[] = {
		"side",   "job",   "#ranks",       "#nodes",
		"#steps", "#step", "#slowest 1 %", "#lost a step, all ranks",
		NULL};

	nspy_html_section(page, "runs", "Runs");
	nspy_html_table(&page->body, "Runs", columns);
	list_runs(page, c->base, "base");
	list_runs(page, c->now, "new");
	nspy_html_table_end(&page->body, 0, 0);
	nspy_html_section_end(page);
}

static void add_interval(struct nspy_str *s, const struct nspy_row *row)
{
	if (isnan(row->low) || isnan(row->high)) {
		nspy_html_none(s);
		return;
	}
	nspy_str_addf(s, "<td class=\"n\" data-v=\"%.6g\">%+.1f to %+.1f %%</td>", row->low,
		      row->low * 100, row->high * 100);
}

static void tell_rows(struct nspy_page *page, const struct nspy_comparison *c)
{
	static const char *const columns[] = {"quantity",       "#base",       "#new",    "#change",
					      "#95 % interval", "#could show", "verdict", NULL};
	static const char *const verdicts[] = {[NSPY_CHANGE_NONE] = "no change shown",
					       [NSPY_CHANGE_WORSE] = "worse",
					       [NSPY_CHANGE_BETTER] = "better",
					       [NSPY_CHANGE_UNKNOWN] = "too few samples"};
	struct nspy_str *s = &page->body;
	size_t shown = 0;

	nspy_html_section(page, "quantities", "What was compared");
	nspy_str_add(s, "<p>Shares are of the base's step time. Positive is slower.</p>\n");
	nspy_html_table(s, "Quantities", columns);
	for (; shown < c->row_count && shown < ROWS_SHOWN; shown++) {
		const struct nspy_row *row = &c->rows[shown];
		struct nspy_str name = {0};

		nspy_row_add_name(&name, row);
		nspy_html_cell(s, name.text ? name.text : row->key);
		nspy_str_done(&name);
		nspy_html_duration(s, row->base_ns);
		nspy_html_duration(s, row->now_ns);
		nspy_html_percent(s, row->change);
		add_interval(s, row);
		nspy_html_percent(s, row->detectable);
		nspy_html_cell(s, verdicts[row->verdict]);
		nspy_str_add(s, "</tr>\n<tr>");
	}
	nspy_html_table_end(s, shown, c->row_count);
	nspy_html_section_end(page);
}

static void add_samples(struct nspy_page *page, const struct nspy_row *row,
			const struct nspy_runs *runs, const char *side)
{
	struct nspy_str *s = &page->body, name = {0};

	nspy_row_add_name(&name, row);
	for (size_t i = 0; i < runs->count; i++) {
		const struct nspy_metric *metric = nspy_run_metric(&runs->items[i], row->key);

		if (!metric)
			continue;
		nspy_html_cell(s, name.text ? name.text : row->key);
		nspy_html_cell(s, side);
		nspy_html_cell(s, runs->items[i].job);
		nspy_html_duration(s, metric->ns.p50);
		nspy_html_duration(s, metric->ns.p95);
		nspy_html_duration(s, metric->ns.p99);
		nspy_html_number(s, (double)metric->ns.count);
		nspy_str_add(s, "</tr>\n<tr>");
	}
	nspy_str_done(&name);
}

/* A group of the chart: name, then [side, job, median, 95th, 99th percentile] in seconds. */
static cJSON *sample_json(const struct nspy_row *row, const struct nspy_comparison *c)
{
	cJSON *group = cJSON_CreateObject(), *list;
	struct nspy_str name = {0};

	nspy_row_add_name(&name, row);
	cJSON_AddStringToObject(group, "name", name.text ? name.text : row->key);
	nspy_str_done(&name);
	list = cJSON_AddArrayToObject(group, "runs");
	for (int side = 0; side < 2; side++) {
		const struct nspy_runs *runs = side ? c->now : c->base;

		for (size_t i = 0; i < runs->count; i++) {
			const struct nspy_metric *metric =
				nspy_run_metric(&runs->items[i], row->key);
			cJSON *one;

			if (!metric)
				continue;
			one = cJSON_CreateArray();
			cJSON_AddItemToArray(one, cJSON_CreateNumber(side));
			cJSON_AddItemToArray(one, cJSON_CreateString(runs->items[i].job));
			cJSON_AddItemToArray(one, cJSON_CreateNumber(metric->ns.p50 / 1e9));
			cJSON_AddItemToArray(one, cJSON_CreateNumber(metric->ns.p95 / 1e9));
			cJSON_AddItemToArray(one, cJSON_CreateNumber(metric->ns.p99 / 1e9));
			cJSON_AddItemToArray(list, one);
		}
	}
	return group;
}

static void tell_distributions(struct nspy_page *page, const struct nspy_comparison *c, cJSON *data)
{
	static const char *const columns[] = {"quantity",         "side",  "job",      "#median",
					      "#95th percentile", "#99th", "#samples", NULL};
	cJSON *groups = cJSON_AddArrayToObject(data, "distributions");
	size_t shown = 0, rows = 0;

	nspy_html_section(page, "distributions", "Distributions, side by side");
	nspy_html_chart(page, "distributions", "Median to 99th percentile of each run");
	nspy_html_table(&page->body, "Distributions of each run", columns);
	for (size_t i = 0; i < c->row_count; i++) {
		if (c->rows[i].tail)
			continue; /* the same samples */
		rows++;
		if (shown * (c->base->count + c->now->count) >= ROWS_SHOWN)
			continue;
		add_samples(page, &c->rows[i], c->base, "base");
		add_samples(page, &c->rows[i], c->now, "new");
		cJSON_AddItemToArray(groups, sample_json(&c->rows[i], c));
		shown++;
	}
	nspy_html_table_end(&page->body, shown, rows);
	nspy_html_section_end(page);
}

/* Every setting and version whose values differ between the last run of each side. */
static void tell_facts(struct nspy_page *page, const struct nspy_comparison *c)
{
	static const char *const columns[] = {"what", "base", "new", NULL};
	const struct nspy_run *base = &c->base->items[c->base->count - 1];
	const struct nspy_run *now = &c->now->items[c->now->count - 1];
	struct nspy_str *s = &page->body;

	nspy_html_table(s, "Settings and versions that differ, last run of each side", columns);
	for (size_t i = 0; i < now->fact_count + base->fact_count; i++) {
		bool ours = i < now->fact_count;
		const struct nspy_fact *fact =
			ours ? &now->facts[i] : &base->facts[i - now->fact_count];
		const char *other = nspy_run_fact(ours ? base : now, fact->key);

		/* The second half of the walk is for those that only the base has. */
		if (ours ? other && strcmp(other, fact->value) == 0 : other != NULL)
			continue;
		nspy_html_cell(s, fact->key);
		nspy_html_cell(s, ours ? (other ? other : "-") : fact->value);
		nspy_html_cell(s, ours ? fact->value : "-");
		nspy_str_add(s, "</tr>\n<tr>");
	}
	nspy_html_table_end(s, 0, 0);
}

void nspy_page_add_comparison(struct nspy_page *page, const cJSON *document,
			      const struct nspy_comparison *comparison)
{
	const cJSON *findings = cJSON_GetObjectItemCaseSensitive(document, "findings");
	cJSON *data = cJSON_CreateObject();

	cJSON_AddStringToObject(data, "job", "comparison");
	cJSON_AddItemToObject(data, "findings", cJSON_Duplicate(findings, true));
	nspy_str_add(&page->body, "<article class=\"job\">\n");
	tell_head(page, comparison);
	nspy_page_findings(page, findings);
	tell_runs(page, comparison);
	tell_distributions(page, comparison, data);
	tell_rows(page, comparison);
	nspy_html_section(page, "differences", "What else differs: suspects");
	if (comparison->node) {
		nspy_str_add(&page->body,
			     "<p>One node holds the others up more than before: <strong>");
		nspy_html_text(&page->body, comparison->node);
		nspy_str_add(&page->body, "</strong></p>\n");
	}
	nspy_page_texts(&page->body, "Changed",
			cJSON_GetObjectItemCaseSensitive(document, "differences"));
	nspy_page_texts(&page->body, "Not compared, and why",
			cJSON_GetObjectItemCaseSensitive(document, "reasons"));
	tell_facts(page, comparison);
	nspy_html_section_end(page);
	nspy_str_add(&page->body, "</article>\n");
	cJSON_AddItemToArray(page->data, data);
	page->sections++;
}
