/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../foreign/flight.h"
#include "../foreign/foreign.h"
#include "text.h"

#define HITS_MAX 24u

const struct nspy_log_rule nspy_log_rules[NSPY_LOG_RULE_COUNT] = {
#define NSPY_LOG_RULE(n, c, f, p, from, to, text, too, no, what)                                   \
	[NSPY_LOG_##n] = {.name = #n,                                                              \
			  .klass = NSPY_LOG_##c,                                                   \
			  .finding = NSPY_FINDING_##f,                                             \
			  .priority = (p),                                                         \
			  .since = (from),                                                         \
			  .until = (to),                                                           \
			  .fragment = (text),                                                      \
			  .also = (too),                                                           \
			  .unless = (no),                                                          \
			  .meaning = (what)},
#include "rules.def"
#undef NSPY_LOG_RULE
};

/* --- words --- */

uint64_t nspy_log_hash(const char *text, size_t bytes)
{
	uint64_t h = 1469598103934665603ull;

	for (size_t i = 0; i < bytes; i++)
		h = (h ^ (unsigned char)text[i]) * 1099511628211ull;
	return nspy_mix(h);
}

bool nspy_log_has(const char *text, const char *words)
{
	char word[64];

	while (*words) {
		size_t n = strcspn(words, "|");

		if (n < sizeof(word)) {
			memcpy(word, words, n);
			word[n] = '\0';
			if (strcasestr(text, word))
				return true;
		}
		words += n + (words[n] == '|');
	}
	return false;
}

bool nspy_log_number(const char *text, const char *key, int64_t *ret_number)
{
	const char *p = strstr(text, key);
	char *end;
	long long value;

	if (!p)
		return false;
	p += strlen(key);
	while (*p == ' ' || *p == '=' || *p == ':' || *p == '\'' || *p == '#')
		p++;
	if (!isdigit((unsigned char)*p) && *p != '-')
		return false;
	value = strtoll(p, &end, p[0] == '0' && p[1] == 'x' ? 16 : 10);
	if (end == p)
		return false;
	*ret_number = value;
	return true;
}

const char *nspy_log_word(const char *text, const char *key, const char *stop, size_t *ret_bytes)
{
	const char *p = strcasestr(text, key);
	size_t n;

	if (!p)
		return NULL;
	p += strlen(key);
	while (*p == ' ')
		p++;
	n = strcspn(p, stop);
	if (n == 0 || n > 200)
		return NULL;
	*ret_bytes = n;
	return p;
}

void nspy_log_keep(char **slot, const char *text, size_t bytes)
{
	if (*slot || !text || bytes == 0)
		return;
	*slot = nspy_xstrndup(text, bytes < NSPY_LOG_SHOWN_MAX ? bytes : NSPY_LOG_SHOWN_MAX);
	nspy_clean(*slot);
}

/* --- life --- */

/* The same for all logs, and kept until the end of the program. */
static const struct nspy_matcher *matcher;

static void make_matcher(void)
{
	const char *fragments[NSPY_LOG_RULE_COUNT];

	for (size_t i = 0; i < NSPY_LOG_RULE_COUNT; i++)
		fragments[i] = nspy_log_rules[i].fragment;
	matcher = nspy_matcher_new(fragments, NSPY_LOG_RULE_COUNT);
}

struct nspy_log *nspy_log_new(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct nspy_log *log = nspy_xcalloc(1, sizeof(*log));

	pthread_once(&once, make_matcher);
	log->matcher = matcher;
	log->model = nspy_model_new("logs");
	return log;
}

static void source_free(struct nspy_log_source *source)
{
	free(source->label);
	free(source->version);
	free(source->network);
	free(source->provider);
	free(source->exception);
	free(source->gpu);
	free(source->pg);
	free(source->op);
	free(source);
}

static void event_free(struct nspy_log_event *event)
{
	free(event->peer);
	free(event->meaning);
	free(event->text);
	free(event);
}

void nspy_log_free(struct nspy_log *log)
{
	if (!log)
		return;
	for (size_t i = 0; i < log->source_count; i++)
		source_free(log->sources[i]);
	for (size_t i = 0; i < log->event_count; i++)
		event_free(log->events[i]);
	for (size_t i = 0; i < log->comm_count; i++) {
		free(log->comms[i]->members);
		free(log->comms[i]);
	}
	for (size_t i = 0; i < log->file_count; i++)
		free(log->files[i].path);
	for (size_t i = 0; i < log->run_count; i++) {
		for (size_t h = 0; h < log->runs[i].host_count; h++)
			free(log->runs[i].hosts[h]);
	}
	for (size_t i = 0; i < log->env_count; i++) {
		free(log->envs[i]->name);
		free(log->envs[i]->value);
		free(log->envs[i]);
	}
	free(log->sources);
	free(log->events);
	free(log->comms);
	free(log->files);
	free(log->runs);
	free(log->envs);
	free(log->gdr_text);
	nspy_map_done(&log->by_name);
	nspy_map_done(&log->by_rank);
	nspy_map_done(&log->by_event);
	nspy_map_done(&log->by_comm);
	nspy_map_done(&log->env);
	nspy_map_done(&log->gdr_ways);
	nspy_flights_free(log->flights);
	nspy_inspector_free(log->inspector);
	nspy_model_free(log->model);
	free(log);
}

