/* SPDX-License-Identifier: Apache-2.0 */
#include "ingest_call.h"

#include <stdlib.h>
#include <string.h>

#include "text.h"

/* A communicator used although it was never described (its record was lost). */
static struct nspy_member *member_of(struct nspy_proc *proc, const struct nspy_rec *rec)
{
	return rec->comm < proc->member_count ? proc->members[rec->comm] : NULL;
}

uint32_t nspy_signature(uint16_t canon_fn, const struct nspy_rec *rec)
{
	uint64_t h = rec->count * 0x9E3779B97F4A7C15ULL;

	h ^= (uint64_t)(uint32_t)rec->peer << 16 | (uint64_t)rec->datatype << 8 | rec->redop;
	h *= 0xD6E8FEB86659FD93ULL;
	h ^= h >> 32;
	return (uint32_t)h << NSPY_CELL_FN_BITS | canon_fn;
}

uint32_t nspy_p2p_signature(const struct nspy_rec *rec)
{
	return (uint32_t)nspy_mix(rec->count * 0x9E3779B97F4A7C15ULL + rec->datatype);
}

static uint64_t payload_bytes(const struct nspy_proc *proc, const struct nspy_rec *rec)
{
	return rec->count * proc->type_bytes[rec->datatype];
}

static bool numbered(struct nspy_proc *proc, const struct nspy_rec *rec)
{
	if (rec->flags & NSPY_CALL_CAPTURED) {
		proc->captured++;
		return false;
	}
	if ((rec->flags & NSPY_CALL_NOSEQ) || rec->seq == 0) {
		proc->unnumbered++;
		return false;
	}
	return true;
}

/* --- operations that were seen to be over --- */

/* One with a root lets some leave before others have come. */
static void note_pending(struct nspy_loader *loader, struct nspy_member *member,
			 const struct nspy_rec *rec)
{
	loader->pending = NULL;
	if (rec->peer != NSPY_PEER_NONE || rec->count == 0 || rec->result != 0)
		return;
	loader->pending = member;
	loader->pending_stream = rec->arg;
	loader->together = (struct nspy_together){rec->seq, rec->enter, 0};
}

static bool is_sampled(const struct nspy_member *member, uint64_t seq)
{
	return (nspy_mix(seq) & member->together_mask) == 0;
}

/* Which operations are kept depends on their numbers alone: the same ones on all ranks. */
static void thin_out(struct nspy_member *member)
{
	while (member->together_count == NSPY_TOGETHER_MAX) {
		size_t kept = 0;

		member->together_mask = member->together_mask << 1 | 1;
		for (size_t i = 0; i < member->together_count; i++) {
			if (is_sampled(member, member->together[i].seq))
				member->together[kept++] = member->together[i];
		}
		member->together_count = kept;
	}
}

static void note_together(struct nspy_loader *loader, const struct nspy_proc *proc,
			  const struct nspy_rec *rec)
{
	struct nspy_member *member = loader->pending;

	loader->pending = NULL;
	if (rec->result != 0 || rec->arg != loader->pending_stream || proc->abort_ns)
		return;
	if (!is_sampled(member, loader->together.seq))
		return;
	if (!member->together)
		member->together = nspy_xcalloc(NSPY_TOGETHER_MAX, sizeof(*member->together));
	thin_out(member);
	if (!is_sampled(member, loader->together.seq))
		return;
	member->together[member->together_count] = loader->together;
	member->together[member->together_count++].leave_ns = rec->leave;
}

