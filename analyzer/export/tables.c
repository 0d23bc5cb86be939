/* SPDX-License-Identifier: Apache-2.0 */
/* Operations, calls and ranks as tables. Times are nanoseconds of the aligned wall clock. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "costs.h"
#include "finding.h"
#include "report.h"
#include "reread.h"
#include "table.h"
#include "who.h"

/* --- operations: one row a collective --- */

const char *const nspy_columns_operations[] = {
	"job",      "attempt",  "communicator", "ranks",     "seq",       "function",
	"datatype", "elements", "bytes",        "root",      "arrived",   "agrees",
	"first_ns", "last_ns",  "spread_ns",    "last_rank", "last_node", NULL};

const char *const nspy_columns_calls[] = {
	"job",          "attempt",     "rank",   "node",     "pid",      "thread", "function",
	"communicator", "seq",         "peer",   "datatype", "elements", "bytes",  "enter_ns",
	"leave_ns",     "duration_ns", "result", "grouped",  "captured", "nested", NULL};

struct export
{
	const struct nspy_model *model;
	struct nspy_table *table;
	struct nspy_map seen; /* calls of a process that can be read twice */
	bool twice;
};

static void put_key(struct nspy_table *table, uint64_t key)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%016" PRIx64, key);
	nspy_table_text(table, text);
}

static void put_attempt(struct nspy_table *table, const struct nspy_model *model,
			const struct nspy_proc *proc)
{
	nspy_table_text(table, model->job);
	if (proc->attempt)
		nspy_table_number(table, proc->attempt->number);
	else
		nspy_table_none(table);
}

static const struct nspy_fn *fn_of(const struct nspy_model *model, const struct nspy_proc *proc,
				   const struct nspy_rec *rec)
{
	return nspy_model_get_fn(model, rec->fn < proc->fn_map_count ? proc->fn_map[rec->fn] : 0);
}

static void put_payload(struct nspy_table *table, const struct nspy_model *model,
			const struct nspy_proc *proc, const struct nspy_rec *rec)
{
	char type[32];

	if (rec->datatype == NSPY_DATATYPE_NONE) {
		nspy_table_none(table);
		nspy_table_none(table);
		nspy_table_number(table, (int64_t)rec->count);
		return;
	}
	nspy_table_text(table, nspy_type_name(model, rec->datatype, type, sizeof(type)));
	nspy_table_number(table, (int64_t)rec->count);
	nspy_table_number(table, (int64_t)(rec->count * proc->type_bytes[rec->datatype]));
}

static void put_peer(struct nspy_table *table, int32_t peer)
{
	if (peer == NSPY_PEER_NONE)
		nspy_table_none(table);
	else
		nspy_table_number(table, peer);
}

/* The first member of each communicator tells what the operation was. */
static void visit_operation(void *context, const struct nspy_proc *proc, uint32_t thread,
			    const struct nspy_rec *rec)
{
	struct export *export = context;
	struct nspy_table *table = export->table;
	const struct nspy_fn *fn = fn_of(export->model, proc, rec);
	const struct nspy_member *member, *last;
	const struct nspy_cell *cell;

	(void)thread;
	if (fn->klass != NSPY_CLASS_COLL || rec->seq == 0 || rec->leave == 0 ||
	    (rec->flags & (NSPY_CALL_CAPTURED | NSPY_CALL_NOSEQ)) ||
	    rec->comm >= proc->member_count)
		return;
	member = proc->members[rec->comm];
	if (!member || !member->comm || member->comm->members[0] != member)
		return;
	cell = nspy_cells_get(&member->comm->cells, rec->seq);
	/* Read twice: the first time counts. */
	if (!cell ||
	    (export->twice && nspy_map_get(&export->seen, rec->seq ^ member->comm->key << 20)))
		return;
	if (export->twice)
		nspy_map_put(&export->seen, rec->seq ^ member->comm->key << 20, export);
	last = export->model->members[cell->last_member];
	put_attempt(table, export->model, member->proc);
	put_key(table, member->comm->shown);
	nspy_table_number(table, member->comm->nranks);
	nspy_table_number(table, (int64_t)rec->seq);
	nspy_table_text(table, nspy_model_get_fn(export->model, fn->canon)->name);
	put_payload(table, export->model, proc, rec);
	put_peer(table, rec->peer);
	nspy_table_number(table, nspy_cell_count(cell));
	nspy_table_bool(table, !(cell->arrived & NSPY_CELL_MIXED));
	nspy_table_time(table, cell->first_ns);
	nspy_table_time(table, cell->last_ns);
	nspy_table_number(table, (int64_t)(cell->last_ns - cell->first_ns));
	if (cell->gap_ns) {
		nspy_table_number(table, last->rec.rank);
		nspy_table_text(table, nspy_proc_host(last->proc));
	} else { /* several came last at once */
		nspy_table_none(table);
		nspy_table_none(table);
	}
	nspy_table_end_row(table);
}

