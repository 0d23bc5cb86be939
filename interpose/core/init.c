/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "init.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "account.h"
#include "clock.h"
#include "comm.h"
#include "core.h"
#include "export.h"
#include "facts.h"
#include "identity.h"
#include "live.h"
#include "mode.h"
#include "resolve.h"
#include "say.h"
#include "seen.h"
#include "service.h"
#include "thread.h"
#include "unseen.h"
#include "writer.h"

#define EXIT_WAIT_MS   200u
#define START_WAIT_NS  100000000ull
#define START_PAUSE_NS 100000ull

struct nspy_core nspy_core;
static struct nspy_hot zeroes; /* before the first start nothing is valid */
struct nspy_hot *nspy_hot = &zeroes;
static uint32_t last_epoch;
static _Atomic uint32_t starter; /* process that is or was in set_up */
static bool fork_handler_set;

/* A forked child starts from nothing, and only when it calls NCCL itself. */
static void forget_parent(void)
{
	/* The mappings were not inherited (MADV_DONTFORK), only our pointers to them. */
	nspy_core.head = NULL;
	nspy_core.writer_running = false;
	nspy_route_forked();
	atomic_store(&nspy_core.stop_request, 0);
	atomic_store(&nspy_core.stop_done, 0);
	atomic_store(&nspy_core.watching, 0);
	if (atomic_load(&nspy_core.phase) != NSPY_PHASE_OFF)
		atomic_store(&nspy_core.phase, NSPY_PHASE_IDLE);
}

static bool make_hot_area(void)
{
	struct nspy_hot *area = mmap(NULL, sizeof(*area), PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (area == MAP_FAILED)
		return false;
	if (madvise(area, sizeof(*area), MADV_WIPEONFORK) < 0) {
		munmap(area, sizeof(*area));
		return false;
	}
	__atomic_store_n(&nspy_hot, area, __ATOMIC_RELEASE);
	return true;
}

/*
 * exit() was called. Other handlers come after this one, and static destructors may still destroy
 * communicators: recording goes on until our own destructor runs.
 */
static void note_exit(int status, void *unused)
{
	(void)unused;
	/* A child of a raw clone has the pointer, not the mapping; its epoch was wiped. */
	if (nspy_hot->epoch && nspy_core.head)
		atomic_store_explicit(&nspy_core.head->exit_code, status, memory_order_relaxed);
}

static void set_handlers_once(void)
{
	if (fork_handler_set)
		return;
	fork_handler_set = true;
	(void)pthread_atfork(NULL, NULL, forget_parent);
	(void)on_exit(note_exit, NULL);
}

static bool set_up(void)
{
	bool want_counter;

	if (!nspy_compat_complete() || !nspy_thread_key_init())
		return false;
	nspy_env_read(&nspy_core.env);
	nspy_identity_find(&nspy_core.id);
	/* A forked child has inherited the area, wiped. */
	if (nspy_hot == &zeroes && !make_hot_area())
		return false;
	nspy_seen_start();
	if (!nspy_live_create(nspy_core.env.NCCLSPY_LIVE) || !nspy_comm_start())
		return false;
	nspy_core.page_generation = 0;
	nspy_core.page_hint = 0;
	nspy_core.thread_serial = 0;
	nspy_core.calls_of_gone_threads = 0;
	want_counter = strcmp(nspy_core.env.NCCLSPY_CLOCK, "monotonic") != 0;
	nspy_clock_start(nspy_core.head, want_counter);
	nspy_mode_start();
	nspy_account_start();
	nspy_facts_start();
	set_handlers_once();
	nspy_core.owner_pid = nspy_core.id.pid;
	__atomic_store_n(&nspy_hot->epoch, ++last_epoch, __ATOMIC_RELEASE);
	nspy_service_start(); /* first: the writer works for the services */
	nspy_core.writer_running = nspy_writer_start();
	return true;
}

/*
 * Another thread is setting things up, which takes a millisecond or two. Its first call is worth
 * waiting for, but not for ever: we may hold the loader's lock that the other one needs.
 */
static bool wait_for_start(void)
{
	const struct timespec pause = {.tv_nsec = START_PAUSE_NS};

	for (uint64_t waited = 0; waited < START_WAIT_NS; waited += START_PAUSE_NS) {
		if (atomic_load_explicit(&nspy_core.phase, memory_order_acquire) !=
		    NSPY_PHASE_STARTING)
			break;
		(void)syscall(SYS_nanosleep, &pause, NULL);
	}
	return atomic_load_explicit(&nspy_core.phase, memory_order_acquire) == NSPY_PHASE_RECORDING;
}

bool nspy_start(void)
{
	uint32_t expected = NSPY_PHASE_IDLE, pid = (uint32_t)syscall(SYS_getpid);
	int saved = errno;
	bool ok;

	/* Forked while another thread was setting things up: there is no such thread here. */
	if (atomic_load(&nspy_core.phase) == NSPY_PHASE_STARTING && atomic_load(&starter) != pid &&
	    atomic_load(&starter) != 0)
		forget_parent();
	/* After a raw clone nobody has told us: the wiped epoch does. */
	if (atomic_load(&nspy_core.phase) == NSPY_PHASE_RECORDING) {
		if (nspy_hot->epoch != 0)
			return true;
		forget_parent();
	}
	if (!atomic_compare_exchange_strong(&nspy_core.phase, &expected, NSPY_PHASE_STARTING)) {
		ok = expected == NSPY_PHASE_STARTING ? wait_for_start()
						     : expected == NSPY_PHASE_RECORDING;
		errno = saved;
		return ok;
	}
	atomic_store(&starter, pid);
	ok = set_up();
	atomic_store_explicit(&nspy_core.phase, ok ? NSPY_PHASE_RECORDING : NSPY_PHASE_OFF,
			      memory_order_release);
	errno = saved;
	return ok;
}

void nspy_stop(int status)
{
	uint32_t expected = NSPY_PHASE_RECORDING;

	/* A vforked or forked child that fails to exec must not end its parent's recording. */
	if (nspy_hot->epoch == 0 || nspy_core.owner_pid != (uint32_t)syscall(SYS_getpid) ||
	    !atomic_compare_exchange_strong(&nspy_core.phase, &expected, NSPY_PHASE_STOPPED))
		return;
	if (status != NSPY_STATUS_AS_NOTED)
		atomic_store_explicit(&nspy_core.head->exit_code, status, memory_order_relaxed);
	/* From here on wrappers only pass calls on. */
	__atomic_store_n(&nspy_hot->epoch, 0, __ATOMIC_RELEASE);
	atomic_store_explicit(&nspy_core.head->heartbeat_ticks, nspy_ticks(), memory_order_relaxed);
	atomic_store_explicit(&nspy_core.head->state, NSPY_LIVE_EXITED, memory_order_release);
	nspy_service_stop();
	if (nspy_core.writer_running)
		(void)nspy_writer_stop(EXIT_WAIT_MS);
	nspy_service_ended();
}

static __attribute__((constructor)) void loaded(void)
{
	/* The only things done in every process: one variable, two clock reads, the pid,
	 * and where dlsym is. */
	if (nspy_env_killed())
		atomic_store(&nspy_core.phase, NSPY_PHASE_OFF);
	nspy_elf_boot();
	nspy_clock_load();
	nspy_unseen_load();
}

static __attribute__((destructor)) void unloaded(void)
{
	nspy_unseen_check();
	nspy_stop(NSPY_STATUS_AS_NOTED);
}
