/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From events to findings. Events of one finding are told together. Causes come before symptoms;
 * among equals the one that came first does. What failing peers do to others is told as a
 * consequence, and becomes a finding only if nothing else is known.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../foreign/flight.h"
#include "../foreign/foreign.h"
#include "../who.h"
#include "log.h"
#include "text.h"

#define QUOTES_MAX 4u

bool nspy_log_any(const struct nspy_log *log, enum nspy_log_rule_id rule)
{
	for (size_t i = 0; i < log->event_count; i++) {
		if (log->events[i]->rule == rule)
			return true;
	}
	return false;
}

bool nspy_log_trouble(const struct nspy_log *log, enum nspy_log_class klass)
{
	for (size_t i = 0; i < log->event_count; i++) {
		if (log->events[i]->klass == klass)
			return true;
	}
	return false;
}

struct nspy_finding *nspy_log_finding(struct nspy_findings *out, enum nspy_finding_id id,
				      int priority, enum nspy_log_class klass, uint64_t order)
{
	struct nspy_finding *finding = nspy_findings_add(out, id);

	finding->priority = priority;
	finding->order =
		(int)klass * (1 << 28) + (int)(order < (1u << 28) ? order : (1u << 28) - 1);
	finding->confidence = klass == NSPY_LOG_CAUSE ? NSPY_CERTAIN : NSPY_PROBABLE;
	return finding;
}

void nspy_log_quote(const struct nspy_log *log, struct nspy_finding *finding,
		    const struct nspy_log_event *event)
{
	struct nspy_str s = {0};

	nspy_str_addf(&s, "%s:%" PRIu64 ": %.300s", log->files[event->file].path, event->line,
		      event->text ? event->text : "");
	if (event->count > 1)
		nspy_str_addf(&s, " (%" PRIu64 " times)", event->count);
	nspy_texts_add(&finding->details, nspy_str_take(&s));
}

static bool known(const struct nspy_log_source *source)
{
	return source->proc->rank >= 0 || source->proc->pid >= 0 || source->label ||
	       nspy_proc_fact(source->proc, "host");
}

void nspy_log_add_who(struct nspy_str *s, struct nspy_log_source *const *sources, size_t count)
{
	const struct nspy_proc **procs = nspy_xcalloc(count + 1, sizeof(const struct nspy_proc *));
	size_t ranked = 0, others = 0;
	bool hosts = true;

	for (size_t i = 0; i < count; i++) {
		if (sources[i]->proc->rank < 0 && sources[i]->proc->pid < 0)
			continue;
		/* A pid is always told with its host. */
		hosts &= sources[i]->proc->rank >= 0 &&
			 nspy_proc_fact(sources[i]->proc, "host") != NULL;
		procs[ranked++] = sources[i]->proc;
	}
	if (ranked && hosts)
		nspy_add_procs(s, procs, ranked);
	else if (ranked)
		nspy_add_procs_short(s, procs, ranked);
	for (size_t i = 0; i < count && others < 5; i++) {
		const struct nspy_log_source *source = sources[i];
		const char *host = nspy_proc_fact(source->proc, "host");

		if (source->proc->rank >= 0 || source->proc->pid >= 0 || !known(source))
			continue;
		nspy_str_addf(s, "%s%s", s->bytes && (ranked || others) ? ", " : "",
			      source->label ? source->label : host);
		others++;
	}
	free(procs);
}

/* --- events of one finding --- */

struct group {
	const struct nspy_log_event **events;
	size_t count, capacity;
};