static void ingest_coll(struct nspy_loader *loader, struct nspy_proc *proc, uint32_t serial,
			const struct nspy_fn *fn, const struct nspy_rec *rec)
{
	struct nspy_member *member = member_of(proc, rec);
	uint64_t enter = nspy_proc_when(proc, rec->enter);
	struct nspy_cell *cell;

	proc->ops++;
	proc->bytes += payload_bytes(proc, rec);
	if (!numbered(proc, rec)) {
		loader->burst = (struct nspy_burst){0};
		return;
	}
	if (!member || !member->cells) {
		proc->unplaced++;
		return;
	}
	member->ops++;
	member->bytes += payload_bytes(proc, rec);
	if (rec->seq >= member->last_seq) {
		member->last_seq = rec->seq;
		member->last.thread = serial;
		member->last.rec = *rec;
	}
	if (loader->model->clock_count > 1)
		note_pending(loader, member, rec);
	nspy_timed_op(&loader->burst, member, fn->canon, false, payload_bytes(proc, rec), rec);
	cell = nspy_cells_at(member->cells, rec->seq, &loader->budget);
	if (cell)
		nspy_cell_arrive(cell, enter, nspy_signature(fn->canon, rec), member->id);
}

static void ingest_p2p(struct nspy_loader *loader, struct nspy_proc *proc, uint32_t serial,
		       const struct nspy_fn *fn, const struct nspy_rec *rec)
{
	bool send = fn->klass == NSPY_CLASS_SEND;
	struct nspy_member *member = member_of(proc, rec);
	struct nspy_peer *peer;
	struct nspy_way *way;
	uint32_t mixed;

	proc->ops++;
	proc->bytes += payload_bytes(proc, rec);
	if (!numbered(proc, rec)) {
		loader->burst = (struct nspy_burst){0};
		return;
	}
	peer = member ? nspy_member_peer(member, rec->peer) : NULL;
	if (!peer) {
		proc->unplaced++;
		return;
	}
	/* What was sent may be over before it has arrived: that shows no duration. */
	if (send)
		loader->burst = (struct nspy_burst){0};
	else
		nspy_timed_op(&loader->burst, member, fn->canon, true, payload_bytes(proc, rec),
			      rec);
	way = send ? &peer->send : &peer->recv;
	way->bytes += payload_bytes(proc, rec);
	way->seen++;
	mixed = (uint32_t)nspy_mix(rec->seq << 32 ^ nspy_p2p_signature(rec));
	way->sum += mixed;
	if (rec->seq > way->last) {
		/* Ordinals that were lost in between leave no old value behind. */
		for (uint64_t s = way->last + 1; s < rec->seq && s - way->last <= NSPY_PEER_RING;
		     s++)
			way->ring[s % NSPY_PEER_RING] = 0;
		way->last = rec->seq;
		way->last_enter_ns = nspy_proc_when(proc, rec->enter);
		way->thread = serial;
		way->group = rec->group;
	}
	if (rec->seq + NSPY_PEER_RING > way->last)
		way->ring[rec->seq % NSPY_PEER_RING] = mixed;
}

#define CUDA_OUT_OF_MEMORY 2

static void memory_refused(struct nspy_proc *proc, uint32_t serial, const struct nspy_rec *rec,
			   uint16_t fn)
{
	struct nspy_memory *memory = &proc->memory;

	memory->recovered = false;
	if (memory->refused++)
		return;
	memory->refused_ns = nspy_proc_when(proc, rec->leave);
	memory->refused_bytes = rec->count;
	memory->refused_thread = serial;
	memory->refused_fn = fn;
	memory->nested = rec->flags & NSPY_CALL_NESTED;
	memory->live_then = memory->live_bytes;
	memory->pieces_then = memory->pieces.count;
}

static void ingest_alloc(struct nspy_proc *proc, uint32_t serial, const struct nspy_rec *rec,
			 uint16_t fn)
{
	struct nspy_memory *memory = &proc->memory;

	if (rec->result == CUDA_OUT_OF_MEMORY)
		memory_refused(proc, serial, rec, fn);
	if (rec->result || !rec->arg || !rec->count ||
	    memory->pieces.count >= NSPY_MEMORY_PIECES_MAX)
		return;
	if (memory->refused && rec->count >= memory->refused_bytes)
		memory->recovered = true;
	nspy_map_put(&memory->pieces, rec->arg, (void *)(uintptr_t)rec->count);
	memory->live_bytes += rec->count;
}

