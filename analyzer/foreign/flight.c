/* SPDX-License-Identifier: Apache-2.0 */
#include "flight.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flight_parts.h"
#include "text.h"

#define ENTRIES_MAX 1000000
#define RANKS_MAX   65536

struct nspy_flights *nspy_flights_new(void)
{
	return nspy_xcalloc(1, sizeof(struct nspy_flights));
}

static void group_free(struct nspy_fr_group *group)
{
	for (size_t i = 0; i < group->part_count; i++) {
		free(group->parts[i].ops);
		free(group->parts[i].p2p);
	}
	free(group->parts);
	free(group->ranks);
	free(group->name);
	free(group->desc);
	free(group);
}

void nspy_flights_free(struct nspy_flights *flights)
{
	if (!flights)
		return;
	for (size_t i = 0; i < flights->group_count; i++)
		group_free(flights->groups[i]);
	for (size_t i = 0; i < flights->text_count; i++)
		free(flights->texts[i]);
	for (size_t i = 0; i < flights->dump_count; i++)
		free(flights->dumps[i].path);
	free(flights->groups);
	free(flights->texts);
	free(flights->dumps);
	nspy_map_done(&flights->by_text);
	nspy_map_done(&flights->by_group);
	free(flights);
}

size_t nspy_flights_count(const struct nspy_flights *flights)
{
	return flights ? flights->dump_count : 0;
}

bool nspy_flight_is(const struct cJSON *dump)
{
	return cJSON_IsObject(dump) &&
	       cJSON_IsArray(cJSON_GetObjectItemCaseSensitive(dump, "entries")) &&
	       (cJSON_GetObjectItemCaseSensitive(dump, "version") ||
		cJSON_GetObjectItemCaseSensitive(dump, "pg_config"));
}

/* --- small things --- */

static uint64_t hash(const char *text)
{
	uint64_t h = 1469598103934665603ull;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 1099511628211ull;
	return nspy_mix(h) | 1;
}

/* Texts are few and repeat: one copy each. */
static const char *intern(struct nspy_flights *flights, const char *text)
{
	uint64_t key = hash(text);
	char *copy = nspy_map_get(&flights->by_text, key);

	if (copy)
		return copy;
	if (flights->text_count > 100000)
		return "?";
	copy = nspy_xstrndup(text, strnlen(text, 200));
	nspy_clean(copy);
	flights->texts = nspy_grow(flights->texts, flights->text_count, &flights->text_capacity,
				   sizeof(char *));
	flights->texts[flights->text_count++] = copy;
	nspy_map_put(&flights->by_text, key, copy);
	return copy;
}

static const char *text_of(const cJSON *object, const char *key)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

	return cJSON_IsString(item) ? item->valuestring : NULL;
}

static double number_of(const cJSON *object, const char *key, double other)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

	/* JSON dumps have some numbers as text. */
	if (cJSON_IsString(item) && item->valuestring[0])
		return strtod(item->valuestring, NULL);
	return cJSON_IsNumber(item) ? item->valuedouble : other;
}

/* Elements of all tensors: [[2, 3], [4]] is 10. JSON dumps have the same. */
static double elements(const cJSON *sizes)
{
	const cJSON *tensor, *dimension;
	double sum = 0;

	cJSON_ArrayForEach(tensor, sizes)
	{
		double product = 1;

		cJSON_ArrayForEach(dimension, tensor) product *=
			cJSON_IsNumber(dimension) ? dimension->valuedouble : 1;
		sum += product;
	}
	return sum;
}

/*
 * "nccl_trace_rank_12", "host7_3.json", "dump_0.pkl": the number behind "rank", else the last one
 * before the ending.
 */
static int64_t rank_of_path(const char *path)
{
	const char *base = strrchr(path, '/'), *p, *digits = NULL;

	base = base ? base + 1 : path;
	for (p = base; (p = strstr(p, "rank")); p += 4) {
		const char *q = p + 4;

		while (*q == '_' || *q == '-' || *q == '.' || *q == '=')
			q++;
		if (isdigit((unsigned char)*q))
			return strtoll(q, NULL, 10) % RANKS_MAX;
	}
	for (p = base; *p; p++) {
		if (isdigit((unsigned char)*p) && (p == base || !isdigit((unsigned char)p[-1])))
			digits = p;
		if (*p == '.' && digits)
			break;
	}
	return digits ? strtoll(digits, NULL, 10) % RANKS_MAX : -1;
}

