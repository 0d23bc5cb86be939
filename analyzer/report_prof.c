/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL's profiler interface told, over all ranks, in both forms. Exact durations of the GPU
 * and times between callbacks of the host are given apart, each with its name.
 */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "report.h"
#include "text.h"
#include "who.h"

#define KINDS_TOLD 6u
#define WAITS_TOLD 3u

/* Operations of one function on one communicator, of all ranks. */
struct kind {
	struct nspy_prof_kind_view sum;
	uint64_t hash;
	int32_t nranks;
	size_t procs;
	const struct nspy_comm *comm; /* ours; NULL = not joined */
	const struct nspy_proc *slowest;
};

/* What one rank's transfers with one peer waited for most. */
struct wait {
	const struct nspy_proc *proc;
	const struct nspy_prof_wait_view *view;
	const struct nspy_prof_comm_view *comm;
	uint32_t counter;
	uint64_t ns;
};

struct gathered {
	struct kind *kinds;
	size_t kind_count, kind_capacity;
	struct wait *waits;
	size_t wait_count, wait_capacity;
	uint64_t sums[NSPY_PROF_SUM_COUNT];
};

static const struct nspy_comm *joined(const struct nspy_proc *proc, uint32_t index)
{
	const struct nspy_member *member = index < proc->member_count ? proc->members[index] : NULL;

	return member ? member->comm : NULL;
}

static void merge(struct nspy_prof_span *into, const struct nspy_prof_span *span)
{
	into->count += span->count;
	into->sum_ns += span->sum_ns;
	into->max_ns = span->max_ns > into->max_ns ? span->max_ns : into->max_ns;
}

/* NCCL's hash is the same on all ranks; without one nothing is put together. */
static struct kind *kind_of(struct gathered *all, const struct nspy_prof_comm_view *comm,
			    const struct nspy_prof_kind_view *view)
{
	for (size_t i = 0; comm->hash && i < all->kind_count; i++) {
		struct kind *kind = &all->kinds[i];

		if (kind->hash == comm->hash && kind->nranks == comm->nranks &&
		    kind->sum.func == view->func && kind->sum.what == view->what)
			return kind;
	}
	all->kinds =
		nspy_grow(all->kinds, all->kind_count, &all->kind_capacity, sizeof(*all->kinds));
	all->kinds[all->kind_count] = (struct kind){
		.sum = {.func = view->func, .what = view->what},
		.hash = comm->hash,
		.nranks = comm->nranks,
	};
	return &all->kinds[all->kind_count++];
}

static void add_kind(struct gathered *all, const struct nspy_proc *proc,
		     const struct nspy_prof_kind_view *view)
{
	const struct nspy_prof_comm_view *comm = nspy_prof_comm_by_id(&proc->prof, view->comm);
	struct kind *kind;

	if (!comm)
		return;
	kind = kind_of(all, comm, view);
	if (!kind->comm)
		kind->comm = joined(proc, comm->comm);
	if (view->exact.count && view->exact.max_ns >= kind->sum.exact.max_ns)
		kind->slowest = proc;
	kind->procs++;
	kind->sum.ops += view->ops;
	kind->sum.captured += view->captured;
	kind->sum.cut += view->cut;
	kind->sum.algos |= view->algos;
	kind->sum.protos |= view->protos;
	if (view->channels > kind->sum.channels)
		kind->sum.channels = view->channels;
	merge(&kind->sum.exact, &view->exact);
	merge(&kind->sum.network, &view->network);
	merge(&kind->sum.kernel, &view->kernel);
}

static void add_wait(struct gathered *all, const struct nspy_proc *proc,
		     const struct nspy_prof_wait_view *view)
{
	static const uint32_t times[] = {
		NSPY_PROF_SEND_GPU_WAIT, NSPY_PROF_SEND_PEER_WAIT,  NSPY_PROF_SEND_WAIT,
		NSPY_PROF_RECV_WAIT,     NSPY_PROF_RECV_FLUSH_WAIT, NSPY_PROF_RECV_GPU_WAIT,
	};
	struct wait wait = {
		.proc = proc,
		.view = view,
		.comm = nspy_prof_comm_by_id(&proc->prof, view->comm),
	};

	for (size_t i = 0; i < nspy_array_size(times); i++) {
		if (view->counter[times[i]] > wait.ns) {
			wait.ns = view->counter[times[i]];
			wait.counter = times[i];
		}
	}
	if (!wait.ns)
		return;
	all->waits =
		nspy_grow(all->waits, all->wait_count, &all->wait_capacity, sizeof(*all->waits));
	all->waits[all->wait_count++] = wait;
}