/* --- sources --- */

static void set_host(struct nspy_log_source *source, const char *host, size_t bytes)
{
	if (bytes && !nspy_proc_fact(source->proc, "host"))
		nspy_proc_set_fact(source->proc, "host", 4, host, bytes < 255 ? bytes : 255);
}

static struct nspy_log_source *new_source(struct nspy_log *log)
{
	struct nspy_log_source *source;

	if (log->source_count >= NSPY_LOG_SOURCES_MAX)
		return log->sources[log->source_count - 1];
	source = nspy_xcalloc(1, sizeof(*source));
	source->proc = nspy_model_add_proc(log->model, log->source_count + 1);
	source->file = log->file_count ? (uint32_t)(log->file_count - 1) : 0;
	source->first_line = log->order;
	source->seq = source->enqueued = source->completed = source->numel_in = -1;
	source->numel_out = source->ran_ms = source->pg_rank = -1;
	source->table_rank = source->waited_seq = -1;
	log->sources = nspy_grow(log->sources, log->source_count, &log->source_capacity,
				 sizeof(struct nspy_log_source *));
	log->sources[log->source_count++] = source;
	return source;
}

static struct nspy_log_source *named(struct nspy_log *log, uint64_t key)
{
	struct nspy_log_source *source = nspy_map_get(&log->by_name, key);

	if (!source) {
		source = new_source(log);
		nspy_map_put(&log->by_name, key, source);
	}
	return source;
}

struct nspy_log_source *nspy_log_rank(struct nspy_log *log, int64_t rank)
{
	struct nspy_log_source *source = nspy_map_get(&log->by_rank, (uint64_t)rank + 1);

	if (!source) {
		source = new_source(log);
		source->proc->rank = rank;
		nspy_map_put(&log->by_rank, (uint64_t)rank + 1, source);
	}
	return source;
}

/* A process by host and pid; what the launcher says of its rank joins it to that rank's lines. */
static struct nspy_log_source *process(struct nspy_log *log, const struct nspy_log_who *who)
{
	uint64_t key = nspy_log_hash(who->host, who->host_bytes) ^ nspy_mix((uint64_t)who->pid);
	struct nspy_log_source *source = nspy_map_get(&log->by_name, key);

	if (!source) {
		if (who->rank >= 0) {
			source = nspy_map_get(&log->by_rank, (uint64_t)who->rank + 1);
			if (source && source->proc->pid >= 0)
				source = NULL; /* started again, or another job */
		}
		if (!source)
			source = new_source(log);
		nspy_map_put(&log->by_name, key, source);
	}
	if (who->rank >= 0 && source->proc->rank < 0) {
		source->proc->rank = who->rank;
		nspy_map_put(&log->by_rank, (uint64_t)who->rank + 1, source);
	}
	if (source->proc->pid < 0)
		source->proc->pid = who->pid;
	set_host(source, who->host, who->host_bytes);
	return source;
}

struct nspy_log_source *nspy_log_source(struct nspy_log *log, const struct nspy_log_who *who)
{
	struct nspy_log_source *source;

	if (who->host && who->pid >= 0) {
		source = process(log, who);
	} else if (who->rank >= 0) {
		source = nspy_log_rank(log, who->rank);
		set_host(source, who->host, who->host_bytes);
	} else if (who->label) {
		source = named(log, nspy_log_hash(who->label, who->label_bytes));
		if (strncmp(who->label, "node", 4) == 0 || strncmp(who->label, "host", 4) == 0)
			set_host(source, who->label, who->label_bytes);
	} else if (who->pg_rank >= 0) {
		source = nspy_log_rank(log, who->pg_rank);
	} else {
		source = named(log, nspy_mix(log->file_count));
	}
	if (who->label)
		nspy_log_keep(&source->label, who->label, who->label_bytes);
	return source;
}

/* --- events --- */