static void ingest_free(struct nspy_proc *proc, const struct nspy_rec *rec)
{
	proc->memory.live_bytes -= (uintptr_t)nspy_map_take(&proc->memory.pieces, rec->arg);
}

/* A call that took long: it may turn out to have been freed by an abort. */
static void keep_stall(struct nspy_proc *proc, uint32_t serial, const struct nspy_rec *rec,
		       uint16_t fn)
{
	struct nspy_placed_call *stall;

	if (proc->stall_count == NSPY_STALLS_MAX) { /* the latest ones count */
		memmove(proc->stalls, proc->stalls + 1,
			(NSPY_STALLS_MAX - 1) * sizeof(*proc->stalls));
		proc->stall_count--;
	}
	proc->stalls = nspy_grow(proc->stalls, proc->stall_count, &proc->stall_capacity,
				 sizeof(*proc->stalls));
	stall = &proc->stalls[proc->stall_count++];
	*stall = (struct nspy_placed_call){.thread = serial, .rec = *rec};
	stall->rec.fn = fn;
	stall->rec.enter = nspy_proc_when(proc, stall->rec.enter);
	stall->rec.leave = nspy_proc_when(proc, stall->rec.leave);
}

static void ingest_error(struct nspy_proc *proc, uint32_t serial, const struct nspy_rec *rec,
			 uint16_t fn, int16_t code)
{
	struct nspy_error *error = NULL;

	for (size_t i = 0; i < proc->error_count && !error; i++) {
		if (proc->errors[i].fn == fn && proc->errors[i].code == code)
			error = &proc->errors[i];
	}
	if (!error) {
		if (proc->error_count == NSPY_ERRORS_MAX)
			return;
		proc->errors = nspy_grow(proc->errors, proc->error_count, &proc->error_capacity,
					 sizeof(*proc->errors));
		error = &proc->errors[proc->error_count++];
		*error = (struct nspy_error){
			.fn = fn,
			.code = code,
			.first_ns = nspy_proc_when(proc, rec->leave),
			.comm = rec->comm,
			.thread = serial,
			.callno = rec->callno,
		};
	}
	error->count++;
}

/* Codes that are answers, not failures. */
static bool harmless(const struct nspy_fn *fn, int code)
{
	return !fn->fallible || (fn->lib == NSPY_MODEL_NCCL && code == 7) || /* ncclInProgress */
	       (fn->lib == NSPY_MODEL_CUDART && code == 600) ||              /* cudaErrorNotReady */
	       fn->lib == NSPY_MODEL_OTHER;
}

static void note_abort(struct nspy_proc *proc, uint32_t serial, const struct nspy_rec *rec)
{
	struct nspy_thread *thread = nspy_proc_thread(proc, serial);
	uint64_t when = nspy_proc_when(proc, rec->enter);

	if (!proc->abort_ns) {
		proc->abort_ns = when;
		proc->abort_comm = rec->comm;
	}
	if (thread && !thread->abort_ns) {
		thread->abort_ns = when;
		thread->abort_comm = rec->comm;
	}
}

static void ingest_unusual(struct nspy_proc *proc, uint32_t serial, const struct nspy_fn *fn,
			   const struct nspy_rec *rec, uint16_t id)
{
	int code = rec->result;

	/* A query that went well may tell of an asynchronous error: its arg is the state. */
	if (code == 0 && fn->klass == NSPY_CLASS_COMM_STATE && rec->arg <= INT16_MAX)
		code = (int)rec->arg;
	if (code && !harmless(fn, code)) {
		if (fn->lib == NSPY_MODEL_CUDART)
			proc->cuda_errors++;
		ingest_error(proc, serial, rec, id, (int16_t)code);
	}
	if (fn->klass == NSPY_CLASS_COMM_ABORT)
		note_abort(proc, serial, rec);
}

