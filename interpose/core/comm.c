/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "comm.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "api_ids.h"
#include "clock.h"
#include "copies.h"
#include "core.h"
#include "export.h"
#include "judge.h"
#include "resolve.h"
#include "thread.h"

#define TABLE_SLOTS 8192u /* power of two, at most half full */
#define P2P_BYTES   (1u << 20)
#define TOMBSTONE   ((const void *)1)

struct table_slot {
	_Atomic(const void *) handle; /* NULL = never used, TOMBSTONE = free again */
	_Atomic(struct nspy_comm *) comm;
};

/* What is known of a communicator beside its counters. Changed under the lock only. */
struct comm_info {
	struct nspy_comm_rec rec; /* as last written to the trace */
	uint32_t children[6];     /* by enum nspy_comm_origin */
	uint32_t pending_serial;  /* thread whose group will complete its creation, 0 = none */
	void *const *place;       /* NCCL will write the handle there, or has; NULL = known */
	uint8_t copy;             /* of NCCL, that it lives in */
	bool used;
};

struct registry {
	struct table_slot table[TABLE_SLOTS];
	struct comm_info info[NSPY_COMMS_MAX];
	uint32_t next_index;      /* of the next communicator; never reused */
	_Atomic uint32_t awaited; /* communicators with a place */
	_Atomic uint32_t p2p_used;
	_Atomic uint32_t p2p[P2P_BYTES / sizeof(uint32_t)];
};

static struct registry *registry;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool nspy_comm_start(void)
{
	/* Untouched parts cost address space only. */
	void *p = mmap(NULL, sizeof(struct registry), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return false;
	/* In a forked child the old one and its lock may be in any state. */
	if (registry)
		munmap(registry, sizeof(*registry));
	registry = p;
	pthread_mutex_init(&lock, NULL);
	return true;
}

uint64_t nspy_hash(const void *data, size_t bytes, uint64_t seed)
{
	return XXH64(data, bytes, seed);
}

static uint32_t slot_of(const void *handle)
{
	uint64_t h = (uint64_t)(uintptr_t)handle * 0x9E3779B97F4A7C15ULL;

	return (uint32_t)(h >> 51) & (TABLE_SLOTS - 1);
}

struct nspy_comm *nspy_comm_find(const void *handle)
{
	uint32_t i = slot_of(handle);

	for (uint32_t n = 0; n < TABLE_SLOTS; n++, i = (i + 1) & (TABLE_SLOTS - 1)) {
		const struct table_slot *slot = &registry->table[i];
		const void *there = atomic_load_explicit(&slot->handle, memory_order_acquire);

		if (nspy_likely(there == handle))
			return atomic_load_explicit(&slot->comm, memory_order_relaxed);
		if (!there)
			return NULL;
	}
	return NULL;
}

/* Lock held. */
static void table_add(const void *handle, struct nspy_comm *comm)
{
	uint32_t i = slot_of(handle);

	for (;; i = (i + 1) & (TABLE_SLOTS - 1)) {
		struct table_slot *slot = &registry->table[i];
		const void *there = atomic_load_explicit(&slot->handle, memory_order_relaxed);

		if (there && there != TOMBSTONE && there != handle)
			continue;
		atomic_store_explicit(&slot->comm, comm, memory_order_relaxed);
		/* Pairs with the acquire load of nspy_comm_find. */
		atomic_store_explicit(&slot->handle, handle, memory_order_release);
		return;
	}
}

/* Lock held. Tombstones before a never-used slot are turned back, so that they do not pile up. */
static void table_remove(const void *handle)
{
	uint32_t i = slot_of(handle), next;

	for (;; i = (i + 1) & (TABLE_SLOTS - 1)) {
		const void *there =
			atomic_load_explicit(&registry->table[i].handle, memory_order_relaxed);
		if (!there)
			return;
		if (there == handle)
			break;
	}
	atomic_store_explicit(&registry->table[i].handle, TOMBSTONE, memory_order_relaxed);
	next = (i + 1) & (TABLE_SLOTS - 1);
	while (!atomic_load_explicit(&registry->table[next].handle, memory_order_relaxed) &&
	       atomic_load_explicit(&registry->table[i].handle, memory_order_relaxed) ==
		       TOMBSTONE) {
		atomic_store_explicit(&registry->table[i].handle, NULL, memory_order_release);
		next = i;
		i = (i - 1) & (TABLE_SLOTS - 1);
	}
}

static struct comm_info *info_of(const struct nspy_comm *comm)
{
	return &registry->info[comm - nspy_hot->comms];
}

static struct nspy_comm *comm_at(uint32_t i)
{
	return &nspy_hot->comms[i];
}

const struct nspy_comm_rec *nspy_comm_rec(const struct nspy_comm *comm)
{
	return &info_of(comm)->rec;
}

static void write_record(const struct nspy_comm *comm)
{
	union nspy_any_rec rec;

	pthread_mutex_lock(&lock);
	rec.comm = info_of(comm)->rec;
	pthread_mutex_unlock(&lock);
	rec.comm.when = nspy_ticks();
	nspy_thread_append(&nspy_tls, &rec);
}

/* A free place, or that of the communicator that has been gone for longest. Lock held. */
static struct nspy_comm *take_place(void)
{
	struct nspy_comm *oldest = NULL;

