/* SPDX-License-Identifier: Apache-2.0 */
#include "top.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EVENTS_SHOWN 3u
#define COMMS_SHOWN  6u

static __attribute__((format(printf, 3, 4))) int add(struct top_lines *lines, enum top_style style,
						     const char *format, ...)
{
	va_list args;

	if (lines->count == lines->room) {
		size_t room = lines->room ? 2 * lines->room : 64;
		struct top_line *more = realloc(lines->at, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		lines->at = more;
		lines->room = room;
	}
	lines->at[lines->count].style = style;
	va_start(args, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is above */
	(void)vsnprintf(lines->at[lines->count].text, sizeof(lines->at[0].text), format, args);
	va_end(args);
	lines->count++;
	return 0;
}

/* --- order --- */

static int by_rank(const void *a, const void *b)
{
	const struct top_rank *x = a, *y = b;

	if (x->page.rank != y->page.rank)
		return x->page.rank < y->page.rank ? -1 : 1;
	return x->page.pid < y->page.pid ? -1 : x->page.pid > y->page.pid;
}

static int by_lag(const void *a, const void *b)
{
	const struct top_rank *x = a, *y = b;

	if (x->lag_ns < y->lag_ns || x->lag_ns > y->lag_ns)
		return x->lag_ns > y->lag_ns ? -1 : 1;
	return by_rank(a, b);
}

static int by_worst(const void *a, const void *b)
{
	const struct top_rank *x = a, *y = b;

	if (x->state != y->state)
		return x->state < y->state ? -1 : 1;
	if (x->behind != y->behind)
		return x->behind > y->behind ? -1 : 1;
	if (x->state == TOP_WAITING && x->waiting_ns != y->waiting_ns)
		return x->waiting_ns > y->waiting_ns ? -1 : 1;
	return by_lag(a, b);
}

void top_sort(struct top_snapshot *snap, enum top_sort sort)
{
	static int (*const orders[TOP_SORTS])(const void *, const void *) = {by_worst, by_rank,
									     by_lag};

	if (snap->rank_count)
		qsort(snap->ranks, snap->rank_count, sizeof(*snap->ranks), orders[sort]);
}

/* --- lines --- */

static enum top_style style_of(enum top_state state)
{
	if (state <= TOP_SILENT)
		return TOP_RED;
	if (state == TOP_BEHIND)
		return TOP_YELLOW;
	return state == TOP_ENDED ? TOP_DIM : TOP_PLAIN;
}

static int add_head(const struct top_snapshot *snap, enum top_sort sort, struct top_lines *lines)
{
	static const char *const sorts[TOP_SORTS] = {"worst first", "by rank", "latest first"};
	time_t now = (time_t)(snap->now_real_ns / 1000000000u);
	char time[24] = "", states[200] = "", expected[16] = "?";
	struct tm tm;
	size_t n = 0;
	int rc;

	if (gmtime_r(&now, &tm))
		(void)strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (snap->world_size >= 0)
		(void)snprintf(expected, sizeof(expected), "%" PRId32, snap->world_size);
	for (int i = 0; i < TOP_STATES && n < sizeof(states); i++)
		if (snap->states[i])
			n += (size_t)snprintf(states + n, sizeof(states) - n, "%s%" PRIu32 " %s",
					      n ? ", " : "", snap->states[i],
					      top_state_name((enum top_state)i));
	rc = add(lines, TOP_BOLD, "ncclspy-top %s  job %s  ranks %zu/%s  nodes %" PRIu32, time,
		 snap->job, snap->rank_count, expected, snap->nodes);
	if (rc == 0)
		rc = add(lines, TOP_PLAIN, "%s  (%s)", n ? states : "no status page", sorts[sort]);
	if (rc == 0 && snap->bad)
		rc = add(lines, TOP_YELLOW, "%" PRIu32 " files with damaged or torn pages",
			 snap->bad);
	return rc;
}

static int add_events(const struct top_snapshot *snap, struct top_lines *lines)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < snap->event_count && i < EVENTS_SHOWN; i++) {
		const struct top_event *e = &snap->events[i];
		bool alarm = strcmp(e->event, "finding") == 0 && !e->over;

		rc = add(lines, alarm ? TOP_RED : TOP_DIM, "%s %s %s %s %s%s", e->time, e->event,
			 e->priority, e->id, e->summary, e->over ? " (over)" : "");
	}
	return rc;
}

