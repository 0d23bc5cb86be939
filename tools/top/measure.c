/* SPDX-License-Identifier: Apache-2.0 */
#include "top.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BEHIND_WAIT_NS 1000000000ull /* a shorter wait is everyday life */

/* A communicator on a page. */
struct part {
	uint64_t key;
	uint32_t rank; /* index into ranks */
	uint32_t comm;
};

/* A rank's entry into an operation, by the system's clock. */
struct entry {
	uint64_t key, seq;
	int64_t when_ns;
	uint32_t rank;
};

struct lag {
	uint32_t rank;
	double ns;
};

/* ncclDataType_t: int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, fp8 */
static uint64_t type_bytes(uint8_t type)
{
	static const uint8_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

	return type < sizeof(bytes) ? bytes[type] : 0;
}

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/*
 * Bytes that the operation moves over the bus of one rank, as nccl-tests counts them
 * (doc/PERFORMANCE.md there). Counts are those of the call's arguments.
 */
static double bus_bytes(const struct nspy_status *page, const struct nspy_status_op *op)
{
	double bytes = (double)op->count * (double)type_bytes(op->datatype);
	double n = page->comms[op->comm].nranks;
	const char *name = nspy_status_name(page, op->name);

	if (op->klass == NSPY_CLASS_SEND)
		return bytes;
	if (op->klass != NSPY_CLASS_COLL || n < 2)
		return 0;
	if (begins(name, "ncclAllReduce"))
		return bytes * 2 * (n - 1) / n;
	if (begins(name, "ncclAllGather") || begins(name, "ncclReduceScatter") ||
	    begins(name, "ncclAlltoAll"))
		return bytes * (n - 1); /* the argument counts one rank's part */
	return bytes;
}

static double rate(double amount, uint64_t from_ns, uint64_t to_ns)
{
	return from_ns && to_ns > from_ns ? amount * 1e9 / (double)(to_ns - from_ns) : 0;
}

/* Over the operations that the page still shows up to its publication: in a job that stands still
 * the rate sinks. key 0 = of all communicators. */
static void measure_ops(const struct nspy_status *page, uint64_t key, double *ret_ops,
			double *ret_bytes)
{
	uint64_t first = UINT64_MAX;
	double ops = 0, bytes = 0;

	for (uint32_t i = 0; i < page->op_count; i++) {
		const struct nspy_status_op *op = &page->ops[i];

		if (op->klass != NSPY_CLASS_COLL && op->klass != NSPY_CLASS_SEND)
			continue;
		if (op->enter_ns < first)
			first = op->enter_ns;
		if (key && page->comms[op->comm].key != key)
			continue;
		ops++;
		bytes += bus_bytes(page, op);
	}
	*ret_ops = ops > 0 ? rate(ops, first, page->published_ns) : 0;
	*ret_bytes = ops > 0 ? rate(bytes, first, page->published_ns) : 0;
}

static bool needs_peers(const struct nspy_status_call *call)
{
	switch (call->klass) {
	case NSPY_CLASS_COLL:
	case NSPY_CLASS_SEND:
	case NSPY_CLASS_RECV:
	case NSPY_CLASS_GROUP_END:
	case NSPY_CLASS_COMM_INIT:
	case NSPY_CLASS_COMM_FINALIZE:
	case NSPY_CLASS_SYNC:
		return true;
	default:
		return false;
	}
}

static void measure_rank(const struct top_snapshot *snap, struct top_rank *r)
{
	const struct nspy_status *page = &r->page;

	r->age_ns = snap->now_real_ns > page->published_real_ns
			    ? snap->now_real_ns - page->published_real_ns
			    : 0;
	for (uint32_t i = 0; i < page->call_count; i++) {
		const struct nspy_status_call *call = &page->calls_open[i];
		uint64_t ns = page->published_ns > call->enter_ns
				      ? page->published_ns - call->enter_ns
				      : 0;

		if (!needs_peers(call) || (r->call && ns <= r->waiting_ns))
			continue;
		r->call = call;
		r->waiting_ns = ns;
	}
	measure_ops(page, 0, &r->ops_per_s, &r->bus_bytes_per_s);
}