/* leave_ns 0: it never returned. Times are aligned. */
static void put_call(const struct nspy_model *model, const struct nspy_proc *proc, uint32_t thread,
		     const struct nspy_fn *fn, const struct nspy_rec *rec, uint64_t enter_ns,
		     uint64_t leave_ns, struct nspy_table *table)
{
	const struct nspy_member *member =
		rec->comm < proc->member_count ? proc->members[rec->comm] : NULL;
	/* Of a process with several ranks, the one that the communicator is of. */
	const struct nspy_proc *who = member && member->proc ? member->proc : proc;

	put_attempt(table, model, who);
	if (who->rank == NSPY_NO_RANK)
		nspy_table_none(table);
	else
		nspy_table_number(table, who->rank);
	nspy_table_text(table, nspy_proc_host(who));
	nspy_table_number(table, who->pid);
	nspy_table_number(table, thread);
	nspy_table_text(table, fn->name);
	if (member && member->rec.key)
		put_key(table, member->rec.key);
	else
		nspy_table_none(table);
	if (rec->seq)
		nspy_table_number(table, (int64_t)rec->seq);
	else
		nspy_table_none(table);
	put_peer(table, rec->peer);
	put_payload(table, model, proc, rec);
	nspy_table_time(table, enter_ns);
	nspy_table_time(table, leave_ns);
	if (leave_ns) {
		nspy_table_number(table, (int64_t)(leave_ns - enter_ns));
		nspy_table_number(table, rec->result);
	} else {
		nspy_table_none(table);
		nspy_table_none(table);
	}
	nspy_table_bool(table, rec->flags & NSPY_CALL_GROUPED);
	nspy_table_bool(table, rec->flags & NSPY_CALL_CAPTURED);
	nspy_table_bool(table, rec->flags & NSPY_CALL_NESTED);
	nspy_table_end_row(table);
}

static void visit_call(void *context, const struct nspy_proc *proc, uint32_t thread,
		       const struct nspy_rec *rec)
{
	struct export *export = context;
	uint64_t call = (uint64_t)thread << 32 | rec->callno;

	if (rec->leave == 0)
		return; /* those open at the end follow */
	if (export->twice && nspy_map_get(&export->seen, call))
		return;
	if (export->twice)
		nspy_map_put(&export->seen, call, export);
	put_call(export->model, proc, thread, fn_of(export->model, proc, rec), rec,
		 nspy_proc_when(proc, rec->enter), nspy_proc_when(proc, rec->leave), export->table);
}

static uint64_t read_all(const struct nspy_model *model, struct nspy_table *table,
			 nspy_visit_fn *visit)
{
	struct export export = {.model = model, .table = table};

	for (size_t i = 0; i < model->proc_count; i++) {
		const struct nspy_proc *proc = model->procs[i];

		if (proc->whole)
			continue; /* a part of one that is read */
		export.twice = proc->live_read || proc->open_count;
		nspy_reread(proc, visit, &export);
		nspy_map_done(&export.seen);
		export.seen = (struct nspy_map){0};
	}
	return table->rows;
}

uint64_t nspy_table_operations(const struct nspy_model *model, struct nspy_table *table)
{
	return read_all(model, table, visit_operation);
}

uint64_t nspy_table_calls(const struct nspy_model *model, struct nspy_table *table)
{
	read_all(model, table, visit_call);
	for (size_t i = 0; i < model->proc_count; i++) {
		const struct nspy_proc *proc = model->procs[i];

		for (size_t w = 0; !proc->whole && w < proc->wait_count; w++)
			put_call(model, proc, proc->waits[w].thread,
				 nspy_model_get_fn(model, proc->waits[w].rec.fn),
				 &proc->waits[w].rec, proc->waits[w].rec.enter, 0, table);
	}
	return table->rows;
}

/* --- ranks: one row a process, or a rank where a process holds several --- */

const char *const nspy_columns_ranks[] = {
	"job",     "attempt",    "rank",     "node",  "pid",          "state",       "exit_code",
	"signal",  "start_ns",   "end_ns",   "calls", "operations",   "bytes",       "lost_records",
	"wait_ns", "charged_ns", "instance", "gpu",   "nccl_version", "cuda_driver", NULL};

