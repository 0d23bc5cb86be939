/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "watch.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "account.h"
#include "across.h"
#include "active.h"
#include "clock.h"
#include "control.h"
#include "core.h"
#include "event.h"
#include "exchange.h"
#include "gather.h"
#include "hook.h"
#include "live.h"
#include "mode.h"
#include "odd.h"
#include "outbox.h"
#include "pages.h"
#include "prom.h"
#include "say.h"
#include "service.h"
#include "signals.h"
#include "stacks.h"
#include "storage.h"
#include "straggler.h"
#include "writer.h"

#define STACK_BYTES    (128u << 10)
#define NS_PER_S       1000000000ull
#define PERIOD_MAX_NS  NS_PER_S
#define PERIOD_MIN_NS  100000000ull
#define FRESH_NS       (6 * NS_PER_S) /* a page that old belongs to a process that does not run */
#define SCRATCH_MIN    ((size_t)128 << 10)
#define SCRATCH_MAX    ((size_t)64 << 20)
#define WARM_UP_ROUNDS 20u
/* A look at thousands of ranks is rationed: one part in so many of the time of a core. */
#define JUDGE_SHARE  20u
#define JUDGE_FREE   (2 * 1000000ull) /* ns of CPU that need not be rationed */
#define JUDGE_MAX_NS (10 * NS_PER_S)  /* other nodes' pages are no newer */
#define UNSEEN_NS    (9 * NS_PER_S)   /* a node that has something to say is heard of by then */
#define FIRST_TICKS  20u              /* a rank that ends or stops at once has left a page */
#define FIRST_NS     50000000ull

static struct nspy_arena scratch;
static struct nspy_verdict verdict;

struct nspy_limits nspy_watch_limits(void)
{
	const struct nspy_env *env = &nspy_core.env;
	struct nspy_limits limits = {
		.note_ns = env->NCCLSPY_HANG_NOTE_S * NS_PER_S,
		.hang_ns = nspy_control_hang_s() * NS_PER_S,
		.start_ns = env->NCCLSPY_HANG_START_S * NS_PER_S,
		.confirm_ns = NS_PER_S,
		.warm_up_rounds = WARM_UP_ROUNDS,
		.serving = strcmp(env->NCCLSPY_PROFILE, "serving") == 0,
	};

	if (limits.note_ns > limits.hang_ns)
		limits.note_ns = limits.hang_ns;
	return limits;
}

static uint64_t period_ns(const struct nspy_limits *limits)
{
	uint64_t period = limits->hang_ns / 8;

	if (period < PERIOD_MIN_NS)
		return PERIOD_MIN_NS;
	return period > PERIOD_MAX_NS ? PERIOD_MAX_NS : period;
}

/* What another process of the node has told and sees as going on. */
static uint64_t told_by_others(const struct nspy_local *local)
{
	for (uint32_t i = 0; i < local->count; i++)
		if (i != local->own && local->pages[i].event_key)
			return local->pages[i].event_key;
	return 0;
}

static void get_scratch(size_t bytes)
{
	void *more = nspy_live_map_private(bytes, 0);

	if (!more)
		return;
	if (scratch.base)
		munmap(scratch.base, scratch.bytes);
	scratch = (struct nspy_arena){more, bytes, 0};
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec cpu;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
	return (uint64_t)cpu.tv_sec * NS_PER_S + (uint64_t)cpu.tv_nsec;
}

/* When to look again after a look that took so much CPU time. */
static uint64_t rest_after(uint64_t took_ns)
{
	uint64_t rest = took_ns <= JUDGE_FREE ? 0 : took_ns * JUDGE_SHARE;

	return rest < JUDGE_MAX_NS ? rest : JUDGE_MAX_NS;
}

static void judge(const struct nspy_status *pages, uint32_t count, uint64_t now_ns,
		  const struct nspy_limits *limits, uint64_t told, struct nspy_status *own)
{
	static uint64_t not_before_ns;
	uint64_t begin = thread_cpu_ns();
	int rc;

	if (now_ns < not_before_ns)
		return;
	scratch.used = 0;
	rc = nspy_verdict_find(pages, count, now_ns, limits, &scratch, &verdict);
	if (rc == 0 && verdict.id == NSPY_FOUND_NONE && !limits->serving)
		rc = nspy_straggler_find(pages, count, now_ns, &scratch, &verdict);
	if (rc == 0)
		nspy_event_take(&verdict, pages, now_ns, told, own);
	else if (scratch.bytes < SCRATCH_MAX)
		get_scratch(scratch.bytes ? 2 * scratch.bytes : SCRATCH_MIN);
	not_before_ns = now_ns + rest_after(thread_cpu_ns() - begin);
}

/* Twice the patience where only a part can be seen. */
static struct nspy_limits patient(const struct nspy_limits *limits)
{
	struct nspy_limits twice = *limits;

	twice.hang_ns *= 2;
	twice.note_ns *= 2;
	twice.start_ns *= 2;
	return twice;
}

/* Something has happened: what is only in memory belongs into files, on every rank. */
static void look_for_events(const struct nspy_local *local, const struct nspy_status *own)
{
	static uint64_t dumped_key;
	uint64_t key = own->event_key ? own->event_key : told_by_others(local);

	if (key && key != dumped_key)
		nspy_mode_ask_dump();
	dumped_key = key;
}

