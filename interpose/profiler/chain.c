/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "chain.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "core.h"
#include "note.h"
#include "profiler_abi.h"
#include "ring.h"

#define VERSIONS   (NSPY_PROFILER_NEWEST + 1u)
#define PAIRS      32768u
#define PAIR_TRIES 16u
#define PAIR_TAG   0xC5A8ull
#define PAIR_MASK  ((1ull << 48) - 1)

/*
 * An event that both keep has one handle at NCCL and two behind it. It is looked up again after
 * its end, as a parent, until its place is used anew: only events that have ended make room.
 */
struct pair {
	_Atomic uint32_t open;
	_Atomic uint64_t serial; /* 0 = being filled in */
	_Atomic uint64_t ours;
	_Atomic(void *) theirs;
};

/* What NCCL's handle stands for. */
struct both {
	uint64_t ours;
	void *theirs;
	struct pair *pair; /* or NULL */
};

static _Atomic(const struct nspy_profiler_table *) theirs[VERSIONS];
static struct pair *pairs;
static _Atomic uint64_t next_serial;

static struct both split(const void *handle)
{
	uint64_t value = (uintptr_t)handle, serial = value & PAIR_MASK;
	struct pair *pair = &pairs[serial % PAIRS];
	struct both both = {0, (void *)(uintptr_t)value, NULL};

	if (value >> 48 == NSPY_HANDLE_TAG)
		return (struct both){value, NULL, NULL};
	if (value >> 48 != PAIR_TAG)
		return both;
	both = (struct both){
		.ours = atomic_load_explicit(&pair->ours, memory_order_relaxed),
		.theirs = atomic_load_explicit(&pair->theirs, memory_order_relaxed),
		.pair = pair,
	};
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&pair->serial, memory_order_relaxed) != serial)
		return (struct both){0, NULL, NULL};
	return both;
}

/* One handle for both. Without a place for it the event is the plugin's alone. */
static void *combine(void *ours, void *their_handle)
{
	if (!ours || !their_handle)
		return ours ? ours : their_handle;
	for (unsigned int i = 0; i < PAIR_TRIES; i++) {
		uint64_t serial =
			(atomic_fetch_add_explicit(&next_serial, 1, memory_order_relaxed) + 1) &
			PAIR_MASK;
		struct pair *pair = &pairs[serial % PAIRS];
		uint32_t closed = 0;

		if (!serial || !atomic_compare_exchange_strong(&pair->open, &closed, 1))
			continue;
		atomic_store_explicit(&pair->serial, 0, memory_order_relaxed);
		atomic_thread_fence(memory_order_release);
		atomic_store_explicit(&pair->ours, (uintptr_t)ours, memory_order_relaxed);
		atomic_store_explicit(&pair->theirs, their_handle, memory_order_relaxed);
		atomic_store_explicit(&pair->serial, serial, memory_order_release);
		return (void *)(uintptr_t)(PAIR_TAG << 48 | serial);
	}
	nspy_prof_note_stop((uintptr_t)ours);
	return their_handle;
}

/* --- starting --- */

/* What the plugin's init gave, with ours around it. */
static int begun(int result, const struct nspy_prof_start *start, void **context, int *mask)
{
	struct nspy_prof_context *ours;
	int ours_mask;

	if (result != 0 || !context || !mask)
		return result;
	ours = nspy_prof_begin(start, &ours_mask);
	if (!ours)
		return result;
	ours->theirs = *context;
	ours->their_mask = (uint32_t)*mask;
	atomic_store_explicit(&ours->state, NSPY_PROF_CONTEXT_OPEN, memory_order_release);
	*context = nspy_prof_context_pointer(ours);
	*mask |= ours_mask;
	return result;
}

/* --- events --- */

/* Their handle instead of the one that stands for both, while their function looks at it. */
#define THEIR_PARENT(field)                                                                        \
	do {                                                                                       \
		if (d->field)                                                                      \
			d->field = split(d->field).theirs;                                         \
	} while (0)

/* Versions 1 to 4 begin alike. */
static void their_parents_old(void *descr)
{
	struct nspy_descr_v4 *d = descr;

	THEIR_PARENT(parent);
}