	for (uint32_t i = 0; i < NSPY_COMMS_MAX; i++) {
		const struct comm_info *info = &registry->info[i];

		if (!info->used)
			return comm_at(i);
		if ((info->rec.flags & (NSPY_COMM_GONE | NSPY_COMM_FAILED)) &&
		    (!oldest || info->rec.comm < oldest->index))
			oldest = comm_at(i);
	}
	return oldest;
}

/* How often this process has used the same id in the same role. Lock held. */
static uint32_t occurrence(const struct nspy_comm_rec *rec)
{
	uint32_t n = 1;

	for (uint32_t i = 0; i < NSPY_COMMS_MAX && registry->info[i].used; i++) {
		const struct nspy_comm_rec *other = &registry->info[i].rec;

		if (other->id_hash == rec->id_hash && other->nranks == rec->nranks &&
		    other->rank == rec->rank && other->ordinal >= n)
			n = other->ordinal + 1;
	}
	return n;
}

/* Room for p2p ordinals; a place that is used again keeps its own if it is large enough. */
static void take_p2p(struct nspy_comm *comm, int nranks)
{
	uint32_t words = 2 * (uint32_t)nranks;
	uint32_t at;

	if (nranks <= 0 || nranks > (int)(P2P_BYTES / 8))
		return;
	if (comm->p2p && comm->p2p_ranks >= (uint32_t)nranks) {
		for (uint32_t i = 0; i < 2 * comm->p2p_ranks; i++)
			atomic_store_explicit(&comm->p2p[i], 0, memory_order_relaxed);
		return;
	}
	at = atomic_fetch_add_explicit(&registry->p2p_used, words, memory_order_relaxed);
	if (at + words > P2P_BYTES / sizeof(uint32_t)) {
		atomic_fetch_sub_explicit(&registry->p2p_used, words, memory_order_relaxed);
		comm->p2p = NULL;
		return;
	}
	comm->p2p_ranks = (uint32_t)nranks;
	comm->p2p = &registry->p2p[at];
}

/* Lock held. */
static void forget_place(struct comm_info *info)
{
	if (info->place)
		atomic_fetch_sub_explicit(&registry->awaited, 1, memory_order_relaxed);
	info->place = NULL;
}

static struct nspy_comm *new_locked(const struct nspy_comm_rec *rec)
{
	struct nspy_comm *comm = take_place();
	struct comm_info *info;
	uint32_t ordinal = rec->ordinal;

