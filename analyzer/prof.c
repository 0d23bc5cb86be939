/* SPDX-License-Identifier: Apache-2.0 */
#include "prof.h"

#include <errno.h>
#include <stdlib.h>

#include "map.h"
#include "util.h"

static void add_span(struct nspy_prof_span *span, uint64_t ns)
{
	span->count++;
	span->sum_ns += ns;
	span->max_ns = ns > span->max_ns ? ns : span->max_ns;
}

static void take_comm(struct nspy_prof_view *prof, const struct nspy_prof_comm *comm)
{
	struct nspy_prof_comm_view *view = NULL;

	for (size_t i = 0; i < prof->comm_count && !view; i++)
		if (prof->comms[i].id == comm->id)
			view = &prof->comms[i];
	if (!view) {
		if (prof->comm_count == NSPY_PROF_COMMS_KEPT)
			return;
		prof->comms = nspy_grow(prof->comms, prof->comm_count, &prof->comm_capacity,
					sizeof(*prof->comms));
		view = &prof->comms[prof->comm_count++];
	}
	*view = (struct nspy_prof_comm_view){
		.id = comm->id,
		.comm = comm->comm,
		.hash = comm->hash,
		.api = comm->api,
		.nranks = comm->nranks,
		.rank = comm->rank,
	};
}

static struct nspy_prof_kind_view *kind_of(struct nspy_prof_view *prof,
					   const struct nspy_prof_op *op)
{
	/* Few kinds, and the latest one usually comes again. */
	for (size_t i = prof->kind_count; i-- > 0;) {
		struct nspy_prof_kind_view *kind = &prof->kinds[i];

		if (kind->comm == op->comm && kind->what == op->what && kind->func == op->func)
			return kind;
	}
	if (prof->kind_count == NSPY_PROF_KINDS_KEPT)
		return NULL;
	prof->kinds = nspy_grow(prof->kinds, prof->kind_count, &prof->kind_capacity,
				sizeof(*prof->kinds));
	prof->kinds[prof->kind_count] = (struct nspy_prof_kind_view){
		.comm = op->comm,
		.what = op->what,
		.func = op->func,
	};
	return &prof->kinds[prof->kind_count++];
}

static bool is_kept(const struct nspy_prof_kind_view *kind, uint64_t seq)
{
	return (nspy_mix(seq) & kind->kernel_mask) == 0;
}

static void add_kernel(struct nspy_prof_kind_view *kind, const struct nspy_prof_op *op)
{
	/* NCCL numbers no messages: they all have 0. */
	const uint64_t number = op->what == NSPY_PROF_COLL ? op->seq : op->gpu_start_ns;

	while (is_kept(kind, number) && kind->kernel_count == NSPY_PROF_KERNELS_KEPT) {
		size_t kept = 0;

		/* One number again and again: nothing that NCCL does, but a file may say so. */
		if (kind->kernel_mask == UINT64_MAX)
			return;
		kind->kernel_mask = kind->kernel_mask << 1 | 1;
		for (size_t i = 0; i < kind->kernel_count; i++) {
			if (is_kept(kind, kind->kernels[i].seq))
				kind->kernels[kept++] = kind->kernels[i];
		}
		kind->kernel_count = kept;
	}
	if (!is_kept(kind, number))
		return;
	kind->kernels = nspy_grow(kind->kernels, kind->kernel_count, &kind->kernel_capacity,
				  sizeof(*kind->kernels));
	kind->kernels[kind->kernel_count++] = (struct nspy_prof_kernel){
		.seq = number,
		.gpu_start_ns = op->gpu_start_ns,
		.gpu_ns = op->gpu_ns,
		.saw_start_ns = op->start_ns + op->kernel_first_ns,
		.saw_end_ns = op->start_ns + op->kernel_last_ns,
		.queued_ns = op->kernel_first_ns,
		.count = op->count,
		.datatype = op->datatype,
	};
}

