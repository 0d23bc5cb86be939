/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "board.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define SUM_LINE_BYTES 17u /* 16 digits and the end of the line */

long nspy_board_encode(const struct nspy_status *pages, uint32_t count, uint32_t first,
		       uint8_t *out, size_t bytes)
{
	size_t used = 0;

	for (uint32_t n = 0; n < count; n++) {
		/* first, then 0, 1, ... without it */
		uint32_t i = n == 0 ? first : n <= first ? n - 1 : n;
		long more = nspy_status_encode(&pages[i], NSPY_BOARD_OPS, out + used, bytes - used);

		if (more < 0)
			return more;
		used += (size_t)more;
	}
	return (long)used;
}

uint32_t nspy_board_decode(const uint8_t *data, size_t bytes, struct nspy_arena *arena,
			   struct nspy_status *pages, uint32_t capacity, bool *ret_small)
{
	uint32_t count = 0;
	size_t at = 0, used = 0;

	for (; at < bytes; at += used) {
		int rc;

		if (count == capacity) {
			*ret_small = true;
			break;
		}
		rc = nspy_status_decode(data + at, bytes - at, arena, &pages[count], &used);
		*ret_small = *ret_small || rc == -ENOMEM;
		if (rc < 0)
			break;
		count++;
	}
	return count;
}

static void move(uint64_t *time_ns, int64_t by)
{
	int64_t moved = (int64_t)*time_ns + by;

	if (*time_ns)
		*time_ns = moved > 0 ? (uint64_t)moved : 1;
}

void nspy_board_shift(struct nspy_status *page, uint64_t now_ns, uint64_t now_real_ns,
		      uint64_t slack_ns)
{
	uint64_t age =
		now_real_ns > page->published_real_ns ? now_real_ns - page->published_real_ns : 0;
	int64_t by;

	if (age > slack_ns)
		age = slack_ns;
	by = (int64_t)now_ns - (int64_t)age - (int64_t)page->published_ns;
	move(&page->published_ns, by);
	move(&page->last_call_ns, by);
	move(&page->event_since_ns, by);
	move(&page->signal.when_ns, by);
	for (uint32_t i = 0; i < page->comm_count; i++) {
		move(&page->comms[i].last_ns, by);
		move(&page->comms[i].started_ns, by);
	}
	for (uint32_t i = 0; i < page->call_count; i++)
		move(&page->calls_open[i].enter_ns, by);
	for (uint32_t i = 0; i < page->op_count; i++)
		move(&page->ops[i].enter_ns, by);
}

/* --- digest: lines, the last one with a checksum over those before --- */

size_t nspy_digest_encode(const struct nspy_digest *digest, char out[NSPY_DIGEST_BYTES])
{
	int n = snprintf(out, NSPY_DIGEST_BYTES,
			 "ncclspy-digest 1\n%" PRIu64 "\n%" PRIx64 "\n%.63s\n%.399s\n",
			 digest->when_real_ns, digest->key, digest->node, digest->text);
	uint64_t sum = XXH64(out, (size_t)n, 0);

	n += snprintf(out + n, NSPY_DIGEST_BYTES - (size_t)n, "%016llx\n", (unsigned long long)sum);
	return (size_t)n;
}

/* The next line as a text of its own; what follows it, or NULL. */
static const char *line_of(const char *at, const char *end, char *ret, size_t bytes)
{
	const char *stop = at ? memchr(at, '\n', (size_t)(end - at)) : NULL;
	size_t n = stop ? (size_t)(stop - at) : 0;

	ret[0] = '\0';
	if (!stop || n >= bytes)
		return NULL;
	memcpy(ret, at, n);
	ret[n] = '\0';
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)ret[i] < 0x20 || ret[i] == 0x7f)
			ret[i] = '?';
	return stop + 1;
}

bool nspy_digest_decode(const char *data, size_t bytes, struct nspy_digest *ret)
{
	const char *end = data + bytes, *at;
	char line[NSPY_DIGEST_TEXT];

	memset(ret, 0, sizeof(*ret));
	if (!data || bytes <= SUM_LINE_BYTES || bytes > NSPY_DIGEST_BYTES)
		return false;
	(void)line_of(end - SUM_LINE_BYTES, end, line, sizeof(line));
	if (strlen(line) != SUM_LINE_BYTES - 1 ||
	    strtoull(line, NULL, 16) != XXH64(data, bytes - SUM_LINE_BYTES, 0))
		return false;
	at = line_of(data, end, line, sizeof(line));
	if (strcmp(line, "ncclspy-digest 1") != 0)
		return false;
	at = line_of(at, end, line, sizeof(line));
	ret->when_real_ns = strtoull(line, NULL, 10);
	at = line_of(at, end, line, sizeof(line));
	ret->key = strtoull(line, NULL, 16);
	at = line_of(at, end, ret->node, sizeof(ret->node));
	return line_of(at, end, ret->text, sizeof(ret->text)) != NULL;
}
