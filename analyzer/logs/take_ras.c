/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of ncclras (NCCL 2.24 and later): a heading says what is wrong, the lines below it with
 * whom. Source of the format: src/ras/client_support.cc of NCCL. Of groups of ranks that differ
 * the largest is not listed, and it may be the one that is behind.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

static struct nspy_log_ras *state_of(struct nspy_log_look *look)
{
	return &look->log->ras;
}

/* "managed by process 17 on node a" or "Process 17 on node a managing GPU 0" */
static struct nspy_log_source *process_of(struct nspy_log_look *look, int64_t rank)
{
	struct nspy_log_who who = {.pid = -1, .rank = rank, .pg_rank = -1};
	const char *text = look->line->text;

	who.host = nspy_log_word(text, "on node ", " ,", &who.host_bytes);
	if (!nspy_log_number(text, "rocess ", &who.pid))
		who.pid = -1;
	if (!who.host && rank < 0)
		return look->source;
	return nspy_log_source(look->log, &who);
}

static struct nspy_log_event *say(struct nspy_log_look *look, enum nspy_log_rule_id rule,
				  struct nspy_log_source *source, int64_t number)
{
	struct nspy_log_source *own = look->source;
	struct nspy_log_event *event;

	look->source = source;
	event = nspy_log_event(look, rule, number, NULL, 0);
	event->klass = NSPY_LOG_SYMPTOM;
	source->trouble++;
	look->source = own;
	return event;
}

/* --- operation counts --- */

static void name_behind(struct nspy_log_ras *ras)
{
	struct nspy_log_event *event = ras->event;

	free(event->meaning);
	event->meaning = nspy_xasprintf(
		"RAS: ranks have come to different operations%s%.20s; those with the lower count "
		"(%" PRId64 " against %" PRId64 ") hold up the others%s",
		ras->kind[0] ? " of " : "", ras->kind, ras->low, ras->high,
		ras->low_unlisted ? ": they are most of the ranks" : "");
}

/* A group, or one rank, has launched up to `op`. */
static void count_op(struct nspy_log_look *look, int64_t op, struct nspy_log_source *source)
{
	struct nspy_log_ras *ras = state_of(look);

	if (!ras->event)
		return;
	if (ras->low < 0 || op < ras->low) {
		ras->low = op;
		ras->low_unlisted = true;
		/* Who was the lowest is not any more. */
		for (size_t i = 0; i < ras->behind_count; i++)
			ras->behind[i]->nobody = true;
		ras->behind_count = 0;
	}
	ras->high = op > ras->high ? op : ras->high;
	if (source && op == ras->low) {
		struct nspy_log_event *event =
			say(look, NSPY_LOG_RAS_COUNTS, source, ras->serial * 65536 + 1);

		event->priority = 1;
		ras->low_unlisted = false;
		if (!event->meaning)
			event->meaning =
				nspy_xstrdup(ras->event->meaning ? ras->event->meaning : "");
		if (ras->behind_count < nspy_array_size(ras->behind))
			ras->behind[ras->behind_count++] = event;
	}
	if (ras->high > ras->low)
		name_behind(ras);
}

static void begin_counts(struct nspy_log_look *look)
{
	struct nspy_log_ras *ras = state_of(look);
	size_t bytes = 0;
	const char *kind = nspy_log_word(look->line->text, "have different ", " ", &bytes);

	*ras = (struct nspy_log_ras){
		.section = NSPY_RAS_COUNTS, .serial = ras->serial + 1, .low = -1, .high = -1};
	if (kind && bytes < sizeof(ras->kind) && strncmp(kind, "operation", bytes) != 0)
		memcpy(ras->kind, kind, bytes);
	ras->event = say(look, NSPY_LOG_RAS_COUNTS, look->source, ras->serial * 65536);
	ras->event->nobody = true;
	ras->event->priority = 1; /* a running job may show this for a moment */
}

/* "7 ranks have launched up to operation 12", "Rank 3 has launched ... -- GPU 3 managed by ..." */
static void take_launched(struct nspy_log_look *look)
{
	const char *text = look->line->text, *p = strstr(text, "Rank ");
	int64_t op = 0, rank = -1;

	if (!nspy_log_number(text, "up to operation ", &op))
		op = 0;
	if (p && !nspy_log_number(p, "Rank ", &rank))
		rank = -1;
	state_of(look)->op = op;
	count_op(look, op, rank >= 0 ? process_of(look, rank) : NULL);
}

