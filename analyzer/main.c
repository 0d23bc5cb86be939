/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "util.h"

static const struct nspy_cmd *const commands[] = {
	&nspy_cmd_report,    &nspy_cmd_compare, &nspy_cmd_logs,   &nspy_cmd_dump,
	&nspy_cmd_check,     &nspy_cmd_explain, &nspy_cmd_export, &nspy_cmd_timeline,
	&nspy_cmd_summarize, &nspy_cmd_support,
};

static void help(FILE *out)
{
	fputs("Usage: ncclspy-analyze [COMMAND] [OPTION]... [DIR|FILE|JOB]...\n"
	      "\n"
	      "Reads the traces that libncclspy.so left and says what happened.\n"
	      "\n"
	      "Commands:\n",
	      out);
	for (size_t i = 0; i < nspy_array_size(commands); i++)
		fprintf(out, "  %-14s %s\n", commands[i]->name, commands[i]->help);
	fputs("\n"
	      "Options:\n"
	      "  -h, --help     show this help and exit\n"
	      "  -V, --version  show the version and exit\n"
	      "\n"
	      "'ncclspy-analyze COMMAND --help' explains a command. Exit status: 0 fine, 1 finding "
	      "at\n"
	      "or above --fail-on (check: damage), 2 usage, 3 nothing readable, 4 internal "
	      "error.\n",
	      out);
}

static const struct nspy_cmd *find_command(const char *name)
{
	for (size_t i = 0; i < nspy_array_size(commands); i++) {
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	}
	return NULL;
}

static int run(int argc, char **argv)
{
	const struct nspy_cmd *cmd = argc > 1 ? find_command(argv[1]) : NULL;

	if (cmd)
		return cmd->run(argc - 1, argv + 1);
	if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
		help(stdout);
		return NSPY_EXIT_OK;
	}
	if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
		puts("ncclspy-analyze " NSPY_VERSION);
		return NSPY_EXIT_OK;
	}
	/* Without a command: report. argv[0] takes the place of its name. */
	return nspy_cmd_report.run(argc, argv);
}

/* A script that reads our output must not take an empty document for "fine". */
int main(int argc, char **argv)
{
	int rc = run(argc, argv);

	if (fflush(stdout) == 0 && !ferror(stdout))
		return rc;
	fprintf(stderr, "ncclspy-analyze: standard output: %s\n", strerror(errno ? errno : EIO));
	return rc == NSPY_EXIT_OK || rc == NSPY_EXIT_FINDING ? NSPY_EXIT_NOTHING : rc;
}
