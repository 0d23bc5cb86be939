/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One more reading of an attempt's operations, for what the page draws and the model does not keep:
 * how long after the first one each process came to its collectives, over time, and what kinds of
 * operations there were. Times are nanoseconds; everything is taken from calls of the hosts.
 */
#ifndef NSPY_HTML_SURVEY_H
#define NSPY_HTML_SURVEY_H

#include "report.h"

#define NSPY_SURVEY_COLUMNS 160u
#define NSPY_SURVEY_SIZES   65u /* 0 bytes, then powers of two */

/* Operations of one function, of sizes from 2^(n-1) below 2^n bytes. */
struct nspy_survey_kind {
	uint64_t operations; /* collectives: counted once; messages: calls */
	uint64_t calls;      /* of all ranks */
	uint64_t spreads;    /* operations whose arrivals are known */
	uint64_t spread_sum_ns, spread_max_ns;
	double bytes; /* of all calls */
};

struct nspy_survey {
	uint64_t from_ns, column_ns;
	size_t columns;
	/* By proc->index: NSPY_SURVEY_COLUMNS values each, the longest lag plus 1; 0 = no arrival.
	 */
	uint64_t *lags;
	struct nspy_survey_kind *kinds; /* by function, NSPY_SURVEY_SIZES each */
	size_t fn_count;
};

void nspy_survey_make(const struct nspy_report *report, struct nspy_survey *ret);
void nspy_survey_done(struct nspy_survey *survey);

#endif
