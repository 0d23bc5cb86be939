/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu_time.h"

#include <stdlib.h>

#include "bandwidth.h"
#include "map.h"
#include "who.h"

/* Ranks waited for long: by that, and by a fifth of the transfer. Below, it is the launch's jitter.
 */
#define WAIT_MIN_NS 20000u

/* What one rank kept of one function on one communicator. */
struct part {
	const struct nspy_proc *proc;
	const struct nspy_prof_comm_view *comm;
	const struct nspy_prof_kind_view *kind;
};

struct parts {
	struct part *items;
	size_t count, capacity;
};

struct kernel {
	const struct part *part;
	uint64_t seq, ns, bytes, queued_ns;
};

struct op {
	uint64_t seq, bytes;
	uint64_t transfer_ns, sum_ns, wait_ns;
	size_t ranks;
	bool late, busy;
	const struct part *last; /* NULL: several came last together */
};

/* What the work of one communicator and function is done on. */
struct bench {
	struct kernel *kernels;
	size_t kernel_count, kernel_capacity;
	struct op *ops;
	size_t op_count, op_capacity;
};

static const char *call_name(uint32_t func)
{
	static const char *const names[NSPY_PROF_FUNC_COUNT] = {
		[NSPY_PROF_FUNC_ALL_GATHER] = "ncclAllGather",
		[NSPY_PROF_FUNC_REDUCE_SCATTER] = "ncclReduceScatter",
		[NSPY_PROF_FUNC_ALL_REDUCE] = "ncclAllReduce",
		[NSPY_PROF_FUNC_ALL_TO_ALL] = "ncclAlltoAll",
	};

	return func < NSPY_PROF_FUNC_COUNT ? names[func] : NULL;
}

/* --- parts, those of one communicator and function beside each other --- */

static int compare_keys(const struct part *x, const struct part *y)
{
	if (x->comm->hash != y->comm->hash)
		return x->comm->hash < y->comm->hash ? -1 : 1;
	if (x->comm->nranks != y->comm->nranks)
		return x->comm->nranks < y->comm->nranks ? -1 : 1;
	return x->kind->func < y->kind->func ? -1 : x->kind->func > y->kind->func;
}

static int compare_parts(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	int order = compare_keys(x, y);

	if (order)
		return order;
	return x->comm->rank < y->comm->rank ? -1 : x->comm->rank > y->comm->rank;
}

static void add_parts(struct parts *parts, const struct nspy_proc *proc)
{
	for (size_t i = 0; i < proc->prof.kind_count; i++) {
		const struct nspy_prof_kind_view *kind = &proc->prof.kinds[i];
		const struct nspy_prof_comm_view *comm =
			nspy_prof_comm_by_id(&proc->prof, kind->comm);

		/* Without NCCL's hash nothing can be put together. */
		if (kind->what != NSPY_PROF_COLL || !call_name(kind->func) || !kind->kernel_count ||
		    !comm || !comm->hash || comm->nranks < 2)
			continue;
		parts->items = nspy_grow(parts->items, parts->count, &parts->capacity,
					 sizeof(*parts->items));
		parts->items[parts->count++] = (struct part){proc, comm, kind};
	}
}

static void find_parts(const struct nspy_attempt *attempt, struct parts *ret)
{
	struct nspy_map seen = {0};

	for (size_t i = 0; i < attempt->proc_count; i++) {
		const struct nspy_proc *whole = nspy_proc_whole(attempt->procs[i]);

		/* Parts of a process share what was recorded of it. */
		if (nspy_map_get(&seen, whole->index + 1))
			continue;
		nspy_map_put(&seen, whole->index + 1, attempt->procs[i]);
		add_parts(ret, attempt->procs[i]);
	}
	nspy_map_done(&seen);
	if (ret->count)
		qsort(ret->items, ret->count, sizeof(*ret->items), compare_parts);
}

/* --- operations --- */

