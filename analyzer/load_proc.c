/* SPDX-License-Identifier: Apache-2.0 */
/* One process: its segments, then what only its live pages hold, then how it ended. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ingest_call.h"
#include "load.h"
#include "source.h"
#include "text.h"
#include "trace_live.h"

/* Another host's process counts as running this long after its last sign of life. */
#define RECENT_NS (15 * NSPY_NS_PER_S)

static void add_trouble(struct nspy_proc *proc, const char *path, int error, uint64_t offset,
			bool truncated, bool fatal)
{
	struct nspy_trouble *trouble;

	/* A shattered file would fill the list: the first places of each file tell enough. */
	if (proc->trouble_count >= 64)
		return;
	proc->troubles = nspy_grow(proc->troubles, proc->trouble_count, &proc->trouble_capacity,
				   sizeof(*proc->troubles));
	trouble = &proc->troubles[proc->trouble_count++];
	*trouble = (struct nspy_trouble){nspy_xstrdup(path), error, offset, truncated, fatal};
	nspy_clean(trouble->path);
}

static void saw(struct nspy_proc *proc, uint64_t ns)
{
	ns = nspy_proc_when(proc, ns);
	if (!proc->first_ns || ns < proc->first_ns)
		proc->first_ns = ns;
	if (ns > proc->evidence_ns)
		proc->evidence_ns = ns;
}

static int load_state(struct nspy_loader *loader, struct nspy_proc *proc,
		      const struct nspy_chunk_info *info, const uint8_t *payload)
{
	struct nspy_state state;
	int rc = nspy_state_decode(payload, info->raw_bytes, &state, loader->comms,
				   NSPY_STATE_COMMS_MAX, loader->open, NSPY_STATE_OPEN_MAX);

	if (rc < 0)
		return rc;
	nspy_ingest_state(loader, proc, &state);
	saw(proc, state.when_ns);
	if (info->kind == NSPY_CHUNK_END)
		proc->ended_clean = true;
	return 0;
}

static int load_chunk(struct nspy_loader *loader, struct nspy_proc *proc,
		      const struct nspy_chunk_info *info, const uint8_t *payload)
{
	size_t count;
	int rc;

	switch (info->kind) {
	case NSPY_CHUNK_IDENT:
		nspy_ingest_ident(proc, payload, info->raw_bytes);
		saw(proc, info->last_ns);
		return 0;
	case NSPY_CHUNK_SCHEMA:
		nspy_ingest_schema(loader->model, proc, payload, info->raw_bytes);
		return 0;
	case NSPY_CHUNK_STATE:
	case NSPY_CHUNK_END:
		return load_state(loader, proc, info, payload);
	case NSPY_CHUNK_OPS:
		rc = nspy_ops_decode(payload, info->raw_bytes, loader->records,
				     NSPY_CHUNK_RECORDS_MAX, &count);
		if (rc < 0)
			return rc;
		nspy_ingest_records(loader, proc, info->thread_serial, info->first_index, count);
		saw(proc, info->first_ns);
		saw(proc, info->last_ns);
		return 0;
	case NSPY_CHUNK_NET:
		saw(proc, info->last_ns);
		return nspy_net_ingest(
			&proc->net, payload, info->raw_bytes,
			(int64_t)(nspy_proc_when(proc, info->last_ns) - info->last_ns));
	case NSPY_CHUNK_NOTE:
		saw(proc, info->last_ns);
		return nspy_account_ingest(&proc->account, payload, info->raw_bytes);
	case NSPY_CHUNK_PROF:
		saw(proc, info->last_ns);
		return nspy_prof_ingest(&proc->prof, payload, info->raw_bytes);
	default: /* of a newer version: not for us */
		return 0;
	}
}