static int add_comms(const struct top_snapshot *snap, struct top_lines *lines)
{
	size_t shown = snap->comm_count < COMMS_SHOWN ? snap->comm_count : COMMS_SHOWN;
	int rc = add(lines, TOP_BOLD, "%-10s %11s %8s %21s %9s %10s", "COMM", "SEEN/RANKS",
		     "WAITING", "COLLECTIVES", "OPS/S", "BUS GB/S");

	for (size_t i = 0; rc == 0 && i < shown; i++) {
		const struct top_comm *c = &snap->comms[i];
		char name[16], ranks[32], range[48];

		(void)snprintf(name, sizeof(name), "%08" PRIx32, (uint32_t)(c->key >> 32));
		(void)snprintf(ranks, sizeof(ranks), "%" PRIu32 "/%" PRId32, c->seen, c->nranks);
		(void)snprintf(range, sizeof(range),
			       c->low == c->high ? "%" PRIu64 : "%" PRIu64 "-%" PRIu64, c->low,
			       c->high);
		rc = add(lines, c->waiting && c->low != c->high ? TOP_YELLOW : TOP_PLAIN,
			 "%-10s %11s %8" PRIu32 " %21s %9.1f %10.4g", c->world ? "world" : name,
			 ranks, c->waiting, range, c->ops_per_s, c->bus_bytes_per_s / 1e9);
	}
	if (rc == 0 && shown < snap->comm_count)
		rc = add(lines, TOP_DIM, "and %zu communicators more", snap->comm_count - shown);
	return rc;
}

static int add_rank(const struct top_rank *r, struct top_lines *lines)
{
	char lag[24] = "-", doing[160], rank[16] = "?";

	top_tell(r, doing, sizeof(doing));
	if (r->lag_ns >= 0)
		(void)snprintf(lag, sizeof(lag), "%.2f", r->lag_ns / 1e6);
	if (r->page.rank >= 0)
		(void)snprintf(rank, sizeof(rank), "%" PRId32, r->page.rank);
	return add(lines, style_of(r->state),
		   "%5s %-16.16s %8" PRIu32 " %-8s %6" PRIu64 " %9.1f %9.4g %9s  %s", rank,
		   r->page.node, r->page.pid, top_state_name(r->state), r->behind, r->ops_per_s,
		   r->bus_bytes_per_s / 1e9, lag, doing);
}

/* What does not fit any more, in one line. */
static int add_rest(const struct top_snapshot *snap, size_t from, struct top_lines *lines)
{
	uint32_t states[TOP_STATES] = {0};
	double low = -1, high = 0;
	char text[200] = "";
	size_t n = 0;

	for (size_t i = from; i < snap->rank_count; i++) {
		const struct top_rank *r = &snap->ranks[i];

		states[r->state]++;
		low = low < 0 || r->ops_per_s < low ? r->ops_per_s : low;
		high = r->ops_per_s > high ? r->ops_per_s : high;
	}
	for (int i = 0; i < TOP_STATES && n < sizeof(text); i++)
		if (states[i])
			n += (size_t)snprintf(text + n, sizeof(text) - n, ", %" PRIu32 " %s",
					      states[i], top_state_name((enum top_state)i));
	return add(lines, TOP_DIM, "and %zu ranks more%s; %.1f to %.1f ops/s",
		   snap->rank_count - from, text, low, high);
}

int top_text(const struct top_snapshot *snap, enum top_sort sort, size_t height,
	     struct top_lines *lines)
{
	int rc;

	lines->count = 0;
	rc = add_head(snap, sort, lines);
	if (rc == 0)
		rc = add_events(snap, lines);
	if (rc == 0)
		rc = add_comms(snap, lines);
	if (rc == 0)
		rc = add(lines, TOP_BOLD, "%5s %-16s %8s %-8s %6s %9s %9s %9s  %s", "RANK", "NODE",
			 "PID", "STATE", "BEHIND", "OPS/S", "BUS GB/S", "LAG MS", "DOING");
	for (size_t i = 0; rc == 0 && i < snap->rank_count; i++) {
		if (height && lines->count + 1 >= height && i + 1 < snap->rank_count)
			return add_rest(snap, i, lines);
		rc = add_rank(&snap->ranks[i], lines);
	}
	return rc;
}
