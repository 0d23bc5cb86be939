/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings that are known and accepted. A line of the file: "ID SCOPE EXPIRY REASON".
 *   SCOPE   '*', 'job=NAME' or 'node=NAME' (all culprits on that node)
 *   EXPIRY  YYYY-MM-DD, the last day (UTC) on which the line counts, or 'never'
 * Empty lines and lines that begin with '#' are skipped. Ignored findings stay in the report,
 * marked and counted; they only lose their effect on verdict and exit status.
 */
#ifndef NSPY_IGNORE_H
#define NSPY_IGNORE_H

#include "report.h"

struct nspy_ignore_rule {
	int id;
	char *scope;
	char *expiry;
	char *reason;
};

struct nspy_ignore {
	struct nspy_ignore_rule *rules;
	size_t count, capacity;
};

/* Says on stderr what is wrong, with the line, and returns false. */
bool nspy_ignore_read(struct nspy_ignore *ignore, const char *path);
void nspy_ignore_apply(const struct nspy_ignore *ignore, struct nspy_report *report);
void nspy_ignore_done(struct nspy_ignore *ignore);

#endif