static void load_segment(struct nspy_loader *loader, struct nspy_proc *proc,
			 const struct nspy_input_file *file)
{
	struct nspy_chunk_info info;
	struct nspy_reader *reader;
	const uint8_t *payload;
	uint64_t offset;
	char *name = nspy_input_name(file);
	int rc = nspy_input_reader(file, &reader);

	if (rc < 0) {
		add_trouble(proc, name, rc, 0, false, true);
		free(name);
		return;
	}
	proc->packed_bytes += file->bytes;
	for (;;) {
		offset = nspy_reader_offset(reader);
		rc = nspy_reader_next(reader, &info, &payload);
		if (rc == -ENODATA)
			break;
		if (rc == 0 && info.run_id == proc->run_id)
			rc = load_chunk(loader, proc, &info, payload);
		if (rc < 0)
			add_trouble(proc, name, rc, offset, nspy_reader_truncated(reader), false);
		if (rc == -ENOMEM)
			break;
	}
	nspy_reader_free(reader);
	free(name);
}

/* --- live pages --- */

struct page {
	size_t number;
	uint32_t serial;
	uint64_t first_index;
};

static int compare_pages(const void *a, const void *b)
{
	const struct page *x = a, *y = b;

	if (x->serial != y->serial)
		return x->serial < y->serial ? -1 : 1;
	return x->first_index < y->first_index ? -1 : x->first_index > y->first_index;
}

/* Pages lie in any order; records are skipped by index, so each thread's must come in order. */
static struct page *order_pages(struct nspy_loader *loader, const struct nspy_live *live,
				size_t *ret_count)
{
	size_t count = nspy_live_page_count(live), used = 0, records;
	struct page *pages = nspy_xcalloc(count, sizeof(*pages));

	for (size_t i = 0; i < count; i++) {
		struct page *page = &pages[used];

		if (nspy_live_page(live, i, &page->serial, &page->first_index, loader->records,
				   NSPY_CHUNK_RECORDS_MAX, &records) < 0 ||
		    records == 0)
			continue;
		page->number = i;
		used++;
	}
	qsort(pages, used, sizeof(*pages), compare_pages);
	*ret_count = used;
	return pages;
}

static void load_pages(struct nspy_loader *loader, struct nspy_proc *proc,
		       const struct nspy_live *live)
{
	size_t count, records;
	struct page *pages = order_pages(loader, live, &count);

	for (size_t i = 0; i < count; i++) {
		struct page *page = &pages[i];

		if (nspy_live_page(live, page->number, &page->serial, &page->first_index,
				   loader->records, NSPY_CHUNK_RECORDS_MAX, &records) < 0)
			continue;
		proc->live_records +=
			nspy_ingest_records(loader, proc, page->serial, page->first_index, records);
		for (size_t k = 0; k < records; k++) {
			const struct nspy_rec *rec = &loader->records[k].call;

			saw(proc,
			    rec->kind == NSPY_REC_CALL && rec->leave ? rec->leave : rec->enter);
		}
	}
	free(pages);
}

/* A process whose records go on so long after a fault has survived it. */
#define LAST_NS (5 * NSPY_NS_PER_S)

/* What its own handlers noted. Whether a fault was the end is known only when all is read. */
static void load_signals(struct nspy_proc *proc, const struct nspy_live_info *info)
{
	proc->exit.crash = info->crash;
	if (!info->term.number || proc->exit.asked)
		return;
	proc->exit.asked = info->term.number;
	proc->exit.asked_by = info->term.sender;
	proc->exit.asked_ns = nspy_proc_when(proc, info->term.when_ns);
}