static void their_parents_new(void *descr)
{
	struct nspy_descr_v5 *d = descr;

	THEIR_PARENT(parent);
	if (d->type == NSPY_PROFILE_COLL)
		THEIR_PARENT(coll.parent_group);
	else if (d->type == NSPY_PROFILE_P2P)
		THEIR_PARENT(p2p.parent_group);
}

static uint64_t type_of(unsigned int version, const void *descr)
{
	return version >= 5 ? ((const struct nspy_descr_v5 *)descr)->type
			    : ((const struct nspy_descr_v4 *)descr)->type;
}

static size_t descr_bytes(unsigned int version)
{
	static const size_t bytes[VERSIONS] = {
		0,
		sizeof(struct nspy_descr_v1),
		sizeof(struct nspy_descr_v2),
		sizeof(struct nspy_descr_v3),
		sizeof(struct nspy_descr_v4),
		sizeof(struct nspy_descr_v5),
		sizeof(struct nspy_descr_v6),
	};

	return bytes[version];
}

static int start(unsigned int version, void *pointer, void **handle, void *descr)
{
	const struct nspy_profiler_table *table = atomic_load(&theirs[version]);
	const struct nspy_prof_context *context = nspy_prof_context_of(pointer);
	/* A copy, because NCCL may use its own again. Not all newer versions are larger. */
	union {
		struct nspy_descr_v1 v1;
		struct nspy_descr_v2 v2;
		struct nspy_descr_v3 v3;
		struct nspy_descr_v4 v4;
		struct nspy_descr_v5 v5;
		struct nspy_descr_v6 v6;
	} copy;
	void *ours, *their_handle = NULL;
	uint64_t parent;
	int ret = 0;

	if (!handle || !descr)
		return table->start(context ? context->theirs : pointer, handle, descr);
	parent = split(((struct nspy_descr_v4 *)descr)->parent).ours;
	ours = nspy_prof_note_starts[version](pointer, parent, descr);
	/* Not one of ours: nothing was recorded when it was made. */
	if (!context || context->their_mask & nspy_prof_needs((uint32_t)type_of(version, descr))) {
		memcpy(&copy, descr, descr_bytes(version));
		if (version >= 5)
			their_parents_new(&copy);
		else
			their_parents_old(&copy);
		*handle = NULL;
		ret = table->start(context ? context->theirs : pointer, &their_handle, &copy);
	}
	*handle = combine(ours, their_handle);
	return ret;
}

static int stop(unsigned int version, void *handle)
{
	const struct nspy_profiler_table *table = atomic_load(&theirs[version]);
	struct both both = split(handle);
	int ret = 0;

	if (both.ours)
		nspy_prof_note_stop(both.ours);
	if (both.theirs || !handle)
		ret = table->stop(both.theirs);
	if (both.pair)
		atomic_store_explicit(&both.pair->open, 0, memory_order_release);
	return ret;
}

static int state(unsigned int version, void *handle, int state, void *args)
{
	const struct nspy_profiler_table *table = atomic_load(&theirs[version]);
	struct both both = split(handle);

	if (both.ours)
		nspy_prof_note_state(version, both.ours, state, args);
	return both.theirs || !handle ? table->state(both.theirs, state, args) : 0;
}

static int finalize(unsigned int version, void *pointer)
{
	const struct nspy_profiler_table *table = atomic_load(&theirs[version]);
	struct nspy_prof_context *context = nspy_prof_context_of(pointer);
	void *their_context = context ? context->theirs : pointer;

	if (context)
		nspy_prof_end(context);
	/* NCCL does not finalize what init gave no context for. */
	return their_context || !context ? table->finalize(their_context) : 0;
}

/* --- a table for each version: its functions have no argument that says which --- */

#define INIT_V1(n)                                                                                 \
	static int init_##n(void **context, int *mask)                                             \
	{                                                                                          \
		int ret = atomic_load(&theirs[n])->init_v1(context, mask);                         \
                                                                                                   \
		return begun(ret,                                                                  \
			     &(struct nspy_prof_start){                                            \
				     .api = (n), .nodes = -1, .nranks = -1, .rank = -1},           \
			     context, mask);                                                       \
	}

