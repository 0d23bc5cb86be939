/* SPDX-License-Identifier: Apache-2.0 */
#include "reread.h"

#include <errno.h>
#include <stdlib.h>

#include "ingest.h"
#include "load.h"
#include "source.h"
#include "trace_live.h"

static void visit_all(const struct nspy_proc *proc, uint32_t thread,
		      const union nspy_any_rec *records, size_t count, nspy_visit_fn *visit,
		      void *context)
{
	for (size_t i = 0; i < count; i++) {
		if (records[i].call.kind == NSPY_REC_CALL)
			visit(context, proc, thread, &records[i].call);
	}
}

static void reread_segment(const struct nspy_proc *proc, const struct nspy_input_file *file,
			   union nspy_any_rec *records, nspy_visit_fn *visit, void *context)
{
	struct nspy_chunk_info info;
	struct nspy_reader *reader;
	const uint8_t *payload;
	size_t count;
	int rc;

	if (nspy_input_reader(file, &reader) < 0)
		return;
	while ((rc = nspy_reader_next(reader, &info, &payload)) != -ENODATA && rc != -ENOMEM) {
		if (rc == 0 && info.kind == NSPY_CHUNK_OPS && info.run_id == proc->run_id &&
		    nspy_ops_decode(payload, info.raw_bytes, records, NSPY_CHUNK_RECORDS_MAX,
				    &count) == 0)
			visit_all(proc, info.thread_serial, records, count, visit, context);
	}
	nspy_reader_free(reader);
}

static void reread_live(const struct nspy_proc *proc, union nspy_any_rec *records,
			nspy_visit_fn *visit, void *context)
{
	const char *path;
	struct nspy_live *live;
	uint64_t first_index;
	uint32_t serial;
	size_t count;

	if (!proc->live_read || nspy_load_live(proc, &live, &path) < 0)
		return;
	for (size_t i = 0; i < nspy_live_page_count(live); i++) {
		if (nspy_live_page(live, i, &serial, &first_index, records, NSPY_CHUNK_RECORDS_MAX,
				   &count) == 0)
			visit_all(proc, serial, records, count, visit, context);
	}
	nspy_live_free(live);
}

void nspy_reread(const struct nspy_proc *proc, nspy_visit_fn *visit, void *context)
{
	union nspy_any_rec *records = nspy_xcalloc(NSPY_CHUNK_RECORDS_MAX, sizeof(*records));

	proc = nspy_proc_whole(proc);
	for (size_t i = 0; i < proc->file_count; i++) {
		if (proc->files[i].kind == NSPY_FILE_SEGMENT)
			reread_segment(proc, &proc->files[i], records, visit, context);
	}
	reread_live(proc, records, visit, context);
	for (size_t i = 0; i < proc->open_count; i++)
		visit(context, proc, proc->open[i].thread_serial, &proc->open[i].rec);
	free(records);
}

/* --- operations of a communicator --- */

struct ops {
	const struct nspy_model *model;
	struct nspy_op_row *rows; /* of the process being read: one member after the other */
	const struct nspy_comm *comm;
	uint64_t first;
	size_t count;
};

static void visit_op(void *context, const struct nspy_proc *proc, uint32_t thread,
		     const struct nspy_rec *rec)
{
	struct ops *ops = context;
	uint16_t id = rec->fn < proc->fn_map_count ? proc->fn_map[rec->fn] : 0;
	const struct nspy_fn *fn = nspy_model_get_fn(ops->model, id);

	(void)thread;
	if (rec->seq < ops->first || rec->seq - ops->first >= ops->count ||
	    fn->klass != NSPY_CLASS_COLL || (rec->flags & (NSPY_CALL_CAPTURED | NSPY_CALL_NOSEQ)) ||
	    rec->comm >= proc->member_count || !proc->members[rec->comm] ||
	    proc->members[rec->comm]->comm != ops->comm)
		return;
	for (size_t m = 0; m < ops->comm->member_count; m++) {
		struct nspy_op_row *row = &ops->rows[m * ops->count + (rec->seq - ops->first)];

		if (ops->comm->members[m] != proc->members[rec->comm])
			continue;
		row->seen = true;
		row->rec = *rec;
		row->rec.fn = id;
		row->rec.enter = nspy_proc_when(proc, row->rec.enter);
		row->rec.leave = rec->leave ? nspy_proc_when(proc, rec->leave) : 0;
		row->signature = nspy_signature(fn->canon, rec);
	}
}

struct nspy_op_row *nspy_reread_ops(const struct nspy_model *model, const struct nspy_comm *comm,
				    uint64_t first, size_t count)
{
	struct nspy_op_row *rows = nspy_xcalloc(comm->member_count * count, sizeof(*rows));
	struct ops ops = {model, rows, comm, first, count};
	const struct nspy_proc *previous = NULL;

	for (size_t m = 0; m < comm->member_count; m++) {
		for (size_t k = 0; k < count; k++)
			rows[m * count + k].member = comm->members[m];
		/* One process may be several members. */
		if (nspy_proc_whole(comm->members[m]->proc) != previous)
			nspy_reread(comm->members[m]->proc, visit_op, &ops);
		previous = nspy_proc_whole(comm->members[m]->proc);
	}
	return rows;
}
