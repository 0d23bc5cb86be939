/* SPDX-License-Identifier: Apache-2.0 */
/* Escaping, and the pieces that all sections are made of. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "page.h"
#include "text.h"

void nspy_html_own(struct nspy_str *s, const char *text)
{
	static const char special[] = "&<>\"'";
	static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};

	for (;;) {
		size_t plain = strcspn(text, special);

		nspy_str_addn(s, text, plain);
		text += plain;
		if (!*text)
			return;
		nspy_str_add(s, entities[strchr(special, *text) - special]);
		text++;
	}
}

void nspy_html_text(struct nspy_str *s, const char *text)
{
	char *clean = nspy_xstrdup(text ? text : "");

	nspy_clean(clean);
	nspy_html_own(s, clean);
	free(clean);
}

void nspy_html_textf(struct nspy_str *s, const char *format, ...)
{
	va_list args;
	char *text = NULL;

	va_start(args, format);
	if (vasprintf(&text, format, args) >= 0) {
		nspy_html_text(s, text);
		free(text);
	}
	va_end(args);
}

void nspy_html_data(struct nspy_str *s, cJSON *json)
{
	char *text = cJSON_PrintUnformatted(json);

	cJSON_Delete(json);
	/* These occur in strings only, where JSON takes the number as well. */
	for (const char *at = text; at && *at; at++) {
		size_t plain = strcspn(at, "<>&");

		nspy_str_addn(s, at, plain);
		at += plain;
		if (!*at)
			break;
		nspy_str_addf(s, "\\u%04x", (unsigned int)*at);
	}
	cJSON_free(text);
}

char *nspy_html_base64(const uint8_t *bytes, size_t count)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *text = nspy_xmalloc((count + 2) / 3 * 4 + 1), *at = text;

	for (size_t i = 0; i < count; i += 3) {
		size_t left = count - i;
		uint32_t group = (uint32_t)bytes[i] << 16 |
				 (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
				 (left > 2 ? (uint32_t)bytes[i + 2] : 0);

		*at++ = digits[group >> 18];
		*at++ = digits[group >> 12 & 63];
		*at++ = left > 1 ? digits[group >> 6 & 63] : '=';
		*at++ = left > 2 ? digits[group & 63] : '=';
	}
	*at = '\0';
	return text;
}

void nspy_html_section(struct nspy_page *page, const char *name, const char *title)
{
	nspy_str_addf(&page->body, "<section id=\"%s-%zu\" data-name=\"%s\">\n<h2>%s</h2>\n", name,
		      page->sections, name, title);
}

void nspy_html_section_end(struct nspy_page *page)
{
	nspy_str_add(&page->body, "</section>\n");
}

void nspy_html_chart(struct nspy_page *page, const char *kind, const char *label)
{
	nspy_str_addf(&page->body, "<figure class=\"chart\" data-chart=\"%s\" data-label=\"", kind);
	nspy_html_own(&page->body, label);
	nspy_str_add(&page->body, "\" hidden></figure>\n");
}

/* --- tables --- */

void nspy_html_table(struct nspy_str *s, const char *caption, const char *const *columns)
{
	nspy_str_add(s, "<div class=\"table\"><table>\n<caption>");
	nspy_html_own(s, caption);
	nspy_str_add(s, "</caption>\n<thead><tr>");
	for (; *columns; columns++) {
		bool number = **columns == '#';

		nspy_str_add(s, number ? "<th scope=\"col\" class=\"n\">" : "<th scope=\"col\">");
		nspy_html_own(s, *columns + number);
		nspy_str_add(s, "</th>");
	}
	nspy_str_add(s, "</tr></thead>\n<tbody>\n<tr>");
}

void nspy_html_cell(struct nspy_str *s, const char *text)
{
	nspy_str_add(s, "<td>");
	nspy_html_text(s, text);
	nspy_str_add(s, "</td>");
}

void nspy_html_none(struct nspy_str *s)
{
	nspy_str_add(s, "<td class=\"n\">-</td>");
}

void nspy_html_number(struct nspy_str *s, double value)
{
	if (isnan(value)) {
		nspy_html_none(s);
		return;
	}
	nspy_str_addf(s, "<td class=\"n\">%.15g</td>", value);
}

void nspy_html_duration(struct nspy_str *s, double ns)
{
	if (isnan(ns)) {
		nspy_html_none(s);
		return;
	}
	nspy_str_addf(s, "<td class=\"n\" data-v=\"%.6g\">%s", ns, ns < 0 ? "-" : "");
	nspy_add_duration(s, (uint64_t)fabs(ns));
	nspy_str_add(s, "</td>");
}

void nspy_html_bytes(struct nspy_str *s, double bytes)
{
	nspy_str_addf(s, "<td class=\"n\" data-v=\"%.6g\">", bytes);
	nspy_add_bytes(s, bytes);
	nspy_str_add(s, "</td>");
}

void nspy_html_rate(struct nspy_str *s, double bytes_per_s)
{
	if (!(bytes_per_s > 0)) {
		nspy_html_none(s);
		return;
	}
	nspy_str_addf(s, "<td class=\"n\" data-v=\"%.6g\">", bytes_per_s);
	nspy_add_bytes(s, bytes_per_s);
	nspy_str_add(s, "/s</td>");
}

void nspy_html_percent(struct nspy_str *s, double share)
{
	if (isnan(share)) {
		nspy_html_none(s);
		return;
	}
	nspy_str_addf(s, "<td class=\"n\" data-v=\"%.6g\">%.1f %%</td>", share, share * 100);
}

void nspy_html_table_end(struct nspy_str *s, size_t shown, size_t of)
{
	/* The row that the last one has begun. */
	static const char open[] = "<tr>";

	if (s->bytes >= sizeof(open) - 1 &&
	    strcmp(s->text + s->bytes - (sizeof(open) - 1), open) == 0) {
		s->bytes -= sizeof(open) - 1;
		s->text[s->bytes] = '\0';
	}
	nspy_str_add(s, "</tbody>\n</table></div>\n");
	if (shown < of)
		nspy_str_addf(s, "<p class=\"note\">%zu of %zu are listed.</p>\n", shown, of);
}

void nspy_page_texts(struct nspy_str *s, const char *title, const cJSON *texts)
{
	const cJSON *text;

	if (cJSON_GetArraySize(texts) == 0)
		return;
	nspy_str_addf(s, "<h4>%s</h4>\n<ul>\n", title);
	cJSON_ArrayForEach(text, texts)
	{
		nspy_str_add(s, "<li>");
		nspy_html_text(s, cJSON_GetStringValue(text));
		nspy_str_add(s, "</li>\n");
	}
	nspy_str_add(s, "</ul>\n");
}
