/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "note.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "core.h"
#include "gather.h"
#include "names.h"
#include "profiler_abi.h"
#include "ring.h"
#include "trace_format.h"
#include "trace_prof.h"

/* Kinds that each choice of NCCLSPY_PROFILER stands for. */
#define MASK_OPS                                                                                   \
	(NSPY_PROFILE_COLL | NSPY_PROFILE_P2P | NSPY_PROFILE_PROXY_OP | NSPY_PROFILE_CE_COLL)
#define MASK_STEPS   (MASK_OPS | NSPY_PROFILE_PROXY_STEP)
#define MASK_KERNELS (MASK_OPS | NSPY_PROFILE_KERNEL_CH)

/* Kinds that become records; of the others nothing is touched. */
#define KEPT                                                                                       \
	(NSPY_PROFILE_COLL | NSPY_PROFILE_P2P | NSPY_PROFILE_PROXY_OP | NSPY_PROFILE_PROXY_STEP |  \
	 NSPY_PROFILE_KERNEL_CH)

struct nspy_prof_context nspy_prof_contexts[NSPY_PROF_CONTEXTS];

/* --- contexts --- */

struct nspy_prof_context *nspy_prof_context_take(void)
{
	static _Atomic uint32_t last_id;

	for (uint32_t i = 0; i < NSPY_PROF_CONTEXTS; i++) {
		uint32_t id = atomic_fetch_add(&last_id, 1) + 1, free = NSPY_PROF_CONTEXT_FREE;
		struct nspy_prof_context *context = &nspy_prof_contexts[id % NSPY_PROF_CONTEXTS];

		if (id && atomic_compare_exchange_strong(&context->state, &free,
							 NSPY_PROF_CONTEXT_FILLING)) {
			atomic_store_explicit(&context->id, id, memory_order_relaxed);
			return context;
		}
	}
	return NULL;
}

/* Kinds that a version has. */
static uint32_t kinds_of(unsigned int api)
{
	if (api >= 6)
		return NSPY_PROFILE_CE_BATCH * 2 - 1;
	if (api >= 5)
		return NSPY_PROFILE_KERNEL_LAUNCH * 2 - 1;
	return api >= 3 ? NSPY_PROFILE_NET_PLUGIN * 2 - 1 : NSPY_PROFILE_PROXY_CTRL * 2 - 1;
}

static uint32_t wanted(unsigned int api)
{
	const char *words = nspy_core.env.NCCLSPY_PROFILER;
	uint32_t mask = 0;

	if (strstr(words, "ops"))
		mask |= MASK_OPS;
	if (strstr(words, "steps"))
		mask |= MASK_STEPS;
	if (strstr(words, "kernels"))
		mask |= MASK_KERNELS;
	return mask & kinds_of(api);
}

static struct nspy_prof_context *fill(const struct nspy_prof_start *start, uint32_t mask)
{
	struct nspy_prof_context *context = nspy_prof_context_take();

	if (!context)
		return NULL;
	atomic_store_explicit(&context->hash, start->hash, memory_order_relaxed);
	context->theirs = NULL;
	context->api = start->api;
	context->ours_mask = mask;
	context->their_mask = 0;
	context->nranks = start->nranks;
	context->rank = start->rank;
	context->nodes = start->nodes;
	context->ticks = nspy_ticks();
	context->joined = 0;
	(void)snprintf(context->name, sizeof(context->name), "%s", start->name ? start->name : "");
	return context;
}

struct nspy_prof_context *nspy_prof_begin(const struct nspy_prof_start *start, int *ret_mask)
{
	struct nspy_prof_context *context = NULL;
	int saved = errno;
	uint32_t mask;

	*ret_mask = 0;
	/* As a plain plugin we may see NCCL for the first time here. */
	if (nspy_is_recording() || nspy_start()) {
		mask = wanted(start->api);
		if (mask && nspy_raw_start() && nspy_prof_gather_start())
			context = fill(start, mask);
		if (context)
			*ret_mask = (int)mask;
	}
	errno = saved;
	return context;
}

void nspy_prof_end(struct nspy_prof_context *context)
{
	atomic_store_explicit(&context->state, NSPY_PROF_CONTEXT_ENDED, memory_order_release);
}

/*
 * NCCL tells of an event also if only events below it are wanted (src/plugin/profiler.cc), from
 * network events up to API calls.
 */
