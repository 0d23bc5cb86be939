/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "signal_line.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core.h"
#include "resolve.h"
#include "say.h"

#define OUT_BYTES 1024u

/* The line is head, time, middle, what happened, tail. */
static struct {
	bool wanted;
	_Atomic bool printed;
	const char *head, *tail;
	char middle[512];
} line;

void nspy_signal_line_start(void)
{
	const struct nspy_identity *id = &nspy_core.id;
	bool json = strcmp(nspy_core.env.NCCLSPY_LOG_FORMAT, "json") == 0;
	char rank[24] = "this process", job[NSPY_NAME_MAX], node[NSPY_NAME_MAX];

	line.wanted = !nspy_core.env.NCCLSPY_QUIET && !nspy_core.env.NCCLSPY_LOG_FILE[0];
	atomic_store(&line.printed, false);
	if (id->rank >= 0)
		(void)snprintf(rank, sizeof(rank), "rank %d", id->rank);
	if (!json) {
		line.head = "ncclspy ";
		line.tail = "\n";
		(void)snprintf(line.middle, sizeof(line.middle),
			       " job %s [WARN] %s (node %s, pid %u) got ",
			       id->job[0] ? id->job : "-", rank, id->node, id->pid);
		return;
	}
	nspy_say_json(id->job, job, sizeof(job));
	nspy_say_json(id->node, node, sizeof(node));
	line.head = "{\"time\":\"";
	line.tail = "\"}\n";
	(void)snprintf(line.middle, sizeof(line.middle),
		       "\",\"source\":\"ncclspy\",\"job\":\"%s\",\"node\":\"%s\",\"rank\":%d,"
		       "\"tag\":\"WARN\",\"text\":\"%s (node %s, pid %u) got ",
		       job, node, id->rank, rank, node, id->pid);
}

struct out {
	char text[OUT_BYTES];
	size_t used;
};

static void put(struct out *out, const char *text)
{
	while (*text && out->used < sizeof(out->text))
		out->text[out->used++] = *text++;
}

static void put_number(struct out *out, uint64_t value, unsigned int base)
{
	char digits[24];
	size_t at = sizeof(digits) - 1;

	digits[at] = '\0';
	do {
		digits[--at] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value && at);
	put(out, &digits[at]);
}

/* "SIGSEGV at address 0x10 (nothing is mapped there) in thread 77, inside ncclAllReduce" */
static void put_what(struct out *out, const struct nspy_signal_note *note)
{
	const char *code = nspy_signal_code(note->number, note->code);
	char scratch[16];

	put(out, nspy_signal_name(note->number, scratch, sizeof(scratch)));
	if (nspy_signal_faults(note->number, note->code)) {
		put(out, " at address 0x");
		put_number(out, note->address, 16);
	}
	if (note->sender) {
		put(out, " from pid ");
		put_number(out, note->sender, 10);
	} else if (code[0]) {
		put(out, " (");
		put(out, code);
		put(out, ")");
	}
	put(out, " in thread ");
	put_number(out, note->tid, 10);
	if (note->fn && note->fn <= nspy_fn_count) {
		put(out, note->flags & NSPY_SIGNAL_IN_CALL ? ", inside " : ", last call ");
		put(out, nspy_fn_table[note->fn - 1].name);
	}
	if (note->flags & NSPY_SIGNAL_IN_US)
		put(out, ", in the code of libncclspy.so");
}

void nspy_signal_line_print(const struct nspy_signal_note *note)
{
	struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
	struct out out = {.used = 0};
	char utc[NSPY_UTC_BYTES];

	if (!line.wanted || atomic_exchange(&line.printed, true))
		return;
	nspy_say_utc(time(NULL), utc);
	put(&out, line.head);
	put(&out, utc);
	put(&out, line.middle);
	put_what(&out, note);
	put(&out, line.tail);
	if (poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT))
		(void)!write(STDERR_FILENO, out.text, out.used);
}
