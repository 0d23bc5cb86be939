/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of the calls that create and end communicators. The record of a new communicator is
 * written before the real call, flagged STARTED: a rank that hangs in its rendezvous has shown that
 * it came. All identity is taken from arguments.
 */
#include "compat.h"

#include "hooks.h"

#include <errno.h>
#include <string.h>

#include "comm.h"
#include "core.h"
#include "gpu.h"
#include "thread.h"

#define UNIQUE_ID_BYTES    128u
#define SPLIT_NOCOLOR      (-1)
#define CONFIG_MAGIC       0xcafebeefu
#define CONFIG_BLOCKING_AT 16u /* size_t size; unsigned magic, version; int blocking; ... */
#define CONFIG_UNDEFINED   ((int)0x80000000)

/* Whether the configuration asks for a nonblocking communicator. Only its own size is trusted. */
static bool is_nonblocking(const void *config)
{
	const char *forced = nspy_env_get("NCCL_COMM_BLOCKING");
	const uint8_t *p = config;
	size_t size;
	uint32_t magic;
	int blocking;

	if (forced)
		return strcmp(forced, "0") == 0;
	if (!p)
		return false;
	memcpy(&size, p, sizeof(size));
	memcpy(&magic, p + sizeof(size), sizeof(magic));
	if (magic != CONFIG_MAGIC || size < CONFIG_BLOCKING_AT + sizeof(blocking))
		return false;
	memcpy(&blocking, p + CONFIG_BLOCKING_AT, sizeof(blocking));
	return blocking == 0 && blocking != CONFIG_UNDEFINED;
}

static void started(struct nspy_rec *rec, struct nspy_comm_rec *what, const void *config)
{
	struct nspy_comm *comm;

	what->flags |= NSPY_COMM_STARTED;
	if (is_nonblocking(config))
		what->flags |= NSPY_COMM_NONBLOCKING;
	comm = nspy_comm_new(what);
	if (comm)
		rec->comm = comm->index;
}

/*
 * After the creating call. In a group the rendezvous happens at its end, on a nonblocking
 * communicator later: until then the handle is known, and nothing else. A child's is not even
 * that: place is where it will be.
 */
static void created(struct nspy_rec *rec, int result, void *const *place)
{
	struct nspy_tls *t = &nspy_tls;
	struct nspy_comm *comm = nspy_comm_by_index(rec->comm);
	/* A thread of NCCL may be writing it right now. */
	const void *handle = place ? __atomic_load_n(place, __ATOMIC_ACQUIRE) : NULL;

	if (!comm)
		return;
	if (result != 0 && result != NSPY_RESULT_IN_PROGRESS) {
		nspy_comm_update(comm, NSPY_COMM_FAILED);
		return;
	}
	if (handle)
		nspy_comm_bind(comm, handle);
	else
		nspy_comm_await(comm, place);
	nspy_gpu_note();
	if (result == NSPY_RESULT_IN_PROGRESS) {
		nspy_comm_update(comm, NSPY_COMM_NONBLOCKING);
	} else if (t->group_depth) {
		nspy_comm_defer(comm, t->slot->serial);
		t->pending_comms++;
	} else if (place && !handle) {
		/* It follows its parent in this, whatever its own configuration says. */
		nspy_comm_update(comm, NSPY_COMM_NONBLOCKING);
	} else if (!(nspy_comm_rec(comm)->flags & NSPY_COMM_NONBLOCKING)) {
		nspy_comm_ready(comm);
	}
}

/* Order of the ids must not matter: each rank may list them as it likes. */
static uint64_t hash_ids(const void *ids, int count)
{
	uint64_t sum = 0;

	for (int i = 0; i < count; i++)
		sum += nspy_hash((const uint8_t *)ids + (size_t)i * UNIQUE_ID_BYTES,
				 UNIQUE_ID_BYTES, 0);
	return nspy_hash(&sum, sizeof(sum), (uint64_t)count) | 1; /* 0 means "has none" */
}

void nspy_put_init_rank(struct nspy_rec *rec, const void *ids, int count, int nranks, int rank,
			const void *config)
{
	struct nspy_comm_rec what = {
		.origin = NSPY_COMM_INIT_RANK,
		.nranks = nranks,
		.rank = rank,
	};

	if (!ids || count <= 0 || count > nranks)
		return; /* the library will refuse it, without looking at the ids */
	what.id_hash = hash_ids(ids, count);
	started(rec, &what, config);
	rec->count = (uint64_t)(nranks < 0 ? 0 : nranks);
	rec->peer = rank;
}

void nspy_got_init_rank(struct nspy_rec *rec, int result, void *const *newcomm)
{
	created(rec, result, newcomm);
}

void nspy_put_init_all(struct nspy_rec *rec, int ndev)
{
	rec->count = (uint64_t)(ndev < 0 ? 0 : ndev);
}

void nspy_got_init_all(struct nspy_rec *rec, int result, void *const *comms, int ndev)
{
	static _Atomic uint32_t ordinals;
	struct nspy_comm_rec what = {
		.origin = NSPY_COMM_INIT_ALL,
		.nranks = ndev,
		.flags = NSPY_COMM_STARTED,
	};

	if (result != 0 || !comms)
		return;
	/* No id is shown, and nobody else has a part in it: this recording and a count name it. */
	what.ordinal = atomic_fetch_add(&ordinals, 1) + 1;
	what.key = nspy_hash(&what.ordinal, sizeof(what.ordinal), nspy_core.id.run_id);
	for (int i = 0; i < ndev; i++) {
		struct nspy_comm *comm;

		what.rank = i;
		comm = nspy_comm_new(&what);
		if (!comm)
			return;
		nspy_comm_bind(comm, comms[i]);
		nspy_comm_ready(comm);
		rec->comm = comm->index;
	}
}

