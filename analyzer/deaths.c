/* SPDX-License-Identifier: Apache-2.0 */
#include "deaths.h"

#include <signal.h>
#include <stdlib.h>

#include "case.h"
#include "who.h"

/*
 * Deaths closer than this count as simultaneous: a launcher that kills all ranks needs some time
 * for it. The launcher's note gives the moment of death; else only the last sign of life is known,
 * which comes about once a second.
 */
#define REMOTE_ERROR       6 /* ncclRemoteError */
#define TOGETHER_EXACT_NS  (NSPY_NS_PER_S / 2)
#define TOGETHER_NS        (3 * NSPY_NS_PER_S / 2)
#define CLOCK_SLACK_MAX_NS NSPY_NS_PER_S
/* A polite kill is followed by a hard one for whoever does not go. */
#define KILL_ALL_NS (90 * NSPY_NS_PER_S)
/* Launchers of many nodes are asked one after the other. */
#define ASKED_NS (10 * NSPY_NS_PER_S)

bool nspy_proc_died(const struct nspy_proc *proc)
{
	if (proc->exit.known)
		return proc->exit.signal || proc->exit.code;
	/* Of a torn trace it is not even known whether it goes on. */
	return proc->state == NSPY_PROC_CUT && !proc->torn;
}

const struct nspy_death *nspy_death_of(const struct nspy_deaths *deaths,
				       const struct nspy_proc *proc)
{
	for (size_t i = 0; i < deaths->count; i++) {
		if (deaths->items[i].proc == proc)
			return &deaths->items[i];
	}
	return NULL;
}

static bool crash_signal(int signal_number)
{
	switch (signal_number) {
	case SIGSEGV:
	case SIGBUS:
	case SIGILL:
	case SIGFPE:
	case SIGABRT:
	case SIGSYS:
	case SIGTRAP:
		return true;
	default:
		return false;
	}
}

uint64_t nspy_proc_asked_ns(const struct nspy_proc *proc)
{
	if (proc->exit.asked == SIGTERM)
		return proc->exit.asked_ns;
	return proc->exit.known && proc->exit.signal == SIGTERM ? proc->exit.real_ns : 0;
}

static int compare_deaths(const void *a, const void *b)
{
	const struct nspy_death *x = a, *y = b;

	return x->when_ns < y->when_ns ? -1 : x->when_ns > y->when_ns;
}

/*
 * A process killed hard before the others were asked to end was not part of that clean-up: the
 * kernel's memory killer or a person chose it.
 */
static void mark_chosen_victims(struct nspy_deaths *deaths)
{
	size_t term = deaths->count;

	for (size_t i = 0; i < deaths->count && term == deaths->count; i++) {
		if (deaths->items[i].exact && deaths->items[i].proc->exit.signal == SIGTERM)
			term = i;
	}
	for (size_t i = 0; term < deaths->count && i < term; i++) {
		if (deaths->items[i].exact && deaths->items[i].proc->exit.signal == SIGKILL)
			deaths->items[i].crash = true;
	}
}

static void list_deaths(struct nspy_case *c)
{
	struct nspy_deaths *deaths = &c->deaths;

	deaths->items = nspy_xcalloc(c->attempt->proc_count, sizeof(*deaths->items));
	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		const struct nspy_proc *proc = c->attempt->procs[i];
		struct nspy_death *death;

		if (!nspy_proc_died(proc))
			continue;
		death = &deaths->items[deaths->count++];
		death->proc = proc;
		death->exact = proc->exit.known && (proc->exit.real_ns || proc->ended_clean);
		death->when_ns = proc->exit.real_ns ? proc->exit.real_ns : proc->end_ns;
		death->crash = proc->exit.known && (crash_signal(proc->exit.signal) ||
						    (proc->exit.code && !proc->exit.signal));
	}
	qsort(deaths->items, deaths->count, sizeof(*deaths->items), compare_deaths);
	mark_chosen_victims(deaths);
}

/* Is its death told by somebody else's: did it wait for others, as all of them did? */
static bool waited_in_vain(const struct nspy_case *c, const struct nspy_proc *proc)
{
	return c->waits.procs[proc->index].waiting;
}

/* Did others wait for it since long before it died? */
static bool was_late_before(const struct nspy_case *c, const struct nspy_death *death)
{
	for (size_t h = 0; h < c->waits.hang_count; h++) {
		const struct nspy_hang *hang = &c->waits.hangs[h];

		if (nspy_procs_has(&hang->culprits, death->proc) &&
		    hang->since_ns + c->options.hang_ended_ns < death->when_ns)
			return true;
	}
	return false;
}

static size_t count_outlived(const struct nspy_case *c, uint64_t until_ns)
{
	size_t count = 0;

	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		const struct nspy_proc *proc = c->attempt->procs[i];
		const struct nspy_death *death = nspy_death_of(&c->deaths, proc);
		uint64_t end_ns = death ? death->when_ns : proc->end_ns;

		count += end_ns > until_ns || proc->state == NSPY_PROC_RUNNING;
	}
	return count;
}

/* All died by the same uncaught kill within the time that killing a job takes. */
static bool whole_job_killed(const struct nspy_deaths *deaths, const struct nspy_attempt *attempt,
			     size_t first)
{
	if (deaths->count < attempt->proc_count || first * 2 <= deaths->count)
		return false;
	for (size_t i = 0; i < deaths->count; i++) {
		if (deaths->items[i].crash ||
		    deaths->items[i].when_ns > deaths->items[0].when_ns + KILL_ALL_NS)
			return false;
	}
	return true;
}