/* --- process groups --- */

/* "[0, 1, 2]" as text, or an array. */
static void read_ranks(struct nspy_fr_group *group, const cJSON *ranks)
{
	size_t capacity = 0;

	if (cJSON_IsString(ranks)) {
		for (const char *p = ranks->valuestring; *p && group->rank_count < RANKS_MAX; p++) {
			if (!isdigit((unsigned char)*p))
				continue;
			group->ranks = nspy_grow(group->ranks, group->rank_count, &capacity,
						 sizeof(int64_t));
			group->ranks[group->rank_count++] = strtoll(p, (char **)&p, 10);
			if (!*p)
				break;
		}
	}
	group->rank_count = nspy_sort_unique(group->ranks, group->rank_count);
}

static const cJSON *config_of(const cJSON *dump, const char *name)
{
	const cJSON *config = cJSON_GetObjectItemCaseSensitive(dump, "pg_config"), *item;

	cJSON_ArrayForEach(item, config)
	{
		const char *own = text_of(item, "name");

		if ((own && strcmp(own, name) == 0) ||
		    (!own && item->string && strcmp(item->string, name) == 0))
			return item;
	}
	return NULL;
}

static struct nspy_fr_group *group_of(struct nspy_flights *flights, const cJSON *dump,
				      const char *name, const char *desc)
{
	const cJSON *config = config_of(dump, name);
	const char *ranks = config ? text_of(config, "ranks") : NULL;
	/* Groups of the same name with other members are others (one per pipeline stage, say). */
	uint64_t key = hash(name) ^ nspy_mix(hash(desc)) ^ (ranks ? nspy_mix(hash(ranks) + 5) : 0);
	struct nspy_fr_group *group = nspy_map_get(&flights->by_group, key);

	if (group || flights->group_count >= 65536)
		return group;
	group = nspy_xcalloc(1, sizeof(*group));
	group->name = nspy_xstrndup(name, strnlen(name, 100));
	group->desc = nspy_xstrndup(desc, strnlen(desc, 100));
	nspy_clean(group->name);
	nspy_clean(group->desc);
	if (config)
		read_ranks(group, cJSON_GetObjectItemCaseSensitive(config, "ranks"));
	flights->groups = nspy_grow(flights->groups, flights->group_count, &flights->group_capacity,
				    sizeof(struct nspy_fr_group *));
	flights->groups[flights->group_count++] = group;
	nspy_map_put(&flights->by_group, key, group);
	return group;
}

static struct nspy_fr_part *part_of(struct nspy_fr_group *group, int64_t rank)
{
	for (size_t i = group->part_count; i-- > 0;) {
		if (group->parts[i].rank == rank)
			return &group->parts[i];
	}
	group->parts = nspy_grow(group->parts, group->part_count, &group->part_capacity,
				 sizeof(*group->parts));
	group->parts[group->part_count] = (struct nspy_fr_part){.rank = rank, .group_rank = -1};
	return &group->parts[group->part_count++];
}

static enum nspy_fr_state state_of(const cJSON *entry)
{
	const char *state = text_of(entry, "state");

	/* Gloo's operations, and sends and receives in batches, are retired and never completed. */
	if ((state && strcmp(state, "completed") == 0) ||
	    cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(entry, "retired")))
		return NSPY_FR_COMPLETED;
	return state && strcmp(state, "started") == 0 ? NSPY_FR_STARTED : NSPY_FR_SCHEDULED;
}

/* --- sends and receives --- */

/* "send 1->2" or "recv 3<-0": own rank first. False if it is neither. */
static bool read_p2p_name(const char *name, struct nspy_fr_p2p *ret_p2p, int64_t *ret_own)
{
	char *end;

	if (strncmp(name, "send ", 5) != 0 && strncmp(name, "recv ", 5) != 0)
		return false;
	ret_p2p->send = name[0] == 's';
	*ret_own = strtoll(name + 5, &end, 10);
	if (end == name + 5 || strncmp(end, ret_p2p->send ? "->" : "<-", 2) != 0)
		return false;
	name = end + 2;
	ret_p2p->peer = strtoll(name, &end, 10);
	return end != name && *ret_own >= 0 && ret_p2p->peer >= 0 && ret_p2p->peer < RANKS_MAX;
}

static const char *dtype_of(struct nspy_flights *flights, const cJSON *entry, const char *key)
{
	const cJSON *types = cJSON_GetObjectItemCaseSensitive(entry, key);
	const cJSON *type = cJSON_IsArray(types) ? cJSON_GetArrayItem(types, 0) : types;

	return cJSON_IsString(type) ? intern(flights, type->valuestring) : NULL;
}