	if (!comm)
		return NULL;
	if (rec->id_hash)
		ordinal = occurrence(rec);
	info = info_of(comm);
	info->rec = *rec;
	info->rec.kind = NSPY_REC_COMM;
	info->copy = nspy_tls.copy;
	info->rec.comm = registry->next_index++;
	info->rec.ordinal = ordinal;
	comm->index = info->rec.comm;
	if (rec->id_hash && rec->origin == NSPY_COMM_INIT_RANK) {
		const uint64_t parts[3] = {rec->id_hash, (uint64_t)rec->nranks, ordinal};

		info->rec.key = nspy_hash(parts, sizeof(parts), rec->origin);
	}
	atomic_store_explicit(&comm->coll_seq, 0, memory_order_relaxed);
	atomic_store_explicit(&comm->capture_seq, 0, memory_order_relaxed);
	atomic_store_explicit(&comm->capture_epoch, 0, memory_order_relaxed);
	atomic_store_explicit(&comm->async_state, -1, memory_order_relaxed);
	memset(info->children, 0, sizeof(info->children));
	info->pending_serial = 0;
	forget_place(info);
	take_p2p(comm, rec->nranks);
	info->used = true;
	return comm;
}

struct nspy_comm *nspy_comm_new(const struct nspy_comm_rec *rec)
{
	struct nspy_comm *comm;

	pthread_mutex_lock(&lock);
	comm = new_locked(rec);
	pthread_mutex_unlock(&lock);
	if (!comm) {
		nspy_count_loss(NSPY_LOSS_COMMS, 1);
		return NULL;
	}
	write_record(comm);
	return comm;
}

struct nspy_comm *nspy_comm_by_index(uint32_t index)
{
	for (uint32_t i = 0; i < NSPY_COMMS_MAX && registry->info[i].used; i++)
		if (registry->info[i].rec.comm == index)
			return comm_at(i);
	return NULL;
}

void nspy_comm_bind(struct nspy_comm *comm, const void *handle)
{
	struct comm_info *info = info_of(comm);

	if (!handle || info->rec.handle == (uint64_t)(uintptr_t)handle)
		return;
	pthread_mutex_lock(&lock);
	info->rec.handle = (uint64_t)(uintptr_t)handle;
	forget_place(info);
	table_add(handle, comm);
	pthread_mutex_unlock(&lock);
}

void nspy_comm_await(struct nspy_comm *comm, void *const *place)
{
	struct comm_info *info = info_of(comm);

	pthread_mutex_lock(&lock);
	forget_place(info);
	info->place = place;
	if (place)
		atomic_fetch_add_explicit(&registry->awaited, 1, memory_order_relaxed);
	pthread_mutex_unlock(&lock);
}

/*
 * Whether the application's memory still says that this is the handle. It may have been freed or
 * used for something else since: the kernel reads it, so nothing can fault.
 */
static bool holds(void *const *place, const void *handle)
{
	const void *there = NULL;
	struct iovec to = {&there, sizeof(there)};
	struct iovec from = {(void *)(uintptr_t)place, sizeof(there)};

	return syscall(SYS_process_vm_readv, (long)nspy_core.owner_pid, &to, 1UL, &from, 1UL,
		       0UL) == (long)sizeof(there) &&
	       there == handle;
}

/*
 * A handle not seen before may be that of a child that NCCL has finished meanwhile. If several are
 * awaited, only one whose place holds the handle is taken.
 */
static struct nspy_comm *find_awaited(const void *handle)
{
	struct nspy_comm *only = NULL, *found = NULL;
	uint32_t count = 0;

	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < NSPY_COMMS_MAX && registry->info[i].used && !found; i++) {
		const struct comm_info *info = &registry->info[i];

		if (!info->place || (info->rec.flags & (NSPY_COMM_GONE | NSPY_COMM_FAILED)))
			continue;
		only = comm_at(i);
		count++;
		if (holds(info->place, handle))
			found = only;
	}
	pthread_mutex_unlock(&lock);
	return found || count != 1 ? found : only;
}

struct nspy_comm *nspy_comm_find_or_adopt(const void *handle)
{
	struct nspy_comm *comm = handle ? nspy_comm_find(handle) : NULL;
	int saved = errno;

