/* SPDX-License-Identifier: Apache-2.0 */
#include "who.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

int64_t *nspy_proc_ranks(const struct nspy_proc *proc, size_t *ret_count)
{
	const struct nspy_comm *world = proc->attempt ? proc->attempt->world : NULL;
	int64_t *ranks = nspy_xcalloc(proc->member_count + 1, sizeof(*ranks));
	size_t count = 0;

	for (size_t m = 0; m < proc->member_count; m++) {
		const struct nspy_member *member = proc->members[m];

		if (member && world && member->comm == world && member->rec.rank >= 0)
			ranks[count++] = member->rec.rank;
	}
	if (count < 2) { /* then the launcher knows best */
		count = proc->rank >= 0;
		ranks[0] = proc->rank;
	}
	*ret_count = nspy_sort_unique(ranks, count);
	return ranks;
}

size_t nspy_count_ranks(const struct nspy_proc *const *procs, size_t count)
{
	size_t sum = 0;

	for (size_t i = 0; i < count; i++) {
		size_t own;

		free(nspy_proc_ranks(procs[i], &own));
		sum += own ? own : 1;
	}
	return sum;
}

static void add_ranks(struct nspy_str *s, const int64_t *ranks, size_t count)
{
	nspy_str_add(s, count > 1 ? "ranks " : "rank ");
	nspy_add_ranges(s, ranks, count);
}

void nspy_add_proc_short(struct nspy_str *s, const struct nspy_proc *proc)
{
	size_t count;
	int64_t *ranks = nspy_proc_ranks(proc, &count);

	if (count)
		add_ranks(s, ranks, count);
	else
		nspy_str_addf(s, "pid %" PRId64 " on %s", proc->pid, nspy_proc_host(proc));
	free(ranks);
}

static void add_fact(struct nspy_str *s, const struct nspy_proc *proc, const char *key,
		     const char *before)
{
	const char *value = nspy_proc_fact(proc, key);

	if (value && *value)
		nspy_str_addf(s, "%s%s", before, value);
}

void nspy_add_proc(struct nspy_str *s, const struct nspy_proc *proc)
{
	/* Of a process with several ranks these are the first one's. */
	bool several = proc->whole || nspy_count_ranks(&proc, 1) > 1;
	const char *gpu = several ? NULL : nspy_proc_fact(proc, "gpu.index");
	const char *local = several ? NULL : nspy_proc_fact(proc, "local_rank");

	nspy_add_proc_short(s, proc);
	nspy_str_addf(s, " (node %s", nspy_proc_host(proc));
	add_fact(s, proc, "pod", ", pod ");
	add_fact(s, proc, "instance.id", ", ");
	if (gpu && *gpu) {
		nspy_str_addf(s, ", gpu %s", gpu);
		add_fact(s, proc, "gpu.pci", " ");
	} else if (local && *local) {
		nspy_str_addf(s, ", local rank %s", local);
	}
	if (proc->rank >= 0 && proc->pid > 0)
		nspy_str_addf(s, ", pid %" PRId64, proc->pid);
	nspy_str_add(s, ")");
}

void nspy_add_procs_short(struct nspy_str *s, const struct nspy_proc *const *procs, size_t count)
{
	int64_t *ranks = NULL;
	size_t known = 0, capacity = 0;

	for (size_t i = 0; i < count; i++) {
		size_t own;
		int64_t *of_proc = nspy_proc_ranks(procs[i], &own);

		for (size_t r = 0; r < own; r++) {
			ranks = nspy_grow(ranks, known, &capacity, sizeof(*ranks));
			ranks[known++] = of_proc[r];
		}
		free(of_proc);
	}
	known = nspy_sort_unique(ranks, known);
	if (known)
		add_ranks(s, ranks, known);
	for (size_t i = 0, named = 0; i < count && named < 8; i++) {
		if (procs[i]->rank >= 0)
			continue;
		if (known || named)
			nspy_str_add(s, ", ");
		nspy_add_proc_short(s, procs[i]);
		named++;
	}
	free(ranks);
}

void nspy_add_procs(struct nspy_str *s, const struct nspy_proc *const *procs, size_t count)
{
	const char **hosts;

	if (count == 0) {
		nspy_str_add(s, "nobody");
		return;
	}
	if (count == 1) {
		nspy_add_proc(s, procs[0]);
		return;
	}
	hosts = nspy_xcalloc(count, sizeof(*hosts));
	for (size_t i = 0; i < count; i++)
		hosts[i] = nspy_proc_host(procs[i]);
	nspy_add_procs_short(s, procs, count);
	nspy_str_add(s, " (on ");
	nspy_add_hostlist(s, hosts, count);
	nspy_str_add(s, ")");
	free(hosts);
}

void nspy_add_comm(struct nspy_str *s, const struct nspy_comm *comm)
{
	if (comm->attempt && comm->attempt->world == comm)
		nspy_str_add(s, "world");
	else
		nspy_str_addf(s, "communicator %08" PRIx32, (uint32_t)(comm->shown >> 32));
	if (comm->nranks > 0)
		nspy_str_addf(s, " (%" PRId32 " ranks)", comm->nranks);
}