uint32_t nspy_prof_needs(uint32_t type)
{
	const uint32_t below_op = NSPY_PROFILE_PROXY_OP | NSPY_PROFILE_PROXY_STEP |
				  NSPY_PROFILE_KERNEL_CH | NSPY_PROFILE_NET_PLUGIN;
	const uint32_t copies = NSPY_PROFILE_CE_COLL | NSPY_PROFILE_CE_SYNC | NSPY_PROFILE_CE_BATCH;
	const uint32_t group = NSPY_PROFILE_GROUP | NSPY_PROFILE_COLL | NSPY_PROFILE_P2P | below_op;

	switch (type) {
	case NSPY_PROFILE_GROUP:
		return group;
	case NSPY_PROFILE_COLL:
	case NSPY_PROFILE_P2P:
		return type | below_op;
	case NSPY_PROFILE_PROXY_OP:
		return type | NSPY_PROFILE_PROXY_STEP | NSPY_PROFILE_NET_PLUGIN;
	case NSPY_PROFILE_PROXY_STEP:
		return type | NSPY_PROFILE_NET_PLUGIN;
	case NSPY_PROFILE_GROUP_API:
		return group | copies | NSPY_PROFILE_GROUP_API | NSPY_PROFILE_COLL_API |
		       NSPY_PROFILE_P2P_API | NSPY_PROFILE_KERNEL_LAUNCH;
	case NSPY_PROFILE_COLL_API:
		return type | NSPY_PROFILE_COLL | below_op | copies;
	case NSPY_PROFILE_P2P_API:
		return type | NSPY_PROFILE_P2P | below_op;
	case NSPY_PROFILE_CE_COLL:
		return copies;
	default:
		return type;
	}
}

/* --- events --- */

/* What is known of an event before it gets its place in a ring. */
struct note {
	uint64_t parent, x, y;
	int32_t peer;
	uint8_t event, flags, func, algo, proto, datatype, channels;
};

static void *write_start(const struct nspy_prof_context *context, const struct note *note)
{
	unsigned int ring;
	uint64_t position, handle;
	struct nspy_raw *raw = nspy_raw_take(&position, &ring);

	if (nspy_unlikely(!raw))
		return NULL;
	handle = nspy_handle_make(note->event, ring, position);
	raw->ticks = nspy_ticks();
	raw->ref = note->parent;
	atomic_store_explicit(&raw->end, NSPY_RAW_OPEN(position & NSPY_HANDLE_POSITION),
			      memory_order_relaxed);
	raw->x = note->x;
	raw->y = note->y;
	raw->peer = note->peer;
	raw->context = context ? atomic_load_explicit(&context->id, memory_order_relaxed) : 0;
	raw->what = NSPY_RAW_START;
	raw->flags = note->flags;
	raw->state = note->event;
	raw->func = note->func;
	raw->algo = note->algo;
	raw->proto = note->proto;
	raw->datatype = note->datatype;
	raw->channels = note->channels;
	nspy_raw_done(raw, position);
	return (void *)(uintptr_t)handle;
}

static void write_change(uint64_t handle, uint8_t what, uint64_t ticks, int state, uint64_t x)
{
	unsigned int ring;
	uint64_t position;
	struct nspy_raw *raw = nspy_raw_take(&position, &ring);

	if (nspy_unlikely(!raw))
		return;
	raw->ticks = ticks;
	raw->ref = handle;
	raw->x = x;
	raw->what = what;
	raw->state = (uint8_t)state;
	nspy_raw_done(raw, position);
}

static uint8_t captured(uint64_t parent)
{
	return parent == (uintptr_t)NSPY_HANDLE_CAPTURED ? NSPY_RAW_CAPTURED : 0;
}

static struct note note_proxy_op(const struct nspy_prof_context *context, uint64_t parent,
				 const struct nspy_proxy_op *op)
{
	/* Of another process's context we do not know what it is asked for. */
	bool steps = !context || context->ours_mask & NSPY_PROFILE_PROXY_STEP;
	struct note note = {
		.event = steps ? NSPY_RAW_PROXY_STEPS : NSPY_RAW_PROXY_OP,
		.parent = parent,
		.peer = op->peer,
		.flags = op->is_send ? NSPY_RAW_SENDS : 0,
	};

	/* Done here for a rank of another process: its handles mean nothing to us. */
	if (op->pid && (uint32_t)op->pid != nspy_core.owner_pid) {
		note.flags |= NSPY_RAW_FOREIGN;
		note.parent = 0;
	}
	return note;
}

/* Only versions 1 to 3 say here which communicator it is. */
static void learn_hash(struct nspy_prof_context *context, uint64_t hash)
{
	if (context && hash && !atomic_load_explicit(&context->hash, memory_order_relaxed))
		atomic_store_explicit(&context->hash, hash, memory_order_relaxed);
}

#define NOTE_COLL(parent_, coll)                                                                   \
	((struct note){                                                                            \
		.event = NSPY_RAW_COLL,                                                            \
		.parent = (parent_),                                                               \
		.flags = captured(parent_),                                                        \
		.x = (coll)->seq,                                                                  \
		.y = (coll)->count,                                                                \
		.peer = (coll)->root,                                                              \
		.func = nspy_prof_func((coll)->func),                                              \
		.algo = nspy_prof_algo((coll)->algo),                                              \
		.proto = nspy_prof_proto((coll)->proto),                                           \
		.datatype = nspy_prof_datatype((coll)->datatype),                                  \
		.channels = (coll)->channels,                                                      \
	})

