/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of the page, and the first screen of a job. */
#include "page.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "text.h"

void nspy_page_init(struct nspy_page *page)
{
	*page = (struct nspy_page){0};
	page->data = cJSON_CreateArray();
}

void nspy_page_done(struct nspy_page *page)
{
	nspy_str_done(&page->body);
	cJSON_Delete(page->data);
}

static double number(const cJSON *object, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

	return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static void add_figure(struct nspy_str *s, const char *name, const char *value)
{
	nspy_str_add(s, "<div><dt>");
	nspy_html_own(s, name);
	nspy_str_add(s, "</dt><dd>");
	nspy_html_text(s, value);
	nspy_str_add(s, "</dd></div>\n");
}

static void add_figuref(struct nspy_str *s, const char *name, struct nspy_str *value)
{
	char *text = nspy_str_take(value);

	add_figure(s, name, text);
	free(text);
}

static void add_figures(struct nspy_str *s, const cJSON *job, const struct nspy_report *report)
{
	const cJSON *totals = cJSON_GetObjectItemCaseSensitive(job, "totals");
	struct nspy_str value = {0};

	nspy_str_add(s, "<dl class=\"figures\">\n");
	nspy_str_addf(&value, "%.0f on %.0f node%s", number(totals, "ranks"),
		      number(totals, "nodes"), number(totals, "nodes") == 1 ? "" : "s");
	add_figuref(s, "ranks", &value);
	if (report && report->attempt) {
		nspy_add_duration(&value, report->attempt->end_ns - report->attempt->start_ns);
		add_figuref(s, "time", &value);
	}
	nspy_add_count(&value, (uint64_t)number(totals, "operations"));
	nspy_str_add(&value, ", ");
	nspy_add_bytes(&value, number(totals, "bytes"));
	add_figuref(s, "operations", &value);
	nspy_str_addf(&value, "%.0f complete", number(totals, "complete"));
	if (number(totals, "cut") > 0)
		nspy_str_addf(&value, ", %.0f cut", number(totals, "cut"));
	if (number(totals, "running") > 0)
		nspy_str_addf(&value, ", %.0f running", number(totals, "running"));
	add_figuref(s, "traces", &value);
	if (*nspy_export_text(job, "start"))
		add_figure(s, "start (UTC)", nspy_export_text(job, "start"));
	if (number(job, "attempts") > 1) {
		nspy_str_addf(&value, "%.0f of %.0f", number(job, "attempt"),
			      number(job, "attempts"));
		add_figuref(s, "attempt", &value);
	}
	nspy_str_add(s, "</dl>\n");
}

static void add_verdict(struct nspy_str *s, const cJSON *job)
{
	const cJSON *verdict = cJSON_GetObjectItemCaseSensitive(job, "verdict");
	bool fine = strcmp(nspy_export_text(verdict, "page"), "nobody") == 0;

	nspy_str_addf(s, "<div class=\"verdict %s\"><p><strong>VERDICT</strong> ",
		      fine ? "fine" : "bad");
	nspy_html_text(s, nspy_export_text(verdict, "cause"));
	nspy_str_add(s, "</p>\n<p><span><strong>page</strong> ");
	nspy_html_text(s, nspy_export_text(verdict, "page"));
	nspy_str_add(s, "</span> <span><strong>do</strong> ");
	nspy_html_text(s, nspy_export_text(verdict, "do"));
	nspy_str_add(s, "</span> <span><strong>restart</strong> ");
	nspy_html_text(s, nspy_export_text(verdict, "restart"));
	nspy_str_add(s, "</span></p></div>\n");
}

void nspy_page_add_job(struct nspy_page *page, const cJSON *job, const struct nspy_report *report)
{
	const cJSON *findings = cJSON_GetObjectItemCaseSensitive(job, "findings");
	struct nspy_str *s = &page->body;
	cJSON *data = cJSON_CreateObject();

	cJSON_AddStringToObject(data, "job", nspy_export_text(job, "job"));
	cJSON_AddItemToObject(data, "findings",
			      findings ? cJSON_Duplicate(findings, true) : cJSON_CreateArray());
	nspy_str_add(s, "<article class=\"job\">\n<header><h1>job ");
	nspy_html_text(s, nspy_export_text(job, "job"));
	nspy_str_add(s, "</h1>\n");
	add_verdict(s, job);
	add_figures(s, job, report);
	nspy_str_add(s, "<nav></nav></header>\n");
	nspy_page_findings(page, findings);
	if (report && report->attempt)
		nspy_page_model(page, job, report, data);
	nspy_page_unseen(page, job, report);
	nspy_str_add(s, "</article>\n");
	cJSON_AddItemToArray(page->data, data);
	page->sections++;
}

char *nspy_page_take(struct nspy_page *page, const char *title)
{
	struct nspy_str s = {0};
	cJSON *document = cJSON_CreateObject();

	nspy_str_addn(&s, (const char *)nspy_page_head, nspy_page_head_bytes);
	nspy_html_text(&s, title);
	nspy_str_add(&s, "</title>\n</head>\n<body>\n");
	nspy_str_add(&s, "<p class=\"bar\" id=\"bar\"><span>ncclspy " NSPY_VERSION "</span></p>\n"
			 "<main>\n");
	if (page->body.text)
		nspy_str_addn(&s, page->body.text, page->body.bytes);
	nspy_str_addf(&s,
		      "</main>\n<footer><p>Made by ncclspy-analyze %s. Times are those of the "
		      "hosts' calls, not of the GPUs.%s%s%s</p></footer>\n",
		      NSPY_VERSION, *nspy_page_charts ? " Charts: " : "", nspy_page_charts,
		      *nspy_page_charts ? " (MIT License), in this page." : "");
	cJSON_AddStringToObject(document, "schema", "ncclspy.page/1");
	cJSON_AddStringToObject(document, "version", NSPY_VERSION);
	cJSON_AddItemToObject(document, "sections", page->data);
	nspy_str_add(&s, "<script type=\"application/json\" id=\"data\">");
	nspy_html_data(&s, document);
	nspy_str_add(&s, "</script>\n");
	nspy_str_addn(&s, (const char *)nspy_page_tail, nspy_page_tail_bytes);
	nspy_str_done(&page->body);
	*page = (struct nspy_page){0};
	return nspy_str_take(&s);
}