static const char *state_name(const struct nspy_proc *proc)
{
	return proc->state == NSPY_PROC_COMPLETE  ? "complete"
	       : proc->state == NSPY_PROC_RUNNING ? "running"
						  : "cut";
}

static void put_rank(const struct nspy_model *model, const struct nspy_proc *proc,
		     const struct nspy_costs *costs, struct nspy_table *table)
{
	put_attempt(table, model, proc);
	if (proc->rank == NSPY_NO_RANK)
		nspy_table_none(table);
	else
		nspy_table_number(table, proc->rank);
	nspy_table_text(table, nspy_proc_host(proc));
	nspy_table_number(table, proc->pid);
	nspy_table_text(table, state_name(proc));
	if (proc->exit.known && proc->exit.has_code)
		nspy_table_number(table, proc->exit.code);
	else
		nspy_table_none(table);
	if (proc->exit.known && proc->exit.signal)
		nspy_table_number(table, proc->exit.signal);
	else
		nspy_table_none(table);
	nspy_table_time(table, proc->start_ns);
	nspy_table_time(table, proc->end_ns);
	nspy_table_number(table, (int64_t)proc->calls);
	nspy_table_number(table, (int64_t)proc->ops);
	nspy_table_number(table, (int64_t)proc->bytes);
	nspy_table_number(table, (int64_t)nspy_proc_lost_records(proc));
	nspy_table_number(table, (int64_t)proc->sync_ns);
	nspy_table_number(table, (int64_t)costs->by_proc[proc->index]);
	nspy_table_text(table, nspy_proc_fact(proc, "instance.type"));
	nspy_table_text(table, nspy_proc_fact(proc, "gpu.name"));
	nspy_table_text(table, nspy_proc_fact(proc, "nccl.version"));
	nspy_table_text(table, nspy_proc_fact(proc, "cuda.driver"));
	nspy_table_end_row(table);
}

uint64_t nspy_table_ranks(const struct nspy_model *model, struct nspy_table *table)
{
	for (size_t a = 0; a < model->attempt_count; a++) {
		const struct nspy_attempt *attempt = &model->attempts[a];
		struct nspy_costs costs;

		nspy_costs_find(model, attempt, &costs);
		for (size_t i = 0; i < attempt->proc_count; i++)
			put_rank(model, attempt->procs[i], &costs, table);
		nspy_costs_done(&costs);
	}
	return table->rows;
}

/* --- findings: one row a culprit --- */

const char *const nspy_columns_findings[] = {
	"job", "attempt",  "id",    "priority", "confidence", "rank",      "node",
	"pid", "began_ns", "owner", "summary",  "action",     "reference", NULL};

static void put_finding(const struct nspy_report *report, const struct nspy_finding *finding,
			const struct nspy_proc *culprit, const int64_t *rank,
			struct nspy_table *table)
{
	const struct nspy_catalog *entry = &nspy_catalog[finding->id];
	char priority[] = {'P', (char)('0' + finding->priority), '\0'};
	char *reference = nspy_xasprintf("references/%s § %d", entry->file, entry->section);

	nspy_table_text(table, report->model->job);
	nspy_table_number(table, report->attempt->number);
	nspy_table_text(table, entry->id);
	nspy_table_text(table, priority);
	nspy_table_text(table, nspy_confidence_name(finding->confidence));
	if (rank)
		nspy_table_number(table, *rank);
	else
		nspy_table_none(table);
	nspy_table_text(table, culprit ? nspy_proc_host(culprit) : NULL);
	if (culprit)
		nspy_table_number(table, culprit->pid);
	else
		nspy_table_none(table);
	nspy_table_time(table, finding->when_ns);
	nspy_table_text(table, finding->owner);
	nspy_table_text(table, finding->summary);
	nspy_table_text(table, finding->action);
	nspy_table_text(table, reference);
	nspy_table_end_row(table);
	free(reference);
}

uint64_t nspy_table_findings(const struct nspy_report *report, struct nspy_table *table)
{
	for (size_t i = 0; report->attempt && i < report->findings.count; i++) {
		const struct nspy_finding *finding = report->findings.items[i];

		if (!finding->culprit_count)
			put_finding(report, finding, NULL, NULL, table);
		for (size_t c = 0; c < finding->culprit_count; c++) {
			size_t count;
			int64_t *ranks = nspy_proc_ranks(finding->culprits[c], &count);

			if (!count)
				put_finding(report, finding, finding->culprits[c], NULL, table);
			for (size_t r = 0; r < count; r++)
				put_finding(report, finding, finding->culprits[c], &ranks[r],
					    table);
			free(ranks);
		}
	}
	return table->rows;
}
