/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds many fragments in a line in one pass (Aho-Corasick, as a table of transitions). Letters
 * match in either case. Built once, then read-only: any thread.
 */
#ifndef NSPY_MATCH_H
#define NSPY_MATCH_H

#include <stddef.h>
#include <stdint.h>

struct nspy_matcher;

/* fragments[i] is pattern i; an empty one never matches. At most 32767 bytes in all. */
struct nspy_matcher *nspy_matcher_new(const char *const *fragments, size_t count);
void nspy_matcher_free(struct nspy_matcher *matcher);

struct nspy_hit {
	uint32_t pattern;
	uint32_t end; /* offset behind the match */
};

/* The first match of each pattern, in the order of their ends; at most `limit`. */
size_t nspy_matcher_run(const struct nspy_matcher *matcher, const char *text, size_t bytes,
			struct nspy_hit *ret_hits, size_t limit);

#endif
