/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JOB_TERMINATED
 *
 * Question: was the job ended from outside as a whole (preemption, time limit, scancel, a deleted
 *   job), so that no rank is to blame for its end?
 * Evidence: SIGTERM came to every process before it ended: the launcher of each saw it, its own
 *   handler noted it (NCCLSPY_TERM=1), or the process died of it.
 * Threshold: within 10 s if the arrival was seen; else within the time in which deaths count as
 *   simultaneous. A process that crashed, or died before it was asked, speaks against it.
 * Known false positives: a program that ends its own ranks with SIGTERM, all at the same moment.
 */
#include <inttypes.h>

#include "detect.h"
#include "text.h"

static void tell_exits(const struct nspy_case *c, struct nspy_finding *finding)
{
	size_t by_signal = 0, by_code = 0, killed = 0, clean = 0;

	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		const struct nspy_exit *end = &c->attempt->procs[i]->exit;

		clean += end->known && !end->signal && !end->code;
		by_code += end->known && !end->signal && end->code;
		killed += end->known && end->signal == 9;
		by_signal += end->known && end->signal && end->signal != 9;
	}
	nspy_finding_detail(finding,
			    "how they ended: %zu by the signal, %zu with exit code 0, %zu with "
			    "another, %zu killed because they did not go",
			    by_signal, clean, by_code, killed);
}

static size_t seen_by_launchers(const struct nspy_case *c)
{
	size_t count = 0;

	for (size_t i = 0; i < c->attempt->proc_count; i++)
		count += c->attempt->procs[i]->exit.asked_launcher;
	return count;
}

void nspy_detect_terminated(const struct nspy_case *c, struct nspy_findings *out)
{
	const struct nspy_deaths *deaths = &c->deaths;
	struct nspy_finding *finding;
	struct nspy_str s = {0};
	uint64_t span_ns = deaths->asked_until_ns - deaths->asked_ns;
	bool hung = c->waits.hang_count != 0;

	if (!deaths->terminated)
		return;
	finding = nspy_findings_add(out, NSPY_FINDING_JOB_TERMINATED);
	nspy_str_add(&s, "ended by SIGTERM at ");
	nspy_add_clock(&s, deaths->asked_ns);
	nspy_str_addf(&s, ", %zu ranks within ", c->attempt->proc_count);
	nspy_add_duration(&s, span_ns);
	nspy_str_add(&s, hung ? ", while ranks waited"
			      : ": preemption, time limit or scancel, not a fault");
	finding->summary = nspy_str_take(&s);
	finding->cause = nspy_xstrdup("the job was ended as a whole by SIGTERM");
	finding->when_ns = deaths->asked_ns;
	finding->confidence =
		seen_by_launchers(c) == c->attempt->proc_count ? NSPY_CERTAIN : NSPY_PROBABLE;
	tell_exits(c, finding);
}
