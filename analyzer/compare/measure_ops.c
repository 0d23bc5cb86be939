/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "reread.h"
#include "text.h"

#define COMMS_MAX 256u /* read again, spread over all; the others are taken to be like them */

/* A kind of operation: function, sizes within a factor of four, shape of the communicator. */
struct kind {
	char *key;
	struct nspy_series spread;
	uint64_t seen;
	double bytes;
};

struct ops {
	const struct nspy_model *model;
	const struct nspy_step_times *steps;
	struct nspy_map by_key;   /* hash of the key's parts -> struct kind * */
	struct nspy_map shape_of; /* communicator read -> its shape, a string */
	struct kind **kinds;
	size_t count, capacity;
};

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t count_nodes(const struct nspy_comm *comm)
{
	const char **hosts = nspy_xcalloc(comm->member_count, sizeof(*hosts));
	size_t count = 0;

	for (size_t i = 0; i < comm->member_count; i++)
		hosts[i] = nspy_proc_host(comm->members[i]->proc);
	qsort(hosts, comm->member_count, sizeof(*hosts), compare_texts);
	for (size_t i = 0; i < comm->member_count; i++)
		count += i == 0 || strcmp(hosts[i], hosts[i - 1]) != 0;
	free(hosts);
	return count;
}

static char *shape_text(const struct nspy_comm *comm)
{
	size_t nodes = count_nodes(comm);

	return nspy_xasprintf("%zu ranks on %zu node%s", comm->rank_count, nodes,
			      nodes == 1 ? "" : "s");
}

/* Power of four at or below; 0 and 1 byte are one. */
static unsigned int bucket_of(uint64_t bytes)
{
	unsigned int bucket = 0;

	while (bytes >= 4) {
		bytes /= 4;
		bucket++;
	}
	return bucket;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = nspy_mix(hash + (unsigned char)*text);
	return hash;
}

static char *key_text(const struct nspy_fn *fn, unsigned int bucket, const char *shape)
{
	struct nspy_str s = {0};

	nspy_str_addf(&s, "%s ", fn->name);
	if (bucket) {
		nspy_add_bytes_binary(&s, 1ULL << 2 * bucket);
		nspy_str_add(&s, " to ");
		nspy_add_bytes_binary(&s, 1ULL << (2 * bucket + 2));
	} else {
		nspy_str_add(&s, "below 4 B");
	}
	nspy_str_addf(&s, ", %s", shape);
	return nspy_str_take(&s);
}

static struct kind *kind_of(struct ops *ops, uint16_t fn_id, unsigned int bucket, const char *shape)
{
	uint16_t canon = nspy_model_get_fn(ops->model, fn_id)->canon;
	uint64_t hash = hash_text(nspy_mix((uint64_t)canon << 8 | bucket), shape);
	struct kind *kind = nspy_map_get(&ops->by_key, hash);

	if (kind)
		return kind;
	kind = nspy_xcalloc(1, sizeof(*kind));
	kind->key = key_text(nspy_model_get_fn(ops->model, canon), bucket, shape);
	nspy_map_put(&ops->by_key, hash, kind);
	ops->kinds = nspy_grow(ops->kinds, ops->count, &ops->capacity, sizeof(struct kind *));
	ops->kinds[ops->count++] = kind;
	return kind;
}

static bool in_steps(const struct nspy_step_times *steps, uint64_t ns)
{
	return !steps->count || (ns >= steps->starts[0] && ns < steps->starts[steps->count]);
}

static void visit(void *context, const struct nspy_proc *proc, uint32_t thread,
		  const struct nspy_rec *rec)
{
	struct ops *ops = context;
	uint16_t id = rec->fn < proc->fn_map_count ? proc->fn_map[rec->fn] : 0;
	const struct nspy_member *member;
	const struct nspy_cell *cell;
	const char *shape;
	struct kind *kind;
	uint64_t bytes;

	(void)thread;
	if (rec->comm >= proc->member_count || rec->seq == 0 || rec->leave == 0 ||
	    (rec->flags & (NSPY_CALL_CAPTURED | NSPY_CALL_NOSEQ)) ||
	    nspy_model_get_fn(ops->model, id)->klass != NSPY_CLASS_COLL)
		return;
	member = proc->members[rec->comm];
	if (!member || !member->comm || member->comm->members[0] != member)
		return;
	shape = nspy_map_get(&ops->shape_of, (uintptr_t)member->comm);
	cell = shape ? nspy_cells_get(&member->comm->cells, rec->seq) : NULL;
	if (!cell || !in_steps(ops->steps, nspy_proc_when(proc, rec->enter)))
		return;
	bytes = rec->count * proc->type_bytes[rec->datatype];
	kind = kind_of(ops, id, bucket_of(bytes), shape);
	kind->seen++;
	kind->bytes += (double)bytes;
	if (nspy_cell_count(cell) == member->comm->member_count)
		nspy_series_add(&kind->spread, (double)(cell->last_ns - cell->first_ns));
}