static void load_live_head(struct nspy_loader *loader, struct nspy_proc *proc,
			   const struct nspy_live *live)
{
	struct nspy_live_info info;
	const uint8_t *text;
	size_t bytes;

	nspy_live_info(live, &info);
	text = nspy_live_ident(live, &bytes);
	if (text)
		nspy_ingest_ident(proc, text, bytes);
	text = nspy_live_schema(live, &bytes);
	if (text)
		nspy_ingest_schema(loader->model, proc, text, bytes);
	for (int i = 0; i < NSPY_LOSS_COUNT; i++) {
		if (info.loss[i] > proc->loss[i])
			proc->loss[i] = info.loss[i];
	}
	if (info.calls > proc->calls)
		proc->calls = info.calls;
	nspy_account_live(&proc->account, &info.mode, &info.hole);
	load_signals(proc, &info);
	if (info.heartbeat_ns)
		saw(proc, info.heartbeat_ns);
	if (info.state == NSPY_LIVE_ENDED)
		proc->ended_clean = true;
	if (info.state == NSPY_LIVE_EXITED && !proc->exit.known) {
		proc->exit.known = proc->exit.has_code = true;
		proc->exit.code = info.exit_code & 0xFF;
	}
}

static void load_live(struct nspy_loader *loader, struct nspy_proc *proc,
		      const struct nspy_live *live)
{
	size_t open = 0;

	proc->live_read = true;
	load_live_head(loader, proc, live);
	load_pages(loader, proc, live);
	if (nspy_live_open_calls(live, loader->open, NSPY_STATE_OPEN_MAX, &open) < 0)
		return;
	/* Newer than any checkpoint. */
	free(proc->open);
	proc->open = nspy_xcalloc(open, sizeof(*proc->open));
	memcpy(proc->open, loader->open, open * sizeof(*proc->open));
	proc->open_count = open;
}

/* --- how it ended --- */

static bool still_open(struct nspy_proc *proc, const struct nspy_open_call *call)
{
	const struct nspy_thread *thread = NULL;

	for (size_t i = 0; i < proc->thread_count && !thread; i++) {
		if (proc->threads[i].serial == call->thread_serial)
			thread = &proc->threads[i];
	}
	/* A later call of the same thread that is not nested proves that this one has ended. */
	return !thread || !thread->has_last ||
	       (int32_t)(thread->last.callno - call->rec.callno) < 0;
}

static void keep_waits(struct nspy_loader *loader, struct nspy_proc *proc)
{
	proc->waits = nspy_xcalloc(proc->open_count, sizeof(*proc->waits));
	for (size_t i = 0; i < proc->open_count; i++) {
		const struct nspy_open_call *call = &proc->open[i];
		struct nspy_placed_call *wait;

		if ((call->rec.flags & NSPY_CALL_NESTED) || !still_open(proc, call))
			continue;
		nspy_ingest_open_call(loader, proc, call);
		saw(proc, call->rec.enter);
		wait = &proc->waits[proc->wait_count++];
		wait->thread = call->thread_serial;
		wait->tid = call->tid;
		wait->rec = call->rec;
		wait->rec.fn = call->rec.fn < proc->fn_map_count ? proc->fn_map[call->rec.fn] : 0;
		wait->rec.enter = nspy_proc_when(proc, wait->rec.enter);
	}
}

void nspy_place_call(const struct nspy_proc *proc, struct nspy_placed_call *call)
{
	call->rec.fn = call->rec.fn < proc->fn_map_count ? proc->fn_map[call->rec.fn] : 0;
	call->rec.enter = nspy_proc_when(proc, call->rec.enter);
	if (call->rec.leave)
		call->rec.leave = nspy_proc_when(proc, call->rec.leave);
}

static void keep_latest(struct nspy_proc *proc)
{
	for (size_t i = 0; i < proc->thread_count; i++) {
		const struct nspy_thread *thread = &proc->threads[i];

		if (thread->has_busy &&
		    (!proc->busy.thread || thread->busy.leave > proc->busy.rec.leave)) {
			proc->busy.thread = thread->serial;
			proc->busy.rec = thread->busy;
		}
	}
	if (proc->busy.thread)
		nspy_place_call(proc, &proc->busy);
	for (size_t i = 0; i < proc->member_count; i++) {
		if (proc->members[i] && proc->members[i]->last.thread)
			nspy_place_call(proc, &proc->members[i]->last);
	}
}

