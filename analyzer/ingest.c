/* SPDX-License-Identifier: Apache-2.0 */
#include "ingest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ingest_call.h"

void nspy_loader_init(struct nspy_loader *loader, struct nspy_model *model, uint64_t budget)
{
	*loader = (struct nspy_loader){.model = model, .budget = budget};
	loader->records = nspy_xcalloc(NSPY_CHUNK_RECORDS_MAX, sizeof(*loader->records));
	loader->comms = nspy_xcalloc(NSPY_STATE_COMMS_MAX, sizeof(*loader->comms));
	loader->open = nspy_xcalloc(NSPY_STATE_OPEN_MAX, sizeof(*loader->open));
}

void nspy_loader_done(struct nspy_loader *loader)
{
	for (size_t i = 0; i < loader->cells.capacity; i++) {
		struct nspy_cells *cells = loader->cells.slots[i].value;

		if (!cells)
			continue;
		nspy_cells_done(cells);
		free(cells);
	}
	nspy_map_done(&loader->cells);
	free(loader->records);
	free(loader->comms);
	free(loader->open);
	*loader = (struct nspy_loader){0};
}

void nspy_ingest_ident(struct nspy_proc *proc, const uint8_t *payload, size_t bytes)
{
	const char *key, *value;
	size_t cursor = 0, key_bytes, value_bytes;

	while (nspy_ident_next(payload, bytes, &cursor, &key, &key_bytes, &value, &value_bytes) ==
	       0)
		nspy_proc_set_fact(proc, key, key_bytes, value, value_bytes);
}

/* --- schema --- */

#define SCHEMA_FIELDS 6

static enum nspy_model_lib library_by_name(const char *name)
{
	if (strcmp(name, "nccl") == 0)
		return NSPY_MODEL_NCCL;
	return strcmp(name, "cudart") == 0 ? NSPY_MODEL_CUDART : NSPY_MODEL_OTHER;
}

static void schema_fn(struct nspy_model *model, struct nspy_proc *proc, char **field, size_t count)
{
	uint64_t id, klass;
	bool fallible;

	if (count < 5 || !nspy_parse_u64(field[1], &id) || id >= NSPY_FN_IDS_MAX ||
	    !nspy_parse_u64(field[4], &klass))
		return;
	fallible = count < 6 || strstr(field[5], "Result") || strstr(field[5], "Error") ||
		   strstr(field[5], "CUresult");
	while (id >= proc->fn_map_count) {
		size_t more = proc->fn_map_count ? proc->fn_map_count * 2 : 256;

		proc->fn_map = nspy_xrealloc(proc->fn_map, more, sizeof(*proc->fn_map));
		memset(proc->fn_map + proc->fn_map_count, 0,
		       (more - proc->fn_map_count) * sizeof(*proc->fn_map));
		proc->fn_map_count = more;
	}
	proc->fn_map[id] = nspy_model_fn(
		model, field[2], library_by_name(field[3]),
		klass < NSPY_CLASS_COUNT ? (unsigned int)klass : NSPY_CLASS_OTHER, fallible);
}

static void schema_line(struct nspy_model *model, struct nspy_proc *proc, char *line)
{
	char *field[SCHEMA_FIELDS] = {line};
	uint64_t number, size;
	int64_t code;
	size_t count = 0;

	do {
		field[count++] = strsep(&line, "\t");
	} while (line && count < SCHEMA_FIELDS);
	if (strcmp(field[0], "fn") == 0) {
		schema_fn(model, proc, field, count);
	} else if (strcmp(field[0], "datatype") == 0) {
		if (count < 4 || !nspy_parse_u64(field[1], &number) || number > 255 ||
		    !nspy_parse_u64(field[3], &size) || size > 64)
			return;
		proc->type_bytes[number] = (uint8_t)size;
		nspy_model_name_type(model, (uint8_t)number, field[2]);
	} else if (strcmp(field[0], "result") == 0) {
		if (count >= 4 && nspy_parse_i64(field[2], &code) && code == (int16_t)code)
			nspy_model_name_result(model, library_by_name(field[1]), (int)code,
					       field[3]);
	}
}

void nspy_ingest_schema(struct nspy_model *model, struct nspy_proc *proc, const uint8_t *payload,
			size_t bytes)
{
	const char *line;
	size_t cursor = 0, line_bytes;

	while (nspy_schema_next(payload, bytes, &cursor, &line, &line_bytes) == 0) {
		char *copy = nspy_xstrndup(line, line_bytes);

		schema_line(model, proc, copy);
		free(copy);
	}
}

/* --- communicators --- */

static uint64_t cells_key(const struct nspy_model *model, const struct nspy_proc *proc,
			  uint64_t key)
{
	return model->by_epoch ? key ^ nspy_mix(proc->epoch + 1ULL) : key;
}

static struct nspy_cells *loader_cells(struct nspy_loader *loader, uint64_t key)
{
	struct nspy_cells *cells = nspy_map_get(&loader->cells, key);

	if (!cells) {
		cells = nspy_xcalloc(1, sizeof(*cells));
		nspy_map_put(&loader->cells, key, cells);
	}
	return cells;
}

void nspy_ingest_comm(struct nspy_loader *loader, struct nspy_proc *proc, uint32_t serial,
		      const struct nspy_comm_rec *rec)
{
	struct nspy_member *member = nspy_proc_member(proc, rec->comm);
	uint64_t when = nspy_proc_when(proc, rec->when);

	if (!member)
		return;
	if ((rec->flags & NSPY_COMM_STARTED) && !member->started_ns)
		member->started_ns = when;
	if ((rec->flags & NSPY_COMM_READY) && !member->ready_ns)
		member->ready_ns = when;
	if ((rec->flags & NSPY_COMM_GONE) && !member->gone_ns)
		member->gone_ns = when;
	if ((rec->flags & NSPY_COMM_FAILED) && !member->failed_ns)
		member->failed_ns = when;
	member->rec = *rec;
	if (!member->known)
		member->id = (uint32_t)atomic_fetch_add(&loader->model->member_ids, 1);
	if (!member->maker)
		member->maker = serial;
	member->known = true;
	if (rec->key == 0)
		return;
	member->cells_key = cells_key(loader->model, proc, rec->key);
	member->cells = loader_cells(loader, member->cells_key);
}

/* --- checkpoints --- */

void nspy_ingest_state(struct nspy_loader *loader, struct nspy_proc *proc,
		       const struct nspy_state *state)
{
	for (size_t i = 0; i < state->comm_count; i++)
		nspy_ingest_comm(loader, proc, 0, &loader->comms[i]);
	for (int i = 0; i < NSPY_LOSS_COUNT; i++)
		proc->loss[i] = state->loss[i];
	if (state->calls > proc->calls)
		proc->calls = state->calls;
	free(proc->open);
	proc->open = nspy_xcalloc(state->open_count, sizeof(*proc->open));
	memcpy(proc->open, loader->open, state->open_count * sizeof(*proc->open));
	proc->open_count = state->open_count;
	proc->open_when_ns = state->when_ns;
}
