/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "writer.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "account.h"
#include "clock.h"
#include "comm.h"
#include "core.h"
#include "drain.h"
#include "facts.h"
#include "judge.h"
#include "live.h"
#include "mode.h"
#include "part.h"
#include "say.h"
#include "segment.h"
#include "service.h"
#include "sibling.h"
#include "state.h"

#define STACK_BYTES     (256u << 10)
#define PERIOD_TIGHT_NS 1000000ull   /* while pages run out */
#define PERIOD_MIN_NS   10000000ull  /* while pages fill quickly */
#define PERIOD_MAX_NS   200000000ull /* promise where there are no live pages */
#define ANCHOR_NS       1000000000ull
#define FLUSH_LIVE_NS   5000000000ull  /* live pages are safe already */
#define FLUSH_PENDING   1020u          /* a full chunk is worth writing at once */
#define RETRY_NS        10000000000ull /* after the disk refused */
#define SIBLING_NS      2000000000ull
#define ACCOUNT_NS      60000000000ull

const struct nspy_part *nspy_parts[NSPY_PART_COUNT];

struct schedule {
	uint64_t period_ns;
	uint64_t next_anchor;
	uint64_t next_flush;
	uint64_t next_sibling;
	uint64_t next_account;
	uint64_t retry_after;
};

