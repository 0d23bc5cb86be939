/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_status.h"

#include <errno.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "trace_bytes.h"

/* One walk over the fields serves both directions, so that they cannot disagree. */
struct walk {
	uint8_t *at;
	size_t left;
	bool write;
	bool bad; /* out of room, or out of bytes */
};

static uint64_t number(struct walk *w, uint64_t value, unsigned int bytes)
{
	uint64_t read = 0;

	if (w->bad || w->left < bytes) {
		w->bad = true;
		return w->write ? value : 0; /* what is written stays as it is */
	}
	for (unsigned int i = 0; i < bytes; i++) {
		if (w->write)
			w->at[i] = (uint8_t)(value >> (8 * i));
		else
			read |= (uint64_t)w->at[i] << (8 * i);
	}
	w->at += bytes;
	w->left -= bytes;
	return w->write ? value : read;
}

#define FIELD(w, f) ((f) = (__typeof__(f))number(w, (uint64_t)(f), sizeof(f)))

static void text(struct walk *w, char *field, size_t bytes)
{
	if (w->bad || w->left < bytes) {
		w->bad = true;
		return;
	}
	if (w->write)
		memcpy(w->at, field, bytes);
	else
		memcpy(field, w->at, bytes);
	w->at += bytes;
	w->left -= bytes;
	if (w->write)
		return;
	field[bytes - 1] = '\0';
	for (size_t i = 0; field[i]; i++)
		if ((unsigned char)field[i] < 0x20 || field[i] == 0x7f)
			field[i] = '?';
}

static void walk_process(struct walk *w, struct nspy_status *s)
{
	FIELD(w, s->run_id);
	FIELD(w, s->pidns);
	FIELD(w, s->starttime);
	FIELD(w, s->published_ns);
	FIELD(w, s->published_real_ns);
	FIELD(w, s->pid);
	FIELD(w, s->state);
	FIELD(w, s->exit_code);
	FIELD(w, s->rank);
	FIELD(w, s->world_size);
	text(w, s->node, sizeof(s->node));
	text(w, s->job_dir, sizeof(s->job_dir));
	FIELD(w, s->calls);
	FIELD(w, s->lost);
	FIELD(w, s->graph_launches);
	FIELD(w, s->rounds);
	FIELD(w, s->longest_wait_ns);
	FIELD(w, s->work_ns[0]);
	FIELD(w, s->work_ns[1]);
	FIELD(w, s->round_ns[0]);
	FIELD(w, s->round_ns[1]);
	FIELD(w, s->best_round_ns);
	FIELD(w, s->last_call_ns);
	FIELD(w, s->caller_tid);
	FIELD(w, s->caller_state);
	text(w, s->caller_wchan, sizeof(s->caller_wchan));
	FIELD(w, s->busy_for_ns);
	FIELD(w, s->busy_cpu_ns);
	FIELD(w, s->busy_io_bytes);
	FIELD(w, s->event_key);
	FIELD(w, s->event_since_ns);
	text(w, s->event_id, sizeof(s->event_id));
	FIELD(w, s->not_shown);
	FIELD(w, s->dead);
	FIELD(w, s->stopped);
}

static void walk_comm(struct walk *w, struct nspy_status_comm *c)
{
	FIELD(w, c->key);
	FIELD(w, c->parent_key);
	FIELD(w, c->enqueued);
	FIELD(w, c->completed);
	FIELD(w, c->captured);
	FIELD(w, c->last_ns);
	FIELD(w, c->started_ns);
	FIELD(w, c->nranks);
	FIELD(w, c->rank);
	FIELD(w, c->color);
	FIELD(w, c->ordinal);
	FIELD(w, c->origin);
	FIELD(w, c->flags);
	FIELD(w, c->async_error);
	FIELD(w, c->name);
	FIELD(w, c->datatype);
	FIELD(w, c->redop);
	FIELD(w, c->root);
	FIELD(w, c->count);
}

static void walk_call(struct walk *w, struct nspy_status_call *c)
{
	FIELD(w, c->enter_ns);
	FIELD(w, c->seq);
	FIELD(w, c->count);
	FIELD(w, c->tid);
	FIELD(w, c->peer);
	FIELD(w, c->comm);
	FIELD(w, c->name);
	FIELD(w, c->klass);
	FIELD(w, c->datatype);
	FIELD(w, c->redop);
	FIELD(w, c->flags);
}

