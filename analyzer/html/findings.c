/* SPDX-License-Identifier: Apache-2.0 */
/* Findings, each with what it rests on, what to do, and the text of its reference. */
#include <cjson/cJSON.h>

#include "explain.h"
#include "export/export.h"
#include "page.h"

#define CULPRITS_SHOWN 64u

static const cJSON *member(const cJSON *object, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(object, name);
}

static void add_commands(struct nspy_str *s, const char *title, const cJSON *commands)
{
	const cJSON *command;

	if (cJSON_GetArraySize(commands) == 0)
		return;
	nspy_str_addf(s, "<h4>%s</h4>\n", title);
	cJSON_ArrayForEach(command, commands)
	{
		const char *text = cJSON_IsObject(command) ? nspy_export_text(command, "command")
							   : cJSON_GetStringValue(command);

		nspy_str_add(s, "<pre class=\"command\">");
		nspy_html_text(s, text);
		nspy_str_add(s, "</pre>\n");
	}
}

static void add_culprits(struct nspy_str *s, const cJSON *culprits)
{
	static const char *const columns[] = {"#rank", "node", "pod",  "instance",
					      "gpu",   "PCI",  "#pid", NULL};
	size_t count = (size_t)cJSON_GetArraySize(culprits), shown = 0;
	const cJSON *one;

	if (!count)
		return;
	nspy_html_table(s, "Culprits", columns);
	cJSON_ArrayForEach(one, culprits)
	{
		const cJSON *rank = member(one, "rank");

		if (shown == CULPRITS_SHOWN)
			break;
		if (cJSON_IsNumber(rank))
			nspy_html_number(s, rank->valuedouble);
		else
			nspy_html_none(s);
		nspy_html_cell(s, nspy_export_text(one, "node"));
		nspy_html_cell(s, nspy_export_text(one, "pod"));
		nspy_html_cell(s, nspy_export_text(one, "instance"));
		nspy_html_cell(s, nspy_export_text(one, "gpu"));
		nspy_html_cell(s, nspy_export_text(one, "gpu_pci"));
		if (cJSON_IsNumber(member(one, "pid")))
			nspy_html_number(s, member(one, "pid")->valuedouble);
		else
			nspy_html_none(s);
		nspy_str_add(s, "</tr>\n<tr>");
		shown++;
	}
	nspy_html_table_end(s, shown, count);
}

static void add_fact(struct nspy_str *s, const char *name, const char *value)
{
	if (!*value)
		return;
	nspy_str_addf(s, "<dt>%s</dt><dd>", name);
	nspy_html_text(s, value);
	nspy_str_add(s, "</dd>\n");
}

static void add_reference(struct nspy_str *s, const cJSON *finding)
{
	int id = nspy_catalog_find(nspy_export_text(finding, "id"));

	if (id < 0)
		return;
	nspy_str_add(s, "<details class=\"reference\"><summary>");
	nspy_html_text(s, nspy_export_text(finding, "reference"));
	nspy_str_addf(s, " <code>ncclspy explain %s</code></summary>\n<pre>", nspy_catalog[id].id);
	nspy_html_own(s, nspy_explain_text[id]);
	nspy_str_add(s, "</pre></details>\n");
}

static void add_finding(struct nspy_str *s, const cJSON *finding, bool open)
{
	const char *ignored = nspy_export_text(finding, "ignored");
	int priority = nspy_export_priority(finding);

	nspy_str_addf(s,
		      "<details class=\"finding p%d\"%s><summary><span class=\"tag\">%s P%d</span> "
		      "<strong>",
		      priority, open ? " open" : "",
		      *ignored        ? "KNOWN"
		      : priority <= 1 ? "FAIL"
				      : "WARN",
		      priority);
	nspy_html_text(s, nspy_export_text(finding, "id"));
	nspy_str_add(s, "</strong> ");
	nspy_html_text(s, nspy_export_text(finding, "summary"));
	nspy_str_add(s, "</summary>\n<dl>\n");
	add_fact(s, "ignored because", ignored);
	add_fact(s, "cause", nspy_export_text(finding, "cause"));
	add_fact(s, "page", nspy_export_text(finding, "owner"));
	add_fact(s, "do", nspy_export_text(finding, "action"));
	add_fact(s, "restart", nspy_export_text(finding, "restart"));
	add_fact(s, "confidence", nspy_export_text(finding, "confidence"));
	add_fact(s, "began (UTC)", nspy_export_text(finding, "began"));
	add_fact(s, "communicator", nspy_export_text(finding, "communicator"));
	nspy_str_add(s, "</dl>\n");
	nspy_page_texts(s, "Details", member(finding, "details"));
	nspy_page_texts(s, "What followed from it", member(finding, "consequences"));
	add_culprits(s, member(finding, "culprits"));
	add_commands(s, "Evidence: print the records", member(finding, "evidence"));
	add_commands(s, "Suggested, for you to run", member(finding, "commands"));
	nspy_page_texts(s, "Not seen, could change it", member(finding, "not_seen"));
	nspy_page_texts(s, "Or else", member(finding, "alternatives"));
	add_reference(s, finding);
	nspy_str_add(s, "</details>\n");
}

void nspy_page_findings(struct nspy_page *page, const cJSON *findings)
{
	const cJSON *finding;
	bool first = true;

	nspy_html_section(page, "findings", "Findings");
	if (cJSON_GetArraySize(findings) == 0)
		nspy_str_add(&page->body, "<p>None.</p>\n");
	cJSON_ArrayForEach(finding, findings)
	{
		add_finding(&page->body, finding, first);
		first = false;
	}
	nspy_html_section_end(page);
}
