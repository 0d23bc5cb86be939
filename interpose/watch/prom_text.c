/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "prom.h"

#define WAIT_NS 1000000000ull /* a call that is open longer is waited in */

struct text {
	char *out;
	size_t used;
	char labels[2 * (128 + 128) + 32]; /* job="...",node="..." */
};

static __attribute__((format(printf, 2, 3))) void add(struct text *t, const char *format, ...)
{
	size_t room = NSPY_PROM_BYTES - t->used;
	va_list args;
	int n;

	va_start(args, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is above */
	n = vsnprintf(t->out + t->used, room, format, args);
	va_end(args);
	t->used += n > 0 && (size_t)n < room ? (size_t)n : room - 1;
}

/* Appends a label's value; cut, never half an escape. */
static size_t escape(char *out, size_t used, size_t bytes, const char *text)
{
	for (; *text && used + 3 < bytes; text++) {
		if (*text == '"' || *text == '\\')
			out[used++] = '\\';
		out[used++] = (unsigned char)*text < 0x20 ? ' ' : *text;
	}
	out[used] = '\0';
	return used;
}

static void make_labels(struct text *t, const struct nspy_prom_labels *labels)
{
	size_t half = sizeof(t->labels) / 2, n;

	n = (size_t)snprintf(t->labels, sizeof(t->labels), "job=\"");
	n = escape(t->labels, n, half, labels->job);
	n += (size_t)snprintf(t->labels + n, sizeof(t->labels) - n, "\",node=\"");
	n = escape(t->labels, n, sizeof(t->labels) - 2, labels->node);
	(void)snprintf(t->labels + n, sizeof(t->labels) - n, "\"");
}

static void add_head(struct text *t, const char *name, const char *type, const char *help)
{
	add(t, "# HELP ncclspy_%s %s\n# TYPE ncclspy_%s %s\n", name, help, name, type);
}

static void add_number(struct text *t, const char *name, const char *type, const char *help,
		       uint64_t value)
{
	add_head(t, name, type, help);
	add(t, "ncclspy_%s{%s} %" PRIu64 "\n", name, t->labels, value);
}

static void add_seconds(struct text *t, const char *name, const char *help, uint64_t ns)
{
	add_head(t, name, "gauge", help);
	add(t, "ncclspy_%s{%s} %" PRIu64 ".%03" PRIu64 "\n", name, t->labels, ns / 1000000000u,
	    ns / 1000000u % 1000u);
}

struct sums {
	uint64_t running, waiting, stopped, dead, ended;
	uint64_t calls, lost, rounds, wait_ns, longest_ns;
};

static uint64_t open_ns(const struct nspy_status *page, uint64_t now_ns)
{
	uint64_t longest = 0;

	for (uint32_t i = 0; i < page->call_count; i++)
		if (page->calls_open[i].enter_ns < now_ns &&
		    now_ns - page->calls_open[i].enter_ns > longest)
			longest = now_ns - page->calls_open[i].enter_ns;
	return longest;
}

static void sum_up(const struct nspy_status *page, uint64_t now_ns, struct sums *s)
{
	uint64_t ns = open_ns(page, now_ns);

	s->calls += page->calls;
	s->lost += page->lost;
	s->rounds += page->rounds;
	if (page->longest_wait_ns > s->longest_ns)
		s->longest_ns = page->longest_wait_ns;
	if (page->state == NSPY_STATUS_EXITED) {
		s->ended++;
	} else if (page->dead) {
		s->dead++;
	} else if (page->stopped) {
		s->stopped++;
	} else {
		s->waiting += ns >= WAIT_NS;
		s->running += ns < WAIT_NS;
		s->wait_ns = ns > s->wait_ns ? ns : s->wait_ns;
	}
}

static void add_states(struct text *t, const struct sums *s)
{
	const struct {
		const char *name;
		uint64_t count;
	} states[] = {{"running", s->running},
		      {"waiting", s->waiting},
		      {"stopped", s->stopped},
		      {"dead", s->dead},
		      {"ended", s->ended}};

	add_head(t, "processes", "gauge", "Recorded processes of the job on this node, by state.");
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		add(t, "ncclspy_processes{%s,state=\"%s\"} %" PRIu64 "\n", t->labels,
		    states[i].name, states[i].count);
}

static void add_finding(struct text *t, const struct nspy_status *own)
{
	char name[2 * sizeof(own->event_id)];

	add_number(t, "finding_active", "gauge", "1 while something is wrong with the job.",
		   own->event_key != 0);
	if (!own->event_key || !own->event_id[0])
		return;
	escape(name, 0, sizeof(name), own->event_id);
	add_head(t, "finding_info", "gauge", "What is wrong, see ncclspy explain.");
	add(t, "ncclspy_finding_info{%s,finding=\"%s\"} 1\n", t->labels, name);
}

long nspy_prom_text(const struct nspy_status *pages, uint32_t count, const struct nspy_status *own,
		    const struct nspy_prom_labels *labels, uint64_t now_ns, uint64_t now_real_ns,
		    char out[NSPY_PROM_BYTES])
{
	struct text t = {.out = out};
	struct sums s = {0};

	make_labels(&t, labels);
	for (uint32_t i = 0; i < count; i++)
		sum_up(&pages[i], now_ns, &s);
	add_states(&t, &s);
	if (own->world_size >= 0)
		add_number(&t, "world_size", "gauge", "Ranks of the job.",
			   (uint64_t)own->world_size);
	add_number(&t, "calls_total", "counter", "Calls recorded.", s.calls);
	add_number(&t, "records_lost_total", "counter", "Calls that could not be recorded.",
		   s.lost);
	add_number(&t, "rounds_total", "counter", "Waits that ended with operations done.",
		   s.rounds);
	add_seconds(&t, "open_call_seconds", "Age of the oldest call that has not returned.",
		    s.wait_ns);
	add_seconds(&t, "longest_wait_seconds", "The longest completed wait so far.", s.longest_ns);
	add_finding(&t, own);
	add_seconds(&t, "updated_timestamp_seconds", "When this was written, Unix time.",
		    now_real_ns);
	return t.used + 1 < NSPY_PROM_BYTES ? (long)t.used : -ENOBUFS;
}
