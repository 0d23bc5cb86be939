/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables for databases, row by row: CSV with a header (RFC 4180) or one JSON object a line. Values
 * are given in the order of the columns.
 */
#ifndef NSPY_EXPORT_TABLE_H
#define NSPY_EXPORT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct nspy_table {
	FILE *out;
	bool jsonl;
	const char *const *columns; /* ends with NULL */
	size_t at;                  /* column of the next value */
	uint64_t rows;
};

void nspy_table_begin(struct nspy_table *table, FILE *out, bool jsonl, const char *const *columns);
/* NULL is no value. Texts are cleaned of what is no UTF-8 and of control characters. */
void nspy_table_text(struct nspy_table *table, const char *text);
void nspy_table_number(struct nspy_table *table, int64_t number);
void nspy_table_time(struct nspy_table *table, uint64_t ns); /* 0 is no value */
void nspy_table_bool(struct nspy_table *table, bool value);
void nspy_table_none(struct nspy_table *table);
void nspy_table_end_row(struct nspy_table *table);

struct nspy_model;
struct nspy_attempt;
struct nspy_report;

/* The tables. Each begins one in out and returns the number of rows. */
uint64_t nspy_table_operations(const struct nspy_model *model, struct nspy_table *table);
uint64_t nspy_table_calls(const struct nspy_model *model, struct nspy_table *table);
uint64_t nspy_table_ranks(const struct nspy_model *model, struct nspy_table *table);
uint64_t nspy_table_findings(const struct nspy_report *report, struct nspy_table *table);

extern const char *const nspy_columns_operations[],
	*const nspy_columns_calls[], *const nspy_columns_ranks[], *const nspy_columns_findings[];

#endif