static void take_op(struct nspy_prof_view *prof, const struct nspy_prof_op *op)
{
	struct nspy_prof_kind_view *kind = kind_of(prof, op);

	if (!kind)
		return;
	kind->ops++;
	kind->captured += (op->flags & NSPY_PROF_CAPTURED) != 0;
	kind->cut += (op->flags & NSPY_PROF_CUT) != 0;
	kind->algos |= op->algo < NSPY_PROF_ALGO_COUNT ? 1u << op->algo : 0;
	kind->protos |= op->proto < NSPY_PROF_PROTO_COUNT ? 1u << op->proto : 0;
	kind->channels = op->channels > kind->channels ? op->channels : kind->channels;
	/* What had not ended has no duration. */
	if (op->flags & NSPY_PROF_CUT)
		return;
	if (nspy_prof_is_exact(op))
		add_span(&kind->exact, op->gpu_ns);
	if (nspy_prof_is_exact(op) && op->gpu_start_ns && op->kernels >= op->channels &&
	    op->kernel_first_ns && !(op->flags & NSPY_PROF_CAPTURED))
		add_kernel(kind, op);
	if (op->proxies)
		add_span(&kind->network, op->proxy_last_ns);
	if (op->kernels && op->kernel_last_ns >= op->kernel_first_ns)
		add_span(&kind->kernel, op->kernel_last_ns - op->kernel_first_ns);
}

static void take_wait(struct nspy_prof_view *prof, const struct nspy_prof_wait *wait)
{
	struct nspy_prof_wait_view *view = NULL;

	for (size_t i = prof->wait_count; i-- > 0 && !view;)
		if (prof->waits[i].comm == wait->comm && prof->waits[i].peer == wait->peer)
			view = &prof->waits[i];
	if (!view) {
		if (prof->wait_count == NSPY_PROF_WAITS_KEPT)
			return;
		prof->waits = nspy_grow(prof->waits, prof->wait_count, &prof->wait_capacity,
					sizeof(*prof->waits));
		view = &prof->waits[prof->wait_count++];
		*view = (struct nspy_prof_wait_view){.comm = wait->comm, .peer = wait->peer};
	}
	for (int i = 0; i < NSPY_PROF_WAIT_COUNT; i++)
		view->counter[i] += wait->counter[i];
}

int nspy_prof_ingest(struct nspy_prof_view *prof, const uint8_t *payload, size_t bytes)
{
	struct nspy_prof_record record;
	size_t cursor = 0;
	int rc;

	while ((rc = nspy_prof_next(payload, bytes, &cursor, &record)) == 0) {
		switch (record.kind) {
		case NSPY_PROF_COMM:
			take_comm(prof, &record.comm);
			break;
		case NSPY_PROF_OP:
			take_op(prof, &record.op);
			break;
		case NSPY_PROF_WAIT:
			take_wait(prof, &record.wait);
			break;
		case NSPY_PROF_SUMS:
			for (int i = 0; i < NSPY_PROF_SUM_COUNT; i++)
				prof->sums[i] = record.sums.counter[i];
			break;
		default:
			break;
		}
	}
	return rc == -ENODATA ? 0 : rc;
}

void nspy_prof_done(struct nspy_prof_view *prof)
{
	for (size_t i = 0; i < prof->kind_count; i++)
		free(prof->kinds[i].kernels);
	free(prof->comms);
	free(prof->kinds);
	free(prof->waits);
	*prof = (struct nspy_prof_view){0};
}

const struct nspy_prof_comm_view *nspy_prof_comm_by_id(const struct nspy_prof_view *prof,
						       uint32_t id)
{
	for (size_t i = 0; i < prof->comm_count; i++)
		if (prof->comms[i].id == id)
			return &prof->comms[i];
	return NULL;
}

/* --- names --- */

#define NAME(table, i) ((i) < nspy_array_size(table) && (table)[i] ? (table)[i] : "unknown")

