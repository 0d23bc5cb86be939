/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core.h"

#define LINES      16u
#define LINE_BYTES 400u
#define OUT_BYTES  2048u
/* PIPE_BUF: a write that long is not mixed with what others write. */
#define BLOCK_BYTES 4096u

enum line_state { LINE_FREE, LINE_BUSY, LINE_READY, LINE_PRINTING };

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
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is above */
	(void)vsnprintf(line->text, sizeof(line->text), format, args);
	va_end(args);
	atomic_store_explicit(&line->state, LINE_READY, memory_order_release);
	errno = saved;
}

static void put_digits(char *at, unsigned int count, int64_t value)
{
	for (; count; value /= 10)
		at[--count] = (char)('0' + value % 10);
}

/* Without gmtime_r, which may read the time zone's files and allocate. */
void nspy_say_utc(time_t now, char ret[NSPY_UTC_BYTES])
{
	/* Days are counted from 1 March of year 0, so that the leap day comes last. */
	int64_t days = now / 86400 + 719468, seconds = now % 86400;
	int64_t era = days / 146097, of_era = days % 146097;
	int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
	int64_t month = (5 * of_year + 2) / 153;
	int64_t day = of_year - (153 * month + 2) / 5 + 1;

	month += month < 10 ? 3 : -9;
	year += era * 400 + (month <= 2);
	memcpy(ret, "0000-00-00T00:00:00Z", NSPY_UTC_BYTES);
	put_digits(ret, 4, year);
	put_digits(ret + 5, 2, month);
	put_digits(ret + 8, 2, day);
	put_digits(ret + 11, 2, seconds / 3600);
	put_digits(ret + 14, 2, seconds / 60 % 60);
	put_digits(ret + 17, 2, seconds % 60);
}

void nspy_say_json(const char *text, char *ret, size_t bytes)
{
	size_t n = 0;

	for (; *text && n + 3 < bytes; text++) {
		if (*text == '"' || *text == '\\')
			ret[n++] = '\\';
		ret[n++] = (unsigned char)*text < 0x20 ? ' ' : *text;
	}
	ret[n] = '\0';
}

static int format_line(const struct line *line, char *out, size_t bytes)
{
	static const char *const tags[] = {"INFO", "WARN", "FAIL"};
	const char *job = nspy_core.id.job[0] ? nspy_core.id.job : "-";
	char utc[NSPY_UTC_BYTES], text[2 * LINE_BYTES];

	nspy_say_utc(time(NULL), utc);
	if (strcmp(nspy_core.env.NCCLSPY_LOG_FORMAT, "json") != 0)
		return snprintf(out, bytes, "ncclspy %s job %s [%s] %s\n", utc, job,
				tags[line->tag], line->text);
	nspy_say_json(line->text, text, sizeof(text));
	return snprintf(out, bytes,
			"{\"time\":\"%s\",\"source\":\"ncclspy\",\"job\":\"%s\",\"node\":\"%s\","
			"\"rank\":%d,\"tag\":\"%s\",\"text\":\"%s\"}\n",
			utc, job, nspy_core.id.node, nspy_core.id.rank, tags[line->tag], text);
}

/* Expands %h, %p and %r; anything else behind a % stays as it is. */
static void log_path(char *ret, size_t bytes)
{
	const char *from = nspy_core.env.NCCLSPY_LOG_FILE;
	size_t n = 0;

	while (*from && n + 1 < bytes) {
		int more = -1;

		if (from[0] == '%' && from[1] == 'h')
			more = snprintf(ret + n, bytes - n, "%s", nspy_core.id.node);
		else if (from[0] == '%' && from[1] == 'p')
			more = snprintf(ret + n, bytes - n, "%u", nspy_core.id.pid);
		else if (from[0] == '%' && from[1] == 'r')
			more = snprintf(ret + n, bytes - n, "%d", nspy_core.id.rank);
		if (more >= 0) {
			n = n + (size_t)more < bytes ? n + (size_t)more : bytes - 1;
			from += 2;
		} else {
			ret[n++] = *from++;
		}
	}
	ret[n] = '\0';
}

/* stderr may be a full pipe that nobody reads: it must be ready, or the line is dropped. */
static bool write_stderr(const char *out, size_t bytes)
{
	struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};

	return poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) &&
	       write(STDERR_FILENO, out, bytes) == (ssize_t)bytes;
}

static bool write_log(const char *out, size_t bytes)
{
	char path[NSPY_ENV_TEXT_MAX];
	bool ok;
	int fd;

	log_path(path, sizeof(path));
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	if (fd < 0)
		return false;
	ok = write(fd, out, bytes) == (ssize_t)bytes;
	close(fd);
	return ok;
}

static bool print(const char *out, size_t bytes)
{
	bool ok = nspy_core.env.NCCLSPY_LOG_FILE[0] ? write_log(out, bytes)
						    : write_stderr(out, bytes);

	if (!ok)
		atomic_fetch_add(&dropped, 1);
	return ok;
}

static void print_line(const struct line *line)
{
	char out[OUT_BYTES];
	int bytes = format_line(line, out, sizeof(out));

	if (bytes > 0 && (size_t)bytes < sizeof(out))
		(void)print(out, (size_t)bytes);
}

bool nspy_say_block(enum nspy_say_tag tag, const char *const *texts, size_t count)
{
	char out[BLOCK_BYTES];
	size_t used = 0;
	struct line line = {.tag = tag};

	if (nspy_core.env.NCCLSPY_QUIET)
		return true;
	/* A log file is the writer's: it may block. */
	for (size_t i = 0; nspy_core.env.NCCLSPY_LOG_FILE[0] && i < count; i++)
		nspy_say(tag, "%s", texts[i]);
	if (nspy_core.env.NCCLSPY_LOG_FILE[0])
		return true;
	for (size_t i = 0; i < count; i++) {
		int bytes;

		(void)snprintf(line.text, sizeof(line.text), "%s", texts[i]);
		bytes = format_line(&line, out + used, sizeof(out) - used);
		/* What does not fit into one write is left out, line by line from the end. */
		if (bytes <= 0 || (size_t)bytes >= sizeof(out) - used)
			break;
		used += (size_t)bytes;
	}
	return print(out, used);
}

uint32_t nspy_say_dropped(void)
{
	return atomic_load_explicit(&dropped, memory_order_relaxed);
}

void nspy_say_flush(void)
{
	for (uint32_t i = 0; i < LINES; i++) {
		struct line *line = &lines[i];

		uint32_t expected = LINE_READY;

		/* Writer, watcher and an exiting thread may be here at once. */
		if (!atomic_compare_exchange_strong_explicit(&line->state, &expected, LINE_PRINTING,
							     memory_order_acquire,
							     memory_order_relaxed))
			continue;
		if (!nspy_core.env.NCCLSPY_QUIET)
			print_line(line);
		atomic_store_explicit(&line->state, LINE_FREE, memory_order_release);
	}
}