void nspy_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(timeout_ns / 1000000000u),
		.tv_nsec = (long)(timeout_ns % 1000000000u),
	};

	(void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &ts, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Writes what is due. A refused write is tried again later; meanwhile the newest records win. */
static void flush(struct schedule *s, uint64_t now, bool force)
{
	struct nspy_drain_level level;
	bool tight;

	nspy_drain_level(&level);
	tight = level.pages_in_use > level.live_pages / 2;
	s->period_ns = tight                               ? PERIOD_TIGHT_NS
		       : level.pending > FLUSH_PENDING / 2 ? PERIOD_MIN_NS
							   : PERIOD_MAX_NS;
	if (!force && now < s->retry_after) {
		if (tight)
			nspy_drain_drop_oldest();
		return;
	}
	if (!force && !tight && level.pending < FLUSH_PENDING && now < s->next_flush)
		return;
	s->next_flush = now + (nspy_core.live_on_tmpfs ? FLUSH_LIVE_NS : PERIOD_MAX_NS);
	if (!nspy_drain_pages() || !nspy_state_write_if_due(now, force)) {
		s->retry_after = now + RETRY_NS;
		if (tight)
			nspy_drain_drop_oldest();
	}
}

/* What others have to write. */
static bool tick_parts(uint64_t now, bool last)
{
	bool ok = true;

	for (int i = 0; i < NSPY_PART_COUNT; i++) {
		const struct nspy_part *part = __atomic_load_n(&nspy_parts[i], __ATOMIC_ACQUIRE);

		ok &= !part || part->tick(now, last);
	}
	return ok;
}

static uint64_t period_of_parts(uint64_t period_ns)
{
	for (int i = 0; i < NSPY_PART_COUNT; i++) {
		const struct nspy_part *part = __atomic_load_n(&nspy_parts[i], __ATOMIC_ACQUIRE);
		uint64_t wanted = part && part->period_ns ? part->period_ns() : UINT64_MAX;

		period_ns = wanted < period_ns ? wanted : period_ns;
	}
	return period_ns;
}

static bool keeps(void)
{
	return nspy_mode_now() == NSPY_MODE_RECORD;
}

/* The newest records stay in memory, older ones make room. */
static void rest(struct schedule *s)
{
	struct nspy_drain_level level;

	nspy_drain_forget_oldest();
	nspy_drain_level(&level);
	/* Full pages come quickly: look again before the others run out as well. */
	s->period_ns =
		level.pages_in_use > level.live_pages * 3 / 4 ? PERIOD_MIN_NS : PERIOD_MAX_NS;
}

/* Writes all that is in memory, in any mode. false: the disk refused it. */
static bool write_all(uint64_t now)
{
	return nspy_drain_pages() && nspy_state_write_checkpoint(now) && tick_parts(now, false) &&
	       nspy_account_write();
}

static void change_mode(enum nspy_mode mode, uint64_t now)
{
	/* In the order that leaves no record unaccounted for: written, or in the next hole. */
	if (keeps() && mode != NSPY_MODE_RECORD)
		(void)write_all(now);
	nspy_mode_set(mode, now);
}

/* Commands of ncclspy-ctl, and what something that has happened asks for. */
static void obey(struct schedule *s, uint64_t now)
{
	const struct nspy_command *command;
	bool news = nspy_mode_take_dump() && nspy_mode_now() == NSPY_MODE_WATCH;

	while ((command = nspy_mode_next()) != NULL) {
		enum nspy_mode mode = command->verb == NSPY_CONTROL_OFF     ? NSPY_MODE_OFF
				      : command->verb == NSPY_CONTROL_WATCH ? NSPY_MODE_WATCH
				      : command->verb == NSPY_CONTROL_ON    ? NSPY_MODE_RECORD
									    : nspy_mode_now();
		bool changes = mode != nspy_mode_now();

		nspy_account_command(command, now);
		if (changes)
			change_mode(mode, now);
		/* In the other modes nothing is written but what is asked for. */
		if (keeps() || command->verb == NSPY_CONTROL_DUMP)
			news = true;
		else if (changes && nspy_segment_bytes_written())
			(void)nspy_account_write();
		nspy_mode_confirm();
	}
	if (news && now >= s->retry_after && !write_all(now))
		s->retry_after = now + RETRY_NS;
}

/* What goes into files while records do. */
static void keep(struct schedule *s, uint64_t now)
{
	flush(s, now, false);
	if (now >= s->retry_after && !nspy_state_write_if_due(now, false))
		s->retry_after = now + RETRY_NS;
	if (now >= s->retry_after && !tick_parts(now, false))
		s->retry_after = now + RETRY_NS;
	if (!s->next_account)
		s->next_account = now + ACCOUNT_NS;
	if (now >= s->next_account && now >= s->retry_after) {
		s->next_account = now + ACCOUNT_NS;
		(void)nspy_account_write();
	}
}

static void tick(struct schedule *s)
{
	uint64_t now = nspy_monotonic_ns();

	atomic_store_explicit(&nspy_core.head->heartbeat_ticks, nspy_ticks(), memory_order_relaxed);
	if (now >= s->next_anchor) {
		nspy_clock_anchor(nspy_core.head);
		s->next_anchor = now + ANCHOR_NS;
	}
	nspy_judge_tick(now);
	nspy_account_sample(now);
	obey(s, now);
	if (keeps())
		keep(s, now);
	else
		rest(s);
	nspy_drain_free_slots();
	if (now >= s->next_sibling && nspy_mode_now() != NSPY_MODE_OFF) {
		nspy_sibling_save();
		s->next_sibling = now + SIBLING_NS;
	}
	/* stderr is the watcher's; a log file lies on a file system, which the watcher never
	 * touches. */
	if (nspy_core.env.NCCLSPY_LOG_FILE[0] ||
	    !atomic_load_explicit(&nspy_core.watching, memory_order_relaxed))
		nspy_say_flush();
	nspy_service_write();
	if (keeps())
		s->period_ns = period_of_parts(s->period_ns);
}

/* A process that fails has something to tell, if it was watched. */
static bool ends_with_files(void)
{
	return keeps() || (nspy_mode_now() == NSPY_MODE_WATCH && nspy_core.head->exit_code);
}

static void finish(struct schedule *s)
{
	bool wanted = ends_with_files();
	char status[16];

	/* Operations first: the process does not wait long for the rest. */
	if (wanted)
		flush(s, nspy_monotonic_ns(), true);
	else
		nspy_drain_forget_all();
	nspy_judge_last(nspy_monotonic_ns());
	(void)snprintf(status, sizeof(status), "%d", nspy_core.head->exit_code);
	nspy_facts_add("exit_code", status);
	if (!s->next_sibling) /* too short a life for a single tick */
		nspy_sibling_save();
	nspy_clock_anchor(nspy_core.head);
	if (wanted)
		flush(s, nspy_monotonic_ns(), true);
	else
		nspy_drain_forget_all();
	if (wanted)
		(void)tick_parts(nspy_monotonic_ns(), true);
	nspy_state_say_end();
	/* A trace that was begun is closed in any mode. */
	wanted = wanted || nspy_segment_bytes_written();
	if (!wanted || (nspy_account_write() && nspy_state_write_end())) {
		atomic_store_explicit(&nspy_core.head->state, NSPY_LIVE_ENDED,
				      memory_order_release);
		nspy_live_remove();
	}
	nspy_say_flush();
	atomic_store_explicit(&nspy_core.stop_done, 1, memory_order_release);
	futex_wake(&nspy_core.stop_done);
}

static void *writer_main(void *unused)
{
	struct schedule s = {.period_ns = PERIOD_MIN_NS};
	bool able = nspy_drain_start() && nspy_state_start();

	(void)unused;
	(void)prctl(PR_SET_NAME, "ncclspy-writer");
	if (able)
		nspy_state_say_start();
	/* The second anchor soon: until then the counter's rate is a rough one. */
	s.next_anchor = nspy_monotonic_ns() + PERIOD_MIN_NS;
	while (able && !atomic_load_explicit(&nspy_core.stop_request, memory_order_acquire)) {
		/* It may block in a file system; the watcher looks how long. */
		atomic_store_explicit(&nspy_core.writing_since, nspy_monotonic_ns(),
				      memory_order_relaxed);
		tick(&s);
		atomic_store_explicit(&nspy_core.writing_since, 0, memory_order_relaxed);
		nspy_futex_wait(&nspy_core.stop_request, 0, s.period_ns);
	}
	if (able)
		finish(&s);
	return NULL;
}

bool nspy_writer_start(void)
{
	sigset_t all, before;
	pthread_attr_t attr;
	int rc;

	nspy_judge_start();
	atomic_store_explicit(&nspy_core.writing_since, 0,
			      memory_order_relaxed); /* of a parent's writer */
	/* Signals are the application's: none may be delivered here. */
	sigfillset(&all);
	nspy_sys_pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	nspy_sys_pthread_attr_setstacksize(&attr, STACK_BYTES);
	rc = nspy_sys_pthread_create(&nspy_core.writer, &attr, writer_main, NULL);
	pthread_attr_destroy(&attr);
	nspy_sys_pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc != 0)
		return false;
	nspy_sys_pthread_detach(nspy_core.writer);
	return true;
}

bool nspy_writer_stop(unsigned int timeout_ms)
{
	uint64_t deadline = nspy_monotonic_ns() + timeout_ms * 1000000ull;

	atomic_store_explicit(&nspy_core.stop_request, 1, memory_order_release);
	futex_wake(&nspy_core.stop_request);
	while (!atomic_load_explicit(&nspy_core.stop_done, memory_order_acquire)) {
		uint64_t now = nspy_monotonic_ns();

		if (now >= deadline)
			return false;
		nspy_futex_wait(&nspy_core.stop_done, 0, deadline - now);
	}
	return true;
}
