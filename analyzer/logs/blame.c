/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom lines accuse. A line is about the rank that it names, otherwise about the one that prints
 * it. Where each rank complains of another, the one that most complain of is meant.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "log.h"

const struct nspy_proc *nspy_log_proc(const struct nspy_log *log, int64_t rank)
{
	const struct nspy_log_source *source = nspy_map_get(&log->by_rank, (uint64_t)rank + 1);
	struct nspy_proc *proc;

	if (source)
		return source->proc;
	for (size_t i = 0; i < log->model->proc_count; i++) {
		if (log->model->procs[i]->rank == rank)
			return log->model->procs[i];
	}
	proc = nspy_model_add_proc(log->model, log->model->proc_count + 1);
	proc->rank = rank;
	return proc;
}

const struct nspy_proc *nspy_log_host(const struct nspy_log *log, const char *host)
{
	struct nspy_proc *proc;

	for (size_t i = 0; i < log->model->proc_count; i++) {
		const char *own = nspy_proc_fact(log->model->procs[i], "host");

		if (own && strcmp(own, host) == 0)
			return log->model->procs[i];
	}
	proc = nspy_model_add_proc(log->model, log->model->proc_count + 1);
	nspy_proc_set_fact(proc, "host", 4, host, strnlen(host, 255));
	return proc;
}

/* A peer that cannot be reached is looked at first, not the one that says so. */
static bool about_peer(const struct nspy_log_event *event)
{
	return event->peer && (event->rule == NSPY_LOG_CONNECT || event->rule == NSPY_LOG_RETRIES ||
			       event->rule == NSPY_LOG_CONNECT_OLD);
}

static bool known(const struct nspy_log_source *source)
{
	return source->proc->rank >= 0 || source->proc->pid >= 0 || source->label ||
	       nspy_proc_fact(source->proc, "host");
}

/* --- pairs --- */

void nspy_log_pair(struct nspy_log_event *event, const char *text)
{
	int64_t found[2] = {-1, -1};
	size_t count = 0;

	for (const char *p = text; count < 2 && (p = strcasestr(p, "rank ")); p += 5) {
		if (isdigit((unsigned char)p[5]) && strtoll(p + 5, NULL, 10) != found[0])
			found[count++] = strtoll(p + 5, NULL, 10);
	}
	event->rank = found[0] < 65536 ? found[0] : -1;
	event->other = found[1] < 65536 ? found[1] : -1;
}

static size_t votes_for(const struct nspy_log_event *const *events, size_t count, int64_t rank)
{
	size_t votes = 0;

	for (size_t i = 0; i < count; i++)
		votes += events[i]->rank == rank || events[i]->other == rank;
	return votes;
}

/* The rank that is in more pairs than any other; -1 if there is none. */
static int64_t accused(const struct nspy_log_event *const *events, size_t count)
{
	int64_t best = -1;
	size_t most = 1;
	bool tie = true;

	for (size_t i = 0; i < 2 * count && i < 512; i++) {
		int64_t rank = i % 2 ? events[i / 2]->other : events[i / 2]->rank;
		size_t votes;

		if (rank < 0 || rank == best)
			continue;
		votes = votes_for(events, count, rank);
		if (votes < most)
			continue;
		tie = votes == most;
		most = votes;
		best = rank;
	}
	return tie ? -1 : best;
}

void nspy_log_blame(const struct nspy_log *log, struct nspy_finding *finding,
		    const struct nspy_log_event *const *events, size_t count)
{
	int64_t guilty;
	size_t alike = 0;

	while (alike < count && alike < 64 && events[alike]->klass == events[0]->klass)
		alike++;
	guilty = events[0]->rule == NSPY_LOG_DUP_GPU ? -1 : accused(events, alike);
	if (guilty >= 0 && events[0]->other >= 0) {
		nspy_finding_blame(finding, nspy_log_proc(log, guilty));
		return;
	}
	for (size_t i = 0; i < alike; i++) {
		const struct nspy_log_event *event = events[i];

		if (event->nobody)
			continue;
		if (event->rank >= 0)
			nspy_finding_blame(finding, nspy_log_proc(log, event->rank));
		else if (about_peer(event))
			nspy_finding_blame(finding, nspy_log_host(log, event->peer));
		else if (known(event->source))
			nspy_finding_blame(finding, event->source->proc);
		if (event->rank >= 0 && event->other >= 0)
			nspy_finding_blame(finding, nspy_log_proc(log, event->other));
	}
}

/* --- devices --- */

const char *nspy_log_pci(const char *text, size_t *ret_bytes)
{
	for (const char *p = strchr(text, ':'); p; p = strchr(p + 1, ':')) {
		const char *begin = p, *end = p + 1;

		while (begin > text && p - begin < 8 && isxdigit((unsigned char)begin[-1]))
			begin--;
		if (p - begin != 4 && p - begin != 8)
			continue;
		while (isxdigit((unsigned char)*end))
			end++;
		if (end - p != 3 || *end != ':' || !isxdigit((unsigned char)end[1]) ||
		    !isxdigit((unsigned char)end[2]) || isxdigit((unsigned char)end[3]))
			continue;
		end += 3;
		if (*end == '.' && isdigit((unsigned char)end[1]))
			end += 2;
		*ret_bytes = (size_t)(end - begin);
		return begin;
	}
	return NULL;
}

/* --- once all lines are read --- */

/* What torchrun saw fail first explains the other rows of its table. */
static void settle_table(struct nspy_log *log)
{
	bool told = false;

	for (size_t i = 0; i < log->event_count && !told; i++)
		told = log->events[i]->rule == NSPY_LOG_ELASTIC_EXIT2 && log->events[i]->other == 1;
	for (size_t i = 0; told && i < log->event_count; i++) {
		struct nspy_log_event *event = log->events[i];

		if (event->rule != NSPY_LOG_ELASTIC_EXIT && event->rule != NSPY_LOG_ELASTIC_EXIT2)
			continue;
		if (event->rule == NSPY_LOG_ELASTIC_EXIT2 && event->other == 1) {
			event->klass =
				event->klass == NSPY_LOG_CAUSE ? NSPY_LOG_CAUSE : NSPY_LOG_SYMPTOM;
			event->priority = 0;
		} else {
			event->klass = NSPY_LOG_EFFECT;
		}
		event->other = -1;
	}
}

/* Says only that something went wrong. */
static bool says_little(enum nspy_log_rule_id rule)
{
	return rule == NSPY_LOG_INTERNAL || rule == NSPY_LOG_TORCH_INTERNAL ||
	       rule == NSPY_LOG_REMOTE_EXITED || rule == NSPY_LOG_UNHANDLED_SYSTEM ||
	       rule == NSPY_LOG_TORCH_SYSTEM || rule == NSPY_LOG_TEST_NCCL;
}

/* A line that names a peer tells more than one that says that a call failed. */
static void settle_general(struct nspy_log *log)
{
	bool peer = false;

	for (size_t i = 0; i < log->event_count && !peer; i++)
		peer = log->events[i]->klass == NSPY_LOG_EFFECT && log->events[i]->peer &&
		       log->events[i]->finding == NSPY_FINDING_RANK_DIED;
	for (size_t i = 0; peer && i < log->event_count; i++) {
		if (says_little(log->events[i]->rule))
			log->events[i]->klass = NSPY_LOG_EFFECT;
	}
}

void nspy_log_settle(struct nspy_log *log)
{
	settle_table(log);
	settle_general(log);
}
