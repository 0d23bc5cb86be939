/* SPDX-License-Identifier: Apache-2.0 */
/* What could not be seen, and other remarks. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "export/export.h"
#include "page.h"
#include "text.h"
#include "who.h"

#define PROCS_SHOWN 500u

static void list_gaps(struct nspy_page *page, const struct nspy_report *report)
{
	static const char *const columns[] = {"#rank",         "node",     "#pid", "trace",
					      "#lost records", "#damaged", NULL};
	struct nspy_str *s = &page->body;
	size_t shown = 0, all = 0;

	nspy_html_table(s, "Traces that are not whole", columns);
	for (size_t i = 0; i < report->attempt->proc_count; i++) {
		const struct nspy_proc *proc = report->attempt->procs[i];
		uint64_t lost = nspy_proc_lost_records(proc);

		if (proc->state != NSPY_PROC_CUT && !lost && !proc->trouble_count)
			continue;
		if (++all > PROCS_SHOWN)
			continue;
		nspy_html_number(s,
				 proc->rank >= 0 ? (double)proc->rank : (double)__builtin_nan(""));
		nspy_html_cell(s, nspy_proc_host(proc));
		nspy_html_number(s, (double)proc->pid);
		nspy_html_cell(s, proc->state == NSPY_PROC_CUT ? "cut" : "complete");
		nspy_html_number(s, (double)lost);
		nspy_html_number(s, (double)proc->trouble_count);
		nspy_str_add(s, "</tr>\n<tr>");
		shown++;
	}
	nspy_html_table_end(s, shown, all);
}

static void tell_missing(struct nspy_page *page, const struct nspy_coverage *coverage)
{
	struct nspy_str ranges = {0};

	if (!coverage->count)
		return;
	nspy_add_ranges(&ranges, coverage->ranks, coverage->count);
	nspy_str_add(&page->body, "<p>Ranks that left no trace: ");
	nspy_html_text(&page->body, ranges.text);
	nspy_str_add(&page->body, "</p>\n");
	nspy_str_done(&ranges);
}

static void tell_stacks(struct nspy_page *page, const struct nspy_report *report)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out;

	if (!report->stack_count)
		return;
	out = open_memstream(&text, &bytes);
	if (!out)
		return;
	nspy_report_print_stacks(report, out);
	if (fclose(out) == 0) {
		nspy_html_section(page, "stacks", "Stacks");
		nspy_str_add(&page->body, "<pre>");
		nspy_html_own(&page->body, text);
		nspy_str_add(&page->body, "</pre>\n");
		nspy_html_section_end(page);
	}
	free(text);
}

void nspy_page_unseen(struct nspy_page *page, const cJSON *job, const struct nspy_report *report)
{
	const cJSON *unseen = cJSON_GetObjectItemCaseSensitive(job, "not_seen");

	if (report && report->attempt)
		tell_stacks(page, report);
	nspy_html_section(page, "unseen", "Not seen, and remarks");
	nspy_page_texts(&page->body, "Not seen", unseen);
	if (report && report->attempt) {
		tell_missing(page, &report->c.coverage);
		list_gaps(page, report);
	}
	nspy_page_texts(&page->body, "Warnings", cJSON_GetObjectItemCaseSensitive(job, "warnings"));
	nspy_page_texts(&page->body, "Notes", cJSON_GetObjectItemCaseSensitive(job, "notes"));
	nspy_html_section_end(page);
}
