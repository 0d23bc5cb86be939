/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "export/table.h"
#include "inputs.h"
#include "load.h"
#include "report.h"
#include "term.h"

enum { OPT_FORMAT = 256, OPT_TABLE };

#define BUFFER_BYTES (1u << 20)

static const struct option long_options[] = {
	{"format", required_argument, NULL, OPT_FORMAT},
	{"output", required_argument, NULL, 'o'},
	{"table", required_argument, NULL, OPT_TABLE},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static const struct table {
	const char *name;
	const char *const *columns;
	uint64_t (*fill)(const struct nspy_model *model, struct nspy_table *table);
} tables[] = {
	{"operations", nspy_columns_operations, nspy_table_operations},
	{"calls", nspy_columns_calls, nspy_table_calls},
	{"ranks", nspy_columns_ranks, nspy_table_ranks},
	{"findings", nspy_columns_findings, NULL}, /* needs the report */
};

struct options {
	const struct table *table;
	bool jsonl;
	const char *output; /* NULL: standard output */
};

static void usage(FILE *out)
{
	fputs("Usage: ncclspy-analyze export [OPTION]... [DIR|FILE|JOB]...\n"
	      "\n"
	      "Writes what was recorded as a table, for DuckDB, ClickHouse, Spark and the like. "
	      "Several\n"
	      "jobs make one table. Times are nanoseconds since 1970, aligned over all hosts.\n"
	      "\n"
	      "Options:\n"
	      "      --format F      csv (default) or jsonl\n"
	      "  -o, --output FILE   write there instead of standard output\n"
	      "      --table T       operations (default): a row a collective, when its ranks "
	      "came;\n"
	      "                      calls: a row a call of a rank; ranks: a row a process; "
	      "findings: a\n"
	      "                      row a culprit\n"
	      "  -h, --help          show this help and exit\n"
	      "\n"
	      "Exit status: 0, 2 usage, 3 nothing readable or the output cannot be written.\n",
	      out);
}

static bool set_option(struct options *options, int opt, const char *value)
{
	switch (opt) {
	case OPT_FORMAT:
		options->jsonl = strcmp(value, "jsonl") == 0;
		return options->jsonl || strcmp(value, "csv") == 0;
	case OPT_TABLE:
		for (size_t i = 0; i < nspy_array_size(tables); i++) {
			if (strcmp(tables[i].name, value) == 0) {
				options->table = &tables[i];
				return true;
			}
		}
		return false;
	default:
		options->output = strcmp(value, "-") ? value : NULL;
		return true;
	}
}

static void findings_of(struct nspy_model *model, struct nspy_table *table)
{
	struct nspy_report_options options = {
		.thresholds = {NSPY_HANG_ENDED_NS, NSPY_HANG_RUNNING_NS}};

	for (uint32_t attempt = 1; attempt <= model->attempt_count; attempt++) {
		struct nspy_report report;

		options.attempt = attempt;
		nspy_report_make(&report, model, &options);
		nspy_table_findings(&report, table);
		nspy_report_done(&report);
	}
}

static void write_table(const struct options *options, struct nspy_inputs *inputs, FILE *out)
{
	const struct nspy_load_options load = {.progress = nspy_term_progress()};
	struct nspy_table table;

	nspy_table_begin(&table, out, options->jsonl, options->table->columns);
	for (size_t i = 0; i < inputs->job_count; i++) {
		nspy_load(inputs->jobs[i], &load);
		if (options->table->fill)
			options->table->fill(inputs->jobs[i], &table);
		else
			findings_of(inputs->jobs[i], &table);
	}
}

/* A full disk is found out at the latest when closing. */
static int export_to(const struct options *options, struct nspy_inputs *inputs)
{
	const char *name = options->output ? options->output : "standard output";
	FILE *out = options->output ? fopen(options->output, "we") : stdout;
	bool ok = out != NULL;

	if (ok) {
		(void)setvbuf(out, NULL, _IOFBF, BUFFER_BYTES);
		write_table(options, inputs, out);
		ok = !ferror(out) && fflush(out) == 0;
		if (out != stdout)
			ok = fclose(out) == 0 && ok;
	}
	if (!ok)
		fprintf(stderr, "ncclspy-analyze: %s: %s\n", name, strerror(errno));
	return ok ? NSPY_EXIT_OK : NSPY_EXIT_NOTHING;
}

static int run(int argc, char **argv)
{
	struct options options = {.table = &tables[0]};
	struct nspy_inputs inputs = {0};
	int opt, rc = NSPY_EXIT_NOTHING;

	while ((opt = getopt_long(argc, argv, "ho:", long_options, NULL)) != -1) {
		if (opt == 'h') {
			usage(stdout);
			return NSPY_EXIT_OK;
		}
		if (opt == '?')
			return nspy_cmd_try_help(&nspy_cmd_export);
		if (!set_option(&options, opt, optarg)) {
			fprintf(stderr, "ncclspy-analyze: bad value '%s'\n", optarg);
			return nspy_cmd_try_help(&nspy_cmd_export);
		}
	}
	nspy_inputs_add_arguments(&inputs, argc - optind, argv + optind);
	if (inputs.job_count)
		rc = export_to(&options, &inputs);
	nspy_report_problems(&inputs, stderr);
	nspy_inputs_done(&inputs);
	return rc;
}

const struct nspy_cmd nspy_cmd_export = {
	.name = "export",
	.help = "operations, calls, ranks or findings as a table for databases",
	.run = run,
};
