/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "say.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core.h"

#define LINES      16u
#define LINE_BYTES 400u
#define OUT_BYTES  1024u

enum line_state { LINE_FREE, LINE_BUSY, LINE_READY };

static struct line {
	_Atomic uint32_t state;
	enum nspy_say_tag tag;
	char text[LINE_BYTES];
} lines[LINES];
static _Atomic uint32_t next_line;
static _Atomic uint32_t dropped;

void nspy_say(enum nspy_say_tag tag, const char *format, ...)
{
	struct line *line = &lines[atomic_fetch_add(&next_line, 1) % LINES];
	uint32_t expected = LINE_FREE;
	int saved = errno;
	va_list args;

	if (!atomic_compare_exchange_strong(&line->state, &expected, LINE_BUSY)) {
		atomic_fetch_add(&dropped, 1);
		return;
	}
	line->tag = tag;
	va_start(args, format);
	(void)vsnprintf(line->text, sizeof(line->text), format, args);
	va_end(args);
	atomic_store_explicit(&line->state, LINE_READY, memory_order_release);
	errno = saved;
}

static void print_line(const struct line *line)
{
	static const char *const tags[] = {"INFO", "WARN", "FAIL"};
	struct pollfd stderr_ready = {.fd = STDERR_FILENO, .events = POLLOUT};
	time_t now = time(NULL);
	char out[OUT_BYTES];
	struct tm utc;
	int bytes;

	gmtime_r(&now, &utc);
	bytes = snprintf(out, sizeof(out),
			 "ncclspy %04d-%02d-%02dT%02d:%02d:%02dZ job %s [%s] %s\n",
			 utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min,
			 utc.tm_sec, nspy_core.id.job[0] ? nspy_core.id.job : "-", tags[line->tag],
			 line->text);
	if (bytes <= 0 || (size_t)bytes >= sizeof(out))
		return;
	if (poll(&stderr_ready, 1, 0) != 1 || !(stderr_ready.revents & POLLOUT) ||
	    write(STDERR_FILENO, out, (size_t)bytes) != bytes)
		atomic_fetch_add(&dropped, 1);
}

void nspy_say_flush(void)
{
	for (uint32_t i = 0; i < LINES; i++) {
		struct line *line = &lines[i];

		if (atomic_load_explicit(&line->state, memory_order_acquire) != LINE_READY)
			continue;
		if (!nspy_core.env.NCCLSPY_QUIET)
			print_line(line);
		atomic_store_explicit(&line->state, LINE_FREE, memory_order_release);
	}
}