void nspy_add_op(struct nspy_str *s, const struct nspy_model *model, const struct nspy_comm *comm,
		 uint64_t seq)
{
	const struct nspy_cell *cell = nspy_cells_get(&comm->cells, seq);
	uint16_t fn = cell ? cell->signature & ((1u << NSPY_CELL_FN_BITS) - 1) : 0;

	nspy_str_addf(s, "%s #%" PRIu64, fn ? nspy_model_get_fn(model, fn)->name : "operation",
		      seq);
}

const char *nspy_type_name(const struct nspy_model *model, uint8_t type, char *buffer, size_t bytes)
{
	const char *name = model->type_names[type];
	size_t n = 0;

	if (!name) {
		(void)snprintf(buffer, bytes, "type %u", type);
		return buffer;
	}
	if (strncmp(name, "nccl", 4) == 0)
		name += 4;
	for (; name[n] && n + 1 < bytes; n++)
		buffer[n] = (char)tolower((unsigned char)name[n]);
	buffer[n] = '\0';
	return buffer;
}

const char *nspy_redop_name(uint8_t redop)
{
	static const char *const names[] = {"sum", "prod", "max", "min", "avg", "user op"};

	return redop < nspy_array_size(names) ? names[redop] : "unknown op";
}

void nspy_add_nccl_version(struct nspy_str *s, const char *value)
{
	uint64_t v;

	if (!nspy_parse_u64(value, &v))
		nspy_str_add(s, value);
	else if (v >= 10000)
		nspy_str_addf(s, "%" PRIu64 ".%" PRIu64 ".%" PRIu64, v / 10000, v / 100 % 100,
			      v % 100);
	else
		nspy_str_addf(s, "%" PRIu64 ".%" PRIu64 ".%" PRIu64, v / 1000, v / 100 % 10,
			      v % 100);
}

static void add_collective(struct nspy_str *s, const struct nspy_model *model,
			   const struct nspy_rec *rec, const char *peer)
{
	char type[32];

	nspy_str_addf(s, "(%" PRIu64, rec->count);
	if (rec->datatype != NSPY_DATATYPE_NONE)
		nspy_str_addf(s, " x %s", nspy_type_name(model, rec->datatype, type, sizeof(type)));
	if (rec->redop != NSPY_REDOP_NONE)
		nspy_str_addf(s, ", %s", nspy_redop_name(rec->redop));
	if (rec->peer != NSPY_PEER_NONE)
		nspy_str_addf(s, ", %s %" PRId32, peer, rec->peer);
	nspy_str_add(s, ")");
}

void nspy_add_call(struct nspy_str *s, const struct nspy_model *model, const struct nspy_rec *rec)
{
	const struct nspy_fn *fn = nspy_model_get_fn(model, rec->fn);

	nspy_str_add(s, fn->name);
	switch (fn->klass) {
	case NSPY_CLASS_COLL:
		add_collective(s, model, rec, "root");
		break;
	case NSPY_CLASS_SEND:
		add_collective(s, model, rec, "to");
		break;
	case NSPY_CLASS_RECV:
		add_collective(s, model, rec, "from");
		break;
	case NSPY_CLASS_MEM_ALLOC:
		nspy_str_add(s, "(");
		nspy_add_bytes_binary(s, rec->count);
		nspy_str_add(s, ")");
		break;
	default:
		break;
	}
}

void nspy_add_doing(struct nspy_str *s, const struct nspy_model *model,
		    const struct nspy_proc *proc)
{
	const struct nspy_placed_call *inside = NULL;

	for (size_t i = 0; i < proc->wait_count; i++) {
		if (!inside || proc->waits[i].rec.enter < inside->rec.enter)
			inside = &proc->waits[i];
	}
	if (inside) {
		nspy_str_add(s, "inside ");
		nspy_add_call(s, model, &inside->rec);
		nspy_str_add(s, " since ");
		nspy_add_clock(s, inside->rec.enter);
		return;
	}
	if (!proc->busy.thread) {
		nspy_str_add(s, "outside NCCL, no call of it was seen");
		return;
	}
	nspy_str_add(s, "outside NCCL since ");
	nspy_add_clock(s, proc->busy.rec.leave);
	nspy_str_add(s, ", last call ");
	nspy_add_call(s, model, &proc->busy.rec);
	if (proc->busy.rec.seq &&
	    nspy_model_get_fn(model, proc->busy.rec.fn)->klass == NSPY_CLASS_COLL)
		nspy_str_addf(s, " #%" PRIu64, proc->busy.rec.seq);
}

const struct nspy_member *nspy_member_of(const struct nspy_comm *comm, const struct nspy_proc *proc)
{
	for (size_t i = 0; i < comm->member_count; i++) {
		if (comm->members[i]->proc == proc)
			return comm->members[i];
	}
	return NULL;
}

const struct nspy_member *nspy_member_by_rank(const struct nspy_comm *comm, int32_t rank)
{
	size_t low = 0, high = comm->member_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (comm->members[middle]->rec.rank < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low < comm->member_count && comm->members[low]->rec.rank == rank ? comm->members[low]
										: NULL;
}