	if (comm || !handle || !atomic_load_explicit(&registry->awaited, memory_order_relaxed))
		return comm;
	comm = find_awaited(handle);
	if (comm) {
		nspy_comm_bind(comm, handle);
		/* It was complete before its handle was known: now it can be asked who it is. */
		if (info_of(comm)->rec.flags & NSPY_COMM_READY)
			nspy_comm_ready(comm);
	}
	errno = saved;
	return comm;
}

void nspy_comm_children_ready(const struct nspy_comm *parent)
{
	if (!atomic_load_explicit(&registry->awaited, memory_order_relaxed))
		return;
	for (uint32_t i = 0; i < NSPY_COMMS_MAX && registry->info[i].used; i++) {
		const struct comm_info *info = &registry->info[i];

		if (info->place && info->rec.parent_key == info_of(parent)->rec.key &&
		    !info->pending_serial &&
		    !(info->rec.flags & (NSPY_COMM_READY | NSPY_COMM_FAILED)))
			nspy_comm_ready(comm_at(i));
	}
}

unsigned int nspy_comm_copy(const void *handle)
{
	const struct nspy_comm *comm;

	/* Not recording: nothing is known, and nothing may be mapped. */
	if (!nspy_is_recording())
		return NSPY_NO_COPY;
	comm = nspy_comm_find(handle);
	return comm ? info_of(comm)->copy : NSPY_NO_COPY;
}

void nspy_comm_unbind(struct nspy_comm *comm)
{
	const struct comm_info *info = info_of(comm);

	pthread_mutex_lock(&lock);
	if (info->rec.handle)
		table_remove((const void *)(uintptr_t)info->rec.handle);
	/* Pairs with nspy_comm_of: no thread trusts its memory of the last handle any more. */
	atomic_fetch_add_explicit(&nspy_hot->comm_version, 1, memory_order_release);
	pthread_mutex_unlock(&lock);
}

void nspy_comm_update(struct nspy_comm *comm, uint8_t more_flags)
{
	pthread_mutex_lock(&lock);
	info_of(comm)->rec.flags |= more_flags;
	pthread_mutex_unlock(&lock);
	write_record(comm);
	if (more_flags & (NSPY_COMM_READY | NSPY_COMM_FAILED))
		nspy_judge_comm_outcome(more_flags & NSPY_COMM_READY);
}

void nspy_comm_defer(struct nspy_comm *comm, uint32_t serial)
{
	pthread_mutex_lock(&lock);
	info_of(comm)->pending_serial = serial;
	pthread_mutex_unlock(&lock);
}

void nspy_comm_not_member(struct nspy_comm *comm)
{
	pthread_mutex_lock(&lock);
	info_of(comm)->rec.nranks = 0;
	pthread_mutex_unlock(&lock);
	nspy_comm_update(comm, NSPY_COMM_READY | NSPY_COMM_GONE);
}

static int ask(const struct comm_info *info, unsigned int fn, const void *handle)
{
	typedef int ask_fn(const void *comm, int *value);
	ask_fn *real = (ask_fn *)nspy_real_in(info->copy, fn);
	int value = -1, saved = errno;

	if (!real || real(handle, &value) != 0)
		value = -1;
	errno = saved; /* the application's: its own call has returned or is about to begin */
	return value;
}

void nspy_comm_ready(struct nspy_comm *comm)
{
	struct comm_info *info = info_of(comm);
	const void *handle = (const void *)(uintptr_t)info->rec.handle;
	bool unknown = handle && info->rec.nranks < 0;
	int nranks = unknown ? ask(info, NSPY_FN_NCCL_COMM_COUNT, handle) : -1;
	int rank = unknown ? ask(info, NSPY_FN_NCCL_COMM_USER_RANK, handle) : -1;

	pthread_mutex_lock(&lock);
	if (unknown) {
		info->rec.nranks = nranks;
		info->rec.rank = rank;
		take_p2p(comm, nranks);
	}
	info->pending_serial = 0;
	pthread_mutex_unlock(&lock);
	nspy_comm_update(comm, NSPY_COMM_READY);
}

