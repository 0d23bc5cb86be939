/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "util.h"

void nspy_table_begin(struct nspy_table *table, FILE *out, bool jsonl, const char *const *columns)
{
	*table = (struct nspy_table){.out = out, .jsonl = jsonl, .columns = columns};
	for (size_t i = 0; !jsonl && columns[i]; i++)
		fprintf(out, "%s%s", i ? "," : "", columns[i]);
	if (!jsonl)
		fputs("\r\n", out);
}

/* What stands before a value. */
static void begin_value(struct nspy_table *table)
{
	if (table->jsonl)
		fprintf(table->out, "%c\"%s\":", table->at ? ',' : '{', table->columns[table->at]);
	else if (table->at)
		fputc(',', table->out);
	table->at++;
}

static void put_json(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

/* Spreadsheets take what begins with one of these for a formula, so it is made a text. */
static void put_csv(FILE *out, const char *text)
{
	fputc('"', out);
	if (*text && strchr("=+-@", *text))
		fputc('\'', out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

void nspy_table_text(struct nspy_table *table, const char *text)
{
	char *clean;

	if (!text) {
		nspy_table_none(table);
		return;
	}
	begin_value(table);
	clean = nspy_xstrdup(text);
	nspy_clean(clean);
	if (table->jsonl)
		put_json(table->out, clean);
	else
		put_csv(table->out, clean);
	free(clean);
}

void nspy_table_number(struct nspy_table *table, int64_t number)
{
	begin_value(table);
	fprintf(table->out, "%" PRId64, number);
}

void nspy_table_time(struct nspy_table *table, uint64_t ns)
{
	if (!ns) {
		nspy_table_none(table);
		return;
	}
	begin_value(table);
	fprintf(table->out, "%" PRIu64, ns);
}

void nspy_table_bool(struct nspy_table *table, bool value)
{
	begin_value(table);
	fputs(value ? "true" : "false", table->out);
}

void nspy_table_none(struct nspy_table *table)
{
	begin_value(table);
	if (table->jsonl)
		fputs("null", table->out);
}

void nspy_table_end_row(struct nspy_table *table)
{
	fputs(table->jsonl ? "}\n" : "\r\n", table->out);
	table->at = 0;
	table->rows++;
}
