/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small helpers of the command-line tools. The x-functions end the program (exit 4, internal
 * error) when memory runs out; they are for tools only, never for the trace library.
 * context: any thread.
 */
#ifndef NSPY_UTIL_H
#define NSPY_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NSPY_NS_PER_S  1000000000ULL
#define NSPY_NS_PER_MS 1000000ULL

#define nspy_array_size(a) (sizeof(a) / sizeof((a)[0]))

void *nspy_xmalloc(size_t bytes);
void *nspy_xcalloc(size_t count, size_t bytes);
void *nspy_xrealloc(void *old, size_t count, size_t bytes);
char *nspy_xstrdup(const char *text);
char *nspy_xstrndup(const char *text, size_t bytes);
char *nspy_xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Makes room for one more element in an array of *capacity elements that holds count; returns the
 * array, moved if need be. Doubles, so n appends cost O(n).
 */
void *nspy_grow(void *array, size_t count, size_t *capacity, size_t element_bytes);

/* A string under construction; {0} is an empty one. text is NULL until something was added. */
struct nspy_str {
	char *text;
	size_t bytes;
	size_t capacity;
};

void nspy_str_add(struct nspy_str *s, const char *text);
void nspy_str_addn(struct nspy_str *s, const char *text, size_t bytes);
void nspy_str_addf(struct nspy_str *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The finished text ("" if nothing was added), to be freed by the caller; s is empty again. */
char *nspy_str_take(struct nspy_str *s);
void nspy_str_done(struct nspy_str *s);

/* Whole text as a number; false if it is none or too large. */
bool nspy_parse_u64(const char *text, uint64_t *ret_value);
bool nspy_parse_i64(const char *text, int64_t *ret_value);

/* Reads a small text file (at most limit bytes); NULL if it cannot be read. Caller frees. */
char *nspy_read_text(const char *path, size_t limit);

#endif
