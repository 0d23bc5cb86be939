/* SPDX-License-Identifier: Apache-2.0 */
/* The report on logs: alone, or within the report on traces of the same job. */
#ifndef NSPY_LOG_REPORT_H
#define NSPY_LOG_REPORT_H

#include <stdio.h>

#include "../report.h"
#include "log.h"

struct cJSON;

/* The most urgent priority found, 9 if there is none. findings are nspy_log_judge's. */
int nspy_log_worst(const struct nspy_findings *findings);
void nspy_log_print(const struct nspy_log *log, const struct nspy_findings *findings, FILE *out,
		    bool colour);
/* An object like those of nspy_report_json. */
struct cJSON *nspy_log_json(const struct nspy_log *log, const struct nspy_findings *findings);
/*
 * Moves the findings of logs into a report on traces. What the traces say already gets the logs'
 * evidence instead of a second finding. The log must outlive the report.
 */
void nspy_log_merge(struct nspy_report *report, struct nspy_findings *findings);

#endif
