/* SPDX-License-Identifier: Apache-2.0 */
/* PROF chunks, record by record. The kind of each duration is part of its name. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "dump.h"
#include "prof.h"
#include "text.h"

static void add_number(struct nspy_str *s, cJSON *object, const char *name, uint64_t value)
{
	nspy_str_addf(s, " %s=%" PRIu64, name, value);
	cJSON_AddNumberToObject(object, name, (double)value);
}

static void add_signed(struct nspy_str *s, cJSON *object, const char *name, int64_t value)
{
	nspy_str_addf(s, " %s=%" PRId64, name, value);
	cJSON_AddNumberToObject(object, name, (double)value);
}

static void add_name(struct nspy_str *s, cJSON *object, const char *name, const char *value)
{
	nspy_str_addf(s, " %s=%s", name, value);
	cJSON_AddStringToObject(object, name, value);
}

/* Does not fit into a number of JSON. */
static void add_hash(struct nspy_str *s, cJSON *object, uint64_t hash)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "0x%" PRIx64, hash);
	add_name(s, object, "hash", text);
}

static void dump_comm(const struct nspy_dump *dump, const struct nspy_proc *proc,
		      const struct nspy_prof_comm *comm)
{
	struct nspy_str s = {0};
	cJSON *object = nspy_dump_start(proc, "prof_comm", comm->when_ns, &s);
	char *name = nspy_xstrndup(comm->name.text ? comm->name.text : "", comm->name.bytes);

	nspy_clean(name);
	add_number(&s, object, "id", comm->id);
	if (comm->comm != NSPY_COMM_INDEX_NONE)
		add_number(&s, object, "comm", comm->comm);
	add_hash(&s, object, comm->hash);
	add_number(&s, object, "api", comm->api);
	add_number(&s, object, "mask", comm->mask);
	add_signed(&s, object, "nranks", comm->nranks);
	add_signed(&s, object, "rank", comm->rank);
	add_signed(&s, object, "nodes", comm->nodes);
	add_name(&s, object, "name", name);
	free(name);
	nspy_dump_put(dump, &s, object);
}

static void add_times(struct nspy_str *s, cJSON *object, const struct nspy_prof_op *op)
{
	add_number(s, object, "queued_ns", op->queued_ns);
	if (op->proxies) {
		add_number(s, object, "network_ops", op->proxies);
		add_number(s, object, "host_callback_network_first_ns", op->proxy_first_ns);
		add_number(s, object, "host_callback_network_last_ns", op->proxy_last_ns);
	}
	if (op->kernels) {
		add_number(s, object, "kernel_channels", op->kernels);
		add_number(s, object, "host_callback_kernel_first_ns", op->kernel_first_ns);
		add_number(s, object, "host_callback_kernel_last_ns", op->kernel_last_ns);
	}
	if (op->gpu_kernels)
		add_number(s, object, nspy_prof_is_exact(op) ? "exact_gpu_ns" : "gpu_part_ns",
			   op->gpu_ns);
	if (op->gpu_start_ns)
		add_number(s, object, "gpu_clock_start_ns", op->gpu_start_ns);
}

static void dump_op(const struct nspy_dump *dump, const struct nspy_proc *proc,
		    const struct nspy_prof_op *op)
{
	struct nspy_str s = {0};
	cJSON *object = nspy_dump_start(proc, "prof_op", op->start_ns, &s);

	add_name(&s, object, "what", nspy_prof_what_name(op->what));
	add_name(&s, object, "func", nspy_prof_func_name(op->func));
	add_number(&s, object, "comm", op->comm);
	add_number(&s, object, "seq", op->seq);
	add_number(&s, object, "count", op->count);
	add_number(&s, object, "datatype", op->datatype);
	add_signed(&s, object, "peer", op->peer);
	add_number(&s, object, "channels", op->channels);
	add_name(&s, object, "algo", nspy_prof_algo_name(op->algo));
	add_name(&s, object, "proto", nspy_prof_proto_name(op->proto));
	add_times(&s, object, op);
	if (op->flags & NSPY_PROF_CAPTURED)
		add_number(&s, object, "captured", 1);
	if (op->flags & NSPY_PROF_CUT)
		add_number(&s, object, "cut", 1);
	nspy_dump_put(dump, &s, object);
}

static void dump_wait(const struct nspy_dump *dump, const struct nspy_proc *proc,
		      const struct nspy_prof_wait *wait)
{
	struct nspy_str s = {0};
	cJSON *object = nspy_dump_start(proc, "prof_wait", wait->when_ns, &s);

	if (wait->comm != NSPY_PROF_NONE)
		add_number(&s, object, "comm", wait->comm);
	add_signed(&s, object, "peer", wait->peer);
	add_number(&s, object, "span_ns", wait->span_ns);
	for (uint32_t i = 0; i < NSPY_PROF_WAIT_COUNT; i++)
		add_number(&s, object, nspy_prof_wait_name(i), wait->counter[i]);
	nspy_dump_put(dump, &s, object);
}

static void dump_sums(const struct nspy_dump *dump, const struct nspy_proc *proc,
		      const struct nspy_prof_sums *sums)
{
	struct nspy_str s = {0};
	cJSON *object = nspy_dump_start(proc, "prof_sums", sums->when_ns, &s);

	for (uint32_t i = 0; i < NSPY_PROF_SUM_COUNT; i++)
		add_number(&s, object, nspy_prof_sum_name(i), sums->counter[i]);
	nspy_dump_put(dump, &s, object);
}

void nspy_dump_prof(const struct nspy_dump *dump, const struct nspy_proc *proc,
		    const uint8_t *payload, size_t bytes)
{
	struct nspy_prof_record record;
	size_t cursor = 0;

	while (!dump->comm_key && nspy_prof_next(payload, bytes, &cursor, &record) == 0) {
		if (record.kind == NSPY_PROF_COMM)
			dump_comm(dump, proc, &record.comm);
		else if (record.kind == NSPY_PROF_OP)
			dump_op(dump, proc, &record.op);
		else if (record.kind == NSPY_PROF_WAIT)
			dump_wait(dump, proc, &record.wait);
		else if (record.kind == NSPY_PROF_SUMS)
			dump_sums(dump, proc, &record.sums);
	}
}
