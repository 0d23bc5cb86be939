/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A report or comparison as one HTML page that needs nothing else: no network, no other file.
 * Everything that is told stands in it as plain HTML; scripts only draw, sort and filter. The
 * findings come from the JSON form, so that all forms say the same.
 *
 * Traces hold other people's text. It reaches the page only through nspy_html_text or the data
 * block (nspy_html_data), and the page's content security policy runs no script but ours.
 */
#ifndef NSPY_HTML_PAGE_H
#define NSPY_HTML_PAGE_H

#include "report.h"

struct cJSON;
struct nspy_comparison;

struct nspy_page {
	struct nspy_str body;
	struct cJSON *data; /* of the data block: an object per section of the body */
	size_t sections;
};

void nspy_page_init(struct nspy_page *page);
/* job: as in report --json; report: NULL for one made from logs or a bundle. */
void nspy_page_add_job(struct nspy_page *page, const struct cJSON *job,
		       const struct nspy_report *report);
/* document: as in compare --json. */
void nspy_page_add_comparison(struct nspy_page *page, const struct cJSON *document,
			      const struct nspy_comparison *comparison);
void nspy_page_done(struct nspy_page *page);
/* The whole page; the caller frees. The page is empty afterwards. */
char *nspy_page_take(struct nspy_page *page, const char *title);

/* --- parts, for the files of this folder --- */

/* Somebody else's text: cleaned and escaped, fit for elements and quoted attributes. */
void nspy_html_text(struct nspy_str *s, const char *text);
void nspy_html_textf(struct nspy_str *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Our own text of several lines: escaped. */
void nspy_html_own(struct nspy_str *s, const char *text);
/* JSON in such a way that it cannot end the element it stands in; takes ownership. */
void nspy_html_data(struct nspy_str *s, struct cJSON *json);
char *nspy_html_base64(const uint8_t *bytes, size_t count);

/* A section with an id made from name and the number of the page's section. */
void nspy_html_section(struct nspy_page *page, const char *name, const char *title);
void nspy_html_section_end(struct nspy_page *page);
/* A place where the scripts draw; hidden until they do. */
void nspy_html_chart(struct nspy_page *page, const char *kind, const char *label);

/*
 * A table. columns: titles, a leading '#' for numbers; ends with NULL. Cells of numbers have the
 * value that they are sorted by beside what is shown.
 */
void nspy_html_table(struct nspy_str *s, const char *caption, const char *const *columns);
void nspy_html_cell(struct nspy_str *s, const char *text);
void nspy_html_number(struct nspy_str *s, double value);
void nspy_html_duration(struct nspy_str *s, double ns); /* NaN: nothing */
void nspy_html_bytes(struct nspy_str *s, double bytes);
void nspy_html_rate(struct nspy_str *s, double bytes_per_s);
void nspy_html_percent(struct nspy_str *s, double share);
void nspy_html_none(struct nspy_str *s);
void nspy_html_table_end(struct nspy_str *s, size_t shown, size_t of);

void nspy_page_findings(struct nspy_page *page, const struct cJSON *findings);
/* A list of texts under a heading; nothing if it is empty. */
void nspy_page_texts(struct nspy_str *s, const char *title, const struct cJSON *texts);
/* What only the model knows; adds to the section's data. */
void nspy_page_model(struct nspy_page *page, const struct cJSON *job,
		     const struct nspy_report *report, struct cJSON *data);
void nspy_page_pairs(struct nspy_page *page, const struct nspy_report *report, struct cJSON *data);
void nspy_page_bandwidth(struct nspy_page *page, const struct cJSON *job, struct cJSON *data);
void nspy_page_unseen(struct nspy_page *page, const struct cJSON *job,
		      const struct nspy_report *report);

/* Made by embed_page.py: everything before the title, and behind the body. */
extern const unsigned char nspy_page_head[], nspy_page_tail[];
extern const unsigned int nspy_page_head_bytes, nspy_page_tail_bytes;
extern const char nspy_page_charts[]; /* "Chart.js 3.9.1", or "" */

#endif
