/* SPDX-License-Identifier: Apache-2.0 */
#include "dump.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "who.h"

void nspy_dump_put(const struct nspy_dump *dump, struct nspy_str *text, cJSON *object)
{
	char *line;

	if (dump->json) {
		line = cJSON_PrintUnformatted(object);
		puts(line ? line : "{}");
		cJSON_free(line);
	} else {
		puts(text->text);
	}
	nspy_str_done(text);
	cJSON_Delete(object);
}

cJSON *nspy_dump_start(const struct nspy_proc *proc, const char *kind, uint64_t mono_ns,
		       struct nspy_str *text)
{
	cJSON *object = cJSON_CreateObject();
	uint64_t real = nspy_proc_when(proc, mono_ns);
	struct nspy_str when = {0};

	nspy_add_time(&when, real);
	nspy_str_addf(&when, "%06u", (unsigned int)(real % NSPY_NS_PER_MS)); /* down to ns */
	nspy_str_addf(text, "%s  ", when.text);
	nspy_add_proc_short(text, proc);
	nspy_str_addf(text, "  %s", kind);
	cJSON_AddStringToObject(object, "kind", kind);
	cJSON_AddStringToObject(object, "time", when.text);
	cJSON_AddNumberToObject(object, "rank", (double)proc->rank);
	cJSON_AddStringToObject(object, "node", nspy_proc_host(proc));
	cJSON_AddNumberToObject(object, "pid", (double)proc->pid);
	nspy_str_done(&when);
	return object;
}

static uint64_t key_of(const struct nspy_proc *proc, uint32_t comm)
{
	return comm < proc->member_count && proc->members[comm] ? proc->members[comm]->rec.key : 0;
}

static void add_key(cJSON *object, const char *name, uint64_t key)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%016" PRIx64, key);
	cJSON_AddStringToObject(object, name, text);
}

void nspy_dump_ident(const struct nspy_dump *dump, const struct nspy_proc *proc,
		     const uint8_t *payload, size_t bytes)
{
	const char *key, *value;
	size_t cursor = 0, key_bytes, value_bytes;

	while (!dump->comm_key && !dump->op &&
	       nspy_ident_next(payload, bytes, &cursor, &key, &key_bytes, &value, &value_bytes) ==
		       0) {
		struct nspy_str text = {0};
		char *k = nspy_xstrndup(key, key_bytes), *v = nspy_xstrndup(value, value_bytes);
		cJSON *object;

		nspy_clean(k);
		nspy_clean(v);
		object = nspy_dump_start(proc, "fact",
					 proc->start_ns - (uint64_t)proc->clock_offset, &text);
		nspy_str_addf(&text, "  %s = %s", k, v);
		cJSON_AddStringToObject(object, "key", k);
		cJSON_AddStringToObject(object, "value", v);
		nspy_dump_put(dump, &text, object);
		free(k);
		free(v);
	}
}

static const char *origin_name(unsigned int origin)
{
	static const char *const names[] = {
		[NSPY_COMM_INIT_RANK] = "init_rank", [NSPY_COMM_INIT_ALL] = "init_all",
		[NSPY_COMM_SPLIT] = "split",         [NSPY_COMM_SHRINK] = "shrink",
		[NSPY_COMM_GROW] = "grow",           [NSPY_COMM_FOUND] = "found",
	};

	return origin < nspy_array_size(names) && names[origin] ? names[origin] : "unknown";
}

static void dump_comm(const struct nspy_dump *dump, struct nspy_proc *proc,
		      const struct nspy_comm_rec *rec)
{
	static const struct {
		uint8_t flag;
		const char *name;
	} flags[] = {
		{NSPY_COMM_STARTED, "started"},
		{NSPY_COMM_READY, "ready"},
		{NSPY_COMM_NONBLOCKING, "nonblocking"},
		{NSPY_COMM_FAILED, "failed"},
		{NSPY_COMM_GONE, "gone"},
	};
	struct nspy_member *member = nspy_proc_member(proc, rec->comm);
	struct nspy_str text = {0};
	cJSON *object;

	if (member)
		member->rec = *rec;
	if (dump->op || (dump->comm_key && rec->key != dump->comm_key))
		return;
	object = nspy_dump_start(proc, "comm", rec->when, &text);
	nspy_str_addf(&text,
		      "  %016" PRIx64 " %s rank %" PRId32 " of %" PRId32 " #%" PRIu32
		      " parent %016" PRIx64,
		      rec->key, origin_name(rec->origin), rec->rank, rec->nranks, rec->ordinal,
		      rec->parent_key);
	add_key(object, "key", rec->key);
	add_key(object, "parent", rec->parent_key);
	cJSON_AddStringToObject(object, "origin", origin_name(rec->origin));
	cJSON_AddNumberToObject(object, "comm_rank", rec->rank);
	cJSON_AddNumberToObject(object, "nranks", rec->nranks);
	cJSON_AddNumberToObject(object, "ordinal", rec->ordinal);
	for (size_t i = 0; i < nspy_array_size(flags); i++) {
		bool set = rec->flags & flags[i].flag;

		if (set)
			nspy_str_addf(&text, " %s", flags[i].name);
		cJSON_AddBoolToObject(object, flags[i].name, set);
	}
	nspy_dump_put(dump, &text, object);
}