static void speak(const struct nspy_local *local, struct nspy_status *own, uint64_t now_ns,
		  const struct nspy_limits *limits)
{
	uint64_t told = told_by_others(local);
	struct nspy_limits twice = patient(limits);
	struct nspy_limits distant = *limits;
	struct nspy_view view;

	if (!nspy_across_wanted(local)) {
		if (own->control_id || own->mode != NSPY_MODE_RECORD)
			nspy_across_post(local, now_ns);
		judge(local->pages, local->count, now_ns, limits, told, own);
		/* Rank 0 speaks for the job; without it a later speaker has nothing to add. */
		if (local->pages[local->own].rank <= 0) {
			nspy_active_look(local->pages, local->count, true, now_ns);
			nspy_odd_look(local->pages, local->count);
		}
		return;
	}
	own->event_key = told ? told : own->event_key;
	nspy_across_look(local, now_ns, limits, own, &view);
	distant.unseen_ns = UNSEEN_NS;
	if (view.judge)
		judge(view.pages, view.count, now_ns, view.whole ? &distant : &twice, told, own);
	if (!view.whole)
		return;
	nspy_across_tell(now_ns);
	nspy_active_look(view.pages, view.count, true, now_ns);
	nspy_odd_look(view.pages, view.count);
}

/* Nobody is judged; only the next command is waited for. */
static void be_off(const struct nspy_local *local, struct nspy_status *own, uint64_t now_ns)
{
	nspy_event_silent();
	own->event_key = 0;
	if (local->own < local->count && local->speaker == local->own)
		nspy_across_post(local, now_ns);
}

static void tick(const struct nspy_limits *limits, bool shared)
{
	uint64_t now = nspy_monotonic_ns();
	struct nspy_status *own = nspy_gather(now);
	const struct nspy_local *local;

	if (!shared) {
		/* A process that sees only itself. */
		struct nspy_limits twice = patient(limits);

		if (nspy_mode_now() == NSPY_MODE_OFF)
			return;
		judge(own, 1, now, &twice, 0, own);
		nspy_storage_look(now, true);
		return;
	}
	own->mode = nspy_mode_now();
	nspy_pages_publish(own);
	local = nspy_pages_read(now, FRESH_NS);
	nspy_control_look(local, own);
	if (own->mode == NSPY_MODE_OFF) {
		be_off(local, own, now);
		return;
	}
	if (local->own < local->count && local->speaker == local->own) {
		speak(local, own, now, limits);
		nspy_prom_look(local->pages, local->count, own, now);
	} else {
		nspy_event_silent();
	}
	nspy_storage_look(now, local->own < local->count && local->speaker == local->own);
	nspy_stacks_look(local, own);
	look_for_events(local, own);
}

/* While the job starts much happens within a second; it is shown, and judged no sooner. */
static void first_ticks(void)
{
	for (uint32_t i = 0; i < FIRST_TICKS; i++) {
		if (atomic_load_explicit(&nspy_core.stop_request, memory_order_acquire))
			return;
		nspy_pages_publish(nspy_gather(nspy_monotonic_ns()));
		if (!nspy_core.env.NCCLSPY_LOG_FILE[0])
			nspy_say_flush();
		nspy_futex_wait(&nspy_core.stop_request, 0, FIRST_NS);
	}
}

static void *watch_main(void *unused)
{
	struct nspy_limits limits = nspy_watch_limits();
	bool able = nspy_gather_start();
	bool shared = able && nspy_pages_start();

	(void)unused;
	(void)prctl(PR_SET_NAME, "ncclspy-watcher");
	atomic_store(&nspy_core.watching, able);
	if (shared)
		first_ticks();
	while (able && !atomic_load_explicit(&nspy_core.stop_request, memory_order_acquire)) {
		tick(&limits, shared);
		nspy_account_watcher();
		limits = nspy_watch_limits(); /* a command may have changed them */
		if (!nspy_core.env.NCCLSPY_LOG_FILE[0])
			nspy_say_flush();
		nspy_futex_wait(&nspy_core.stop_request, 0, period_ns(&limits));
	}
	atomic_store(&nspy_core.watching, 0);
	return NULL;
}

static void start(void)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	/* The writer looks into these, watcher or not. */
	nspy_pages_forget();
	nspy_outbox_start();
	nspy_control_start();
	nspy_stacks_start();
	nspy_exchange_start();
	nspy_hook_start();
	nspy_prom_start();
	nspy_signals_start();
	if (!nspy_core.env.NCCLSPY_WATCH)
		return;
	nspy_event_start();
	nspy_active_start();
	nspy_odd_start();
	nspy_storage_start();
	nspy_across_start(nspy_monotonic_ns());
	scratch = (struct nspy_arena){0}; /* a forked child has not inherited it */
	sigfillset(&all);
	nspy_sys_pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	nspy_sys_pthread_attr_setstacksize(&attr, STACK_BYTES);
	rc = nspy_sys_pthread_create(&thread, &attr, watch_main, NULL);
	pthread_attr_destroy(&attr);
	nspy_sys_pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0)
		nspy_sys_pthread_detach(thread);
}

static void write_files(void)
{
	nspy_outbox_write();
	nspy_exchange_work();
	nspy_control_work(nspy_monotonic_ns());
	nspy_hook_work();
	nspy_prom_write();
	nspy_stacks_work(nspy_monotonic_ns());
}

static void stop(void)
{
	nspy_pages_say_exit(nspy_core.head->exit_code);
	nspy_prom_stop();
}

static __attribute__((constructor)) void loaded(void)
{
	static struct nspy_service service = {
		.start = start,
		.write = write_files,
		.stop = stop,
		.ended = nspy_pages_remove,
	};

	nspy_service_register(&service);
}