/* A child's key follows from its parent's, how it was made, the how-manieth it is, and a detail. */
static bool child_of(const void *parent_handle, enum nspy_comm_origin origin, uint64_t detail,
		     struct nspy_comm_rec *ret)
{
	struct nspy_comm *parent = nspy_comm_find_or_note(parent_handle);
	uint64_t parts[3];

	if (!parent)
		return false;
	memset(ret, 0, sizeof(*ret));
	ret->origin = (uint16_t)origin;
	ret->parent_key = nspy_comm_rec(parent)->key;
	ret->ordinal = nspy_comm_next_child(parent, origin);
	ret->nranks = -1;
	ret->rank = -1;
	parts[0] = ret->parent_key;
	parts[1] = ret->ordinal;
	parts[2] = detail;
	ret->key = nspy_hash(parts, sizeof(parts), origin);
	return true;
}

void nspy_put_split(struct nspy_rec *rec, const void *parent, int color, int key,
		    const void *config)
{
	struct nspy_comm_rec what;

	(void)key;
	rec->peer = color;
	if (!child_of(parent, NSPY_COMM_SPLIT, (uint32_t)color, &what))
		return;
	what.color = color;
	started(rec, &what, config);
}

void nspy_got_split(struct nspy_rec *rec, int result, void *const *newcomm)
{
	struct nspy_comm *comm = nspy_comm_by_index(rec->comm);
	bool ok = result == 0 || result == NSPY_RESULT_IN_PROGRESS;

	if (comm && ok && nspy_comm_rec(comm)->color == SPLIT_NOCOLOR) {
		nspy_comm_not_member(comm);
		return;
	}
	created(rec, result, newcomm);
}

void nspy_put_shrink(struct nspy_rec *rec, const void *parent, const int *exclude,
		     int exclude_count, const void *config, int flags)
{
	struct nspy_comm *comm = nspy_comm_find_or_note(parent);
	struct nspy_comm_rec what;
	uint64_t detail = 0;

	(void)flags;
	rec->count = (uint64_t)(exclude_count < 0 ? 0 : exclude_count);
	/* More than the communicator has: the library will refuse it, without looking at them. */
	if (exclude && comm && exclude_count <= nspy_comm_rec(comm)->nranks)
		for (int i = 0; i < exclude_count; i++) /* the order must not matter */
			detail += nspy_hash(&exclude[i], sizeof(exclude[i]), 0);
	if (child_of(parent, NSPY_COMM_SHRINK, detail, &what))
		started(rec, &what, config);
}

void nspy_got_shrink(struct nspy_rec *rec, int result, void *const *newcomm)
{
	created(rec, result, newcomm);
}

void nspy_put_grow(struct nspy_rec *rec, const void *parent, int nranks, const void *id, int rank,
		   const void *config)
{
	struct nspy_comm_rec what = {.origin = NSPY_COMM_GROW};

	rec->count = (uint64_t)(nranks < 0 ? 0 : nranks);
	rec->peer = rank;
	/*
	 * Old members know the parent, newcomers the id; the member that made the id knows both and
	 * lets the analyzer join the two keys.
	 */
	if (parent && !child_of(parent, NSPY_COMM_GROW, (uint64_t)(uint32_t)nranks, &what))
		return;
	if (id && !parent) {
		const uint64_t parts[2] = {hash_ids(id, 1), (uint64_t)(uint32_t)nranks};

		what.key = nspy_hash(parts, sizeof(parts), NSPY_COMM_GROW);
		what.ordinal = 1;
	}
	what.nranks = nranks;
	what.rank = rank;
	started(rec, &what, config);
}

void nspy_got_grow(struct nspy_rec *rec, int result, void *const *newcomm)
{
	nspy_got_shrink(rec, result, newcomm);
}

/*
 * The handle stops being valid inside the call, and another thread may be given the same one before
 * it returns: it is forgotten now. The communicator is found again by its index.
 */
void nspy_put_destroy(struct nspy_rec *rec, const void *handle)
{
	struct nspy_comm *comm = nspy_comm_find_or_adopt(handle);

	if (!comm)
		return;
	rec->comm = comm->index;
	nspy_comm_unbind(comm);
}

void nspy_got_destroy(struct nspy_rec *rec, int result)
{
	struct nspy_comm *comm = nspy_comm_by_index(rec->comm);

	if (comm && (result == 0 || result == NSPY_RESULT_IN_PROGRESS))
		nspy_comm_update(comm, NSPY_COMM_GONE);
}

void nspy_got_async_error(struct nspy_rec *rec, int result, const int *state)
{
	struct nspy_comm *comm = nspy_comm_by_index(rec->comm);
	int now;

	if (result != 0 || !state || !comm)
		return;
	now = *state;
	rec->arg = (uint64_t)(uint32_t)now;
	/* Applications poll: only a change of state is worth a record. */
	if (atomic_exchange_explicit(&comm->async_state, now, memory_order_relaxed) == now)
		rec->kind = NSPY_REC_NONE;
	if (now == 0) {
		nspy_seen_settled(rec->comm, 0);
		nspy_comm_children_ready(comm);
	}
	if (nspy_comm_rec(comm)->flags & (NSPY_COMM_READY | NSPY_COMM_FAILED))
		return;
	if (now == 0)
		nspy_comm_ready(comm);
	else if (now != NSPY_RESULT_IN_PROGRESS)
		nspy_comm_update(comm, NSPY_COMM_FAILED);
}