#define START_OF(n)                                                                                \
	(&(struct nspy_prof_start){                                                                \
		.api = (n),                                                                        \
		.hash = hash,                                                                      \
		.name = name,                                                                      \
		.nodes = nodes,                                                                    \
		.nranks = nranks,                                                                  \
		.rank = rank,                                                                      \
	})

#define INIT_V5(n)                                                                                 \
	static int init_##n(void **context, uint64_t hash, int *mask, const char *name, int nodes, \
			    int nranks, int rank, void *log)                                       \
	{                                                                                          \
		int ret = atomic_load(&theirs[n])                                                  \
				  ->init_v5(context, hash, mask, name, nodes, nranks, rank, log);  \
                                                                                                   \
		return begun(ret, START_OF(n), context, mask);                                     \
	}

static int init_4(void **context, int *mask, const char *name, uint64_t hash, int nodes, int nranks,
		  int rank, void *log)
{
	int ret = atomic_load(&theirs[4])
			  ->init_v4(context, mask, name, hash, nodes, nranks, rank, log);

	return begun(ret, START_OF(4), context, mask);
}

#define EVENTS(n)                                                                                  \
	static int start_##n(void *context, void **handle, void *descr)                            \
	{                                                                                          \
		return start(n, context, handle, descr);                                           \
	}                                                                                          \
	static int stop_##n(void *handle)                                                          \
	{                                                                                          \
		return stop(n, handle);                                                            \
	}                                                                                          \
	static int state_##n(void *handle, int new_state, void *args)                              \
	{                                                                                          \
		return state(n, handle, new_state, args);                                          \
	}                                                                                          \
	static int finalize_##n(void *context)                                                     \
	{                                                                                          \
		return finalize(n, context);                                                       \
	}

INIT_V1(1)
INIT_V1(2)
INIT_V1(3)
INIT_V5(5)
INIT_V5(6)
EVENTS(1)
EVENTS(2)
EVENTS(3)
EVENTS(4)
EVENTS(5)
EVENTS(6)

#define TABLE(n, init_version)                                                                     \
	{                                                                                          \
		.init_version = init_##n, .start = start_##n, .stop = stop_##n,                    \
		.state = state_##n, .finalize = finalize_##n,                                      \
	}

static struct nspy_profiler_table tables[VERSIONS] = {
	[1] = TABLE(1, init_v1), [2] = TABLE(2, init_v1), [3] = TABLE(3, init_v1),
	[4] = TABLE(4, init_v4), [5] = TABLE(5, init_v5), [6] = TABLE(6, init_v5),
};

unsigned int nspy_profiler_version(const char *name)
{
	static const char begins[] = "ncclProfiler_v";
	size_t n = sizeof(begins) - 1;

	if (strncmp(name, begins, n) != 0 || name[n] < '0' + (char)NSPY_PROFILER_OLDEST ||
	    name[n] > '0' + (char)NSPY_PROFILER_NEWEST || name[n + 1])
		return 0;
	return (unsigned int)(name[n] - '0');
}

static bool make_pairs(void)
{
	struct pair *made, *expected = NULL;

	if (__atomic_load_n(&pairs, __ATOMIC_ACQUIRE))
		return true;
	made = mmap(NULL, PAIRS * sizeof(*made), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (made == MAP_FAILED)
		return false;
	if (!__atomic_compare_exchange_n(&pairs, &expected, made, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		munmap(made, PAIRS * sizeof(*made));
	return true;
}

void *nspy_profiler_table(unsigned int version, void *table)
{
	const struct nspy_profiler_table *found = table, *expected = NULL;

	if ((!nspy_is_recording() && !nspy_start()) ||
	    strcmp(nspy_core.env.NCCLSPY_PROFILER, "none") == 0 || !found->init_v1 ||
	    !found->start || !found->stop || !found->state || !found->finalize || !make_pairs())
		return NULL;
	if (!atomic_compare_exchange_strong(&theirs[version], &expected, found) &&
	    expected != found)
		return NULL;
	tables[version].name = found->name;
	return &tables[version];
}