static void walk_op(struct walk *w, struct nspy_status_op *o)
{
	FIELD(w, o->enter_ns);
	FIELD(w, o->seq);
	FIELD(w, o->count);
	FIELD(w, o->stream);
	FIELD(w, o->peer);
	FIELD(w, o->comm);
	FIELD(w, o->name);
	FIELD(w, o->klass);
	FIELD(w, o->datatype);
	FIELD(w, o->redop);
	FIELD(w, o->flags);
}

static void walk_way(struct walk *w, struct nspy_status_way *way)
{
	FIELD(w, way->comm);
	FIELD(w, way->peer);
	FIELD(w, way->sent);
	FIELD(w, way->received);
}

static void walk_counts(struct walk *w, struct nspy_status *s)
{
	FIELD(w, s->name_count);
	FIELD(w, s->comm_count);
	FIELD(w, s->call_count);
	FIELD(w, s->op_count);
	FIELD(w, s->way_count);
}

static void walk_arrays(struct walk *w, struct nspy_status *s)
{
	for (uint32_t i = 0; i < s->name_count; i++)
		text(w, s->names[i], NSPY_STATUS_NAME_BYTES);
	for (uint32_t i = 0; i < s->comm_count; i++)
		walk_comm(w, &s->comms[i]);
	for (uint32_t i = 0; i < s->call_count; i++)
		walk_call(w, &s->calls_open[i]);
	for (uint32_t i = 0; i < s->op_count; i++)
		walk_op(w, &s->ops[i]);
	for (uint32_t i = 0; i < s->way_count; i++)
		walk_way(w, &s->ways[i]);
}

/* After everything else: pages of before these fields end earlier. */
static void walk_stack(struct walk *w, struct nspy_status *s)
{
	FIELD(w, s->nccl);
	FIELD(w, s->cudart);
	FIELD(w, s->driver);
	FIELD(w, s->nccl_build);
	FIELD(w, s->settings);
	text(w, s->libfabric, sizeof(s->libfabric));
	text(w, s->plugin, sizeof(s->plugin));
	text(w, s->gpu, sizeof(s->gpu));
	text(w, s->instance, sizeof(s->instance));
}

static void walk_control(struct walk *w, struct nspy_status *s)
{
	FIELD(w, s->control_id);
	FIELD(w, s->mode);
	FIELD(w, s->hang_s);
}

/* Only a page with a signal has it, so that nothing changes for all others. */
static void walk_signal(struct walk *w, struct nspy_status *s)
{
	FIELD(w, s->signal.when_ns);
	FIELD(w, s->signal.address);
	FIELD(w, s->signal.number);
	FIELD(w, s->signal.code);
	FIELD(w, s->signal.tid);
	FIELD(w, s->signal.sender);
	if (!w->write && (s->signal.number < 1 || s->signal.number > NSPY_SIGNAL_MAX))
		w->bad = true;
}

static uint64_t checksum(const uint8_t *page, size_t bytes)
{
	/* The sequence is covered, so that an old body under a new number shows. */
	return XXH64(page + NSPY_STATUS_HEAD_BYTES, bytes - NSPY_STATUS_HEAD_BYTES,
		     nspy_le64_load(page + 16));
}

long nspy_status_encode(const struct nspy_status *status, uint32_t ops_max, uint8_t *out,
			size_t bytes)
{
	struct nspy_status s = *status;
	struct walk w = {out + NSPY_STATUS_HEAD_BYTES, 0, true, false};
	size_t total;

	if (bytes < NSPY_STATUS_HEAD_BYTES)
		return -ENOBUFS;
	w.left = bytes - NSPY_STATUS_HEAD_BYTES;
	if (s.op_count > ops_max) {
		s.ops += s.op_count - ops_max;
		s.op_count = ops_max;
	}
	walk_process(&w, &s);
	walk_counts(&w, &s);
	walk_arrays(&w, &s);
	walk_stack(&w, &s);
	walk_control(&w, &s);
	if (s.signal.number)
		walk_signal(&w, &s);
	if (w.bad)
		return -ENOBUFS;
	total = bytes - w.left;
	nspy_le64_store(out, NSPY_STATUS_MAGIC);
	nspy_le32_store(out + 8, NSPY_STATUS_VERSION);
	nspy_le32_store(out + 12, (uint32_t)total);
	nspy_le64_store(out + 16, s.sequence);
	nspy_le64_store(out + 24, checksum(out, total));
	return (long)total;
}