static int by_ops(const void *a, const void *b)
{
	const struct kind *x = a, *y = b;

	if (x->sum.ops != y->sum.ops)
		return x->sum.ops > y->sum.ops ? -1 : 1;
	if (x->sum.func != y->sum.func)
		return x->sum.func < y->sum.func ? -1 : 1;
	return x->hash < y->hash ? -1 : x->hash > y->hash;
}

static int by_time(const void *a, const void *b)
{
	const struct wait *x = a, *y = b;

	return x->ns > y->ns ? -1 : x->ns < y->ns;
}

static void gather(const struct nspy_report *report, struct gathered *all)
{
	const struct nspy_attempt *attempt = report->attempt;

	*all = (struct gathered){0};
	for (size_t i = 0; i < attempt->proc_count; i++) {
		const struct nspy_proc *proc = attempt->procs[i];
		bool told = false;

		/* Parts of a process share what was recorded of it. */
		for (size_t k = 0; proc->whole && k < i; k++)
			told |= attempt->procs[k]->whole == proc->whole;
		for (size_t k = 0; !told && k < proc->prof.kind_count; k++)
			add_kind(all, proc, &proc->prof.kinds[k]);
		for (size_t k = 0; !told && k < proc->prof.wait_count; k++)
			add_wait(all, proc, &proc->prof.waits[k]);
		for (int k = 0; !told && k < NSPY_PROF_SUM_COUNT; k++)
			all->sums[k] += proc->prof.sums[k];
	}
	if (all->kind_count)
		qsort(all->kinds, all->kind_count, sizeof(*all->kinds), by_ops);
	if (all->wait_count)
		qsort(all->waits, all->wait_count, sizeof(*all->waits), by_time);
}

static void done(struct gathered *all)
{
	free(all->kinds);
	free(all->waits);
}

/* --- text --- */

static void add_span(struct nspy_str *s, const char *name, const struct nspy_prof_span *span)
{
	if (!span->count)
		return;
	nspy_str_addf(s, "; %s ", name);
	nspy_add_duration(s, span->sum_ns / span->count);
	nspy_str_add(s, " on average, ");
	nspy_add_duration(s, span->max_ns);
	nspy_str_add(s, " at most");
}

static void add_where(struct nspy_str *s, const struct kind *kind)
{
	if (kind->comm)
		nspy_add_comm(s, kind->comm);
	else if (kind->nranks > 0)
		nspy_str_addf(s, "NCCL's communicator 0x%" PRIx64 " (%" PRId32 " ranks)",
			      kind->hash, kind->nranks);
	else
		nspy_str_addf(s, "NCCL's communicator 0x%" PRIx64, kind->hash);
}

static void tell_kind(struct nspy_texts *ret, const struct kind *kind)
{
	struct nspy_str s = {0};

	nspy_str_addf(&s, "profiler: %s on ", nspy_prof_func_name(kind->sum.func));
	add_where(&s, kind);
	nspy_str_add(&s, ": ");
	nspy_add_count(&s, kind->sum.ops);
	nspy_str_addf(&s, " operations of %zu rank%s", kind->procs, kind->procs == 1 ? "" : "s");
	if (kind->sum.what == NSPY_PROF_COPY)
		nspy_str_add(&s, " by copy engines");
	add_span(&s, "exact (GPU)", &kind->sum.exact);
	if (kind->sum.exact.count && kind->slowest) {
		nspy_str_add(&s, " (");
		nspy_add_proc_short(&s, kind->slowest);
		nspy_str_add(&s, ")");
	}
	add_span(&s, "host callback, kernel", &kind->sum.kernel);
	add_span(&s, "host callback, until the network was done", &kind->sum.network);
	if (!kind->sum.exact.count && !kind->sum.kernel.count && !kind->sum.network.count)
		nspy_str_add(&s, "; no durations (NCCLSPY_PROFILER=kernels measures them)");
	if (kind->sum.cut)
		nspy_str_addf(&s, "; %" PRIu64 " had not ended", kind->sum.cut);
	nspy_texts_add(ret, nspy_str_take(&s));
}

static void tell_wait(struct nspy_texts *ret, const struct wait *wait)
{
	static const char *const what[NSPY_PROF_WAIT_COUNT] = {
		[NSPY_PROF_SEND_GPU_WAIT] = "for its own GPU to have data for",
		[NSPY_PROF_SEND_PEER_WAIT] = "for room at",
		[NSPY_PROF_SEND_WAIT] = "for the network to take data for",
		[NSPY_PROF_RECV_WAIT] = "for data from",
		[NSPY_PROF_RECV_FLUSH_WAIT] = "for its own GPU to see data from",
		[NSPY_PROF_RECV_GPU_WAIT] = "for its own GPU to consume data from",
	};
	struct nspy_str s = {0};

	nspy_str_add(&s, "profiler: network transfers of ");
	nspy_add_proc_short(&s, wait->proc);
	nspy_str_add(&s, " waited ");
	nspy_add_duration(&s, wait->ns);
	nspy_str_addf(&s, " %s rank %" PRId32, what[wait->counter], wait->view->peer);
	if (wait->comm && wait->comm->hash)
		nspy_str_addf(&s, " of communicator 0x%" PRIx64, wait->comm->hash);
	nspy_str_add(&s, " (host callback, summed over transfers)");
	nspy_texts_add(ret, nspy_str_take(&s));
}

