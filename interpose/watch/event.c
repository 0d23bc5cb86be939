/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "event.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core.h"
#include "hook.h"
#include "outbox.h"
#include "say.h"
#include "stacks.h"

#define TOLD_MAX 16u
#define LOOKS    2u /* a verdict must hold so long, and so must its end */

static struct {
	uint64_t key; /* of the verdict that is being looked at */
	uint32_t looks;
	uint32_t looks_without;
	uint64_t first_ns; /* when it was first seen */
	uint64_t noted[TOLD_MAX];
	uint32_t noted_count;
	/* The one told last and not over yet. */
	uint64_t told_key;
	enum nspy_found_id told_id;
	uint64_t told_since_ns;
	char told_operation[160];
	char told_text[NSPY_DIGEST_TEXT];
	uint64_t heard_key; /* the last one heard of from another node */
	/* All that was told: nothing is told twice. */
	uint64_t told[TOLD_MAX];
	uint32_t told_count;
} state;

void nspy_event_start(void)
{
	memset(&state, 0, sizeof(state));
}

void nspy_event_silent(void)
{
	state.looks = 0;
	state.key = 0;
}

static bool has(const uint64_t *list, uint32_t count, uint64_t key)
{
	for (uint32_t i = 0; i < count && i < TOLD_MAX; i++)
		if (list[i] == key)
			return true;
	return false;
}

static bool was_told(uint64_t key)
{
	return has(state.told, state.told_count, key);
}

/* --- events.jsonl --- */

static void add_json(char *out, size_t bytes, const char *key, const char *text)
{
	size_t n;

	nspy_tell(out, bytes, ",\"%s\":\"", key);
	n = strnlen(out, bytes);
	for (; *text && n + 4 < bytes; text++) {
		if (*text == '"' || *text == '\\')
			out[n++] = '\\';
		out[n++] = (unsigned char)*text < 0x20 ? ' ' : *text;
	}
	out[n] = '\0';
	nspy_tell(out, bytes, "\"");
}

static void add_culprits(char *out, size_t bytes, const struct nspy_verdict *v,
			 const struct nspy_status *pages)
{
	nspy_tell(out, bytes, ",\"culprits\":[");
	for (uint32_t i = 0; i < v->culprit_count && i < NSPY_CULPRITS_MAX; i++) {
		const struct nspy_status *page = &pages[v->culprits[i]];
		char node[2 * sizeof(page->node)] = "";

		add_json(node, sizeof(node), "node", page->node);
		nspy_tell(out, bytes, "%s{\"rank\":%" PRId32 ",\"pid\":%" PRIu32 "%s}",
			  i ? "," : "", page->rank, page->pid, node);
	}
	nspy_tell(out, bytes, "]");
}

static void record(const char *what, const struct nspy_verdict *v, const struct nspy_status *pages,
		   uint64_t now_ns)
{
	char out[NSPY_OUTBOX_LINE_MAX] = "";
	struct timespec real;

	clock_gettime(CLOCK_REALTIME, &real);
	nspy_tell(out, sizeof(out), "{\"time_ns\":%lld%09ld", (long long)real.tv_sec, real.tv_nsec);
	add_json(out, sizeof(out), "event", what);
	add_json(out, sizeof(out), "id", nspy_catalog[v->id].id);
	nspy_tell(out, sizeof(out), ",\"priority\":\"P%d\"", v->priority);
	add_json(out, sizeof(out), "job", nspy_core.id.job);
	add_json(out, sizeof(out), "node", nspy_core.id.node);
	nspy_tell(out, sizeof(out), ",\"rank\":%d,\"waited_s\":%llu,\"waiters\":%" PRIu32,
		  nspy_core.id.rank, nspy_seconds(now_ns - v->since_ns), v->waiters);
	add_json(out, sizeof(out), "operation", v->operation);
	add_json(out, sizeof(out), "summary", v->headline);
	add_json(out, sizeof(out), "verdict", v->cause);
	if (pages)
		add_culprits(out, sizeof(out) - 4, v, pages);
	nspy_tell(out, sizeof(out), "}\n");
	(void)nspy_outbox_put(out, strlen(out));
	/* Notes are for the file alone. */
	if (strcmp(what, "note") != 0)
		nspy_hook_put(out, strlen(out));
}