static int by_key(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int by_size(const void *a, const void *b)
{
	const struct top_comm *x = a, *y = b;

	if (x->nranks != y->nranks)
		return x->nranks > y->nranks ? -1 : 1;
	return x->key < y->key ? -1 : x->key > y->key;
}

/* A synchronisation waits for whatever is not known to be done. */
static bool waits_for(const struct top_rank *r, uint32_t comm)
{
	const struct nspy_status_comm *c = &r->page.comms[comm];

	if (!r->call || r->waiting_ns < BEHIND_WAIT_NS)
		return false;
	if (r->call->comm == NSPY_STATUS_NONE)
		return c->enqueued > c->completed;
	return r->call->comm == comm;
}

static void measure_comm(struct top_snapshot *snap, const struct part *parts, size_t count)
{
	struct top_comm *c = &snap->comms[snap->comm_count++];

	*c = (struct top_comm){.key = parts[0].key, .nranks = -1, .low = UINT64_MAX};
	for (size_t i = 0; i < count; i++) {
		const struct top_rank *r = &snap->ranks[parts[i].rank];
		const struct nspy_status_comm *comm = &r->page.comms[parts[i].comm];
		double ops, bytes;

		measure_ops(&r->page, c->key, &ops, &bytes);
		c->ops_per_s += ops / (double)count;
		c->bus_bytes_per_s += bytes / (double)count;
		c->nranks = comm->nranks > c->nranks ? comm->nranks : c->nranks;
		c->low = comm->enqueued < c->low ? comm->enqueued : c->low;
		c->high = comm->enqueued > c->high ? comm->enqueued : c->high;
		c->waiting += waits_for(r, parts[i].comm);
		c->world = c->world || (!comm->parent_key && comm->nranks > 1 &&
					comm->nranks == r->page.world_size);
		c->seen++;
	}
	for (size_t i = 0; i < count; i++) {
		struct top_rank *r = &snap->ranks[parts[i].rank];
		uint64_t behind = c->high - r->page.comms[parts[i].comm].enqueued;

		if (behind > r->behind)
			r->behind = behind;
	}
}

static int measure_comms(struct top_snapshot *snap)
{
	size_t count = 0, n = 0;
	struct part *parts;

	for (size_t i = 0; i < snap->rank_count; i++)
		count += snap->ranks[i].page.comm_count;
	parts = calloc(count + 1, sizeof(*parts));
	snap->comms = calloc(count + 1, sizeof(*snap->comms));
	if (!parts || !snap->comms) {
		free(parts);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < snap->rank_count; i++)
		for (uint32_t k = 0; k < snap->ranks[i].page.comm_count; k++)
			parts[n++] = (struct part){snap->ranks[i].page.comms[k].key, i, k};
	qsort(parts, n, sizeof(*parts), by_key);
	for (size_t from = 0, to; from < n; from = to) {
		for (to = from; to < n && parts[to].key == parts[from].key;)
			to++;
		measure_comm(snap, parts + from, to - from);
	}
	free(parts);
	qsort(snap->comms, snap->comm_count, sizeof(*snap->comms), by_size);
	return 0;
}

/* --- arrival --- */

static int by_operation(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->seq != y->seq)
		return x->seq < y->seq ? -1 : 1;
	return x->when_ns < y->when_ns ? -1 : x->when_ns > y->when_ns;
}

