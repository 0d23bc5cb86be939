/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "cuda_driver.h"

#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copies.h"
#include "core.h"
#include "facts.h"
#include "thread.h"

#define PIECES_MAX      4096u /* NCCL takes some hundred */
#define PROBES          64u
#define COMMS_MAX       64u
#define NO_COMM         COMMS_MAX
#define KEY_FREE        0u
#define KEY_GIVEN_BACK  1u
#define KEY_BUSY        2u
#define VERSION_2       12000 /* of cuGetProcAddress */
#define VERSION_64_BIT  3020  /* of cuMemAlloc and cuMemFree: sizes and addresses of 64 bits */
#define LOCATION_DEVICE 1     /* CU_MEM_LOCATION_TYPE_DEVICE */
#define HANDLE_BIT      (1ull << 63)
#define CALLER          __builtin_return_address(0)

/* From cuda.h, as far as it is read. */
struct mem_prop {
	int type, handle_types;
	struct {
		int type, id;
	} location;
};

typedef int find_fn(const char *symbol, void **function, int version, uint64_t flags);
typedef int find_v2_fn(const char *symbol, void **function, int version, uint64_t flags,
		       int *status);
typedef int alloc_fn(uint64_t *address, size_t bytes);
typedef int free_fn(uint64_t address);
typedef int create_fn(uint64_t *handle, size_t bytes, const struct mem_prop *prop,
		      unsigned long long flags);
typedef int release_fn(uint64_t handle);
typedef void any_fn(void);

enum which { FIND, FIND_V2, ALLOC, FREE, CREATE, RELEASE, COUNT };

static _Atomic(any_fn *) reals[COUNT];

/* --- what NCCL holds --- */

struct piece {
	_Atomic uint64_t key; /* address, or handle with HANDLE_BIT */
	uint64_t bytes;
	uint32_t comm;
};

static struct piece pieces[PIECES_MAX];
static struct sum {
	_Atomic uint64_t live, peak, pieces;
	uint64_t told; /* by the writer */
} sums[COMMS_MAX + 1]; /* the last one: all */

static void add(struct sum *sum, uint64_t bytes)
{
	uint64_t live = atomic_fetch_add(&sum->live, bytes) + bytes;
	uint64_t peak = atomic_load(&sum->peak);

	while (live > peak && !atomic_compare_exchange_weak(&sum->peak, &peak, live))
		;
	atomic_fetch_add(&sum->pieces, 1);
}

static void take_off(struct sum *sum, uint64_t bytes)
{
	atomic_fetch_sub(&sum->live, bytes);
	atomic_fetch_sub(&sum->pieces, 1);
}

static uint32_t place_of(uint64_t key, uint32_t probe)
{
	return (uint32_t)((key * 0x9E3779B97F4A7C15ull) >> 40) + probe;
}

/* The communicator of the NCCL call that the thread is in; NO_COMM if of none. */
static uint32_t comm_of_thread(bool *ret_in_nccl)
{
	const struct nspy_tls *t = &nspy_tls;
	const struct nspy_rec *rec;

	*ret_in_nccl = false;
	if (!t->slot || t->epoch != nspy_hot->epoch || !t->depth)
		return NO_COMM;
	rec = &t->slot->open[0];
	*ret_in_nccl = nspy_fn_table[rec->fn].library == NSPY_LIB_NCCL;
	return *ret_in_nccl && rec->comm < COMMS_MAX ? rec->comm : NO_COMM;
}

/* An NCCL that is part of a framework's library does not count by its address alone. */
static bool is_nccl(const void *caller)
{
	unsigned int copy = nspy_copy_of_address(NSPY_LIB_NCCL, caller);
	const struct link_map *map =
		copy == NSPY_NO_COPY ? NULL : nspy_copy_map(NSPY_LIB_NCCL, copy);
	const char *slash = map ? strrchr(map->l_name, '/') : NULL;

	return map && strncmp(slash ? slash + 1 : map->l_name, "libnccl", 7) == 0;
}

static void keep(uint64_t key, uint64_t bytes, const void *caller)
{
	bool in_nccl;
	uint32_t comm = comm_of_thread(&in_nccl);

	if (!nspy_is_recording() || key <= KEY_BUSY || !(in_nccl || is_nccl(caller)))
		return;
	for (uint32_t i = 0; i < PROBES; i++) {
		struct piece *piece = &pieces[place_of(key, i) % PIECES_MAX];
		uint64_t found = atomic_load(&piece->key);

		if (found > KEY_GIVEN_BACK ||
		    !atomic_compare_exchange_strong(&piece->key, &found, KEY_BUSY))
			continue;
		piece->bytes = bytes;
		piece->comm = comm;
		add(&sums[COMMS_MAX], bytes);
		if (comm != NO_COMM)
			add(&sums[comm], bytes);
		atomic_store_explicit(&piece->key, key, memory_order_release);
		return;
	}
}

static void forget(uint64_t key)
{
	for (uint32_t i = 0; i < PROBES; i++) {
		struct piece *piece = &pieces[place_of(key, i) % PIECES_MAX];
		uint64_t found = atomic_load_explicit(&piece->key, memory_order_acquire);

		if (found == KEY_FREE)
			return;
		if (found != key || !atomic_compare_exchange_strong(&piece->key, &found, KEY_BUSY))
			continue;
		take_off(&sums[COMMS_MAX], piece->bytes);
		if (piece->comm != NO_COMM)
			take_off(&sums[piece->comm], piece->bytes);
		atomic_store_explicit(&piece->key, KEY_GIVEN_BACK, memory_order_release);
		return;
	}
}

/* --- the driver's functions --- */

static any_fn *real_of(enum which which)
{
	return atomic_load_explicit(&reals[which], memory_order_acquire);
}