#define NOTE_P2P(parent_, p2p, channels_)                                                          \
	((struct note){                                                                            \
		.event = NSPY_RAW_P2P,                                                             \
		.parent = (parent_),                                                               \
		.flags = captured(parent_),                                                        \
		.y = (p2p)->count,                                                                 \
		.peer = (p2p)->peer,                                                               \
		.func = nspy_prof_func((p2p)->func),                                               \
		.datatype = nspy_prof_datatype((p2p)->datatype),                                   \
		.channels = (channels_),                                                           \
	})

static uint8_t number(uint8_t value, unsigned int count)
{
	return value + 1u < count ? (uint8_t)(value + 1) : 0;
}

static struct note coll_v1(uint64_t parent, const struct nspy_coll_v1 *coll)
{
	return (struct note){
		.event = NSPY_RAW_COLL,
		.parent = parent,
		.x = coll->seq,
		.y = coll->count,
		.peer = coll->root,
		/* Numbered as NCCL's, from 0, up to Recv. */
		.func = number(coll->func, NSPY_PROF_FUNC_RECV + 1),
		.algo = number(coll->algo, NSPY_PROF_ALGO_COUNT),
		.proto = number(coll->proto, NSPY_PROF_PROTO_COUNT),
		.datatype = coll->datatype,
		.channels = 0, /* an upper limit only, before version 4 */
	};
}

static struct note p2p_v1(uint64_t parent, const struct nspy_p2p_v1 *p2p)
{
	return (struct note){
		.event = NSPY_RAW_P2P,
		.parent = parent,
		.y = p2p->count,
		.peer = p2p->peer,
		.func = number(p2p->func, NSPY_PROF_FUNC_RECV + 1),
		.datatype = p2p->datatype,
	};
}

static struct note note_kernel(uint64_t parent, uint64_t timer, bool timed)
{
	return (struct note){
		.event = timed ? NSPY_RAW_KERNEL : NSPY_RAW_KERNEL_HOST,
		.parent = parent,
		.x = timer,
	};
}

/* What all versions treat alike. A step's context may be another process's: its parent is not. */
#define COMMON_CASES                                                                               \
	case NSPY_PROFILE_PROXY_OP:                                                                \
		note = note_proxy_op(context, parent, &d->proxy_op);                               \
		break;                                                                             \
	case NSPY_PROFILE_PROXY_STEP:                                                              \
		note = (struct note){.event = NSPY_RAW_STEP, .parent = parent};                    \
		break;                                                                             \
	default:                                                                                   \
		return NULL

static void *finish(const struct nspy_prof_context *context, const struct note *note)
{
	/* Without its context an operation is nobody's. */
	if (!context && note->event <= NSPY_RAW_COPY)
		return NULL;
	return write_start(note->flags & NSPY_RAW_FOREIGN ? NULL : context, note);
}

static void *start_v1(const void *pointer, uint64_t parent, const void *descr)
{
	const struct nspy_descr_v1 *d = descr;
	struct nspy_prof_context *context;
	struct note note;

	if (!(d->type & KEPT))
		return NULL;
	context = nspy_prof_context_of(pointer);
	switch (d->type) {
	case NSPY_PROFILE_COLL:
		learn_hash(context, d->coll.comm_hash);
		note = coll_v1(parent, &d->coll);
		break;
	case NSPY_PROFILE_P2P:
		learn_hash(context, d->p2p.comm_hash);
		note = p2p_v1(parent, &d->p2p);
		break;
		COMMON_CASES;
	}
	return finish(context, &note);
}

static void *start_v2(const void *pointer, uint64_t parent, const void *descr)
{
	const struct nspy_descr_v2 *d = descr;
	struct nspy_prof_context *context;
	struct note note;

	if (!(d->type & KEPT))
		return NULL;
	context = nspy_prof_context_of(pointer);
	switch (d->type) {
	case NSPY_PROFILE_COLL:
		learn_hash(context, d->coll.comm_hash);
		note = NOTE_COLL(parent, &d->coll);
		note.channels = 0; /* an upper limit only */
		break;
	case NSPY_PROFILE_P2P:
		learn_hash(context, d->p2p.comm_hash);
		note = NOTE_P2P(parent, &d->p2p, 0);
		break;
		COMMON_CASES;
	}
	return finish(context, &note);
}