static void dump_text(const struct nspy_dump *dump, const struct nspy_proc *proc,
		      const struct nspy_text_rec *rec)
{
	size_t bytes = rec->bytes < NSPY_TEXT_PIECE_BYTES ? rec->bytes : NSPY_TEXT_PIECE_BYTES;
	char *piece = nspy_xstrndup(rec->text, bytes);
	struct nspy_str text = {0};
	cJSON *object;

	nspy_clean(piece);
	object = nspy_dump_start(proc, "text", rec->when, &text);
	nspy_str_addf(&text, "  topic %u: %s%s", rec->topic, piece, rec->flags & 1 ? "..." : "");
	cJSON_AddNumberToObject(object, "topic", rec->topic);
	cJSON_AddStringToObject(object, "text", piece);
	cJSON_AddBoolToObject(object, "continued", rec->flags & 1);
	nspy_dump_put(dump, &text, object);
	free(piece);
}

/*
 * A host that had longer than this between the events and the collective may have queued other work
 * there: the time between the events is then an upper bound. A launch alone takes some
 * microseconds.
 */
#define EXACT_GAP_NS 20000u

static void dump_done(const struct nspy_dump *dump, const struct nspy_proc *proc, uint32_t thread,
		      const struct nspy_done_rec *rec)
{
	uint64_t key = key_of(proc, rec->comm);
	uint16_t fn = rec->fn < proc->fn_map_count ? proc->fn_map[rec->fn] : 0;
	const char *name = nspy_model_get_fn(dump->model, fn)->name;
	bool exact = rec->gpu_ns && rec->gap <= EXACT_GAP_NS;
	uint64_t took = rec->gpu_ns ? rec->gpu_ns : rec->when - rec->began;
	const char *kind = exact ? "exact" : "upper bound";
	struct nspy_str text = {0};
	cJSON *object;

	if ((dump->comm_key && key != dump->comm_key) || (dump->op && rec->seq != dump->op) ||
	    rec->when < rec->began)
		return;
	object = nspy_dump_start(proc, "done", rec->when, &text);
	nspy_str_addf(&text,
		      "  thread %u  #%" PRIu64 " comm %016" PRIx64 " %s %" PRIu64 " ns (%s, %s)",
		      thread, rec->seq, key, exact ? "took" : "took at most", took, kind, name);
	cJSON_AddNumberToObject(object, "thread", thread);
	cJSON_AddNumberToObject(object, "seq", (double)rec->seq);
	add_key(object, "comm", key);
	cJSON_AddStringToObject(object, "source", name);
	cJSON_AddStringToObject(object, "duration_kind", kind);
	cJSON_AddNumberToObject(object, "duration_ns", (double)took);
	if (rec->gpu_ns)
		cJSON_AddNumberToObject(object, "gap_ns", rec->gap);
	if (rec->not_done && rec->not_done < rec->when) {
		nspy_str_addf(&text, ", not done %" PRIu64 " ns before", rec->when - rec->not_done);
		cJSON_AddNumberToObject(object, "not_done_ns", (double)(rec->when - rec->not_done));
	}
	nspy_dump_put(dump, &text, object);
}

static void add_flags(struct nspy_str *text, cJSON *object, uint8_t flags)
{
	static const struct {
		uint8_t flag;
		const char *name;
	} names[] = {
		{NSPY_CALL_GROUPED, "grouped"},  {NSPY_CALL_CAPTURED, "captured"},
		{NSPY_CALL_NESTED, "nested"},    {NSPY_CALL_OPEN, "open"},
		{NSPY_CALL_NOSEQ, "unnumbered"},
	};

	for (size_t i = 0; i < nspy_array_size(names); i++) {
		if (!(flags & names[i].flag))
			continue;
		nspy_str_addf(text, " %s", names[i].name);
		cJSON_AddTrueToObject(object, names[i].name);
	}
}