static int alloc_memory(uint64_t *address, size_t bytes)
{
	int ret = ((alloc_fn *)real_of(ALLOC))(address, bytes), saved = errno;

	if (ret == 0 && address)
		keep(*address, bytes, CALLER);
	errno = saved;
	return ret;
}

/* Forgotten first: another thread may get the same address the moment it is free. */
static int free_memory(uint64_t address)
{
	int saved = errno;

	forget(address);
	errno = saved;
	return ((free_fn *)real_of(FREE))(address);
}

static int create_memory(uint64_t *handle, size_t bytes, const struct mem_prop *prop,
			 unsigned long long flags)
{
	int ret = ((create_fn *)real_of(CREATE))(handle, bytes, prop, flags), saved = errno;

	if (ret == 0 && handle && prop && prop->location.type == LOCATION_DEVICE)
		keep(*handle | HANDLE_BIT, bytes, CALLER);
	errno = saved;
	return ret;
}

static int release_memory(uint64_t handle)
{
	int saved = errno;

	forget(handle | HANDLE_BIT);
	errno = saved;
	return ((release_fn *)real_of(RELEASE))(handle);
}

static void *entry(const char *symbol, void *real, int version);

static int find(const char *symbol, void **function, int version, uint64_t flags)
{
	int ret = ((find_fn *)real_of(FIND))(symbol, function, version, flags);

	if (ret == 0 && symbol && function && *function)
		*function = entry(symbol, *function, version);
	return ret;
}

static int find_v2(const char *symbol, void **function, int version, uint64_t flags, int *status)
{
	int ret = ((find_v2_fn *)real_of(FIND_V2))(symbol, function, version, flags, status);

	if (ret == 0 && symbol && function && *function)
		*function = entry(symbol, *function, version);
	return ret;
}

/* --- who gets which --- */

static any_fn *const ours[COUNT] = {
	[FIND] = (any_fn *)find,
	[FIND_V2] = (any_fn *)find_v2,
	[ALLOC] = (any_fn *)alloc_memory,
	[FREE] = (any_fn *)free_memory,
	[CREATE] = (any_fn *)create_memory,
	[RELEASE] = (any_fn *)release_memory,
};

/* Ours, if it can pass on to that one: there is a place for one driver. */
static void *exchange(enum which which, void *real)
{
	any_fn *expected = NULL;

	if (real == (void *)ours[which])
		return real;
	if (!atomic_compare_exchange_strong(&reals[which], &expected, (any_fn *)real) &&
	    expected != (any_fn *)real)
		return real;
	return (void *)ours[which];
}

/* As cuGetProcAddress names them: version is the CUDA whose form is wanted. */
static void *entry(const char *symbol, void *real, int version)
{
	if (strcmp(symbol, "cuGetProcAddress") == 0)
		return exchange(version >= VERSION_2 ? FIND_V2 : FIND, real);
	if (strcmp(symbol, "cuMemAlloc") == 0 && version >= VERSION_64_BIT)
		return exchange(ALLOC, real);
	if (strcmp(symbol, "cuMemFree") == 0 && version >= VERSION_64_BIT)
		return exchange(FREE, real);
	if (strcmp(symbol, "cuMemCreate") == 0)
		return exchange(CREATE, real);
	if (strcmp(symbol, "cuMemRelease") == 0)
		return exchange(RELEASE, real);
	return real;
}

/* Drivers are looked up before recording begins and settings are read. */
static bool wanted(void)
{
	static _Atomic int known; /* 1 no, 2 yes */
	int answer = atomic_load_explicit(&known, memory_order_relaxed);
	const char *value;

	if (answer)
		return answer == 2;
	value = secure_getenv("NCCLSPY_CUDA_DRIVER");
	answer = value && strcmp(value, "1") == 0 ? 2 : 1;
	value = secure_getenv("NCCLSPY");
	if (value && strcmp(value, "0") == 0)
		answer = 1;
	atomic_store_explicit(&known, answer, memory_order_relaxed);
	return answer == 2;
}

void *nspy_cuda_driver_entry(const char *name, void *real)
{
	/* The names that the driver exports its forms by. */
	static const struct {
		const char *name;
		enum which which;
	} names[] = {
		{"cuGetProcAddress", FIND}, {"cuGetProcAddress_v2", FIND_V2},
		{"cuMemAlloc_v2", ALLOC},   {"cuMemFree_v2", FREE},
		{"cuMemCreate", CREATE},    {"cuMemRelease", RELEASE},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i].name, name) == 0 && wanted())
			return exchange(names[i].which, real);
	return NULL;
}

/* --- facts --- */

unsigned long long nspy_cuda_driver_live(void)
{
	return atomic_load_explicit(&sums[COMMS_MAX].live, memory_order_relaxed);
}

static bool is_due(struct sum *sum, bool last)
{
	uint64_t peak = atomic_load_explicit(&sum->peak, memory_order_relaxed);

	if (!peak || (last ? peak == sum->told : peak < 2 * sum->told || peak == sum->told))
		return false;
	sum->told = peak;
	return true;
}

void nspy_cuda_driver_facts(bool last)
{
	struct sum *all = &sums[COMMS_MAX];
	char key[40];

	if (is_due(all, last)) {
		nspy_facts_add_number("nccl.memory.peak", all->told);
		nspy_facts_add_number("nccl.memory.pieces", atomic_load(&all->pieces));
	}
	if (last && all->told)
		nspy_facts_add_number("nccl.memory.live", atomic_load(&all->live));
	for (uint32_t i = 0; i < COMMS_MAX; i++) {
		if (!is_due(&sums[i], last))
			continue;
		(void)snprintf(key, sizeof(key), "nccl.memory.comm.%" PRIu32, i);
		nspy_facts_add_number(key, sums[i].told);
	}
}