/* --- stderr --- */

static void print(const struct nspy_verdict *v, const char *job_dir)
{
	const struct nspy_catalog_entry *info = &nspy_catalog[v->id];
	char first[NSPY_LINE_BYTES + 64], second[NSPY_LINE_BYTES + 40], last[NSPY_LINE_BYTES];
	const char *texts[NSPY_LINES_MAX + 1];
	size_t n = 0;

	(void)snprintf(first, sizeof(first), "P%d %s %s", v->priority, info->id, v->headline);
	(void)snprintf(second, sizeof(second), "VERDICT: %s. page: %s. do: %s. restart: %s",
		       v->cause, v->owner ? v->owner : info->owner,
		       v->action ? v->action : info->action, info->restart);
	(void)snprintf(last, sizeof(last),
		       "-> references/%s section %d   ncclspy explain %s   report: ncclspy-analyze "
		       "report %.160s",
		       info->page, info->section, info->id, job_dir);
	texts[n++] = first;
	texts[n++] = second;
	for (uint32_t i = 0; i < v->line_count && n < NSPY_LINES_MAX; i++)
		texts[n++] = v->lines[i];
	texts[n++] = last;
	(void)nspy_say_block(v->priority < 2 ? NSPY_SAY_FAIL : NSPY_SAY_WARN, texts, n);
}

static void tell(const struct nspy_verdict *v, const struct nspy_status *pages, uint64_t now_ns)
{
	state.told[state.told_count++ % TOLD_MAX] = v->key;
	state.told_key = v->key;
	state.told_id = v->id;
	state.told_since_ns = v->since_ns;
	(void)snprintf(state.told_operation, sizeof(state.told_operation), "%s", v->operation);
	state.told_text[0] = '\0';
	nspy_tell(state.told_text, sizeof(state.told_text), "P%d %s %s", v->priority,
		  nspy_catalog[v->id].id, v->headline);
	record("finding", v, pages, now_ns);
	print(v, pages[0].job_dir);
	if (v->culprit_count)
		nspy_stacks_blame(nspy_catalog[v->id].id, &pages[v->culprits[0]]);
}

void nspy_event_tell_aside(const struct nspy_verdict *v, uint64_t now_ns)
{
	const char *dir = nspy_core.id.dir, *slash = strrchr(dir, '/');
	char job_dir[NSPY_PATH_MAX];

	(void)snprintf(job_dir, sizeof(job_dir), "%.*s", slash ? (int)(slash - dir) : 0, dir);
	record("finding", v, NULL, now_ns);
	print(v, job_dir);
}

void nspy_event_command(const struct nspy_command *command)
{
	const char *verb = nspy_control_verb_name(command->verb);
	char out[NSPY_OUTBOX_LINE_MAX] = "", text[NSPY_LINE_BYTES];
	const char *texts[] = {text};
	struct timespec real;

	clock_gettime(CLOCK_REALTIME, &real);
	nspy_tell(out, sizeof(out), "{\"time_ns\":%lld%09ld", (long long)real.tv_sec, real.tv_nsec);
	add_json(out, sizeof(out), "event", "command");
	nspy_tell(out, sizeof(out), ",\"given_ns\":%" PRIu64, command->id);
	add_json(out, sizeof(out), "command", verb);
	add_json(out, sizeof(out), "text", command->text);
	add_json(out, sizeof(out), "job", nspy_core.id.job);
	add_json(out, sizeof(out), "node", nspy_core.id.node);
	nspy_tell(out, sizeof(out), ",\"rank\":%d}\n", nspy_core.id.rank);
	(void)nspy_outbox_put(out, strlen(out));
	(void)snprintf(text, sizeof(text), "ncclspy-ctl: %s%s%s", verb, command->text[0] ? " " : "",
		       command->text);
	(void)nspy_say_block(NSPY_SAY_INFO, texts, 1);
}

void nspy_event_digest(struct nspy_digest *ret)
{
	ret->key = state.told_key;
	(void)snprintf(ret->text, sizeof(ret->text), "%s", state.told_key ? state.told_text : "");
}