static int compare_kernels(const void *a, const void *b)
{
	const struct kernel *x = a, *y = b;

	if (x->seq != y->seq)
		return x->seq < y->seq ? -1 : 1;
	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return x->part->comm->rank < y->part->comm->rank
		       ? -1
		       : x->part->comm->rank > y->part->comm->rank;
}

static void gather_kernels(struct bench *bench, const struct part *parts, size_t count)
{
	bench->kernel_count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct nspy_prof_kind_view *kind = parts[i].kind;

		for (size_t k = 0; k < kind->kernel_count; k++) {
			const struct nspy_prof_kernel *from = &kind->kernels[k];
			unsigned int type_bytes =
				from->datatype < 256 ? parts[i].proc->type_bytes[from->datatype]
						     : 0;

			bench->kernels =
				nspy_grow(bench->kernels, bench->kernel_count,
					  &bench->kernel_capacity, sizeof(*bench->kernels));
			bench->kernels[bench->kernel_count++] = (struct kernel){
				.part = &parts[i],
				.seq = from->seq,
				.ns = from->gpu_ns,
				.queued_ns = from->queued_ns,
				.bytes = from->count * type_bytes,
			};
		}
	}
	if (bench->kernel_count)
		qsort(bench->kernels, bench->kernel_count, sizeof(*bench->kernels),
		      compare_kernels);
}

/* Kernels of one operation, the shortest first. */
static void add_op(struct bench *bench, const struct kernel *kernels, size_t count)
{
	struct op op = {
		.seq = kernels[0].seq,
		.bytes = kernels[0].bytes,
		.transfer_ns = kernels[0].ns,
		.ranks = count,
	};
	uint64_t longest = kernels[count - 1].ns - op.transfer_ns;

	if (count < 2 || count > (size_t)kernels[0].part->comm->nranks)
		return;
	for (size_t i = 0; i < count; i++) {
		/* Ranks that do not agree: another number for the same one, or a mismatch. */
		if (kernels[i].bytes != op.bytes)
			return;
		op.sum_ns += kernels[i].ns;
		op.wait_ns += kernels[i].ns - op.transfer_ns;
	}
	op.late = longest > WAIT_MIN_NS && longest > op.transfer_ns / 5;
	/* Alone: the next one waited at least half as long as the first. */
	if (op.late && kernels[1].ns - op.transfer_ns > longest / 2)
		op.last = kernels[0].part;
	op.busy = kernels[0].queued_ns > longest / 2;
	bench->ops =
		nspy_grow(bench->ops, bench->op_count, &bench->op_capacity, sizeof(*bench->ops));
	bench->ops[bench->op_count++] = op;
}

static void find_ops(struct bench *bench)
{
	size_t begin = 0;

	bench->op_count = 0;
	for (size_t i = 1; i <= bench->kernel_count; i++) {
		if (i < bench->kernel_count && bench->kernels[i].seq == bench->kernels[begin].seq)
			continue;
		add_op(bench, &bench->kernels[begin], i - begin);
		begin = i;
	}
}

/* --- series --- */

static int compare_ops(const void *a, const void *b)
{
	const struct op *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	if (x->transfer_ns != y->transfer_ns)
		return x->transfer_ns < y->transfer_ns ? -1 : 1;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static const struct nspy_comm *joined(const struct part *parts, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct nspy_proc *proc = parts[i].proc;
		uint32_t index = parts[i].comm->comm;

		if (index < proc->member_count && proc->members[index])
			return proc->members[index]->comm;
	}
	return NULL;
}

/* Of the ranks that were last alone, the one that was so most often, if in most of the cases. */
static void find_last(const struct op *ops, size_t count, struct nspy_gpu_series *series)
{
	const struct part *best = NULL;
	size_t votes = 0, found = 0, busy = 0;

	/* Majority by elimination, then counted. */
	for (size_t i = 0; i < count; i++) {
		if (!ops[i].last)
			continue;
		if (!votes)
			best = ops[i].last;
		if (ops[i].last == best)
			votes++;
		else
			votes--;
	}
	for (size_t i = 0; best && i < count; i++) {
		found += ops[i].last == best;
		busy += ops[i].last == best && ops[i].busy;
	}
	if (!best || found * 2 <= series->late)
		return;
	series->last_ops = found;
	series->last_busy = busy;
	series->last = best->proc;
	if (series->comm) {
		const struct nspy_member *member =
			nspy_member_by_rank(series->comm, best->comm->rank);

		series->last = member ? member->proc : series->last;
	}
}