static int by_lag(const void *a, const void *b)
{
	const struct lag *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static size_t list_entries(const struct top_snapshot *snap, struct entry *ret)
{
	size_t n = 0;

	for (uint32_t i = 0; i < snap->rank_count; i++) {
		const struct nspy_status *page = &snap->ranks[i].page;
		int64_t shift = (int64_t)(page->published_real_ns - page->published_ns);

		for (uint32_t k = 0; k < page->op_count; k++) {
			const struct nspy_status_op *op = &page->ops[k];

			if (op->klass == NSPY_CLASS_COLL && op->seq)
				ret[n++] = (struct entry){page->comms[op->comm].key, op->seq,
							  (int64_t)((uint64_t)shift + op->enter_ns),
							  i};
		}
	}
	return n;
}

static void take_medians(struct top_snapshot *snap, const struct lag *lags, size_t n)
{
	for (size_t from = 0, to; from < n; from = to) {
		for (to = from; to < n && lags[to].rank == lags[from].rank;)
			to++;
		snap->ranks[lags[from].rank].lag_ns = lags[from + (to - from) / 2].ns;
	}
}

/* Between hosts it is as good as their system clocks. */
static int measure_lag(struct top_snapshot *snap)
{
	size_t room = 1, n, made = 0;
	struct entry *entries;
	struct lag *lags;

	for (size_t i = 0; i < snap->rank_count; i++)
		room += snap->ranks[i].page.op_count;
	entries = calloc(room, sizeof(*entries));
	lags = calloc(room, sizeof(*lags));
	if (!entries || !lags) {
		free(entries);
		free(lags);
		return -ENOMEM;
	}
	n = list_entries(snap, entries);
	qsort(entries, n, sizeof(*entries), by_operation);
	for (size_t from = 0, to; from < n; from = to) {
		for (to = from; to < n && entries[to].key == entries[from].key &&
				entries[to].seq == entries[from].seq;)
			to++;
		for (size_t i = from; to - from > 1 && i < to; i++)
			lags[made++] = (struct lag){entries[i].rank,
						    (double)entries[i].when_ns -
							    (double)entries[from].when_ns};
	}
	qsort(lags, made, sizeof(*lags), by_lag);
	take_medians(snap, lags, made);
	free(entries);
	free(lags);
	return 0;
}

/* --- states --- */

static enum top_state state_of(const struct top_rank *r, bool somebody_waits)
{
	const struct nspy_status *page = &r->page;

	if (page->state == NSPY_STATUS_EXITED)
		return page->exit_code ? TOP_FAILED : TOP_ENDED;
	if (page->dead)
		return TOP_DEAD;
	if (page->stopped)
		return TOP_STOPPED;
	if (r->age_ns > TOP_SILENT_NS)
		return TOP_SILENT;
	if (somebody_waits && r->behind)
		return TOP_BEHIND;
	return r->waiting_ns >= BEHIND_WAIT_NS ? TOP_WAITING : TOP_RUNNING;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int count_nodes(struct top_snapshot *snap)
{
	const char **names = calloc(snap->rank_count + 1, sizeof(*names));

	if (!names)
		return -ENOMEM;
	for (size_t i = 0; i < snap->rank_count; i++)
		names[i] = snap->ranks[i].page.node;
	qsort(names, snap->rank_count, sizeof(*names), by_text);
	snap->nodes = 0;
	for (size_t i = 0; i < snap->rank_count; i++)
		snap->nodes += i == 0 || strcmp(names[i], names[i - 1]) != 0;
	free(names);
	return 0;
}

int top_measure(struct top_snapshot *snap)
{
	bool waits = false;
	int rc;

	snap->world_size = -1;
	memset(snap->states, 0, sizeof(snap->states));
	for (size_t i = 0; i < snap->rank_count; i++) {
		measure_rank(snap, &snap->ranks[i]);
		waits = waits || snap->ranks[i].waiting_ns >= BEHIND_WAIT_NS;
	}
	rc = measure_comms(snap);
	if (rc == 0)
		rc = measure_lag(snap);
	if (rc == 0)
		rc = count_nodes(snap);
	for (size_t i = 0; i < snap->rank_count; i++) {
		struct top_rank *r = &snap->ranks[i];

		r->state = state_of(r, waits);
		snap->states[r->state]++;
		if (r->page.world_size > snap->world_size)
			snap->world_size = r->page.world_size;
	}
	return rc;
}

const char *top_state_name(enum top_state state)
{
	static const char *const names[TOP_STATES] = {"dead",   "failed",  "stopped", "silent",
						      "behind", "waiting", "running", "ended"};

	return names[state];
}

void top_tell(const struct top_rank *r, char *out, size_t bytes)
{
	const struct nspy_status *page = &r->page;

	if (page->state == NSPY_STATUS_EXITED)
		(void)snprintf(out, bytes, "exit code %" PRId32, page->exit_code);
	else if (r->state == TOP_SILENT)
		(void)snprintf(out, bytes, "nothing heard for %" PRIu64 " s",
			       r->age_ns / 1000000000u);
	else if (r->call && r->call->seq)
		(void)snprintf(out, bytes, "%.1f s in %s #%" PRIu64, (double)r->waiting_ns / 1e9,
			       nspy_status_name(page, r->call->name), r->call->seq);
	else if (r->call)
		(void)snprintf(out, bytes, "%.1f s in %s", (double)r->waiting_ns / 1e9,
			       nspy_status_name(page, r->call->name));
	else if (page->last_call_ns && page->published_ns > page->last_call_ns + BEHIND_WAIT_NS)
		(void)snprintf(out, bytes, "outside NCCL for %.1f s%s%s",
			       (double)(page->published_ns - page->last_call_ns) / 1e9,
			       page->caller_wchan[0] ? ", in " : "", page->caller_wchan);
	else
		out[0] = '\0';
}
