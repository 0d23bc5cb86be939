/* SPDX-License-Identifier: Apache-2.0 */
#include "timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "load.h"
#include "text.h"
#include "trace_live.h"
#include "who.h"

/* --- reading a process --- */

struct reading {
	struct nspy_strands *strands;
	struct nspy_gauges *gauges;
	union nspy_any_rec *records; /* NSPY_CHUNK_RECORDS_MAX */
};

static void read_segment(struct nspy_timeline *t, struct reading *r, const struct nspy_proc *proc,
			 const char *path)
{
	struct nspy_chunk_info info;
	struct nspy_reader *reader;
	const uint8_t *payload;
	size_t count;
	int rc;

	if (nspy_reader_open(path, &reader) < 0)
		return; /* the loader has said so */
	while ((rc = nspy_reader_next(reader, &info, &payload)) != -ENODATA && rc != -ENOMEM) {
		if (rc < 0 || info.run_id != proc->run_id)
			continue;
		if (info.kind == NSPY_CHUNK_NET) {
			nspy_gauges_net(r->gauges, payload, info.raw_bytes);
		} else if (info.kind == NSPY_CHUNK_PROF) {
			nspy_gauges_prof(r->gauges, payload, info.raw_bytes);
		} else if (info.kind == NSPY_CHUNK_OPS &&
			   nspy_timeline_has_time(t, nspy_proc_when(proc, info.first_ns),
						  nspy_proc_when(proc, info.last_ns)) &&
			   nspy_ops_decode(payload, info.raw_bytes, r->records,
					   NSPY_CHUNK_RECORDS_MAX, &count) == 0) {
			nspy_strands_take(r->strands, info.thread_serial, info.first_index,
					  r->records, count);
		}
	}
	nspy_reader_free(reader);
}

struct page {
	size_t number;
	uint32_t serial;
	uint64_t first_index;
};

static int by_index(const void *a, const void *b)
{
	const struct page *x = a, *y = b;

	if (x->serial != y->serial)
		return x->serial < y->serial ? -1 : 1;
	return x->first_index < y->first_index ? -1 : x->first_index > y->first_index;
}

/* Pages lie in any order. */
static void read_live(struct reading *r, const struct nspy_proc *proc)
{
	struct nspy_live *live;
	struct page *pages;
	const char *path;
	size_t used = 0, count;

	if (!proc->live_read || nspy_load_live(proc, &live, &path) < 0)
		return;
	pages = nspy_xcalloc(nspy_live_page_count(live), sizeof(*pages));
	for (size_t i = 0; i < nspy_live_page_count(live); i++) {
		struct page *page = &pages[used];

		if (nspy_live_page(live, i, &page->serial, &page->first_index, r->records,
				   NSPY_CHUNK_RECORDS_MAX, &count) == 0 &&
		    count) {
			page->number = i;
			used++;
		}
	}
	if (used)
		qsort(pages, used, sizeof(*pages), by_index);
	for (size_t i = 0; i < used; i++) {
		if (nspy_live_page(live, pages[i].number, &pages[i].serial, &pages[i].first_index,
				   r->records, NSPY_CHUNK_RECORDS_MAX, &count) == 0)
			nspy_strands_take(r->strands, pages[i].serial, pages[i].first_index,
					  r->records, count);
	}
	free(pages);
	nspy_live_free(live);
}

void nspy_timeline_process(struct nspy_timeline *t, const struct nspy_proc *proc)
{
	struct reading r = {
		.strands = nspy_strands_new(t, proc),
		.gauges = nspy_gauges_new(t, proc),
		.records = nspy_xcalloc(NSPY_CHUNK_RECORDS_MAX, sizeof(*r.records)),
	};

	for (size_t i = 0; i < proc->file_count; i++) {
		if (proc->files[i].kind == NSPY_FILE_SEGMENT)
			read_segment(t, &r, proc, proc->files[i].path);
	}
	read_live(&r, proc);
	nspy_strands_finish(r.strands);
	nspy_gauges_finish(r.gauges);
	free(r.records);
}

/* --- what is not of one process --- */

static void put_arrival(struct nspy_timeline *t, const struct nspy_cell *cell, uint64_t seq,
			struct nspy_lanes *lanes)
{
	struct nspy_perfetto_event event = {
		.category = NSPY_CATEGORY_ARRIVAL,
		.when_ns = cell->first_ns,
		.fn = (uint16_t)(cell->signature & ((1u << NSPY_CELL_FN_BITS) - 1)),
	};

	nspy_perfetto_arg(&event, NSPY_ARG_SEQ, (int64_t)seq);
	nspy_perfetto_arg(&event, NSPY_ARG_ARRIVED, nspy_cell_count(cell));
	/* 0: several came last at once. */
	if (cell->gap_ns)
		nspy_perfetto_arg(&event, NSPY_ARG_LAST_RANK,
				  t->model->members[cell->last_member]->rec.rank);
	nspy_lanes_put(&t->perfetto, lanes, &event, cell->last_ns);
}