const char *nspy_prof_func_name(uint32_t func)
{
	static const char *const names[] = {
		[NSPY_PROF_FUNC_BROADCAST] = "Broadcast",
		[NSPY_PROF_FUNC_REDUCE] = "Reduce",
		[NSPY_PROF_FUNC_ALL_GATHER] = "AllGather",
		[NSPY_PROF_FUNC_REDUCE_SCATTER] = "ReduceScatter",
		[NSPY_PROF_FUNC_ALL_REDUCE] = "AllReduce",
		[NSPY_PROF_FUNC_SEND_RECV] = "SendRecv",
		[NSPY_PROF_FUNC_SEND] = "Send",
		[NSPY_PROF_FUNC_RECV] = "Recv",
		[NSPY_PROF_FUNC_ALL_TO_ALL] = "AlltoAll",
		[NSPY_PROF_FUNC_GATHER] = "Gather",
		[NSPY_PROF_FUNC_SCATTER] = "Scatter",
	};

	return NAME(names, func);
}

const char *nspy_prof_algo_name(uint32_t algo)
{
	static const char *const names[] = {
		[NSPY_PROF_ALGO_TREE] = "TREE",
		[NSPY_PROF_ALGO_RING] = "RING",
		[NSPY_PROF_ALGO_COLLNET_DIRECT] = "COLLNET_DIRECT",
		[NSPY_PROF_ALGO_COLLNET_CHAIN] = "COLLNET_CHAIN",
		[NSPY_PROF_ALGO_NVLS] = "NVLS",
		[NSPY_PROF_ALGO_NVLS_TREE] = "NVLS_TREE",
		[NSPY_PROF_ALGO_PAT] = "PAT",
	};

	return NAME(names, algo);
}

const char *nspy_prof_proto_name(uint32_t proto)
{
	static const char *const names[] = {
		[NSPY_PROF_PROTO_LL] = "LL",
		[NSPY_PROF_PROTO_LL128] = "LL128",
		[NSPY_PROF_PROTO_SIMPLE] = "SIMPLE",
	};

	return NAME(names, proto);
}

const char *nspy_prof_what_name(uint32_t what)
{
	static const char *const names[] = {
		[NSPY_PROF_COLL] = "collective",
		[NSPY_PROF_P2P] = "p2p",
		[NSPY_PROF_COPY] = "copy_engine",
	};

	return NAME(names, what);
}

const char *nspy_prof_wait_name(uint32_t counter)
{
	static const char *const names[] = {
		[NSPY_PROF_SENDS] = "sends",
		[NSPY_PROF_SEND_BYTES] = "send_bytes",
		[NSPY_PROF_SEND_GPU_WAIT] = "send_gpu_wait_ns",
		[NSPY_PROF_SEND_PEER_WAIT] = "send_peer_wait_ns",
		[NSPY_PROF_SEND_WAIT] = "send_wait_ns",
		[NSPY_PROF_RECVS] = "recvs",
		[NSPY_PROF_RECV_BYTES] = "recv_bytes",
		[NSPY_PROF_RECV_WAIT] = "recv_wait_ns",
		[NSPY_PROF_RECV_FLUSH_WAIT] = "recv_flush_wait_ns",
		[NSPY_PROF_RECV_GPU_WAIT] = "recv_gpu_wait_ns",
	};

	return NAME(names, counter);
}

const char *nspy_prof_sum_name(uint32_t sum)
{
	static const char *const names[] = {
		[NSPY_PROF_SUM_STARTED] = "started",
		[NSPY_PROF_SUM_STOPPED] = "stopped",
		[NSPY_PROF_SUM_STATES] = "states",
		[NSPY_PROF_SUM_OPS] = "ops",
		[NSPY_PROF_SUM_CUT] = "cut",
		[NSPY_PROF_SUM_DROPPED] = "dropped",
		[NSPY_PROF_SUM_UNMATCHED] = "unmatched",
		[NSPY_PROF_SUM_FOREIGN] = "foreign",
		[NSPY_PROF_SUM_BAD_TIME] = "bad_time",
	};

	return NAME(names, sum);
}