static void *start_v3(const void *pointer, uint64_t parent, const void *descr)
{
	const struct nspy_descr_v3 *d = descr;
	struct nspy_prof_context *context;
	struct note note;

	if (!(d->type & KEPT))
		return NULL;
	context = nspy_prof_context_of(pointer);
	switch (d->type) {
	case NSPY_PROFILE_COLL:
		learn_hash(context, d->coll.comm_hash);
		note = NOTE_COLL(parent, &d->coll);
		note.channels = 0; /* an upper limit only */
		break;
	case NSPY_PROFILE_P2P:
		learn_hash(context, d->p2p.comm_hash);
		note = NOTE_P2P(parent, &d->p2p, 0);
		break;
	case NSPY_PROFILE_KERNEL_CH:
		note = note_kernel(parent, 0, false);
		break;
		COMMON_CASES;
	}
	return finish(context, &note);
}

static void *start_v4(const void *pointer, uint64_t parent, const void *descr)
{
	const struct nspy_descr_v4 *d = descr;
	struct nspy_prof_context *context;
	struct note note;

	if (!(d->type & KEPT))
		return NULL;
	context = nspy_prof_context_of(pointer);
	switch (d->type) {
	case NSPY_PROFILE_COLL:
		note = NOTE_COLL(parent, &d->coll);
		break;
	case NSPY_PROFILE_P2P:
		note = NOTE_P2P(parent, &d->p2p, d->p2p.channels);
		break;
	case NSPY_PROFILE_KERNEL_CH:
		note = note_kernel(parent, d->kernel.timer, true);
		break;
		COMMON_CASES;
	}
	return finish(context, &note);
}

/* Also for version 6, whose descriptor begins as this one. */
static void *start_v5(const void *pointer, uint64_t parent, const void *descr)
{
	const struct nspy_descr_v5 *d = descr;
	struct nspy_prof_context *context;
	struct note note;

	/* Of these we keep one bit, in the handle itself, for what comes below. */
	if (d->type == NSPY_PROFILE_COLL_API)
		return d->coll_api.captured ? NSPY_HANDLE_CAPTURED : NULL;
	if (d->type == NSPY_PROFILE_P2P_API)
		return d->p2p_api.captured ? NSPY_HANDLE_CAPTURED : NULL;
	if (!(d->type & KEPT))
		return NULL;
	context = nspy_prof_context_of(pointer);
	switch (d->type) {
	case NSPY_PROFILE_COLL:
		note = NOTE_COLL(parent, &d->coll.as_v4);
		break;
	case NSPY_PROFILE_P2P:
		note = NOTE_P2P(parent, &d->p2p, d->p2p.channels);
		break;
	case NSPY_PROFILE_KERNEL_CH:
		note = note_kernel(parent, d->kernel.timer, true);
		break;
		COMMON_CASES;
	}
	return finish(context, &note);
}

static void *start_v6(const void *pointer, uint64_t parent, const void *descr)
{
	const struct nspy_descr_v6 *d = descr;
	struct note note;

	if (d->type != NSPY_PROFILE_CE_COLL)
		return start_v5(pointer, parent, descr);
	note = (struct note){
		.event = NSPY_RAW_COPY,
		.parent = parent,
		.flags = captured(parent),
		.x = d->ce_coll.seq,
		.y = d->ce_coll.count,
		.peer = d->ce_coll.root,
		.func = nspy_prof_func(d->ce_coll.func),
		.datatype = nspy_prof_datatype(d->ce_coll.datatype),
	};
	return finish(nspy_prof_context_of(pointer), &note);
}

nspy_prof_note_start *const nspy_prof_note_starts[] = {
	NULL, start_v1, start_v2, start_v3, start_v4, start_v5, start_v6,
};

void nspy_prof_note_stop(uint64_t handle)
{
	unsigned int event = nspy_handle_event(handle);
	uint64_t ticks;

	/* A kernel's end has been told with its time. */
	if (!event || event == NSPY_RAW_KERNEL)
		return;
	ticks = nspy_ticks();
	if (!nspy_raw_ends_in_place(event) || !nspy_raw_end(handle, ticks))
		write_change(handle, NSPY_RAW_STOP, ticks, 0, 0);
}

void nspy_prof_note_state(unsigned int api, uint64_t handle, int state, const void *args)
{
	const union nspy_state_args *new = api >= 4 ? args : NULL;
	unsigned int event = nspy_handle_event(handle);

	if (event == NSPY_RAW_KERNEL) {
		if (new &&state == NSPY_PROFILE_KERNEL_CH_STOP)
			write_change(handle, NSPY_RAW_STATE, nspy_ticks(), state, new->timer);
		return;
	}
	if (event == NSPY_RAW_STEP &&
	    ((state >= NSPY_PROFILE_SEND_GPU_WAIT && state <= NSPY_PROFILE_RECV_GPU_WAIT) ||
	     state == NSPY_PROFILE_SEND_PEER_WAIT))
		write_change(handle, NSPY_RAW_STATE, nspy_ticks(), state, new ? new->bytes : 0);
}