static int by_order(const void *a, const void *b)
{
	const struct nspy_log_event *x = *(const struct nspy_log_event *const *)a;
	const struct nspy_log_event *y = *(const struct nspy_log_event *const *)b;

	if (x->klass != y->klass)
		return x->klass < y->klass ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* A name or an address that did not answer at first and then did. */
static bool got_over(const struct nspy_log *log, const struct nspy_log_event *event)
{
	switch (event->rule) {
	case NSPY_LOG_DNS_GAI:
	case NSPY_LOG_DNS_NAME:
	case NSPY_LOG_DNS_AGAIN:
	case NSPY_LOG_CLIENT_FAILED:
	case NSPY_LOG_CLIENT_TIMEOUT:
		break;
	default:
		return false;
	}
	for (size_t i = 0; i < log->comm_count; i++) {
		if (log->comms[i]->order > event->order)
			return true;
	}
	return false;
}

static void add_sources(const struct group *group, struct nspy_log_source **ret, size_t *ret_count)
{
	*ret_count = 0;
	for (size_t i = 0; i < group->count; i++) {
		bool seen = false;

		for (size_t k = 0; k < *ret_count && !seen; k++)
			seen = ret[k] == group->events[i]->source;
		if (!seen)
			ret[(*ret_count)++] = group->events[i]->source;
	}
}

/* The peer that most of the sources complain about, if it stands out. */
static const char *common_peer(const struct group *group, size_t *ret_votes)
{
	const char *best = NULL;
	size_t most = 0, second = 0;

	for (size_t i = 0; i < group->count; i++) {
		size_t votes = 0;

		if (!group->events[i]->peer || (best && strcmp(best, group->events[i]->peer) == 0))
			continue;
		for (size_t k = 0; k < group->count; k++)
			votes += group->events[k]->peer &&
				 strcmp(group->events[k]->peer, group->events[i]->peer) == 0;
		if (votes > most) {
			second = most;
			most = votes;
			best = group->events[i]->peer;
		} else if (votes > second) {
			second = votes;
		}
	}
	*ret_votes = most;
	return most > second || group->count == 1 ? best : NULL;
}

/* The magic of a stranger as it would read: "GET /met" is a scrape of metrics. */
static void add_magic(struct nspy_str *s, const char *text)
{
	const char *p = strstr(text, "magic ");
	uint64_t value = p ? strtoull(p + 6, NULL, 16) : 0;
	char word[9] = {0};

	for (int i = 0; i < 8; i++) {
		char c = (char)(value >> (8 * i));

		if (c < 32 || c > 126)
			return;
		word[i] = c;
	}
	nspy_str_addf(s, "; its first bytes read \"%s\"", word);
	if (strncmp(word, "GET ", 4) == 0)
		nspy_str_add(s, ", an HTTP client (metrics scrape, health check or scanner)");
	else if (strncmp(word, "SSH-", 4) == 0)
		nspy_str_add(s, ", an SSH client or scanner");
}

static void add_mismatch(struct nspy_str *s, const char *text)
{
	size_t bytes = 0;
	const char *p = strstr(text, "Rank ");
	int64_t local, remote;

	if (p && strstr(p, "is running"))
		nspy_str_addf(s, ": %.260s", p);
	else if (nspy_log_number(text, "local size ", &local) &&
		 nspy_log_number(text, "remote size ", &remote))
		nspy_str_addf(s, ": %" PRId64 " bytes here, %" PRId64 " there", local, remote);
	else if (nspy_log_word(text, "truncated : ", ".", &bytes))
		nspy_str_addf(s, " (%.*s)", (int)bytes,
			      nspy_log_word(text, "truncated : ", ".", &bytes));
}

/* What the line says besides: sizes, versions, names. */
static void add_particulars(struct nspy_str *s, const struct nspy_log_event *event)
{
	switch (event->rule) {
	case NSPY_LOG_MAGIC:
	case NSPY_LOG_MAGIC2:
	case NSPY_LOG_MAGIC3:
		add_magic(s, event->text);
		break;
	case NSPY_LOG_DETAIL:
	case NSPY_LOG_IB_SIZE:
	case NSPY_LOG_SOCKET_SIZE:
		add_mismatch(s, event->text);
		break;
	case NSPY_LOG_OFI_REG:
		if (strstr(event->text, "-22"))
			nspy_str_add(s,
				     ": EINVAL, as with NCCL 2.19 or later over a libfabric older "
				     "than 1.19");
		else if (strstr(event->text, "-12"))
			nspy_str_add(s, ": ENOMEM, memlock limit or device resources");
		else if (strstr(event->text, "-14"))
			nspy_str_add(s, ": EFAULT, no way to GPU memory (peermem, dmabuf)");
		break;
	default:
		break;
	}
}

/* Several GPUs, each with its own line. */
static void add_gpus(struct nspy_str *s, const struct group *group)
{
	size_t told = 0;

	if (group->events[0]->finding != NSPY_FINDING_GPU_XID &&
	    group->events[0]->finding != NSPY_FINDING_CUDA_DEVICE_FAULT)
		return;
	for (size_t i = 0; i < group->count && told < 8; i++) {
		const char *peer = group->events[i]->peer;
		bool seen = !peer || group->events[i]->klass != group->events[0]->klass;

		for (size_t k = 0; k < i && !seen; k++)
			seen = group->events[k]->peer && strcmp(group->events[k]->peer, peer) == 0;
		if (seen)
			continue;
		nspy_str_addf(s, "%s%s", told++ ? ", " : "; GPUs ",
			      strncmp(peer, "PCI:", 4) == 0 ? peer + 4 : peer);
	}
}

static void tell(const struct nspy_log *log, const struct group *group, struct nspy_findings *out)
{
	const struct nspy_log_event *first = group->events[0];
	const char *meaning = first->meaning ? first->meaning : nspy_log_rules[first->rule].meaning;
	struct nspy_log_source **sources =
		nspy_xcalloc(group->count, sizeof(struct nspy_log_source *));
	struct nspy_finding *finding;
	struct nspy_str s = {0}, who = {0};
	const char *peer;
	size_t count, votes;
	int priority = first->priority;

	for (size_t i = 0; i < group->count; i++)
		priority = group->events[i]->priority < priority ? group->events[i]->priority
								 : priority;
	finding = nspy_log_finding(out, first->finding, priority, first->klass, first->order);
	finding->when_ns = first->when_ns;
	/* Not to find each other at the rendezvous follows from most other things. */
	if (first->finding == NSPY_FINDING_RANKS_MISSING && first->klass == NSPY_LOG_SYMPTOM)
		finding->order += 1 << 27;
	nspy_str_add(&s, meaning);
	add_particulars(&s, first);
	add_sources(group, sources, &count);
	peer = common_peer(group, &votes);
	nspy_log_add_who(&who, sources, count);
	if (!peer)
		add_gpus(&s, group);
	if (peer && first->rule != NSPY_LOG_CHAIN && first->rule != NSPY_LOG_LAGGING &&
	    first->rule != NSPY_LOG_UNFINISHED)
		nspy_str_addf(&s, "; %s%s",
			      first->finding == NSPY_FINDING_GPU_XID ||
					      first->finding == NSPY_FINDING_CUDA_DEVICE_FAULT
				      ? "GPU "
				      : "peer ",
			      strncmp(peer, "PCI:", 4) == 0 ? peer + 4 : peer);
	if (first->rank >= 0 && first->other < 0 && first->rule != NSPY_LOG_RAS_MISMATCH &&
	    first->rule != NSPY_LOG_LAGGING)
		nspy_str_addf(&s, "; rank %" PRId64, first->rank);
	else if (who.bytes && !first->nobody)
		nspy_str_addf(&s, "; %s %s", count > 1 || peer ? "seen by" : "on", who.text);
	finding->cause = nspy_xstrdup(s.text);
	finding->summary = nspy_str_take(&s);
	for (size_t i = 0; i < group->count && i < QUOTES_MAX; i++)
		nspy_log_quote(log, finding, group->events[i]);
	if (group->count > QUOTES_MAX)
		nspy_finding_detail(finding, "and %zu more lines like these",
				    group->count - QUOTES_MAX);
	nspy_log_blame(log, finding, group->events, group->count);
	nspy_str_done(&who);
	free(sources);
}

/* --- effects --- */

/* The first warning of NCCL that no rule knows. */
static bool tell_warning(const struct nspy_log *log, struct nspy_findings *out, int priority)
{
	struct nspy_finding *finding;
	struct nspy_str who = {0};

	for (size_t i = 0; i < log->event_count; i++) {
		const struct nspy_log_event *event = log->events[i];
		const char *text;

		if (event->rule != NSPY_LOG_WARN)
			continue;
		text = strstr(event->text, "NCCL WARN ");
		finding = nspy_log_finding(out, NSPY_FINDING_NCCL_CALL_FAILED, priority,
					   NSPY_LOG_SYMPTOM, event->order);
		nspy_log_add_who(&who, (struct nspy_log_source *const *)&event->source, 1);
		finding->summary =
			nspy_xasprintf("NCCL warns: %.200s%s%s", text ? text + 10 : event->text,
				       who.bytes ? "; on " : "", who.bytes ? who.text : "");
		nspy_str_done(&who);
		nspy_log_blame(log, finding, &event, 1);
		finding->cause = nspy_xstrdup(finding->summary);
		nspy_log_quote(log, finding, event);
		return true;
	}
	return false;
}

static void tell_effects(const struct nspy_log *log, struct group *effects,
			 struct nspy_findings *out)
{
	struct nspy_finding *top = out->count ? out->items[0] : NULL;

	if (!effects->count) {
		if (!top)
			tell_warning(log, out, 2);
		return;
	}
	if (!top || top->priority > 1) {
		/* A warning that no rule knows, and failed calls behind it: that is the reason. */
		if (!tell_warning(log, out, 0))
			nspy_log_judge_deaths(log, out);
		return;
	}
	for (size_t i = 0; i < effects->count && i < 5; i++) {
		const struct nspy_log_event *event = effects->events[i];

		nspy_texts_add(&top->consequences,
			       nspy_xasprintf("%s (%s:%" PRIu64 ")",
					      event->meaning ? event->meaning
							     : nspy_log_rules[event->rule].meaning,
					      log->files[event->file].path, event->line));
	}
	if (effects->count > 5)
		nspy_texts_add(&top->consequences,
			       nspy_xasprintf("%zu more lines of this kind", effects->count - 5));
}

/* --- all of it --- */

static void add(struct group *group, const struct nspy_log_event *event)
{
	group->events = nspy_grow(group->events, group->count, &group->capacity,
				  sizeof(const struct nspy_log_event *));
	group->events[group->count++] = event;
}

/* Told by the judges of judge_*.c, from several lines together. */
static bool told_elsewhere(enum nspy_log_rule_id rule)
{
	return rule == NSPY_LOG_WATCHDOG || rule == NSPY_LOG_HEARTBEAT ||
	       rule == NSPY_LOG_WATCHDOG_STUCK || rule == NSPY_LOG_TESTS_TABLE;
}

void nspy_log_judge(const struct nspy_log *log, struct nspy_findings *out)
{
	struct group *groups = nspy_xcalloc(NSPY_FINDING_COUNT, sizeof(*groups));
	struct group effects = {0};

	for (size_t i = 0; i < log->event_count; i++) {
		const struct nspy_log_event *event = log->events[i];

		if (event->klass == NSPY_LOG_EFFECT)
			add(&effects, event);
		else if (event->klass <= NSPY_LOG_SYMPTOM && event->finding != NSPY_FINDING_NONE &&
			 !told_elsewhere(event->rule) && !got_over(log, event))
			add(&groups[event->finding], event);
	}
	nspy_log_judge_env(log, out);
	nspy_log_judge_net(log, out);
	nspy_log_judge_init(log, out);
	nspy_log_judge_torch(log, out);
	nspy_log_judge_bench(log, out);
	if (log->flights)
		nspy_flights_judge(log->flights, log->model, out);
	if (log->inspector)
		nspy_inspector_judge(log->inspector, log->model, out);
	for (size_t i = 0; i < NSPY_FINDING_COUNT; i++) {
		if (groups[i].count) {
			qsort(groups[i].events, groups[i].count,
			      sizeof(const struct nspy_log_event *), by_order);
			tell(log, &groups[i], out);
		}
		free(groups[i].events);
	}
	nspy_findings_sort(out);
	tell_effects(log, &effects, out);
	nspy_findings_sort(out);
	free(effects.events);
	free(groups);
}