/* Operations of one size, the shortest transfer first. */
static void add_series(const struct part *parts, size_t part_count, const struct op *ops,
		       size_t count, struct nspy_gpu_time *ret)
{
	const struct nspy_prof_comm_view *comm = parts[0].comm;
	struct nspy_gpu_series series = {
		.comm = joined(parts, part_count),
		.hash = comm->hash,
		.nranks = comm->nranks,
		.func = parts[0].kind->func,
		.bytes = ops[0].bytes,
		.ops = count,
		.transfer_median_ns = ops[count / 2].transfer_ns,
		.transfer_max_ns = ops[count - 1].transfer_ns,
	};
	double size = 0, factor = 0;

	for (size_t i = 0; i < count; i++) {
		series.partial += ops[i].ranks < (size_t)comm->nranks;
		series.slow += ops[i].transfer_ns >= 2 * series.transfer_median_ns;
		series.kernel_ns += ops[i].sum_ns;
		series.wait_ns += ops[i].wait_ns;
		series.late += ops[i].late;
	}
	find_last(ops, count, &series);
	if (series.transfer_median_ns &&
	    nspy_bandwidth_factors(call_name(series.func), series.bytes, (size_t)comm->nranks,
				   &size, &factor))
		series.busbw = size * factor * 1e9 / (double)series.transfer_median_ns;
	ret->series = nspy_grow(ret->series, ret->count, &ret->capacity, sizeof(*ret->series));
	ret->series[ret->count++] = series;
}

static void find_series(struct bench *bench, const struct part *parts, size_t part_count,
			struct nspy_gpu_time *ret)
{
	size_t begin = 0;

	gather_kernels(bench, parts, part_count);
	find_ops(bench);
	if (!bench->op_count)
		return;
	qsort(bench->ops, bench->op_count, sizeof(*bench->ops), compare_ops);
	for (size_t i = 1; i <= bench->op_count; i++) {
		if (i < bench->op_count && bench->ops[i].bytes == bench->ops[begin].bytes)
			continue;
		add_series(parts, part_count, &bench->ops[begin], i - begin, ret);
		begin = i;
	}
}

static int compare_series(const void *a, const void *b)
{
	const struct nspy_gpu_series *x = a, *y = b;
	uint64_t p = x->last ? x->wait_ns : 0, q = y->last ? y->wait_ns : 0;

	if (p != q)
		return p > q ? -1 : 1;
	if (x->kernel_ns != y->kernel_ns)
		return x->kernel_ns > y->kernel_ns ? -1 : 1;
	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	if (x->func != y->func)
		return x->func < y->func ? -1 : 1;
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

void nspy_gpu_time_find(const struct nspy_attempt *attempt, struct nspy_gpu_time *ret)
{
	struct parts parts = {0};
	struct bench bench = {0};
	size_t begin = 0;

	*ret = (struct nspy_gpu_time){0};
	find_parts(attempt, &parts);
	for (size_t i = 1; i <= parts.count; i++) {
		if (i < parts.count && compare_keys(&parts.items[i], &parts.items[begin]) == 0)
			continue;
		find_series(&bench, &parts.items[begin], i - begin, ret);
		begin = i;
	}
	if (ret->count)
		qsort(ret->series, ret->count, sizeof(*ret->series), compare_series);
	free(bench.kernels);
	free(bench.ops);
	free(parts.items);
}

void nspy_gpu_time_done(struct nspy_gpu_time *time)
{
	free(time->series);
	*time = (struct nspy_gpu_time){0};
}
