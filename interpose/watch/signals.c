/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "signals.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <unistd.h>

#include "clock.h"
#include "core.h"
#include "pages.h"
#include "signal_line.h"
#include "thread.h"

#define ATTEMPTS 4 /* to install, while another thread changes the same handler */

/* What was there before us; constant once a handler of ours may run. */
static struct sigaction before[NSPY_SIGNAL_MAX + 1];
static _Atomic uint32_t noting; /* the thread that does, 0 = none */

/* Our own code. */
static struct {
	uintptr_t begin, end;
} code;
/* The linker's: where we are mapped. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

static void find_code(void)
{
	uintptr_t base = (uintptr_t)&__ehdr_start;
	const ElfW(Phdr) *segments = (const void *)(base + __ehdr_start.e_phoff);

	for (unsigned int i = 0; i < __ehdr_start.e_phnum; i++) {
		if (segments[i].p_type != PT_LOAD || !(segments[i].p_flags & PF_X))
			continue;
		code.begin = base + segments[i].p_vaddr;
		code.end = code.begin + segments[i].p_memsz;
	}
}

static bool in_our_code(const void *context)
{
	const ucontext_t *at = context;
#if defined(__x86_64__)
	uintptr_t address = (uintptr_t)at->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	uintptr_t address = (uintptr_t)at->uc_mcontext.pc;
#endif
	return address >= code.begin && address < code.end;
}

/* The thread's last wrapped call: the one it is in, else the latest that it has ended. */
static void note_call(struct nspy_signal_note *note)
{
	const struct nspy_tls *t = &nspy_tls;
	const struct nspy_rec *rec = NULL;

	if (!t->slot || t->epoch != __atomic_load_n(&nspy_hot->epoch, __ATOMIC_ACQUIRE))
		return;
	if (t->depth && t->depth <= NSPY_OPEN_DEPTH_MAX) {
		rec = &t->slot->open[t->depth - 1];
		note->flags |= NSPY_SIGNAL_IN_CALL;
	} else if (t->page && t->page_used && t->page_used <= NSPY_PAGE_RECORDS) {
		rec = &t->page->rec[t->page_used - 1].call;
	}
	if (rec && rec->kind == NSPY_REC_CALL)
		note->fn = (uint16_t)(rec->fn + 1);
}

static void put_down(int number, const siginfo_t *info, const void *context, uint32_t tid)
{
	struct nspy_signal_note note = {.when_ns = nspy_monotonic_ns(),
					.number = number,
					.code = info->si_code,
					.tid = tid};
	struct nspy_live_head *head = nspy_core.head;
	bool crash = nspy_signal_is_crash(number);

	if (nspy_signal_faults(number, info->si_code))
		note.address = (uint64_t)(uintptr_t)info->si_addr;
	else if (info->si_code == SI_USER || info->si_code == SI_QUEUE)
		note.sender = (uint32_t)info->si_pid;
	note_call(&note);
	/* Where a handler of the program stood, the process may well go on. */
	if (before[number].sa_handler != SIG_DFL)
		note.flags |= NSPY_SIGNAL_HANDLED;
	if (crash && info->si_code > 0 && in_our_code(context))
		note.flags |= NSPY_SIGNAL_IN_US;
	if (crash)
		nspy_signal_note_write(&head->crash, &note);
	else if (!atomic_load_explicit(&head->term.seal, memory_order_relaxed))
		nspy_signal_note_write(&head->term, &note);
	nspy_pages_say_signal(&note);
	/* A job that is ended as a whole needs no line for each rank. */
	if (crash)
		nspy_signal_line_print(&note);
}

/* As if there had been no handler: the signal comes again, with all that is known of it, and takes
 * effect when the handler returns. */
static void end_by_default(int number, siginfo_t *info)
{
	struct sigaction standard;
	long pid = syscall(SYS_getpid), tid = syscall(SYS_gettid);

	memset(&standard, 0, sizeof(standard));
	standard.sa_handler = SIG_DFL;
	(void)sigaction(number, &standard, NULL);
	/* If that is refused, an instruction that failed fails again; what was sent is sent again.
	 */
	if (syscall(SYS_rt_tgsigqueueinfo, pid, tid, number, info) != 0 && info->si_code <= 0)
		(void)syscall(SYS_tgkill, pid, tid, number);
}

static void pass_on(int number, siginfo_t *info, void *context)
{
	const struct sigaction *next = &before[number];

	if (next->sa_flags & SA_SIGINFO)
		next->sa_sigaction(number, info, context);
	else if (next->sa_handler == SIG_DFL)
		end_by_default(number, info);
	else
		next->sa_handler(number);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid), who = 0;
	int saved = errno;

	if (atomic_compare_exchange_strong(&noting, &who, tid)) {
		/* A forked child has our handlers, but not our pages. */
		if (nspy_core.head && nspy_core.owner_pid == (uint32_t)syscall(SYS_getpid))
			put_down(number, info, context, tid);
		atomic_store(&noting, 0);
	} else if (who == tid) { /* a fault of our own */
		end_by_default(number, info);
		errno = saved;
		return;
	}
	errno = saved;
	pass_on(number, info, context);
}

/* What the kernel is to do for our handler: what it does for the one before, which is to notice no
 * difference. */
static struct sigaction like(const struct sigaction *old)
{
	struct sigaction ours = *old;

	if (!(old->sa_flags & SA_SIGINFO) && old->sa_handler == SIG_DFL) {
		memset(&ours, 0, sizeof(ours));
		ours.sa_flags = SA_ONSTACK | SA_RESTART;
	}
	ours.sa_flags |= SA_SIGINFO;
	ours.sa_sigaction = on_signal;
	return ours;
}

static bool is_ignored(const struct sigaction *action)
{
	return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == SIG_IGN;
}

static void install(int number)
{
	struct sigaction now, ours, found;

	for (int i = 0; i < ATTEMPTS; i++) {
		/* A forked child has inherited ours. */
		if (sigaction(number, NULL, &now) != 0 || is_ignored(&now) ||
		    now.sa_sigaction == on_signal)
			return;
		before[number] = now; /* first: the signal may come at once */
		ours = like(&now);
		if (sigaction(number, &ours, &found) != 0 || found.sa_sigaction == now.sa_sigaction)
			return;
		/* Somebody was quicker: back to what he wanted, and again. */
		(void)sigaction(number, &found, NULL);
	}
}

void nspy_signals_start(void)
{
	static const int crash[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

	atomic_store(&noting, 0); /* forked while another thread was at it */
	find_code();
	nspy_signal_line_start();
	for (size_t i = 0; nspy_core.env.NCCLSPY_CRASH && i < sizeof(crash) / sizeof(crash[0]); i++)
		install(crash[i]);
	if (nspy_core.env.NCCLSPY_TERM)
		install(SIGTERM);
}