static int compare_comms(const void *a, const void *b)
{
	const struct nspy_comm *x = *(struct nspy_comm *const *)a;
	const struct nspy_comm *y = *(struct nspy_comm *const *)b;

	return x->key < y->key ? -1 : x->key > y->key;
}

static int compare_kinds(const void *a, const void *b)
{
	return strcmp((*(struct kind *const *)a)->key, (*(struct kind *const *)b)->key);
}

/*
 * Chooses the communicators and reads each of their first members' processes once. Loading finds
 * them in any order; sorted, the same traces give the same numbers.
 */
static void read_again(struct ops *ops, const struct nspy_attempt *attempt)
{
	const struct nspy_comm **comms =
		nspy_xcalloc(attempt->comm_count + 1, sizeof(struct nspy_comm *));
	size_t count = 0, step = attempt->comm_count / COMMS_MAX + 1;
	struct nspy_map done = {0};

	for (size_t i = 0; i < attempt->comm_count; i++) {
		if (attempt->comms[i]->member_count >= 2 && attempt->comms[i]->high_seq)
			comms[count++] = attempt->comms[i];
	}
	qsort(comms, count, sizeof(struct nspy_comm *), compare_comms);
	for (size_t i = 0; i < count; i += step)
		nspy_map_put(&ops->shape_of, (uintptr_t)comms[i], shape_text(comms[i]));
	for (size_t i = 0; i < count; i += step) {
		const struct nspy_proc *proc = nspy_proc_whole(comms[i]->members[0]->proc);

		if (nspy_map_get(&done, (uintptr_t)proc))
			continue;
		nspy_map_put(&done, (uintptr_t)proc, ops);
		nspy_reread(proc, visit, ops);
	}
	if (ops->count)
		qsort(ops->kinds, ops->count, sizeof(struct kind *), compare_kinds);
	nspy_map_done(&done);
	free(comms);
}

/*
 * Operations of a kind per step, for one communicator. What was read is a sample of the
 * communicators of a shape, so it is divided by how many were read.
 */
static double rate(const struct ops *ops, const struct kind *kind)
{
	const char *shape = strrchr(kind->key, ',') + 2;
	size_t comms = 0;

	for (size_t i = 0; i < ops->shape_of.capacity; i++) {
		const char *one = ops->shape_of.slots[i].value;

		comms += one && strcmp(one, shape) == 0;
	}
	return (double)kind->seen / (double)(comms ? comms : 1) /
	       (double)(ops->steps->count ? ops->steps->count : 1);
}

static void keep(const struct ops *ops, const struct kind *kind, struct nspy_run *run)
{
	struct nspy_mix *mix = nspy_run_add_mix(run, kind->key);
	char *key = nspy_xasprintf("spread: %s", kind->key);
	struct nspy_metric *metric;

	mix->per_step = rate(ops, kind);
	mix->bytes = kind->seen ? kind->bytes / (double)kind->seen : 0;
	if (kind->spread.count) {
		metric = nspy_run_add_metric(run, NSPY_METRIC_SPREAD, key);
		metric->per_step = mix->per_step;
		nspy_series_summary(&kind->spread, &metric->ns);
	}
	free(key);
}

void nspy_measure_ops(const struct nspy_model *model, const struct nspy_attempt *attempt,
		      const struct nspy_step_times *steps, struct nspy_run *run)
{
	struct ops ops = {.model = model, .steps = steps};

	read_again(&ops, attempt);
	for (size_t i = 0; i < ops.count; i++) {
		keep(&ops, ops.kinds[i], run);
		nspy_series_done(&ops.kinds[i]->spread);
		free(ops.kinds[i]->key);
		free(ops.kinds[i]);
	}
	for (size_t i = 0; i < ops.shape_of.capacity; i++)
		free(ops.shape_of.slots[i].value);
	nspy_map_done(&ops.shape_of);
	nspy_map_done(&ops.by_key);
	free(ops.kinds);
}
