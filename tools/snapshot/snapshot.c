/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void *no_memory(void)
{
	fputs("ncclspy-snapshot: out of memory\n", stderr);
	exit(4);
}

void *snap_grow(void *array, size_t count, size_t *capacity, size_t element_bytes)
{
	if (count < *capacity)
		return array;
	*capacity = *capacity ? *capacity * 2 : 16;
	array = realloc(array, *capacity * element_bytes);
	return array ? array : no_memory();
}

char *snap_strdup(const char *text)
{
	char *copy = strdup(text);

	return copy ? copy : no_memory();
}

/* What comes from files may hold anything: only printable ASCII is kept. */
static char *format_clean(const char *format, va_list args)
{
	char *text;

	if (vasprintf(&text, format, args) < 0)
		return no_memory();
	for (char *p = text; *p; p++) {
		if (*p < ' ' || *p > '~')
			*p = '?';
	}
	return text;
}

void snap_fact(struct snap *s, enum snap_kind kind, const char *key, const char *format, ...)
{
	struct snap_fact *fact;
	va_list args;

	s->facts = snap_grow(s->facts, s->fact_count, &s->fact_capacity, sizeof(*s->facts));
	fact = &s->facts[s->fact_count++];
	va_start(args, format);
	*fact = (struct snap_fact){kind, snap_strdup(key), format_clean(format, args)};
	va_end(args);
}

const char *snap_get(const struct snap *s, const char *key)
{
	for (size_t i = 0; i < s->fact_count; i++) {
		if (strcmp(s->facts[i].key, key) == 0)
			return s->facts[i].value;
	}
	return NULL;
}

void snap_check(struct snap *s, enum snap_status status, const char *finding, const char *format,
		...)
{
	struct snap_check *check;
	va_list args;

	s->checks = snap_grow(s->checks, s->check_count, &s->check_capacity, sizeof(*s->checks));
	check = &s->checks[s->check_count++];
	va_start(args, format);
	*check = (struct snap_check){status, finding, format_clean(format, args)};
	va_end(args);
}

void snap_missing(struct snap *s, const char *format, ...)
{
	va_list args;
	char *text;

	va_start(args, format);
	text = format_clean(format, args);
	va_end(args);
	snap_names_add(&s->missing, text);
	free(text);
}

void snap_done(struct snap *s)
{
	for (size_t i = 0; i < s->fact_count; i++) {
		free(s->facts[i].key);
		free(s->facts[i].value);
	}
	for (size_t i = 0; i < s->check_count; i++)
		free(s->checks[i].text);
	free(s->facts);
	free(s->checks);
	snap_names_done(&s->missing);
}