void nspy_timeline_arrivals(struct nspy_timeline *t)
{
	uint64_t top = nspy_perfetto_track(
		&t->perfetto, 0, "operations of all ranks",
		"each slice: from the first rank's call to the last one's (host clocks)");

	for (size_t i = 0; i < t->attempt->comm_count; i++) {
		const struct nspy_comm *comm = t->attempt->comms[i];
		struct nspy_lanes lanes = {.parent = top};
		struct nspy_str name = {0};

		if (!nspy_timeline_has_comm(t, comm))
			continue;
		nspy_add_comm(&name, comm);
		lanes.name = nspy_str_take(&name);
		for (uint64_t seq = 1; seq < comm->cells.block_count * NSPY_CELLS_BLOCK; seq++) {
			const struct nspy_cell *cell = nspy_cells_get(&comm->cells, seq);

			if (cell && nspy_timeline_has_time(t, cell->first_ns, cell->last_ns))
				put_arrival(t, cell, seq, &lanes);
		}
		free(lanes.name);
	}
}

static void put_finding(struct nspy_timeline *t, const struct nspy_finding *finding,
			uint64_t global)
{
	const struct nspy_catalog *catalog = &nspy_catalog[finding->id];
	struct nspy_perfetto_event event = {
		.type = NSPY_PERFETTO_INSTANT,
		.category = NSPY_CATEGORY_FINDING,
		.track = global,
		.when_ns = finding->when_ns ? finding->when_ns : t->attempt->end_ns,
		.name = catalog->id,
	};
	struct nspy_str culprits = {0};
	char *reference = nspy_xasprintf("%s § %d", catalog->file, catalog->section);

	nspy_perfetto_arg(&event, NSPY_ARG_PRIORITY, finding->priority);
	nspy_perfetto_text(&event, NSPY_ARG_SUMMARY, finding->summary ? finding->summary : "");
	if (finding->culprit_count) {
		nspy_add_procs_short(&culprits, finding->culprits, finding->culprit_count);
		nspy_perfetto_text(&event, NSPY_ARG_CULPRITS, culprits.text);
	}
	nspy_perfetto_text(&event, NSPY_ARG_REFERENCE, reference);
	(void)nspy_perfetto_put(&t->perfetto, &event);
	for (size_t i = 0; i < finding->culprit_count; i++) {
		event.track = t->process_tracks[nspy_proc_whole(finding->culprits[i])->index];
		if (event.track)
			(void)nspy_perfetto_put(&t->perfetto, &event);
	}
	nspy_str_done(&culprits);
	free(reference);
}

void nspy_timeline_findings(struct nspy_timeline *t)
{
	uint64_t global = nspy_perfetto_track(&t->perfetto, 0, "findings", NULL);

	for (size_t i = 0; i < t->report->findings.count; i++)
		put_finding(t, t->report->findings.items[i], global);
}

static void make_process_track(struct nspy_timeline *t, const struct nspy_proc *proc)
{
	struct nspy_str name = {0}, description = {0};

	nspy_add_proc(&name, proc);
	nspy_str_add(&description, "clock: ");
	if (proc->clock_error_ns == NSPY_CLOCK_ERROR_UNKNOWN) {
		nspy_str_add(&description, "not compared with other hosts");
	} else {
		nspy_str_add(&description, "within ");
		nspy_add_duration(&description, proc->clock_error_ns);
		nspy_str_add(&description, " of the first host's");
	}
	t->process_tracks[proc->index] = nspy_perfetto_process(
		&t->perfetto, (uint64_t)proc->index + 1, name.text, description.text);
	nspy_str_done(&name);
	nspy_str_done(&description);
}

void nspy_timeline_write(struct nspy_timeline *t, FILE *out)
{
	const struct nspy_attempt *attempt = t->attempt;
	uint64_t limit = t->choice.limit_bytes;
	size_t left = 0;

	t->process_tracks = nspy_xcalloc(t->model->proc_count, sizeof(*t->process_tracks));
	t->perfetto.limit = limit;
	nspy_perfetto_begin(&t->perfetto, out, t->model, attempt->start_ns);
	for (size_t i = 0; i < attempt->proc_count; i++) {
		const struct nspy_proc *proc = nspy_proc_whole(attempt->procs[i]);

		if (t->process_tracks[proc->index] || !nspy_timeline_has_proc(t, attempt->procs[i]))
			continue;
		make_process_track(t, proc);
		left++;
	}
	nspy_timeline_findings(t);
	nspy_timeline_arrivals(t);
	/* An equal share of what is left for each, so that none goes without. */
	for (size_t i = 0; i < t->model->proc_count; i++) {
		const struct nspy_proc *proc = t->model->procs[i];

		if (!t->process_tracks[i])
			continue;
		t->perfetto.limit = limit;
		if (left > 1 && t->perfetto.bytes < limit)
			t->perfetto.limit = t->perfetto.bytes + (limit - t->perfetto.bytes) / left;
		left--;
		nspy_timeline_process(t, proc);
	}
	free(t->process_tracks);
	t->process_tracks = NULL;
}
