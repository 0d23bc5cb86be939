/* SPDX-License-Identifier: Apache-2.0 */
#include "survey.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "reread.h"

#define THREADS_MAX 8u

struct job {
	const struct nspy_report *report;
	struct nspy_survey *survey;
	atomic_size_t next;
};

/* Rows of lags belong to one process each; kinds are added up per thread. */
struct worker {
	struct job *job;
	struct nspy_survey_kind *kinds;
	struct nspy_map seen; /* calls of a process that can be read twice */
	pthread_t thread;
	bool twice, started;
};

static size_t size_class(uint64_t bytes)
{
	return bytes ? 64 - (size_t)__builtin_clzll(bytes) : 0;
}

static void take_lag(struct nspy_survey *survey, const struct nspy_member *member,
		     const struct nspy_cell *cell, uint64_t when_ns)
{
	uint64_t lag = when_ns > cell->first_ns ? when_ns - cell->first_ns : 0;
	size_t column;
	uint64_t *at;

	if (when_ns < survey->from_ns)
		return;
	column = (size_t)((when_ns - survey->from_ns) / survey->column_ns);
	if (column >= survey->columns)
		column = survey->columns - 1;
	at = &survey->lags[member->proc->index * (size_t)NSPY_SURVEY_COLUMNS + column];
	if (lag + 1 > *at)
		*at = lag + 1;
}

static bool read_before(struct worker *worker, uint32_t thread, const struct nspy_rec *rec)
{
	uint64_t call = (uint64_t)thread << 32 | rec->callno;

	if (!worker->twice)
		return false;
	if (nspy_map_get(&worker->seen, call))
		return true;
	nspy_map_put(&worker->seen, call, worker);
	return false;
}

static void visit(void *context, const struct nspy_proc *proc, uint32_t thread,
		  const struct nspy_rec *rec)
{
	struct worker *worker = context;
	const struct nspy_model *model = worker->job->report->model;
	uint16_t id = rec->fn < proc->fn_map_count ? proc->fn_map[rec->fn] : 0;
	const struct nspy_fn *fn = nspy_model_get_fn(model, id);
	const struct nspy_member *member;
	const struct nspy_cell *cell = NULL;
	struct nspy_survey_kind *kind;
	uint64_t bytes;

	if ((fn->klass != NSPY_CLASS_COLL && fn->klass != NSPY_CLASS_SEND &&
	     fn->klass != NSPY_CLASS_RECV) ||
	    rec->comm >= proc->member_count)
		return;
	member = proc->members[rec->comm];
	if (!member || !member->comm || !member->proc ||
	    member->proc->attempt != worker->job->report->attempt ||
	    read_before(worker, thread, rec))
		return;
	if (fn->klass == NSPY_CLASS_COLL && rec->seq &&
	    !(rec->flags & (NSPY_CALL_CAPTURED | NSPY_CALL_NOSEQ)))
		cell = nspy_cells_get(&member->comm->cells, rec->seq);
	if (cell && member->comm->member_count > 1)
		take_lag(worker->job->survey, member, cell, nspy_proc_when(proc, rec->enter));
	bytes = rec->datatype == NSPY_DATATYPE_NONE ? 0
						    : rec->count * proc->type_bytes[rec->datatype];
	kind = &worker->kinds[fn->canon * NSPY_SURVEY_SIZES + size_class(bytes)];
	kind->calls++;
	kind->bytes += (double)bytes;
	if (fn->klass == NSPY_CLASS_COLL && member->comm->members[0] != member)
		return;
	kind->operations++;
	if (!cell || nspy_cell_count(cell) < 2)
		return;
	kind->spreads++;
	kind->spread_sum_ns += cell->last_ns - cell->first_ns;
	if (cell->last_ns - cell->first_ns > kind->spread_max_ns)
		kind->spread_max_ns = cell->last_ns - cell->first_ns;
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	const struct nspy_model *model = worker->job->report->model;
	size_t i;

	while ((i = atomic_fetch_add(&worker->job->next, 1)) < model->proc_count) {
		const struct nspy_proc *proc = model->procs[i];

		/* Parts are read with their whole, which need not be in the attempt's list. */
		if (proc->whole ||
		    (!proc->part_count && proc->attempt != worker->job->report->attempt))
			continue;
		worker->twice = proc->live_read || proc->open_count;
		nspy_reread(proc, visit, worker);
		nspy_map_done(&worker->seen);
		worker->seen = (struct nspy_map){0};
	}
	return NULL;
}

static void add_kinds(struct nspy_survey *survey, const struct nspy_survey_kind *from)
{
	for (size_t i = 0; i < survey->fn_count * NSPY_SURVEY_SIZES; i++) {
		struct nspy_survey_kind *into = &survey->kinds[i];

		into->operations += from[i].operations;
		into->calls += from[i].calls;
		into->spreads += from[i].spreads;
		into->spread_sum_ns += from[i].spread_sum_ns;
		into->bytes += from[i].bytes;
		if (from[i].spread_max_ns > into->spread_max_ns)
			into->spread_max_ns = from[i].spread_max_ns;
	}
}

static void read_all(struct job *job)
{
	size_t kinds = job->survey->fn_count * NSPY_SURVEY_SIZES;
	struct worker workers[THREADS_MAX] = {0};
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	size_t count = cpus < 1 ? 1 : (size_t)cpus;

	if (count > THREADS_MAX)
		count = THREADS_MAX;
	for (size_t i = 0; i < count; i++) {
		workers[i].job = job;
		workers[i].kinds = nspy_xcalloc(kinds, sizeof(*workers[i].kinds));
	}
	for (size_t i = 1; i < count; i++)
		workers[i].started =
			pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0;
	work(&workers[0]); /* failing to make others costs only time */
	for (size_t i = 0; i < count; i++) {
		if (workers[i].started)
			pthread_join(workers[i].thread, NULL);
		add_kinds(job->survey, workers[i].kinds);
		free(workers[i].kinds);
	}
}

void nspy_survey_make(const struct nspy_report *report, struct nspy_survey *ret)
{
	const struct nspy_attempt *attempt = report->attempt;
	struct job job = {.report = report, .survey = ret};
	uint64_t span =
		attempt->end_ns > attempt->start_ns ? attempt->end_ns - attempt->start_ns : 1;

	*ret = (struct nspy_survey){
		.from_ns = attempt->start_ns,
		.column_ns = span / NSPY_SURVEY_COLUMNS + 1,
		.columns = NSPY_SURVEY_COLUMNS,
		.fn_count = report->model->fn_count,
	};
	ret->lags = nspy_xcalloc(report->model->proc_count * (size_t)NSPY_SURVEY_COLUMNS + 1,
				 sizeof(*ret->lags));
	ret->kinds = nspy_xcalloc(ret->fn_count * NSPY_SURVEY_SIZES + 1, sizeof(*ret->kinds));
	read_all(&job);
}

void nspy_survey_done(struct nspy_survey *survey)
{
	free(survey->lags);
	free(survey->kinds);
}