/* What the process itself noted when it ended; the launcher's note goes before it. */
static void note_own_exit(struct nspy_proc *proc)
{
	const char *fact = nspy_proc_fact(proc, "exit_code");
	int64_t code;

	if (proc->exit.known || !proc->ended_clean || !fact || !nspy_parse_i64(fact, &code))
		return;
	proc->exit.known = proc->exit.has_code = true;
	proc->exit.code = (int)(code & 0xFF);
}

/*
 * A chunk is written whole, and what a killed process had not written is in its live pages. A file
 * that ends within a chunk was cut afterwards, or lost its end with the disk.
 */
static bool is_torn(const struct nspy_proc *proc)
{
	/* Nor is it known what a process did last that keeps nothing, or how it ended. */
	bool cut = proc->account.mode.mode != NSPY_MODE_RECORD;

	for (size_t i = 0; i < proc->trouble_count; i++)
		cut |= proc->troubles[i].truncated;
	return cut && !proc->ended_clean && !proc->live_read;
}

/* A fault that was noted is how it ended, unless something else is known or it lived on. */
static void settle_crash(struct nspy_proc *proc)
{
	struct nspy_exit *end = &proc->exit;
	uint64_t when_ns = end->crash.number ? nspy_proc_when(proc, end->crash.when_ns) : 0;
	bool by_signal = end->known && end->signal;

	if (!when_ns || proc->ended_clean ||
	    (by_signal ? end->signal != end->crash.number
		       : when_ns + LAST_NS < proc->evidence_ns)) {
		end->crash.number = 0;
		return;
	}
	if (end->known)
		return;
	end->known = true;
	end->signal = end->crash.number;
	end->real_ns = when_ns;
}

static void settle_state(struct nspy_proc *proc, uint64_t now_real_ns)
{
	bool quiet;

	note_own_exit(proc);
	if (nspy_proc_alive(proc))
		proc->exit.crash.number = 0;
	settle_crash(proc);
	quiet = proc->ended_clean || proc->exit.known;
	proc->end_ns = proc->evidence_ns;
	if (!quiet && nspy_proc_alive(proc)) {
		uint64_t until_ns = proc->summary ? proc->summary->made_ns : now_real_ns;

		proc->state = NSPY_PROC_RUNNING;
		if (until_ns > proc->end_ns)
			proc->end_ns = until_ns;
		return;
	}
	if (!quiet && !nspy_proc_is_local(proc) && proc->evidence_ns + RECENT_NS > now_real_ns) {
		proc->state = NSPY_PROC_RUNNING;
		return;
	}
	proc->state = proc->ended_clean ? NSPY_PROC_COMPLETE : NSPY_PROC_CUT;
	proc->torn = is_torn(proc);
	/* The launcher knows until when the process lived. */
	if (proc->exit.known && proc->exit.real_ns > proc->end_ns && !proc->ended_clean)
		proc->end_ns = proc->exit.real_ns;
}

void nspy_load_proc(struct nspy_loader *loader, struct nspy_proc *proc, uint64_t now_real_ns)
{
	struct nspy_live *live = NULL;
	const char *live_path = NULL;
	int rc = nspy_load_live(proc, &live, &live_path);

	/*
	 * A running process moves records from its pages to its segments. Pages are copied first,
	 * so that a record is in the copy, in a segment or in both, never in neither.
	 */
	if (rc < 0 && rc != -ENOENT)
		add_trouble(proc, live_path ? live_path : proc->base, rc, 0, false, false);
	for (size_t i = 0; i < proc->file_count; i++) {
		if (proc->files[i].kind == NSPY_FILE_SEGMENT)
			load_segment(loader, proc, &proc->files[i]);
	}
	if (live && !proc->ended_clean)
		load_live(loader, proc, live);
	nspy_live_free(live);
	/* It went on without being recorded: what was open then says nothing of the end. */
	if (proc->account.mode.mode != NSPY_MODE_RECORD && !proc->live_read && !proc->ended_clean)
		proc->open_count = 0;
	keep_waits(loader, proc);
	keep_latest(proc);
	settle_state(proc, now_real_ns);
}
