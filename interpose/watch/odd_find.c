/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "odd.h"
#include "verdict.h"

#define VALUES_MAX  8u
#define VALUE_BYTES 64u

/* What is compared of a page in a topic; each topic has one or more. */
enum part { NCCL, BUILD, SETTINGS, CUDART, DRIVER, LIBFABRIC, PLUGIN, GPU, INSTANCE, PARTS };

static const struct {
	enum nspy_odd_topic topic;
	const char *words;
} parts[PARTS] = {
	[NCCL] = {NSPY_ODD_NCCL, "NCCL"},
	[BUILD] = {NSPY_ODD_BUILD, "another build of the same NCCL"},
	[SETTINGS] = {NSPY_ODD_SETTINGS, "other settings of NCCL or libfabric"},
	[CUDART] = {NSPY_ODD_SOFTWARE, "CUDA runtime"},
	[DRIVER] = {NSPY_ODD_SOFTWARE, "CUDA driver"},
	[LIBFABRIC] = {NSPY_ODD_SOFTWARE, "libfabric"},
	[PLUGIN] = {NSPY_ODD_SOFTWARE, "network plugin"},
	[GPU] = {NSPY_ODD_HARDWARE, "GPU"},
	[INSTANCE] = {NSPY_ODD_HARDWARE, "machine"},
};

/* Values that are only equal or not are told without the value. */
static bool is_hash(enum part part)
{
	return part == BUILD || part == SETTINGS;
}

static void number(char ret[VALUE_BYTES], int32_t value)
{
	ret[0] = '\0';
	if (value)
		(void)snprintf(ret, VALUE_BYTES, "%" PRId32, value);
}

static void value_of(const struct nspy_status *p, enum part part, char ret[VALUE_BYTES])
{
	switch (part) {
	case NCCL:
		number(ret, p->nccl);
		break;
	case BUILD:
		(void)snprintf(ret, VALUE_BYTES, p->nccl_build ? "%" PRId32 "/%" PRIx64 : "",
			       p->nccl, p->nccl_build);
		break;
	case SETTINGS:
		(void)snprintf(ret, VALUE_BYTES, p->settings ? "%" PRIx64 : "", p->settings);
		break;
	case CUDART:
		number(ret, p->cudart);
		break;
	case DRIVER:
		number(ret, p->driver);
		break;
	case LIBFABRIC:
		(void)snprintf(ret, VALUE_BYTES, "%s", p->libfabric);
		break;
	case PLUGIN:
		(void)snprintf(ret, VALUE_BYTES, "%s", p->plugin);
		break;
	case GPU:
		(void)snprintf(ret, VALUE_BYTES, "%s", p->gpu);
		break;
	default:
		(void)snprintf(ret, VALUE_BYTES, "%s", p->instance);
	}
}

struct values {
	char text[VALUES_MAX][VALUE_BYTES];
	uint32_t ranks[VALUES_MAX];
	uint32_t count, known; /* values; pages with a value */
};

static bool counts(const struct nspy_status *p)
{
	return p->rank >= 0 && p->state == NSPY_STATUS_RUNNING && !p->dead && !p->silent;
}

static void collect(const struct nspy_status *pages, uint32_t count, enum part part,
		    struct values *ret)
{
	char value[VALUE_BYTES];

	ret->count = ret->known = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t v = 0;

		value_of(&pages[i], part, value);
		if (!value[0] || !counts(&pages[i]))
			continue;
		while (v < ret->count && strcmp(ret->text[v], value) != 0)
			v++;
		if (v == VALUES_MAX)
			continue;
		if (v == ret->count) {
			memcpy(ret->text[v], value, sizeof(value));
			ret->ranks[ret->count++] = 0;
		}
		ret->ranks[v]++;
		ret->known++;
	}
}

/* "rank 3 (node n1)" or "ranks 3,5 (node n1 ...)": those with the value. */
static void who(char *out, const struct nspy_status *pages, uint32_t count, enum part part,
		const char *value)
{
	char own[VALUE_BYTES];
	const char *node = NULL;
	uint32_t told = 0;

	for (uint32_t i = 0; i < count; i++) {
		value_of(&pages[i], part, own);
		if (!counts(&pages[i]) || strcmp(own, value) != 0)
			continue;
		if (told++ < 6)
			nspy_tell(out, NSPY_ODD_TEXT, "%s%" PRId32, told == 1 ? "" : ",",
				  pages[i].rank);
		node = node ? node : pages[i].node;
	}
	nspy_tell(out, NSPY_ODD_TEXT, "%s (node %.40s%s)", told > 6 ? ",..." : "",
		  node ? node : "?", told > 1 ? "..." : "");
}

static void tell(char *out, const struct nspy_status *pages, uint32_t count, enum part part,
		 const struct values *v)
{
	uint32_t most = 0, odd;

	for (uint32_t i = 1; i < v->count; i++)
		if (v->ranks[i] > v->ranks[most])
			most = i;
	odd = most == 0 ? 1 : 0;
	nspy_tell(out, NSPY_ODD_TEXT, "%s ", v->ranks[odd] == 1 ? "rank" : "ranks");
	who(out, pages, count, part, v->text[odd]);
	if (is_hash(part))
		nspy_tell(out, NSPY_ODD_TEXT, " %s %s than %" PRIu32 " %s",
			  v->ranks[odd] == 1 ? "has" : "have", parts[part].words, v->ranks[most],
			  2 * v->ranks[most] > v->known ? "others" : "more");
	else
		nspy_tell(out, NSPY_ODD_TEXT, " %s %s %s, %" PRIu32 " %s %s",
			  v->ranks[odd] == 1 ? "has" : "have", parts[part].words, v->text[odd],
			  v->ranks[most], 2 * v->ranks[most] > v->known ? "others" : "more",
			  v->text[most]);
	if (2 * v->ranks[most] <= v->known)
		nspy_tell(out, NSPY_ODD_TEXT, "; which is right cannot be told");
}

static bool differ(const struct nspy_status *pages, uint32_t count, enum part part,
		   struct values *ret)
{
	collect(pages, count, part, ret);
	return ret->count > 1;
}

bool nspy_odd_find(const struct nspy_status *pages, uint32_t count, enum nspy_odd_topic topic,
		   char ret[NSPY_ODD_TEXT])
{
	struct values values;

	ret[0] = '\0';
	for (int part = 0; part < PARTS; part++) {
		if (parts[part].topic != topic)
			continue;
		/* Builds of different versions differ anyway. */
		if ((part == BUILD && differ(pages, count, NCCL, &values)) ||
		    !differ(pages, count, (enum part)part, &values))
			continue;
		tell(ret, pages, count, (enum part)part, &values);
		return true;
	}
	return false;
}
