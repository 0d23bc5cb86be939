/* SPDX-License-Identifier: Apache-2.0 */
/* A subcommand of ncclspy-analyze: one file per command, listed in main.c. */
#ifndef NSPY_CMD_H
#define NSPY_CMD_H

#include <stdbool.h>

/* Exit codes of the program. */
enum {
	NSPY_EXIT_OK = 0,
	NSPY_EXIT_FINDING = 1,  /* a finding at or above --fail-on; check: damaged input */
	NSPY_EXIT_USAGE = 2,    /* bad arguments */
	NSPY_EXIT_NOTHING = 3,  /* nothing readable */
	NSPY_EXIT_INTERNAL = 4, /* our own fault */
};

struct nspy_cmd {
	const char *name;
	const char *help; /* one line for the list of commands */
	/* argv[0] is skipped. Returns an exit code. */
	int (*run)(int argc, char **argv);
};

extern const struct nspy_cmd nspy_cmd_report;
extern const struct nspy_cmd nspy_cmd_compare;
extern const struct nspy_cmd nspy_cmd_logs;
extern const struct nspy_cmd nspy_cmd_dump;
extern const struct nspy_cmd nspy_cmd_check;
extern const struct nspy_cmd nspy_cmd_explain;
extern const struct nspy_cmd nspy_cmd_export;
extern const struct nspy_cmd nspy_cmd_summarize;
extern const struct nspy_cmd nspy_cmd_support;
extern const struct nspy_cmd nspy_cmd_timeline;

/* "P0" to "P2" as 0 to 2, "none" as -1; false if it is something else. */
bool nspy_cmd_level(const char *text, int *ret_level);
/* "Try 'ncclspy-analyze CMD --help'" on stderr; returns NSPY_EXIT_USAGE. */
int nspy_cmd_try_help(const struct nspy_cmd *cmd);

#endif
