/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of one recording, shared by the files of interpose/core. Wrappers and hooks see record.h,
 * comm.h and say.h only.
 */
#ifndef NSPY_CORE_H
#define NSPY_CORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "env.h"
#include "hot.h"
#include "trace_live.h"

#define NSPY_LIVE_SLOTS  64u
#define NSPY_LIVE_BYTES  (512u << 10) /* live pages of one process, at most */
#define NSPY_EXTRA_SLOTS 192u         /* for more threads than that, in private memory */
#define NSPY_EXTRA_PAGES 256u         /* for bursts, 2 MiB of private memory */
#define NSPY_PATH_MAX    1024u
#define NSPY_NAME_MAX    128u
#define NSPY_IDENT_MAX   NSPY_LIVE_IDENT_BYTES

/* Life of the recorder in this process. */
enum nspy_phase {
	NSPY_PHASE_IDLE = 0, /* loaded, nothing recorded yet */
	NSPY_PHASE_STARTING, /* one thread sets things up; others pass their calls on */
	NSPY_PHASE_RECORDING,
	NSPY_PHASE_STOPPED, /* exit has begun */
	NSPY_PHASE_OFF,     /* NCCLSPY=0, or starting failed */
};

/* Who and where we are; written while starting, constant afterwards. */
struct nspy_identity {
	char job[NSPY_NAME_MAX];
	char node[NSPY_NAME_MAX];
	char dir[NSPY_PATH_MAX];         /* <NCCLSPY_DIR>/<job>/<node> */
	char base[NSPY_PATH_MAX];        /* dir/<bootid8>.<pidns>.<pid>.<starttime> */
	char live_path[NSPY_PATH_MAX];   /* "" = no live file */
	char live_prefix[NSPY_NAME_MAX]; /* file names of this job's live pages on this host */
	bool node_local;                 /* NCCLSPY_DIR was not set */
	int rank;                        /* -1 = not known */
	int world_size;                  /* -1 = not known */
	int local_world_size;
	uint64_t run_id;
	uint64_t pidns;
	uint64_t starttime; /* of the process, clock ticks since boot */
	uint32_t pid;
	uint32_t uid;
};

struct nspy_core {
	_Atomic uint32_t phase;
	uint32_t owner_pid;
	struct nspy_env env;
	struct nspy_identity id;

	/* The live area (file-backed or private) and the private overflow. */
	struct nspy_live_head *head;
	size_t live_bytes;
	bool live_on_tmpfs;
	struct nspy_slot *slots; /* head->slot_count of them */
	struct nspy_page *pages; /* head->page_count of them */
	struct nspy_slot *extra_slots;
	struct nspy_page *extra_pages;
	bool group_readable; /* files 0640, directories 2750 */
	_Atomic uint64_t page_generation;
	_Atomic uint32_t page_hint;
	_Atomic uint32_t thread_serial;
	_Atomic uint64_t calls_of_gone_threads;

	bool unseen; /* started only to say that no call was seen (unseen.h) */

	/* The writer thread. */
	pthread_t writer;
	/* Monotonic ns: what it does now began then, 0 = it rests. */
	_Atomic uint64_t writing_since;
	bool writer_running;
	_Atomic uint32_t stop_request;
	_Atomic uint32_t stop_done;
	_Atomic uint32_t watching; /* the watcher thread runs, and prints what is queued */
};

extern struct nspy_core nspy_core;

/* Whether this process records; false also in a forked child that has not begun its own. */
static inline bool nspy_is_recording(void)
{
	/* The phase first: what it stands for is set up before it. */
	return atomic_load_explicit(&nspy_core.phase, memory_order_acquire) ==
		       NSPY_PHASE_RECORDING &&
	       __atomic_load_n(&nspy_hot->epoch, __ATOMIC_ACQUIRE) != 0;
}

/* Starts recording on the calling thread (cold, once). false: do not record this call. */
bool nspy_start(void);

/* Number of slots and pages over both areas, and the i-th of them. */
static inline uint32_t nspy_slot_total(void)
{
	return nspy_core.head->slot_count + NSPY_EXTRA_SLOTS;
}

static inline struct nspy_slot *nspy_slot_at(uint32_t i)
{
	uint32_t live = nspy_core.head->slot_count;

	return i < live ? &nspy_core.slots[i] : &nspy_core.extra_slots[i - live];
}

static inline uint32_t nspy_page_total(void)
{
	return nspy_core.head->page_count + NSPY_EXTRA_PAGES;
}

static inline struct nspy_page *nspy_page_at(uint32_t i)
{
	uint32_t live = nspy_core.head->page_count;

	return i < live ? &nspy_core.pages[i] : &nspy_core.extra_pages[i - live];
}

/* Orders the loads before it before those after it (the reading side of a sequence lock). */
static inline void nspy_load_barrier(void)
{
#if defined(__aarch64__)
	__asm__ volatile("dmb ishld" ::: "memory");
#else
	__asm__ volatile("" ::: "memory");
#endif
}

static inline void nspy_count_loss(enum nspy_loss kind, uint64_t n)
{
	if (nspy_core.head)
		atomic_fetch_add_explicit(&nspy_core.head->loss[kind], n, memory_order_relaxed);
}

#endif