static void add_p2p(struct nspy_flights *flights, struct nspy_fr_part *part, const cJSON *entry,
		    const char *name)
{
	struct nspy_fr_p2p op = {.index = (uint32_t)part->p2p_count};
	const char *sizes, *types;
	int64_t own;

	if (!read_p2p_name(name, &op, &own) || part->p2p_count >= ENTRIES_MAX)
		return;
	sizes = op.send ? "input_sizes" : "output_sizes";
	types = op.send ? "input_dtypes" : "output_dtypes";
	op.elements = elements(cJSON_GetObjectItemCaseSensitive(entry, sizes));
	op.dtype = dtype_of(flights, entry, types);
	op.seq = (int64_t)number_of(entry, "p2p_seq_id", -1);
	op.state = state_of(entry);
	part->group_rank = own;
	part->p2p = nspy_grow(part->p2p, part->p2p_count, &part->p2p_capacity, sizeof(op));
	part->p2p[part->p2p_count++] = op;
}

/* The end of a batch: only this entry learns whether the batch has completed. */
static void end_batch(struct nspy_fr_part *part, const cJSON *entry)
{
	int64_t seq = (int64_t)number_of(entry, "p2p_seq_id", -1);
	enum nspy_fr_state state = state_of(entry);

	for (size_t i = part->p2p_count; i-- > 0 && part->p2p[i].seq == seq;) {
		if (part->p2p[i].state < state)
			part->p2p[i].state = state;
	}
}

static int by_peer(const void *a, const void *b)
{
	const struct nspy_fr_p2p *x = a, *y = b;

	if (x->send != y->send)
		return x->send ? -1 : 1;
	if (x->peer != y->peer)
		return x->peer < y->peer ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* --- collective operations --- */

static uint64_t signature_of(const struct nspy_fr_op *op)
{
	uint64_t h = hash(op->name);

	if (op->dtype)
		h ^= nspy_mix(hash(op->dtype) + 1);
	if (nspy_fr_sizes_agree(op->name))
		h ^= nspy_mix((uint64_t)op->in + 2) ^ nspy_mix((uint64_t)op->out + 3);
	return h;
}

static void add_collective(struct nspy_flights *flights, struct nspy_fr_part *part,
			   const cJSON *entry, const char *name)
{
	struct nspy_fr_op op = {.batch = 1};
	struct nspy_fr_op *last = part->count ? &part->ops[part->count - 1] : NULL;

	op.seq = (int64_t)number_of(entry, "collective_seq_id", number_of(entry, "seq_id", -1));
	if (op.seq < 0)
		return;
	op.name = intern(flights, name);
	op.in = elements(cJSON_GetObjectItemCaseSensitive(entry, "input_sizes"));
	op.out = elements(cJSON_GetObjectItemCaseSensitive(entry, "output_sizes"));
	op.dtype = dtype_of(flights, entry, "input_dtypes");
	op.dtype_out = dtype_of(flights, entry, "output_dtypes");
	op.state = state_of(entry);
	op.ended = op.state == NSPY_FR_COMPLETED &&
		   strcmp(text_of(entry, "state") ? text_of(entry, "state") : "", "completed") != 0;
	op.signature = signature_of(&op);
	if (last && last->seq == op.seq) {
		/* A batch has one number, and its last entry learns whether it has completed. */
		last->batch++;
		last->signature = nspy_mix(last->signature) ^ op.signature;
		last->state = op.state > last->state ? op.state : last->state;
		return;
	}
	if (part->count < ENTRIES_MAX) {
		part->ops = nspy_grow(part->ops, part->count, &part->capacity, sizeof(op));
		part->ops[part->count++] = op;
	}
}

static void add_entry(struct nspy_flights *flights, const cJSON *dump, const cJSON *entry,
		      int64_t rank, bool lost)
{
	const cJSON *pg = cJSON_GetObjectItemCaseSensitive(entry, "process_group");
	const cJSON *first = cJSON_GetArrayItem(pg, 0), *second = cJSON_GetArrayItem(pg, 1);
	const char *name = text_of(entry, "profiling_name");
	struct nspy_fr_group *group;
	struct nspy_fr_part *part;
	bool p2p;

	if (!name)
		return;
	/* "nccl:all_reduce", "gloo:broadcast" */
	if (strchr(name, ':'))
		name = strchr(name, ':') + 1;
	group = group_of(flights, dump, cJSON_IsString(first) ? first->valuestring : "0",
			 cJSON_IsString(second) ? second->valuestring : "");
	if (!group)
		return;
	part = part_of(group, rank);
	part->lost |= lost;
	p2p = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(entry, "is_p2p"));
	if (strncmp(name, "send", 4) == 0 || strncmp(name, "recv", 4) == 0)
		add_p2p(flights, part, entry, name);
	else if (p2p)
		end_batch(part, entry);
	else
		add_collective(flights, part, entry, name);
}

