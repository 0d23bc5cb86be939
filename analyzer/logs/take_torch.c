/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's watchdog, its desync report, and the text of its flight-recorder tool. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

/* The global rank of these lines is the launcher's; without one the group's rank stands for it. */
static void take_group(struct nspy_log_look *look)
{
	size_t bytes = 0;
	const char *pg = nspy_log_word(look->line->text, "PG GUID ", " ]", &bytes);

	if (!pg)
		pg = nspy_log_word(look->line->text, "[PG ", " ]", &bytes);
	nspy_log_keep(&look->source->pg, pg, bytes);
	if (look->who.pg_rank >= 0 && look->source->pg_rank < 0)
		look->source->pg_rank = look->who.pg_rank;
}

static void take_watchdog(struct nspy_log_look *look)
{
	struct nspy_log_source *s = look->source;
	struct nspy_log_event *event = nspy_log_event(look, NSPY_LOG_WATCHDOG, 0, NULL, 0);
	int64_t ms, seq;

	event->klass = NSPY_LOG_SYMPTOM;
	s->trouble++;
	take_group(look);
	/* Several may time out at once: what counts is the first of them. */
	if (nspy_log_number(look->line->text, "SeqNum=", &seq) &&
	    (s->waited_seq < 0 || seq < s->waited_seq))
		s->waited_seq = seq;
	if (!s->timed_out) {
		s->timed_out = true;
		s->timed_out_line = look->log->order;
		if (nspy_log_number(look->line->text, "ran for ", &ms))
			s->ran_ms = ms;
	}
}

/* Sizes of the operation that timed out; also in lines cut down to them. */
static void take_work(struct nspy_log_look *look)
{
	struct nspy_log_source *s = look->source;
	const char *text = look->line->text;
	size_t bytes = 0;

	if (s->numel_in >= 0)
		return; /* the first one counts: later ones follow from it */
	nspy_log_number(text, "SeqNum=", &s->seq);
	nspy_log_number(text, "NumelIn=", &s->numel_in);
	nspy_log_number(text, "NumelOut=", &s->numel_out);
	nspy_log_keep(&s->op, nspy_log_word(text, "OpType=", ", )", &bytes), bytes);
	nspy_log_event(look, NSPY_LOG_NUMEL, 0, NULL, 0);
}

/* "last enqueued work: 315, last completed work: 183"; older: "last enqueued NCCL work: .." */
static void take_counters(struct nspy_log_look *look)
{
	static const char *const enqueued[] = {"last enqueued work: ", "last enqueued NCCL work: "};
	static const char *const completed[] = {"last completed work: ",
						"last completed NCCL work: "};
	struct nspy_log_source *s = look->source;
	int64_t value;

	take_group(look);
	for (int i = 0; i < 2; i++) {
		if (s->enqueued < 0 && nspy_log_number(look->line->text, enqueued[i], &value))
			s->enqueued = value;
		/* Nothing completed is -1, or was never written: then it is garbage. */
		if (s->completed < 0 && nspy_log_number(look->line->text, completed[i], &value) &&
		    value <= s->enqueued)
			s->completed = value;
	}
	nspy_log_event(look, NSPY_LOG_ENQUEUED, 0, NULL, 0);
}

static void take_stuck(struct nspy_log_look *look, enum nspy_log_rule_id rule)
{
	struct nspy_log_event *event = nspy_log_event(look, rule, 0, NULL, 0);

	event->klass = NSPY_LOG_SYMPTOM;
	look->source->stuck = true;
	look->source->trouble++;
}

/* "[7] finished collective #182, but didn't join collective #183": the first number list. */
static void take_desync(struct nspy_log_look *look, bool joined)
{
	enum nspy_log_rule_id rule = joined ? NSPY_LOG_UNFINISHED : NSPY_LOG_LAGGING;
	const char *text = look->line->text;
	const char *end = strstr(text, joined ? "joined but" : "didn't join"), *p = text;
	struct nspy_log_event *event;
	int64_t seq = 0;
	size_t bytes;

	if (!end)
		return; /* in other letters than PyTorch's */
	nspy_log_number(end, "collective #", &seq);
	/* The list in brackets nearest to the words. */
	for (const char *q = text; q < end; q++) {
		if (*q == '[' && (isdigit((unsigned char)q[1]) || q[1] == ' '))
			p = q;
	}
	bytes = strcspn(p, "]");
	if (*p != '[' || p + bytes >= end)
		return;
	event = nspy_log_event(look, rule, seq, p + 1, bytes - 1);
	event->klass = joined ? NSPY_LOG_SYMPTOM : NSPY_LOG_CAUSE;
	event->priority = 0;
	look->source->trouble++;
	if (!joined && !event->meaning)
		event->meaning =
			nspy_xasprintf("rank %.*s did not join collective %d that others wait "
				       "in",
				       (int)bytes - 1, p + 1, (int)seq);
	if (joined && !event->meaning)
		event->meaning =
			nspy_xasprintf("ranks %.*s joined collective %d and none finished: "
				       "the data path stands still, no rank is late",
				       (int)bytes - 1, p + 1, (int)seq);
	if (!joined && bytes < 9)
		event->rank = strtoll(p + 1, NULL, 10);
}

/* "Culprit rank 1; Error type: COLLECTIVE_STATE_MISMATCH, ..." */
static void take_fr_text(struct nspy_log_look *look)
{
	const char *text = look->line->text;
	bool state = strstr(text, "STATE_MISMATCH") != NULL;
	struct nspy_log_event *event = nspy_log_event(look, NSPY_LOG_FR_CULPRIT, state, NULL, 0);

	event->klass = state ? NSPY_LOG_SYMPTOM : NSPY_LOG_CAUSE;
	look->source->trouble++;
	if (state) {
		event->finding = NSPY_FINDING_COLLECTIVE_HANG;
		event->nobody = true;
		if (!event->meaning)
			event->meaning = nspy_xstrdup("an operation was under way on some ranks "
						      "and over on others; the rank "
						      "that the flight-recorder tool names is only "
						      "ahead: look for the first "
						      "operation that a rank did not join");
	} else {
		nspy_log_number(text, "Culprit rank ", &event->rank);
	}
}

void nspy_log_take_torch(struct nspy_log_look *look, enum nspy_log_rule_id rule)
{
	switch (rule) {
	case NSPY_LOG_WATCHDOG:
		take_watchdog(look);
		return;
	case NSPY_LOG_NUMEL:
		take_work(look);
		return;
	case NSPY_LOG_ENQUEUED:
		take_counters(look);
		return;
	case NSPY_LOG_HEARTBEAT:
	case NSPY_LOG_WATCHDOG_STUCK:
		take_stuck(look, rule);
		return;
	case NSPY_LOG_LAGGING:
	case NSPY_LOG_UNFINISHED:
		take_desync(look, rule == NSPY_LOG_UNFINISHED);
		return;
	case NSPY_LOG_FR_CULPRIT:
		take_fr_text(look);
		return;
	default:
		return;
	}
}