void nspy_report_profiler(const struct nspy_report *report, struct nspy_texts *ret)
{
	struct gathered all;

	gather(report, &all);
	for (size_t i = 0; i < all.kind_count && i < KINDS_TOLD; i++)
		tell_kind(ret, &all.kinds[i]);
	for (size_t i = 0; i < all.wait_count && i < WAITS_TOLD; i++)
		tell_wait(ret, &all.waits[i]);
	if (all.sums[NSPY_PROF_SUM_DROPPED])
		nspy_texts_add(ret, nspy_xasprintf("profiler: %" PRIu64 " events were lost: they "
						   "came faster than they were written",
						   all.sums[NSPY_PROF_SUM_DROPPED]));
	done(&all);
}

/* --- JSON --- */

static void put_span(cJSON *object, const char *name, const struct nspy_prof_span *span)
{
	cJSON *item = cJSON_AddObjectToObject(object, name);

	cJSON_AddNumberToObject(item, "count", (double)span->count);
	cJSON_AddNumberToObject(item, "sum_ns", (double)span->sum_ns);
	cJSON_AddNumberToObject(item, "max_ns", (double)span->max_ns);
}

static void put_hash(cJSON *object, uint64_t hash)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "0x%" PRIx64, hash);
	cJSON_AddStringToObject(object, "nccl_hash", text);
}

static cJSON *kind_json(const struct kind *kind)
{
	cJSON *object = cJSON_CreateObject();
	char key[24] = "";

	if (kind->comm)
		(void)snprintf(key, sizeof(key), "%016" PRIx64, kind->comm->key);
	put_hash(object, kind->hash);
	cJSON_AddStringToObject(object, "comm", key);
	cJSON_AddStringToObject(object, "function", nspy_prof_func_name(kind->sum.func));
	cJSON_AddStringToObject(object, "what", nspy_prof_what_name(kind->sum.what));
	cJSON_AddNumberToObject(object, "operations", (double)kind->sum.ops);
	cJSON_AddNumberToObject(object, "captured", (double)kind->sum.captured);
	cJSON_AddNumberToObject(object, "not_ended", (double)kind->sum.cut);
	cJSON_AddNumberToObject(object, "channels", (double)kind->sum.channels);
	put_span(object, "exact_gpu", &kind->sum.exact);
	put_span(object, "host_callback_kernel", &kind->sum.kernel);
	put_span(object, "host_callback_network", &kind->sum.network);
	return object;
}

static cJSON *wait_json(const struct wait *wait)
{
	cJSON *object = cJSON_CreateObject();

	if (wait->proc->rank >= 0)
		cJSON_AddNumberToObject(object, "rank", (double)wait->proc->rank);
	else
		cJSON_AddNullToObject(object, "rank");
	put_hash(object, wait->comm ? wait->comm->hash : 0);
	cJSON_AddNumberToObject(object, "peer", (double)wait->view->peer);
	for (uint32_t i = 0; i < NSPY_PROF_WAIT_COUNT; i++)
		cJSON_AddNumberToObject(object, nspy_prof_wait_name(i),
					(double)wait->view->counter[i]);
	return object;
}

cJSON *nspy_report_profiler_json(const struct nspy_report *report)
{
	cJSON *object = cJSON_CreateObject(), *kinds, *waits, *events;
	struct gathered all;

	gather(report, &all);
	kinds = cJSON_AddArrayToObject(object, "operations");
	for (size_t i = 0; i < all.kind_count; i++)
		cJSON_AddItemToArray(kinds, kind_json(&all.kinds[i]));
	waits = cJSON_AddArrayToObject(object, "waits");
	for (size_t i = 0; i < all.wait_count; i++)
		cJSON_AddItemToArray(waits, wait_json(&all.waits[i]));
	events = cJSON_AddObjectToObject(object, "events");
	for (uint32_t i = 0; i < NSPY_PROF_SUM_COUNT; i++)
		cJSON_AddNumberToObject(events, nspy_prof_sum_name(i), (double)all.sums[i]);
	done(&all);
	return object;
}