struct nspy_comm *nspy_comm_find_or_note(const void *handle)
{
	struct nspy_comm *comm = nspy_comm_find_or_adopt(handle);
	struct nspy_comm_rec rec = {
		.origin = NSPY_COMM_FOUND,
		.nranks = -1,
		.rank = -1,
	};
	struct nspy_tls *t = &nspy_tls;
	int saved = errno;

	if (nspy_likely(comm != NULL)) {
		t->comm_version =
			atomic_load_explicit(&nspy_hot->comm_version, memory_order_acquire);
		t->last_handle = handle;
		t->last_comm = comm;
	}
	if (nspy_likely(comm || !handle))
		return comm;
	rec.key = nspy_hash(&handle, sizeof(handle), nspy_core.id.run_id);
	comm = nspy_comm_new(&rec);
	if (comm) {
		nspy_comm_bind(comm, handle);
		nspy_comm_ready(comm);
	}
	errno = saved;
	return comm;
}

/* One of those whose group has ended. */
static void settle(struct nspy_comm *comm, int result)
{
	const struct comm_info *info = info_of(comm);

	nspy_comm_defer(comm, 0);
	if (result == NSPY_RESULT_IN_PROGRESS) {
		nspy_comm_update(comm, NSPY_COMM_NONBLOCKING);
		return;
	}
	if (result != 0) {
		nspy_comm_update(comm, NSPY_COMM_FAILED);
		return;
	}
	/* The library has just written it, in this very call. */
	if (info->place)
		nspy_comm_bind(comm, __atomic_load_n(info->place, __ATOMIC_ACQUIRE));
	nspy_comm_ready(comm);
}

void nspy_comm_group_done(uint32_t serial, int result)
{
	for (uint32_t i = 0; i < NSPY_COMMS_MAX && registry->info[i].used; i++) {
		if (registry->info[i].pending_serial == serial)
			settle(comm_at(i), result);
	}
}

uint32_t nspy_comm_next_child(struct nspy_comm *parent, enum nspy_comm_origin origin)
{
	uint32_t n;

	pthread_mutex_lock(&lock);
	n = ++info_of(parent)->children[origin % 6];
	pthread_mutex_unlock(&lock);
	return n;
}

size_t nspy_comm_snapshot(struct nspy_comm_rec *out, size_t capacity)
{
	size_t n = 0;

	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < NSPY_COMMS_MAX && registry->info[i].used && n < capacity; i++)
		out[n++] = registry->info[i].rec;
	pthread_mutex_unlock(&lock);
	return n;
}

size_t nspy_comm_progress(struct nspy_comm_progress *out, size_t capacity)
{
	size_t n = 0;

	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < NSPY_COMMS_MAX && registry->info[i].used && n < capacity; i++) {
		const struct nspy_comm *comm = comm_at(i);

		if (registry->info[i].rec.flags & (NSPY_COMM_GONE | NSPY_COMM_FAILED))
			continue;
		out[n++] = (struct nspy_comm_progress){
			.rec = registry->info[i].rec,
			.enqueued = atomic_load_explicit(&comm->coll_seq, memory_order_relaxed),
			.captured = atomic_load_explicit(&comm->capture_seq, memory_order_relaxed),
			.async_state =
				atomic_load_explicit(&comm->async_state, memory_order_relaxed),
		};
	}
	pthread_mutex_unlock(&lock);
	return n;
}

bool nspy_comm_p2p_counts(uint32_t index, int peer, uint32_t *ret_sent, uint32_t *ret_received)
{
	const struct nspy_comm *comm;
	bool known = false;

	pthread_mutex_lock(&lock);
	comm = nspy_comm_by_index(index);
	if (comm && comm->p2p && peer >= 0 && (uint32_t)peer < comm->p2p_ranks) {
		*ret_sent = atomic_load_explicit(&comm->p2p[peer], memory_order_relaxed);
		*ret_received = atomic_load_explicit(&comm->p2p[comm->p2p_ranks + (uint32_t)peer],
						     memory_order_relaxed);
		known = true;
	}
	pthread_mutex_unlock(&lock);
	return known;
}