static int take_arrays(struct nspy_arena *arena, struct nspy_status *s)
{
	if (s->name_count > NSPY_STATUS_NAMES_MAX || s->comm_count > NSPY_STATUS_COMMS_MAX ||
	    s->call_count > NSPY_STATUS_CALLS_MAX || s->op_count > NSPY_STATUS_OPS_MAX ||
	    s->way_count > NSPY_STATUS_WAYS_MAX)
		return -EBADMSG;
	s->names = nspy_arena_take(arena, s->name_count, NSPY_STATUS_NAME_BYTES);
	s->comms = nspy_arena_take(arena, s->comm_count, sizeof(*s->comms));
	s->calls_open = nspy_arena_take(arena, s->call_count, sizeof(*s->calls_open));
	s->ops = nspy_arena_take(arena, s->op_count, sizeof(*s->ops));
	s->ways = nspy_arena_take(arena, s->way_count, sizeof(*s->ways));
	return s->names && s->comms && s->calls_open && s->ops && s->ways ? 0 : -ENOMEM;
}

static bool index_fits(uint16_t index, uint32_t count)
{
	return index == NSPY_STATUS_NONE || index < count;
}

static bool indices_fit(const struct nspy_status *s)
{
	for (uint32_t i = 0; i < s->comm_count; i++)
		if (!index_fits(s->comms[i].name, s->name_count) ||
		    s->comms[i].nranks > NSPY_STATUS_RANKS_MAX)
			return false;
	for (uint32_t i = 0; i < s->call_count; i++)
		if (!index_fits(s->calls_open[i].name, s->name_count) ||
		    !index_fits(s->calls_open[i].comm, s->comm_count))
			return false;
	for (uint32_t i = 0; i < s->op_count; i++)
		if (!index_fits(s->ops[i].name, s->name_count) || s->ops[i].comm >= s->comm_count)
			return false;
	for (uint32_t i = 0; i < s->way_count; i++)
		if (s->ways[i].comm >= s->comm_count)
			return false;
	return true;
}

int nspy_status_decode(const uint8_t *data, size_t bytes, struct nspy_arena *arena,
		       struct nspy_status *ret, size_t *ret_bytes)
{
	struct walk w = {(uint8_t *)(uintptr_t)data + NSPY_STATUS_HEAD_BYTES, 0, false, false};
	size_t total, used_before = arena->used;
	int rc;

	memset(ret, 0, sizeof(*ret));
	if (bytes < NSPY_STATUS_HEAD_BYTES || nspy_le64_load(data) != NSPY_STATUS_MAGIC)
		return -EBADMSG;
	if (nspy_le32_load(data + 8) != NSPY_STATUS_VERSION)
		return -EPROTONOSUPPORT;
	total = nspy_le32_load(data + 12);
	if (total < NSPY_STATUS_HEAD_BYTES || total > bytes || total > NSPY_STATUS_BYTES_MAX ||
	    nspy_le64_load(data + 24) != checksum(data, total))
		return -EBADMSG;
	ret->sequence = nspy_le64_load(data + 16);
	w.left = total - NSPY_STATUS_HEAD_BYTES;
	walk_process(&w, ret);
	walk_counts(&w, ret);
	rc = w.bad ? -EBADMSG : take_arrays(arena, ret);
	if (rc == 0) {
		walk_arrays(&w, ret);
		if (w.left)
			walk_stack(&w, ret);
		if (w.left && !w.bad)
			walk_control(&w, ret);
		if (w.left && !w.bad)
			walk_signal(&w, ret);
		if (w.bad || w.left || !indices_fit(ret))
			rc = -EBADMSG;
	}
	if (rc < 0)
		arena->used = used_before;
	else
		*ret_bytes = total;
	return rc;
}

bool nspy_status_exited(const uint8_t *file, size_t bytes, int32_t *ret_code)
{
	uint32_t seal;
	int32_t code;

	if (bytes < NSPY_STATUS_FILE_BYTES)
		return false;
	memcpy(&code, file + NSPY_STATUS_EXIT_OFFSET, sizeof(code));
	memcpy(&seal, file + NSPY_STATUS_EXIT_OFFSET + sizeof(code), sizeof(seal));
	if (seal != nspy_status_exit_seal(code) && seal != nspy_status_gone_seal(code))
		return false;
	*ret_code = code;
	return true;
}

const char *nspy_status_name(const struct nspy_status *status, uint16_t name)
{
	return name < status->name_count ? status->names[name] : "?";
}