static inline void ingest_call(struct nspy_loader *loader, struct nspy_proc *proc, uint32_t serial,
			       const struct nspy_rec *rec)
{
	uint16_t id = rec->fn < proc->fn_map_count ? proc->fn_map[rec->fn] : 0;
	const struct nspy_fn *fn = &loader->model->fns[id];
	uint64_t took = rec->leave - rec->enter;

	if (!(rec->flags & NSPY_CALL_NESTED) && took < INT64_MAX)
		loader->thread->spent_ns[fn->spent] += took;
	switch (fn->klass) {
	case NSPY_CLASS_COLL:
		loader->thread->ops++;
		ingest_coll(loader, proc, serial, fn, rec);
		break;
	case NSPY_CLASS_SEND:
	case NSPY_CLASS_RECV:
		loader->thread->ops++;
		ingest_p2p(loader, proc, serial, fn, rec);
		break;
	case NSPY_CLASS_SYNC:
		proc->sync_ns += took;
		if (loader->pending)
			note_together(loader, proc, rec);
		if (!(rec->flags & NSPY_CALL_NESTED))
			nspy_timed_sync(&loader->burst, rec, fn->device);
		break;
	case NSPY_CLASS_GRAPH: /* what a graph holds is not known */
		proc->replays += fn->replays && rec->result == 0;
		loader->burst = (struct nspy_burst){0};
		break;
	case NSPY_CLASS_RMA:
		loader->burst = (struct nspy_burst){0};
		break;
	case NSPY_CLASS_MEM_ALLOC:
		ingest_alloc(proc, serial, rec, id);
		break;
	case NSPY_CLASS_MEM_FREE:
		ingest_free(proc, rec);
		break;
	default:
		break;
	}
	if (__builtin_expect(rec->result != 0 || fn->klass == NSPY_CLASS_COMM_ABORT ||
				     fn->klass == NSPY_CLASS_COMM_STATE,
			     0))
		ingest_unusual(proc, serial, fn, rec, id);
	if (__builtin_expect(took > proc->longest_sync_ns && took < INT64_MAX, 0) &&
	    nspy_class_waits(fn->klass))
		proc->longest_sync_ns = took;
	if (__builtin_expect(took >= NSPY_STALL_MIN_NS && took < INT64_MAX, 0) &&
	    nspy_class_waits(fn->klass) && !(rec->flags & NSPY_CALL_NESTED))
		keep_stall(proc, serial, rec, id);
}

/* --- texts --- */

static void text_complete(struct nspy_proc *proc, struct nspy_thread *thread,
			  const struct nspy_text_rec *rec)
{
	char *text = nspy_str_take(&thread->text);
	char *equals;

	switch (rec->topic) {
	case NSPY_TEXT_FACT:
		equals = strchr(text, '=');
		if (equals)
			nspy_proc_set_fact(proc, text, (size_t)(equals - text), equals + 1,
					   strlen(equals + 1));
		break;
	case NSPY_TEXT_NOTE:
		if (proc->note_count == NSPY_NOTES_MAX)
			break;
		nspy_clean(text);
		if (!proc->notes)
			proc->notes = nspy_xcalloc(NSPY_NOTES_MAX, sizeof(char *));
		proc->notes[proc->note_count++] = text;
		return;
	case NSPY_TEXT_LAST_ERROR:
		nspy_clean(text);
		for (size_t i = 0; i < proc->error_count; i++) {
			struct nspy_error *error = &proc->errors[i];

			if (error->text || error->thread != thread->serial ||
			    error->callno != rec->callno)
				continue;
			error->text = text;
			return;
		}
		break;
	default:
		break;
	}
	free(text);
}