static void dump_call(const struct nspy_dump *dump, const struct nspy_proc *proc, uint32_t thread,
		      const struct nspy_rec *trace_rec)
{
	struct nspy_rec rec = *trace_rec;
	uint64_t key = key_of(proc, rec.comm);
	struct nspy_str text = {0};
	const struct nspy_fn *fn;
	cJSON *object;

	if ((dump->comm_key && key != dump->comm_key) || (dump->op && rec.seq != dump->op))
		return;
	rec.fn = rec.fn < proc->fn_map_count ? proc->fn_map[rec.fn] : 0;
	fn = nspy_model_get_fn(dump->model, rec.fn);
	object = nspy_dump_start(proc, "call", rec.enter, &text);
	nspy_str_addf(&text, "  thread %u  ", thread);
	nspy_add_call(&text, dump->model, &rec);
	cJSON_AddNumberToObject(object, "thread", thread);
	cJSON_AddStringToObject(object, "function", fn->name);
	if (rec.leave) {
		nspy_str_addf(&text, " took %" PRIu64 " ns = %d", rec.leave - rec.enter,
			      rec.result);
		cJSON_AddNumberToObject(object, "took_ns", (double)(rec.leave - rec.enter));
		cJSON_AddNumberToObject(object, "result", rec.result);
	}
	if (rec.seq) {
		nspy_str_addf(&text, " #%" PRIu64, rec.seq);
		cJSON_AddNumberToObject(object, "seq", (double)rec.seq);
	}
	if (key) {
		nspy_str_addf(&text, " comm %016" PRIx64, key);
		add_key(object, "comm", key);
	}
	cJSON_AddNumberToObject(object, "count", (double)rec.count);
	cJSON_AddNumberToObject(object, "peer", rec.peer);
	cJSON_AddNumberToObject(object, "datatype", rec.datatype);
	cJSON_AddNumberToObject(object, "redop", rec.redop);
	cJSON_AddNumberToObject(object, "group", rec.group);
	cJSON_AddNumberToObject(object, "callno", rec.callno);
	add_key(object, "arg", rec.arg);
	add_flags(&text, object, rec.flags);
	nspy_dump_put(dump, &text, object);
}

void nspy_dump_records(const struct nspy_dump *dump, struct nspy_proc *proc, uint32_t thread,
		       const union nspy_any_rec *records, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		switch (records[i].call.kind) {
		case NSPY_REC_CALL:
			dump_call(dump, proc, thread, &records[i].call);
			break;
		case NSPY_REC_COMM:
			dump_comm(dump, proc, &records[i].comm);
			break;
		case NSPY_REC_DONE:
			dump_done(dump, proc, thread, &records[i].done);
			break;
		case NSPY_REC_TEXT:
			if (!dump->comm_key && !dump->op)
				dump_text(dump, proc, &records[i].text);
			break;
		default:
			break;
		}
	}
}

void nspy_dump_open(const struct nspy_dump *dump, const struct nspy_proc *proc,
		    const struct nspy_open_call *open, size_t count)
{
	for (size_t i = 0; i < count; i++)
		dump_call(dump, proc, open[i].thread_serial, &open[i].rec);
}

void nspy_dump_state(const struct nspy_dump *dump, struct nspy_proc *proc, const char *kind,
		     const struct nspy_state *state, const struct nspy_comm_rec *comms,
		     const struct nspy_open_call *open)
{
	struct nspy_str text = {0};
	uint64_t lost = 0;
	cJSON *object;

	for (int i = 0; i < NSPY_LOSS_COUNT; i++)
		lost += state->loss[i];
	if (!dump->comm_key && !dump->op) {
		object = nspy_dump_start(proc, kind, state->when_ns, &text);
		nspy_str_addf(&text,
			      "  %" PRIu64 " calls, %" PRIu64 " losses, %zu communicators, %zu "
			      "calls open",
			      state->calls, lost, state->comm_count, state->open_count);
		cJSON_AddNumberToObject(object, "calls", (double)state->calls);
		cJSON_AddNumberToObject(object, "losses", (double)lost);
		cJSON_AddNumberToObject(object, "threads_seen", state->threads_seen);
		nspy_dump_put(dump, &text, object);
	}
	for (size_t i = 0; i < state->comm_count; i++)
		dump_comm(dump, proc, &comms[i]);
	nspy_dump_open(dump, proc, open, state->open_count);
}