static int by_seq(const void *a, const void *b)
{
	const struct nspy_fr_op *x = a, *y = b;

	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Groups whose ring has nothing left still show in pg_status how far they came. */
static void read_status(struct nspy_flights *flights, const cJSON *dump, int64_t rank)
{
	const cJSON *status = cJSON_GetObjectItemCaseSensitive(dump, "pg_status"), *item;

	cJSON_ArrayForEach(item, status)
	{
		const cJSON *config = item->string ? config_of(dump, item->string) : NULL;
		const char *desc = config ? text_of(config, "desc") : NULL;
		struct nspy_fr_group *group;
		struct nspy_fr_part *part;

		if (!config)
			continue;
		group = group_of(flights, dump, item->string, desc ? desc : "");
		if (!group)
			return;
		part = part_of(group, rank);
		part->enqueued = (int64_t)number_of(item, "last_enqueued_collective", -1);
		part->completed = (int64_t)number_of(item, "last_completed_collective", -1);
		part->has_status = true;
	}
}

static bool is_member(const struct nspy_fr_group *group, int64_t rank)
{
	for (size_t i = 0; i < group->rank_count; i++) {
		if (group->ranks[i] == rank)
			return true;
	}
	return false;
}

void nspy_fr_complete(const struct nspy_flights *flights)
{
	for (size_t g = 0; g < flights->group_count; g++) {
		struct nspy_fr_group *group = flights->groups[g];
		size_t known = group->part_count;

		for (size_t i = 0; i < flights->dump_count && group->rank_count; i++) {
			const struct nspy_fr_dump *dump = &flights->dumps[i];

			if (is_member(group, dump->rank))
				part_of(group, dump->rank);
			if (group->part_count > known)
				group->parts[known++].lost = dump->lost;
		}
	}
}

bool nspy_flights_add(struct nspy_flights *flights, const char *path, const struct cJSON *dump)
{
	const cJSON *entries = cJSON_GetObjectItemCaseSensitive(dump, "entries"), *entry;
	int64_t rank = (int64_t)number_of(dump, "rank", (double)rank_of_path(path));
	bool used = rank < 0 || rank >= RANKS_MAX, lost;
	const char *version = text_of(dump, "version");
	int minor = version && strncmp(version, "2.", 2) == 0
			    ? (int)(strtol(version + 2, NULL, 10) % 1000)
			    : 0;

	if (!flights->dump_count || minor < flights->minor)
		flights->minor = minor;

	for (size_t i = 0; i < flights->dump_count && !used; i++)
		used = flights->dumps[i].rank == rank;
	if (used) {
		/* The name does not tell: numbered as they come, and said so. */
		rank = (int64_t)flights->dump_count;
		flights->guessed = true;
	}
	lost = entries && entries->child && number_of(entries->child, "record_id", 0) > 0;
	flights->dumps = nspy_grow(flights->dumps, flights->dump_count, &flights->dump_capacity,
				   sizeof(*flights->dumps));
	flights->dumps[flights->dump_count++] =
		(struct nspy_fr_dump){nspy_xstrdup(path), rank, lost};
	cJSON_ArrayForEach(entry, entries) add_entry(flights, dump, entry, rank, lost);
	read_status(flights, dump, rank);
	for (size_t g = 0; g < flights->group_count; g++) {
		struct nspy_fr_group *group = flights->groups[g];

		for (size_t i = 0; i < group->part_count; i++) {
			struct nspy_fr_part *part = &group->parts[i];

			if (part->rank == rank && part->count)
				qsort(part->ops, part->count, sizeof(struct nspy_fr_op), by_seq);
			if (part->rank == rank && part->p2p_count)
				qsort(part->p2p, part->p2p_count, sizeof(struct nspy_fr_p2p),
				      by_peer);
		}
	}
	return entries && entries->child;
}