/* --- other sections --- */

static void take_status(struct nspy_log_look *look, int64_t rank)
{
	const char *text = look->line->text;
	bool init = strstr(text, "status INIT") != NULL,
	     abort = strstr(text, "status ABORT") != NULL;
	struct nspy_log_event *event;

	if (!init && !abort)
		return;
	event = say(look, NSPY_LOG_RAS_RANK, process_of(look, rank), 2);
	event->finding = init ? NSPY_FINDING_INIT_TIMEOUT : NSPY_FINDING_COMM_ABORTED;
	event->priority = 1;
	if (!event->meaning)
		event->meaning = nspy_xstrdup(
			init ? "RAS: a communicator is still being created on some ranks only"
			     : "RAS: a communicator was aborted on some ranks only");
}

/* "Rank 3 -- GPU 3 managed by process 17 on node a" and what stands in it */
static void take_rank(struct nspy_log_look *look)
{
	struct nspy_log_ras *ras = state_of(look);
	const char *text = look->line->text, *p = strstr(text, "Rank ");
	struct nspy_log_event *event;
	int64_t rank = -1;

	if (!p || !nspy_log_number(p, "Rank ", &rank) || rank < 0)
		return;
	switch (ras->section) {
	case NSPY_RAS_COUNTS:
		/* With a count of its own it came through take_launched. */
		if (!strstr(text, "launched"))
			count_op(look, ras->op, process_of(look, rank));
		return;
	case NSPY_RAS_INCOMPLETE:
		say(look, NSPY_LOG_RAS_INCOMPLETE, process_of(look, rank), 0);
		return;
	case NSPY_RAS_ERRORS:
		event = say(look, NSPY_LOG_RAS_RANK, process_of(look, rank), 1);
		event->finding = NSPY_FINDING_NCCL_CALL_FAILED;
		if (!event->meaning)
			event->meaning = nspy_xstrdup("RAS: NCCL reports an error of a "
						      "communicator");
		return;
	case NSPY_RAS_STATUS:
		take_status(look, rank);
		return;
	default:
		return;
	}
}

/* "Process 17 on node a managing GPU 0" */
static void take_process(struct nspy_log_look *look)
{
	struct nspy_log_ras *ras = state_of(look);

	if (ras->section == NSPY_RAS_DEAD)
		say(look, NSPY_LOG_RAS_DEAD, process_of(look, -1), 0);
	else if (ras->section == NSPY_RAS_INCOMPLETE)
		say(look, NSPY_LOG_RAS_INCOMPLETE, process_of(look, -1), 0);
}

static void begin(struct nspy_log_look *look, enum nspy_ras_section section,
		  enum nspy_log_rule_id rule)
{
	struct nspy_log_ras *ras = state_of(look);

	*ras = (struct nspy_log_ras){.section = section, .serial = ras->serial + 1};
	if (rule == NSPY_LOG_RULE_COUNT)
		return;
	if (strstr(look->line->text, "on node "))
		say(look, rule, process_of(look, -1), 0);
	else
		say(look, rule, look->source, 0)->nobody = true;
}

void nspy_log_take_ras(struct nspy_log_look *look, enum nspy_log_rule_id rule)
{
	switch (rule) {
	case NSPY_LOG_RAS_COUNTS:
		begin_counts(look);
		return;
	case NSPY_LOG_RAS_LAUNCHED:
	case NSPY_LOG_RAS_IDLE:
		take_launched(look);
		return;
	case NSPY_LOG_RAS_DEAD:
		begin(look, NSPY_RAS_DEAD, rule);
		return;
	case NSPY_LOG_RAS_INCOMPLETE:
		begin(look, NSPY_RAS_INCOMPLETE, rule);
		return;
	case NSPY_LOG_RAS_ERRORS:
	case NSPY_LOG_RAS_ERRORS2:
		begin(look, NSPY_RAS_ERRORS, NSPY_LOG_RULE_COUNT);
		return;
	case NSPY_LOG_RAS_STATUS:
		begin(look, NSPY_RAS_STATUS, NSPY_LOG_RULE_COUNT);
		return;
	case NSPY_LOG_RAS_PROCESS:
		take_process(look);
		return;
	default:
		take_rank(look);
		return;
	}
}