static void ingest_text(struct nspy_proc *proc, struct nspy_thread *thread,
			const struct nspy_text_rec *rec)
{
	size_t bytes = rec->bytes < NSPY_TEXT_PIECE_BYTES ? rec->bytes : NSPY_TEXT_PIECE_BYTES;

	if (thread->text.bytes + bytes <= NSPY_TEXT_BYTES_MAX)
		nspy_str_addn(&thread->text, rec->text, bytes);
	if (!(rec->flags & 1))
		text_complete(proc, thread, rec);
}

/* --- a batch of records --- */

/* Aborts come in groups, whose start belongs to them. */
#define ABORT_NEAR_NS NSPY_NS_PER_MS

static bool idle_class(const struct nspy_loader *loader, const struct nspy_proc *proc,
		       const struct nspy_rec *rec)
{
	uint16_t id = rec->fn < proc->fn_map_count ? proc->fn_map[rec->fn] : 0;
	unsigned int klass = loader->model->fns[id].klass;

	return klass == NSPY_CLASS_QUERY || klass == NSPY_CLASS_COMM_STATE;
}

/* The thread's latest calls; records lie in the order in which they ended. */
static void note_latest(struct nspy_loader *loader, struct nspy_proc *proc,
			struct nspy_thread *thread, size_t from, size_t count)
{
	bool last = false;

	for (size_t i = count; i-- > from;) {
		const struct nspy_rec *rec = &loader->records[i].call;

		if (rec->kind != NSPY_REC_CALL || (rec->flags & NSPY_CALL_NESTED))
			continue;
		if (!last) {
			thread->last = *rec;
			thread->has_last = last = true;
		}
		/* What follows an abort tidies up; what came before it is of interest. */
		if (proc->abort_ns &&
		    nspy_proc_when(proc, rec->enter) + ABORT_NEAR_NS >= proc->abort_ns)
			continue;
		if (!idle_class(loader, proc, rec)) {
			thread->busy = *rec;
			thread->has_busy = true;
			return;
		}
	}
}

size_t nspy_ingest_records(struct nspy_loader *loader, struct nspy_proc *proc, uint32_t serial,
			   uint64_t first_index, size_t count)
{
	struct nspy_thread *thread = nspy_proc_thread(proc, serial);
	size_t from = 0;

	if (!thread)
		return 0;
	if (first_index < thread->next_index) {
		uint64_t known = thread->next_index - first_index;

		from = known < count ? (size_t)known : count;
	}
	loader->pending = NULL;
	loader->burst = (struct nspy_burst){0};
	loader->thread = thread;
	for (size_t i = from; i < count; i++) {
		const union nspy_any_rec *rec = &loader->records[i];

		if (__builtin_expect(rec->call.kind == NSPY_REC_CALL, 1))
			ingest_call(loader, proc, serial, &rec->call);
		else if (rec->call.kind == NSPY_REC_COMM)
			nspy_ingest_comm(loader, proc, serial, &rec->comm);
		else if (rec->call.kind == NSPY_REC_TEXT)
			ingest_text(proc, thread, &rec->text);
	}
	if (first_index + count > thread->next_index)
		thread->next_index = first_index + count;
	proc->records += count - from;
	if (from < count)
		note_latest(loader, proc, thread, from, count);
	return count - from;
}

void nspy_ingest_open_call(struct nspy_loader *loader, struct nspy_proc *proc,
			   const struct nspy_open_call *call)
{
	const struct nspy_rec *rec = &call->rec;
	uint16_t id = rec->fn < proc->fn_map_count ? proc->fn_map[rec->fn] : 0;
	const struct nspy_fn *fn = &loader->model->fns[id];

	if (fn->klass == NSPY_CLASS_COLL)
		ingest_coll(loader, proc, call->thread_serial, fn, rec);
	else if (fn->klass == NSPY_CLASS_SEND || fn->klass == NSPY_CLASS_RECV)
		ingest_p2p(loader, proc, call->thread_serial, fn, rec);
	else if (fn->klass == NSPY_CLASS_COMM_ABORT)
		note_abort(proc, call->thread_serial, rec);
}