/* The text begins "P0 ID". */
static void hear_id(const struct nspy_digest *digest, struct nspy_status *own)
{
	const char *id = digest->text + strcspn(digest->text, " ");

	id += *id == ' ';
	(void)snprintf(own->event_id, sizeof(own->event_id), "%.*s", (int)strcspn(id, " "),
		       digest->key ? id : "");
}

void nspy_event_hear(const struct nspy_digest *digest, struct nspy_status *own)
{
	char text[NSPY_DIGEST_TEXT + 100];
	const char *texts[] = {text};

	if (digest->key && digest->key != state.heard_key && digest->key != own->event_key &&
	    !was_told(digest->key)) {
		(void)snprintf(text, sizeof(text), "%.300s (in full on node %s)", digest->text,
			       digest->node);
		(void)nspy_say_block(NSPY_SAY_FAIL, texts, 1);
		state.told[state.told_count++ % TOLD_MAX] = digest->key;
	}
	state.heard_key = digest->key;
	own->event_key = digest->key;
	hear_id(digest, own);
}

bool nspy_event_in_full(const struct nspy_status *own)
{
	return own->event_key && own->event_key == state.told_key;
}

/* A dead rank or a disagreement is not over when nothing waits any more; lateness comes and goes.
 */
static bool can_resume(enum nspy_found_id id)
{
	return id != NSPY_FOUND_RANK_DIED && id != NSPY_FOUND_RANK_CRASHED &&
	       id != NSPY_FOUND_STRAGGLER_RANK && id != NSPY_FOUND_COLLECTIVE_MISMATCH;
}

static void tell_end(uint64_t now_ns)
{
	struct nspy_verdict v = {.id = state.told_id, .since_ns = state.told_since_ns};
	char text[NSPY_LINE_BYTES];
	const char *texts[] = {text};

	if (can_resume(state.told_id)) {
		(void)snprintf(text, sizeof(text), "%s: %s resumed after %llu s",
			       nspy_catalog[state.told_id].id, state.told_operation,
			       nspy_seconds(now_ns - state.told_since_ns));
		v.priority = nspy_catalog[v.id].priority;
		(void)snprintf(v.operation, sizeof(v.operation), "%s", state.told_operation);
		(void)snprintf(v.headline, sizeof(v.headline), "%s", text);
		record("end", &v, NULL, now_ns);
		(void)nspy_say_block(NSPY_SAY_INFO, texts, 1);
	}
	state.told_key = 0;
}

static void look(const struct nspy_verdict *v, uint64_t now_ns)
{
	if (v->id == NSPY_FOUND_NONE) {
		state.looks_without++;
		state.looks = 0;
		state.key = 0;
		return;
	}
	state.looks_without = 0;
	if (v->key != state.key) {
		state.key = v->key;
		state.looks = 0;
		state.first_ns = now_ns;
	}
	state.looks++;
}

void nspy_event_take(const struct nspy_verdict *v, const struct nspy_status *pages, uint64_t now_ns,
		     uint64_t told_before, struct nspy_status *own)
{
	look(v, now_ns);
	if (v->id != NSPY_FOUND_NONE && state.looks >= LOOKS &&
	    now_ns >= state.first_ns + v->hold_ns) {
		if (v->note && !has(state.noted, state.noted_count, v->key) && !was_told(v->key)) {
			state.noted[state.noted_count++ % TOLD_MAX] = v->key;
			record("note", v, pages, now_ns);
		} else if (!v->note && !was_told(v->key) && v->key == told_before) {
			/* The process that spoke before us has told it; its end is ours to tell. */
			state.told[state.told_count++ % TOLD_MAX] = v->key;
			state.told_key = v->key;
			state.told_id = v->id;
			state.told_since_ns = v->since_ns;
			(void)snprintf(state.told_operation, sizeof(state.told_operation), "%s",
				       v->operation);
		} else if (!v->note && !was_told(v->key)) {
			tell(v, pages, now_ns);
		}
	}
	if (state.told_key && state.looks_without >= LOOKS)
		tell_end(now_ns);
	own->event_key = state.told_key;
	own->event_since_ns = state.told_since_ns;
	(void)snprintf(own->event_id, sizeof(own->event_id), "%s",
		       state.told_key ? nspy_catalog[state.told_id].id : "");
}