struct nspy_log_event *nspy_log_event(struct nspy_log_look *look, enum nspy_log_rule_id rule,
				      int64_t number, const char *peer, size_t peer_bytes)
{
	struct nspy_log *log = look->log;
	const struct nspy_log_rule *r = &nspy_log_rules[rule];
	uint64_t key = nspy_mix((uint64_t)rule + 1) ^ nspy_mix((uintptr_t)look->source) ^
		       nspy_mix((uint64_t)number + 77) ^
		       (peer ? nspy_log_hash(peer, peer_bytes) : 0);
	struct nspy_log_event *event = nspy_map_get(&log->by_event, key);

	if (event) {
		event->count++;
		return event;
	}
	if (log->event_count >= NSPY_LOG_EVENTS_MAX) {
		log->events_lost++;
		return log->events[log->event_count - 1];
	}
	event = nspy_xcalloc(1, sizeof(*event));
	*event = (struct nspy_log_event){
		.rule = rule,
		.finding = r->finding,
		.klass = r->klass,
		.priority = r->priority,
		.source = look->source,
		.order = log->order,
		.when_ns = look->who.when_ns,
		.count = 1,
		.file = (uint32_t)(log->file_count - 1),
		.line = look->line->number,
		.number = number,
		.rank = -1,
		.other = -1,
	};
	nspy_log_keep(&event->peer, peer, peer_bytes);
	nspy_log_keep(&event->text, look->line->text, look->line->bytes);
	log->events = nspy_grow(log->events, log->event_count, &log->event_capacity,
				sizeof(struct nspy_log_event *));
	log->events[log->event_count++] = event;
	nspy_map_put(&log->by_event, key, event);
	return event;
}

/* Whom a line complains about: an address behind "peer", "from", "to" or "with". */
static const char *peer_of(const char *text, size_t *ret_bytes)
{
	static const char *const keys[] = {"remote peer ", "from peer ", "peer ",
					   "connect to ",  "recv from ", "send to ",
					   "connect to ("};

	for (size_t i = 0; i < nspy_array_size(keys); i++) {
		const char *p = nspy_log_word(text, keys[i], " ,;)", ret_bytes);

		if (p && (memchr(p, '<', *ret_bytes) || memchr(p, '.', *ret_bytes))) {
			/* The port differs from connection to connection. */
			const char *port = memchr(p, '<', *ret_bytes);

			if (port)
				*ret_bytes = (size_t)(port - p);
			return *ret_bytes ? p : NULL;
		}
	}
	return NULL;
}

/* --- lines --- */

static bool applies(const struct nspy_log_rule *rule, const char *text)
{
	return (!rule->also[0] || nspy_log_has(text, rule->also)) &&
	       (!rule->unless[0] || !nspy_log_has(text, rule->unless));
}

static void take_rule(struct nspy_log_look *look, enum nspy_log_rule_id rule)
{
	size_t peer_bytes = 0;
	const char *text = look->line->text, *peer = peer_of(text, &peer_bytes);
	bool pair = rule == NSPY_LOG_DETAIL || rule == NSPY_LOG_DETAIL2 ||
		    rule == NSPY_LOG_DDP_PARAMS || rule == NSPY_LOG_DUP_GPU;
	bool gpu = nspy_log_rules[rule].finding == NSPY_FINDING_CUDA_DEVICE_FAULT;
	struct nspy_log_event *event;

	if (gpu && !peer)
		peer = nspy_log_pci(text, &peer_bytes);
	if (rule == NSPY_LOG_OFF_BUS && !peer && look->source->gpu) {
		peer = look->source->gpu;
		peer_bytes = strlen(peer);
	}
	/* Each pair of ranks is an event of its own. */
	event = nspy_log_event(look, rule,
			       pair ? (int64_t)(nspy_log_hash(text, look->line->bytes) >> 1) : 0,
			       peer, peer_bytes);
	if (pair)
		nspy_log_pair(event, text);

	/* After its first abort a process only reports what follows from it. */
	if (event->count == 1 && look->source->aborting && event->klass != NSPY_LOG_NOISE)
		event->klass = NSPY_LOG_EFFECT;
	if (event->klass != NSPY_LOG_NOISE)
		look->source->trouble++;
}

