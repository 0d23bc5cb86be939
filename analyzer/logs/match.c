/* SPDX-License-Identifier: Apache-2.0 */
#include "match.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

#define CLASSES    64u
#define STATES_MAX 0x7fffu
#define FOUND      0x8000u /* in a transition: the state it leads to ends a fragment */

struct nspy_matcher {
	uint8_t class_of[256];
	size_t states;
	uint16_t *next;    /* [state * CLASSES + class] */
	uint16_t *shorter; /* state of the longest suffix that is a prefix of another fragment */
	uint16_t *pattern; /* pattern + 1 that ends in this state; 0 = none */
	uint16_t *twin;    /* [pattern] another pattern with the same fragment, + 1 */
};

/* Bytes that occur in fragments get classes of their own; all others share class 0. */
static void classify(struct nspy_matcher *m, const char *const *fragments, size_t count)
{
	unsigned used = 1;

	for (size_t i = 0; i < count; i++) {
		for (const char *p = fragments[i]; *p; p++) {
			unsigned char c = (unsigned char)tolower((unsigned char)*p);

			if (m->class_of[c])
				continue;
			/* Too many: the rare ones share a class with each other. */
			m->class_of[c] = (uint8_t)(used < CLASSES - 1 ? used++ : CLASSES - 1);
			m->class_of[toupper(c)] = m->class_of[c];
		}
	}
}

static void add(struct nspy_matcher *m, const char *fragment, size_t index)
{
	size_t state = 0;

	for (const char *p = fragment; *p; p++) {
		uint16_t *next = &m->next[state * CLASSES + m->class_of[(unsigned char)*p]];

		if (!*next) {
			if (m->states >= STATES_MAX)
				return;
			*next = (uint16_t)m->states++;
		}
		state = *next;
	}
	if (state == 0)
		return;
	m->twin[index] = m->pattern[state];
	m->pattern[state] = (uint16_t)(index + 1);
}

/* Breadth first, so that the shorter state is finished when it is needed. */
static void complete(struct nspy_matcher *m)
{
	uint16_t *queue = nspy_xcalloc(m->states, sizeof(*queue));
	size_t head = 0, tail = 0;

	for (size_t c = 0; c < CLASSES; c++) {
		if (m->next[c])
			queue[tail++] = m->next[c];
	}
	while (head < tail) {
		size_t state = queue[head++];

		for (size_t c = 0; c < CLASSES; c++) {
			uint16_t *next = &m->next[state * CLASSES + c];
			uint16_t other = m->next[m->shorter[state] * CLASSES + c];

			if (*next) {
				m->shorter[*next] = other;
				queue[tail++] = *next;
			} else {
				*next = other;
			}
		}
	}
	free(queue);
}

/* Marks transitions into states that end a fragment, or have a suffix that does. */
static void mark(struct nspy_matcher *m)
{
	uint8_t *ends = nspy_xcalloc(m->states, 1);

	for (size_t state = 1; state < m->states; state++) {
		for (size_t s = state; s && !ends[state]; s = m->shorter[s])
			ends[state] = m->pattern[s] != 0;
	}
	for (size_t i = 0; i < m->states * CLASSES; i++) {
		if (ends[m->next[i]])
			m->next[i] |= FOUND;
	}
	free(ends);
}

struct nspy_matcher *nspy_matcher_new(const char *const *fragments, size_t count)
{
	struct nspy_matcher *m = nspy_xcalloc(1, sizeof(*m));
	size_t bytes = 1;

	for (size_t i = 0; i < count; i++)
		bytes += strlen(fragments[i]);
	if (bytes > STATES_MAX)
		bytes = STATES_MAX;
	m->next = nspy_xcalloc(bytes * CLASSES, sizeof(*m->next));
	m->shorter = nspy_xcalloc(bytes, sizeof(*m->shorter));
	m->pattern = nspy_xcalloc(bytes, sizeof(*m->pattern));
	m->twin = nspy_xcalloc(count + 1, sizeof(*m->twin));
	m->states = 1;
	classify(m, fragments, count);
	for (size_t i = 0; i < count; i++)
		add(m, fragments[i], i);
	complete(m);
	mark(m);
	return m;
}

void nspy_matcher_free(struct nspy_matcher *m)
{
	if (!m)
		return;
	free(m->next);
	free(m->shorter);
	free(m->pattern);
	free(m->twin);
	free(m);
}

static size_t note(struct nspy_hit *hits, size_t count, size_t limit, unsigned pattern, size_t end)
{
	for (size_t i = 0; i < count; i++) {
		if (hits[i].pattern == pattern)
			return count;
	}
	if (count < limit)
		hits[count++] = (struct nspy_hit){pattern, (uint32_t)end};
	return count;
}

size_t nspy_matcher_run(const struct nspy_matcher *m, const char *text, size_t bytes,
			struct nspy_hit *ret_hits, size_t limit)
{
	size_t count = 0, state = 0;

	for (size_t i = 0; i < bytes; i++) {
		unsigned to = m->next[state * CLASSES + m->class_of[(unsigned char)text[i]]];

		state = to & ~FOUND;
		if (!(to & FOUND))
			continue;
		for (size_t s = state; s; s = m->shorter[s]) {
			for (unsigned p = m->pattern[s]; p; p = m->twin[p - 1])
				count = note(ret_hits, count, limit, p - 1, i + 1);
		}
	}
	return count;
}
