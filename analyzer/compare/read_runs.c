/* SPDX-License-Identifier: Apache-2.0 */
#include "read_runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inputs.h"
#include "load.h"
#include "report.h"
#include "term.h"

static void read_baseline(const char *path, struct nspy_runs *runs)
{
	char *text = nspy_read_text(path, NSPY_BASELINE_BYTES_MAX), error[160];

	if (!text)
		fprintf(stderr, "ncclspy-analyze: %s: cannot be read\n", path);
	else if (nspy_runs_parse(text, strlen(text), runs, error, sizeof(error)) < 0)
		fprintf(stderr, "ncclspy-analyze: %s: %s\n", path, error);
	free(text);
}

void nspy_runs_read(const char *path, struct nspy_runs *runs)
{
	const struct nspy_load_options load = {.progress = nspy_term_progress()};
	struct nspy_inputs inputs = {0};

	if (nspy_runs_is_baseline(path)) {
		read_baseline(path, runs);
		return;
	}
	nspy_inputs_add(&inputs, path);
	nspy_inputs_finish(&inputs);
	for (size_t i = 0; i < inputs.job_count; i++) {
		struct nspy_run run;

		nspy_load(inputs.jobs[i], &load);
		if (nspy_profile_make(inputs.jobs[i], &run))
			*nspy_runs_add(runs) = run;
		else
			nspy_inputs_problem(&inputs, path, "job %s: no operation to compare",
					    inputs.jobs[i]->job);
	}
	for (size_t i = 0; i < inputs.foreign_count; i++)
		nspy_inputs_problem(&inputs, inputs.foreign[i], "neither a trace nor a baseline");
	for (size_t i = 0; i < inputs.bundle_count; i++)
		nspy_inputs_problem(&inputs, inputs.bundles[i], "a bundle, not a run");
	nspy_report_problems(&inputs, stderr);
	nspy_inputs_done(&inputs);
}