/* From the line's start to its message. */
static void find_who(struct nspy_log_look *look, const struct nspy_hit *hits, size_t count)
{
	const char *text = look->line->text;
	const char *nccl = strstr(text, " NCCL ");
	size_t limit = hits[0].end - strlen(nspy_log_rules[hits[0].pattern].fragment);
	struct nspy_log_who known = look->who;

	for (size_t i = 1; i < count; i++) {
		size_t begin = hits[i].end - strlen(nspy_log_rules[hits[i].pattern].fragment);

		limit = begin < limit ? begin : limit;
	}
	if (nccl && (size_t)(nccl - text) < 512)
		limit = (size_t)(nccl - text) > limit ? (size_t)(nccl - text) : limit;
	if (limit > 512)
		limit = 512;
	nspy_log_prefix(text, limit < look->line->bytes ? limit : look->line->bytes, &look->who);
	if (!look->who.label && known.label) {
		look->who.label = known.label;
		look->who.label_bytes = known.label_bytes;
	}
	look->source = nspy_log_source(look->log, &look->who);
	look->source->last_line = look->log->order;
	if (look->who.when_ns) {
		if (!look->log->first_ns || look->who.when_ns < look->log->first_ns)
			look->log->first_ns = look->who.when_ns;
		if (look->who.when_ns > look->log->last_ns)
			look->log->last_ns = look->who.when_ns;
	}
}

static void take_hits(struct nspy_log_look *look, const struct nspy_hit *hits, size_t count)
{
	unsigned best = NSPY_LOG_RULE_COUNT;
	bool applied[HITS_MAX], any = false;

	for (size_t i = 0; i < count; i++) {
		applied[i] = applies(&nspy_log_rules[hits[i].pattern], look->line->text);
		any |= applied[i];
		if (applied[i] && nspy_log_rules[hits[i].pattern].klass != NSPY_LOG_FACT &&
		    hits[i].pattern < best)
			best = hits[i].pattern;
	}
	if (!any)
		return;
	find_who(look, hits, count);
	if (best < NSPY_LOG_RULE_COUNT)
		take_rule(look, best);
	for (size_t i = 0; i < count; i++) {
		if (!applied[i] || nspy_log_rules[hits[i].pattern].klass != NSPY_LOG_FACT)
			continue;
		/* What is left for lines that nothing else explains. */
		if (best < NSPY_LOG_RULE_COUNT &&
		    (hits[i].pattern == NSPY_LOG_PYTHON_ERROR ||
		     hits[i].pattern == NSPY_LOG_CHAIN || hits[i].pattern == NSPY_LOG_WARN))
			continue;
		look->at = hits[i].end;
		nspy_log_take(look, hits[i].pattern);
	}
}

size_t nspy_log_rules_for(const struct nspy_log *log, const char *text,
			  enum nspy_log_rule_id *ret_rules, size_t limit)
{
	struct nspy_hit hits[HITS_MAX];
	size_t count = nspy_matcher_run(log->matcher, text, strlen(text), hits, HITS_MAX),
	       given = 0;
	unsigned best = NSPY_LOG_RULE_COUNT;

	for (size_t i = 0; i < count; i++) {
		if (nspy_log_rules[hits[i].pattern].klass != NSPY_LOG_FACT &&
		    applies(&nspy_log_rules[hits[i].pattern], text) && hits[i].pattern < best)
			best = hits[i].pattern;
	}
	if (best < NSPY_LOG_RULE_COUNT && limit)
		ret_rules[given++] = best;
	for (size_t i = 0; i < count && given < limit; i++) {
		if (nspy_log_rules[hits[i].pattern].klass == NSPY_LOG_FACT &&
		    applies(&nspy_log_rules[hits[i].pattern], text))
			ret_rules[given++] = hits[i].pattern;
	}
	return given;
}

static void take_line(void *arg, struct nspy_line *line)
{
	struct nspy_log *log = arg;
	struct nspy_hit hits[HITS_MAX];
	struct nspy_log_look look = {.log = log, .line = line};
	size_t count;

	log->order++;
	count = nspy_matcher_run(log->matcher, line->text, line->bytes, hits, HITS_MAX);
	if (count == 0) {
		if (log->in_table)
			nspy_log_table_row(log, line);
		return;
	}
	if (line->text[0] == '{' && nspy_log_unwrap(line, &look.who))
		count = nspy_matcher_run(log->matcher, line->text, line->bytes, hits, HITS_MAX);
	if (memchr(line->text, '\x1b', line->bytes)) {
		nspy_line_strip_escapes(line);
		count = nspy_matcher_run(log->matcher, line->text, line->bytes, hits, HITS_MAX);
	}
	if (count)
		take_hits(&look, hits, count);
}

void nspy_log_read(struct nspy_log *log, const char *path, struct nspy_stream *stream)
{
	struct nspy_log_file *file;
	uint64_t before = log->order, cut;

	log->files =
		nspy_grow(log->files, log->file_count, &log->file_capacity, sizeof(*log->files));
	file = &log->files[log->file_count++];
	*file = (struct nspy_log_file){.path = nspy_xstrdup(path)};
	nspy_clean(file->path);
	log->in_table = log->in_traceback = false;
	cut = nspy_lines_each(stream, take_line, log);
	file->lines = log->order - before;
	file->cut = cut;
}
