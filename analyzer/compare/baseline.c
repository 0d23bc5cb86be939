/* SPDX-License-Identifier: Apache-2.0 */
#include "baseline.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "inputs.h"
#include "load.h"
#include "report.h"

#define MIX_SHARE 0.1 /* of how often an operation comes in a step: more is other work */

/* --- the same work --- */

static const char *tag_of(const struct nspy_run *run)
{
	const char *tag = nspy_run_fact(run, "job.tag");

	return tag ? tag : "";
}

static double rate_of(const struct nspy_run *run, const char *key)
{
	for (size_t i = 0; i < run->mix_count; i++) {
		if (strcmp(run->mix[i].key, key) == 0)
			return run->mix[i].per_step;
	}
	return 0;
}

/* Operations of a: each as often in b. Runs without steps have totals, which say nothing. */
static bool same_operations(const struct nspy_run *a, const struct nspy_run *b)
{
	for (size_t i = 0; i < a->mix_count; i++) {
		double rate = a->mix[i].per_step, other = rate_of(b, a->mix[i].key);

		if (strncmp(a->mix[i].key, "nccl", 4) == 0 &&
		    fabs(rate - other) > MIX_SHARE * fmax(rate, other))
			return false;
	}
	return true;
}

bool nspy_baseline_same_job(const struct nspy_run *a, const struct nspy_run *b)
{
	return a->ranks == b->ranks && strcmp(tag_of(a), tag_of(b)) == 0 && a->steps && b->steps &&
	       same_operations(a, b) && same_operations(b, a);
}

/* --- jobs in a directory --- */

struct place {
	char *path;
	struct timespec written;
};

struct places {
	struct place *items;
	size_t count, capacity;
};

static int newest_first(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->written.tv_sec != y->written.tv_sec)
		return x->written.tv_sec > y->written.tv_sec ? -1 : 1;
	if (x->written.tv_nsec != y->written.tv_nsec)
		return x->written.tv_nsec > y->written.tv_nsec ? -1 : 1;
	return strcmp(x->path, y->path);
}

/* All directories in one except that at `except`. */
static void list_places(const char *directory, const char *except, struct places *ret)
{
	DIR *dir = opendir(directory);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char *path = nspy_xasprintf("%s/%s", directory, entry->d_name);
		struct stat st;

		if (entry->d_name[0] == '.' || strcmp(path, except) == 0 || lstat(path, &st) < 0 ||
		    !S_ISDIR(st.st_mode)) {
			free(path);
			continue;
		}
		ret->items = nspy_grow(ret->items, ret->count, &ret->capacity, sizeof(*ret->items));
		ret->items[ret->count++] = (struct place){path, st.st_mtim};
	}
	if (dir)
		closedir(dir);
	if (ret->count)
		qsort(ret->items, ret->count, sizeof(*ret->items), newest_first);
}

/* --- choosing --- */

struct search {
	const struct nspy_run *run;
	struct nspy_runs *found;
	size_t tried, other, with_findings;
};

static bool is_clean(const struct nspy_model *model)
{
	const struct nspy_report_options options = {
		.thresholds = {.hang_ended_ns = NSPY_HANG_ENDED_NS,
			       .hang_running_ns = NSPY_HANG_RUNNING_NS}};
	struct nspy_report report;
	bool clean;

	nspy_report_make(&report, model, &options);
	clean = nspy_report_worst(&report) > 1;
	nspy_report_done(&report);
	return clean;
}

static void try_job(struct search *search, struct nspy_model *model)
{
	const struct nspy_load_options load = {0};
	struct nspy_run run;

	nspy_load(model, &load);
	if (!nspy_profile_make(model, &run)) {
		search->other++;
		return;
	}
	if (run.start_ns > search->run->start_ns || !nspy_baseline_same_job(&run, search->run)) {
		search->other++;
	} else if (!is_clean(model)) {
		search->with_findings++;
	} else {
		*nspy_runs_add(search->found) = run;
		return;
	}
	nspy_run_done(&run);
}

static void try_place(struct search *search, const char *path)
{
	struct nspy_inputs inputs = {0};

	nspy_inputs_add(&inputs, path);
	nspy_inputs_finish(&inputs);
	/* Several jobs below it: no job's directory. */
	if (inputs.job_count == 1) {
		search->tried++;
		try_job(search, inputs.jobs[0]);
	}
	nspy_inputs_done(&inputs);
}

static void tell(const struct search *search, const char *directory, struct nspy_str *said)
{
	nspy_str_addf(said, "%zu earlier run%s beside it in %s", search->found->count,
		      search->found->count == 1 ? "" : "s", directory);
	if (search->other)
		nspy_str_addf(said, ", %zu passed over as another job or later", search->other);
	if (search->with_findings)
		nspy_str_addf(said, ", %zu for a P0 or P1", search->with_findings);
	if (search->tried == NSPY_BASELINE_TRIED)
		nspy_str_add(said, "; older ones were not looked at");
	if (!*tag_of(search->run))
		nspy_str_add(said, "; without NCCLSPY_TAG jobs are told apart by ranks and "
				   "operations alone");
}

void nspy_baseline_find(const struct nspy_run *run, struct nspy_runs *ret, struct nspy_str *said)
{
	struct search search = {.run = run, .found = ret};
	const char *slash = run->directory ? strrchr(run->directory, '/') : NULL;
	struct places places = {0};
	char *beside;

	if (!slash || slash == run->directory) {
		nspy_str_add(said, "no directory with other jobs beside it");
		return;
	}
	beside = nspy_xstrndup(run->directory, (size_t)(slash - run->directory));
	list_places(beside, run->directory, &places);
	for (size_t i = 0; i < places.count; i++) {
		if (ret->count < NSPY_BASELINE_RUNS && search.tried < NSPY_BASELINE_TRIED)
			try_place(&search, places.items[i].path);
		free(places.items[i].path);
	}
	tell(&search, beside, said);
	free(places.items);
	free(beside);
}

char *nspy_baseline_line(const struct nspy_runs *base, const struct nspy_runs *now)
{
	const struct nspy_compare_options options = NSPY_COMPARE_DEFAULTS;
	const struct nspy_row *row;
	struct nspy_comparison comparison;
	struct nspy_str s = {0};

	nspy_compare(base, now, &options, &comparison);
	row = nspy_comparison_row(&comparison, nspy_metric_kind_name(NSPY_METRIC_STEP));
	nspy_str_add(&s, "vs baseline: ");
	if (row) {
		nspy_row_add_name(&s, row);
		nspy_str_add(&s, " ");
		nspy_row_add_change(&s, row);
		nspy_str_add(&s, row->verdict == NSPY_CHANGE_WORSE    ? ", a regression"
				 : row->verdict == NSPY_CHANGE_BETTER ? ", better"
				 : nspy_row_is_likely(&comparison, row)
					 ? ", likely slower, not proven"
				 : row->verdict == NSPY_CHANGE_NONE ? ", no regression is seen"
								    : ", not proven");
	} else {
		nspy_str_add(&s, comparison.reasons.count ? comparison.reasons.text[0]
							  : "step times cannot be compared");
	}
	nspy_str_addf(&s, "; %zu run%s", base->count, base->count == 1 ? "" : "s");
	nspy_comparison_done(&comparison);
	return nspy_str_take(&s);
}
