/* SPDX-License-Identifier: Apache-2.0 */
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"

static void out_of_memory(void)
{
	fputs("ncclspy-analyze: out of memory\n", stderr);
	exit(NSPY_EXIT_INTERNAL);
}

void *nspy_xmalloc(size_t bytes)
{
	void *p = malloc(bytes ? bytes : 1);

	if (!p)
		out_of_memory();
	return p;
}

void *nspy_xcalloc(size_t count, size_t bytes)
{
	void *p = calloc(count ? count : 1, bytes ? bytes : 1);

	if (!p)
		out_of_memory();
	return p;
}

void *nspy_xrealloc(void *old, size_t count, size_t bytes)
{
	void *p = reallocarray(old, count ? count : 1, bytes ? bytes : 1);

	if (!p)
		out_of_memory();
	return p;
}

char *nspy_xstrndup(const char *text, size_t bytes)
{
	char *copy = nspy_xmalloc(bytes + 1);

	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	return copy;
}

char *nspy_xstrdup(const char *text)
{
	return nspy_xstrndup(text, strlen(text));
}

char *nspy_xasprintf(const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		out_of_memory();
	va_end(args);
	return text;
}

void *nspy_grow(void *array, size_t count, size_t *capacity, size_t element_bytes)
{
	if (count < *capacity)
		return array;
	*capacity = *capacity ? *capacity * 2 : 8;
	return nspy_xrealloc(array, *capacity, element_bytes);
}

void nspy_str_addn(struct nspy_str *s, const char *text, size_t bytes)
{
	if (s->capacity - s->bytes <= bytes) {
		s->capacity = (s->bytes + bytes + 1) * 2;
		s->text = nspy_xrealloc(s->text, s->capacity, 1);
	}
	memcpy(s->text + s->bytes, text, bytes);
	s->bytes += bytes;
	s->text[s->bytes] = '\0';
}

void nspy_str_add(struct nspy_str *s, const char *text)
{
	nspy_str_addn(s, text, strlen(text));
}

void nspy_str_addf(struct nspy_str *s, const char *format, ...)
{
	va_list args;
	char *text;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0)
		out_of_memory();
	nspy_str_addn(s, text, (size_t)n);
	free(text);
}

char *nspy_str_take(struct nspy_str *s)
{
	char *text = s->text ? s->text : nspy_xstrdup("");

	*s = (struct nspy_str){0};
	return text;
}

void nspy_str_done(struct nspy_str *s)
{
	free(s->text);
	*s = (struct nspy_str){0};
}

bool nspy_parse_u64(const char *text, uint64_t *ret_value)
{
	char *end;
	unsigned long long value;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end)
		return false;
	*ret_value = value;
	return true;
}

bool nspy_parse_i64(const char *text, int64_t *ret_value)
{
	char *end;
	long long value;

	if (text[0] != '-' && (text[0] < '0' || text[0] > '9'))
		return false;
	errno = 0;
	value = strtoll(text, &end, 10);
	if (errno || *end || end == text)
		return false;
	*ret_value = value;
	return true;
}

char *nspy_read_text(const char *path, size_t limit)
{
	/* O_NONBLOCK: a FIFO in a trace directory must not hang us. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t got = 0, room = limit < 65536 ? limit : 65536;
	char *text;

	if (fd < 0)
		return NULL;
	text = nspy_xmalloc(room + 1);
	while (got < limit) {
		ssize_t n;

		/* The limit may be large and the file is mostly small. */
		if (got == room) {
			room = room < limit / 2 ? room * 2 : limit;
			text = nspy_xrealloc(text, room + 1, 1);
		}
		n = read(fd, text + got, room - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	close(fd);
	text[got] = '\0';
	return text;
}