/*
 * All it was told is that a peer had gone (ncclRemoteError): it ended because of that one, however
 * quickly it did.
 */
static bool only_lost_a_peer(const struct nspy_case *c, const struct nspy_proc *proc)
{
	for (size_t i = 0; i < proc->error_count; i++) {
		const struct nspy_fn *fn = nspy_model_get_fn(c->model, proc->errors[i].fn);

		if (fn->lib != NSPY_MODEL_NCCL || proc->errors[i].code != REMOTE_ERROR)
			return false;
	}
	return proc->error_count > 0;
}

/* What it did last is cut off, and others that waited in vain ended by the same signal. */
static bool ended_like_waiters(const struct nspy_case *c, const struct nspy_death *death)
{
	if (!death->proc->torn || !death->proc->exit.signal)
		return false;
	for (size_t i = 0; i < c->deaths.count; i++) {
		const struct nspy_proc *other = c->deaths.items[i].proc;

		if (other != death->proc && waited_in_vain(c, other) &&
		    other->exit.signal == death->proc->exit.signal)
			return true;
	}
	return false;
}

/* Deaths on several hosts are compared no better than their clocks agree. */
static uint64_t clock_slack(const struct nspy_case *c)
{
	if (c->model->clock_error_ns < CLOCK_SLACK_MAX_NS)
		return c->model->clock_error_ns;
	return CLOCK_SLACK_MAX_NS;
}

static bool died_before(const struct nspy_case *c, const struct nspy_death *death, uint64_t when_ns)
{
	/* Without the launcher's word only the last sign of life is known. */
	uint64_t slack_ns = clock_slack(c) + (death->exact ? 0 : TOGETHER_NS);

	return death->when_ns + slack_ns < when_ns;
}

/*
 * Was the job ended as a whole? A rank that dies makes launchers end the others in the same way,
 * so each must have been asked before it died, and where that is only known from their ends, as
 * close together as deaths by one cause.
 */
static bool whole_job_asked(struct nspy_case *c, uint64_t together_ns)
{
	struct nspy_deaths *deaths = &c->deaths;
	uint64_t first = UINT64_MAX, last = 0;
	bool seen = true;

	if (c->attempt->proc_count < 2)
		return false;
	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		const struct nspy_proc *proc = c->attempt->procs[i];
		const struct nspy_death *death = nspy_death_of(deaths, proc);
		uint64_t asked = nspy_proc_asked_ns(proc);

		if (!asked || proc->exit.crash.number || (death && died_before(c, death, asked)))
			return false;
		seen &= proc->exit.asked == SIGTERM;
		first = asked < first ? asked : first;
		last = asked > last ? asked : last;
	}
	deaths->asked_ns = first;
	deaths->asked_until_ns = last;
	return last - first <= (seen ? ASKED_NS : together_ns);
}

static void choose_first(struct nspy_case *c, size_t first)
{
	struct nspy_deaths *deaths = &c->deaths;
	bool together = deaths->outlived == 0 || whole_job_killed(deaths, c->attempt, first);
	size_t crashes = 0, causes = 0;

	for (size_t i = 0; i < first; i++) {
		bool cause = !only_lost_a_peer(c, deaths->items[i].proc);

		causes += cause;
		crashes += cause && deaths->items[i].crash;
	}
	/* Who crashed while others were killed began it, whatever the clock says. */
	if (together && (crashes == 0 || crashes == first) && (causes == 0 || causes == first)) {
		deaths->together = deaths->count > 1;
		if (deaths->together || c->attempt->proc_count > 1)
			return;
	}
	for (size_t i = 0; i < first; i++) {
		const struct nspy_death *death = &deaths->items[i];

		if (causes && only_lost_a_peer(c, death->proc))
			continue;
		if (crashes && !death->crash)
			continue;
		if (waited_in_vain(c, death->proc) || (together && was_late_before(c, death)) ||
		    ended_like_waiters(c, death))
			continue;
		nspy_procs_add(&deaths->first, death->proc);
	}
}

/*
 * Whoever aborted has decided to leave then, however long the abort takes. That matters where the
 * first to end had done so too: it was only quicker.
 */
static uint64_t decided_ns(const struct nspy_deaths *deaths, size_t i)
{
	const struct nspy_death *death = &deaths->items[i];
	uint64_t abort_ns = deaths->items[0].proc->abort_ns ? death->proc->abort_ns : 0;

	return abort_ns && abort_ns < death->when_ns ? abort_ns : death->when_ns;
}

void nspy_deaths_find(struct nspy_case *c)
{
	struct nspy_deaths *deaths = &c->deaths;
	uint64_t together_ns = TOGETHER_EXACT_NS;
	size_t first = 0;

	list_deaths(c);
	if (deaths->count == 0)
		return;
	for (size_t i = 0; i < deaths->count; i++) {
		if (!deaths->items[i].exact)
			together_ns = TOGETHER_NS;
	}
	together_ns += clock_slack(c);
	while (first < deaths->count &&
	       decided_ns(deaths, first) <= deaths->items[0].when_ns + together_ns)
		first++;
	deaths->terminated = whole_job_asked(c, together_ns);
	deaths->outlived = count_outlived(c, deaths->items[first - 1].when_ns + together_ns);
	if (!deaths->terminated)
		choose_first(c, first);
}

void nspy_deaths_done(struct nspy_deaths *deaths)
{
	free(deaths->items);
	free(deaths->first.items);
	*deaths = (struct nspy_deaths){0};
}
