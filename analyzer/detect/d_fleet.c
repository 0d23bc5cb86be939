/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NETWORK_MIXED, MIXED_HARDWARE, NIC_COUNT_LOW, NIC_PORT_DOWN, GPU_VISIBILITY over all ranks
 *
 * Question: does one rank's machine differ from the others' in what must be alike?
 * Evidence: recorded facts: what of the network NCCL had loaded, instance type and GPU, RDMA
 *   devices and their ports, the GPU that a rank used.
 * Threshold: none; the value that most ranks have is taken for the usual one, and a tie names
 *   nobody. Missing facts are not compared.
 * Known false positives: jobs that are meant to run on unlike nodes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "detect.h"
#include "who.h"

struct value {
	const char *text;
	struct nspy_procs procs;
};

struct values {
	struct value *items;
	size_t count, capacity;
};

typedef const char *value_fn(const struct nspy_proc *proc);

static int compare(const void *a, const void *b)
{
	const struct value *x = a, *y = b;

	return x->procs.count > y->procs.count ? -1 : x->procs.count < y->procs.count;
}

static void add(struct values *values, const char *text, const struct nspy_proc *proc)
{
	size_t v = 0;

	while (v < values->count && strcmp(values->items[v].text, text) != 0)
		v++;
	if (v == values->count) {
		values->items = nspy_grow(values->items, values->count, &values->capacity,
					  sizeof(*values->items));
		values->items[values->count++] = (struct value){.text = text};
	}
	nspy_procs_add(&values->items[v].procs, proc);
}

static void collect(const struct nspy_case *c, value_fn *value, struct values *values)
{
	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		const char *text = value(c->attempt->procs[i]);

		if (text)
			add(values, text, c->attempt->procs[i]);
	}
	if (values->count)
		qsort(values->items, values->count, sizeof(*values->items), compare);
}

static void values_done(struct values *values)
{
	for (size_t v = 0; v < values->count; v++)
		free(values->items[v].procs.items);
	free(values->items);
}

/* Two processes are of different nodes. */
static bool spans_nodes(const struct nspy_case *c)
{
	for (size_t i = 1; i < c->attempt->proc_count; i++) {
		if (strcmp(nspy_proc_host(c->attempt->procs[i]),
			   nspy_proc_host(c->attempt->procs[0])) != 0)
			return true;
	}
	return false;
}

/* A finding for values that differ: the odd ones are named, what they have and what is usual. */
static void report(const struct nspy_case *c, struct nspy_findings *out, enum nspy_finding_id id,
		   const char *what, const struct values *values)
{
	struct nspy_finding *finding = nspy_findings_add(out, id);
	bool tie = values->items[0].procs.count == values->items[1].procs.count;
	struct nspy_str s = {0};

	for (size_t v = 0; v < values->count; v++) {
		const struct value *value = &values->items[v];

		for (size_t i = 0; v && !tie && i < value->procs.count; i++)
			nspy_finding_blame(finding, value->procs.items[i]);
		if (v >= 6)
			continue;
		nspy_str_addf(&s, "%s: on ", value->text);
		nspy_add_procs(&s, value->procs.items, value->procs.count);
		nspy_texts_add(&finding->details, nspy_str_take(&s));
	}
	nspy_add_procs(&s, values->items[1].procs.items, values->items[1].procs.count);
	nspy_str_addf(&s, ": %s %s, where ", what, values->items[1].text);
	nspy_str_addf(&s, "%zu %s have %s", values->items[0].procs.count,
		      tie ? "as well" : "others", values->items[0].text);
	finding->summary = nspy_str_take(&s);
	nspy_str_addf(&s, "%s (", nspy_catalog[id].title);
	nspy_add_procs_short(&s, values->items[1].procs.items, values->items[1].procs.count);
	nspy_str_add(&s, ")");
	finding->cause = nspy_str_take(&s);
	finding->when_ns = c->attempt->start_ns;
}

/* --- what of the network NCCL had loaded once it had a communicator --- */

static const char *network(const struct nspy_proc *proc)
{
	const char *looked = nspy_proc_fact(proc, "net.looked");
	const char *plugin = nspy_proc_fact(proc, "net_plugin.path");
	const char *init = nspy_proc_fact(proc, "net_plugin.init");
	const char *found = nspy_proc_fact(proc, "net_plugin.devices");
	const char *devices = nspy_proc_fact(proc, "rdma.count");
	const char *net = nspy_proc_fact(proc, "env.NCCL_NET");
	const char *no_ib = nspy_proc_fact(proc, "env.NCCL_IB_DISABLE");
	const char *said = nspy_proc_fact(proc, "nccl.network");
	const char *slash;

	/* Its own word, where NCCL_DEBUG was on; a plugin is told by its file all the same. */
	if (said && strcmp(said, "Socket") == 0)
		return "TCP sockets";
	if (said && strcmp(said, "IB") == 0)
		return "InfiniBand (libibverbs)";
	if (!looked || strcmp(looked, "1") != 0)
		return NULL;
	if (net && strcmp(net, "Socket") == 0)
		return "TCP sockets";
	/* A plugin that gave up may stay mapped. */
	if (plugin && !(init && strcmp(init, "0") != 0) && !(found && strcmp(found, "0") == 0)) {
		slash = strrchr(plugin, '/');
		return slash ? slash + 1 : plugin;
	}
	if (nspy_proc_fact(proc, "libibverbs.path") && devices && strcmp(devices, "0") != 0 &&
	    !(no_ib && strcmp(no_ib, "1") == 0))
		return "InfiniBand (libibverbs)";
	return "TCP sockets";
}

static void network_mixed(const struct nspy_case *c, struct nspy_findings *out)
{
	struct values values = {0};

	collect(c, network, &values);
	if (values.count > 1 && spans_nodes(c)) {
		report(c, out, NSPY_FINDING_NETWORK_MIXED, "the network is probably", &values);
		out->items[out->count - 1]->confidence = NSPY_PROBABLE;
	}
	values_done(&values);
}

/* --- hardware --- */

static const char *instance(const struct nspy_proc *proc)
{
	return nspy_proc_fact(proc, "instance.type");
}

static const char *gpu(const struct nspy_proc *proc)
{
	return nspy_proc_fact(proc, "gpu.name");
}

static void mixed_hardware(const struct nspy_case *c, struct nspy_findings *out)
{
	struct values types = {0}, gpus = {0};

	collect(c, gpu, &gpus);
	collect(c, instance, &types);
	if (gpus.count > 1)
		report(c, out, NSPY_FINDING_MIXED_HARDWARE, "the GPU is", &gpus);
	else if (types.count > 1)
		report(c, out, NSPY_FINDING_MIXED_HARDWARE, "the machine is", &types);
	values_done(&types);
	values_done(&gpus);
}

/* --- RDMA devices --- */

static const char *nic_count(const struct nspy_proc *proc)
{
	return nspy_proc_fact(proc, "rdma.count");
}

static void nics_differ(const struct nspy_case *c, struct nspy_findings *out)
{
	struct values counts = {0}, types = {0};

	collect(c, nic_count, &counts);
	collect(c, instance, &types);
	/* Machines of different types may well have different numbers. */
	if (counts.count > 1 && types.count < 2 &&
	    counts.items[0].procs.count != counts.items[1].procs.count &&
	    strtoul(counts.items[1].text, NULL, 10) < strtoul(counts.items[0].text, NULL, 10) &&
	    !nspy_findings_get(out, NSPY_FINDING_NIC_COUNT_LOW))
		report(c, out, NSPY_FINDING_NIC_COUNT_LOW, "the number of RDMA devices is",
		       &counts);
	values_done(&counts);
	values_done(&types);
}

static bool has_word(const char *list, const char *word, size_t bytes)
{
	while (list && *list) {
		size_t n = strcspn(list, " ");

		if (n == bytes && memcmp(list, word, n) == 0)
			return true;
		list += n + (list[n] == ' ');
	}
	return false;
}

/* The device is there and not down on most other nodes that tell of it. */
static bool up_elsewhere(const struct nspy_case *c, const struct nspy_proc *proc,
			 const char *device, size_t bytes)
{
	size_t up = 0, down = 0;

	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		const struct nspy_proc *other = c->attempt->procs[i];

		if (strcmp(nspy_proc_host(other), nspy_proc_host(proc)) == 0 ||
		    !has_word(nspy_proc_fact(other, "rdma.devices"), device, bytes))
			continue;
		if (has_word(nspy_proc_fact(other, "rdma.down"), device, bytes))
			down++;
		else
			up++;
	}
	return up > down;
}

static void ports_differ(const struct nspy_case *c, struct nspy_findings *out)
{
	struct nspy_finding *finding = NULL;
	struct nspy_str s = {0};

	if (nspy_findings_get(out, NSPY_FINDING_NIC_PORT_DOWN))
		return;
	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		const struct nspy_proc *proc = c->attempt->procs[i];
		const char *list = nspy_proc_fact(proc, "rdma.down");

		while (list && *list) {
			size_t n = strcspn(list, " ");

			if (n && up_elsewhere(c, proc, list, n)) {
				if (!finding)
					finding =
						nspy_findings_add(out, NSPY_FINDING_NIC_PORT_DOWN);
				nspy_finding_blame(finding, proc);
				nspy_finding_detail(finding,
						    "%.*s is not active on node %s, but on others",
						    (int)n, list, nspy_proc_host(proc));
			}
			list += n + (list[n] == ' ');
		}
	}
	if (!finding)
		return;
	nspy_add_procs(&s, finding->culprits, finding->culprit_count);
	nspy_str_addf(&s, ": %s", finding->details.text[0]);
	finding->summary = nspy_str_take(&s);
	nspy_str_add(&s, "an RDMA port is down that is up elsewhere (");
	nspy_add_procs_short(&s, finding->culprits, finding->culprit_count);
	nspy_str_add(&s, ")");
	finding->cause = nspy_str_take(&s);
	finding->when_ns = c->attempt->start_ns;
}

/* --- two ranks on one GPU --- */

static void gpu_shared(const struct nspy_case *c, struct nspy_findings *out)
{
	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		const struct nspy_proc *a = c->attempt->procs[i];
		const char *uuid = nspy_proc_fact(a, "gpu.uuid");
		struct nspy_procs same = {0};
		bool shared = false;

		for (size_t j = 0; uuid && j < c->attempt->proc_count; j++) {
			const struct nspy_proc *b = c->attempt->procs[j];
			const char *other = nspy_proc_fact(b, "gpu.uuid");

			/* Stand-ins for several nodes on one machine have the same devices. */
			if (other && strcmp(other, uuid) == 0 &&
			    strcmp(nspy_proc_host(a), nspy_proc_host(b)) == 0) {
				nspy_procs_add(&same, b);
				/* A process of several ranks tells of one GPU only. */
				shared |= nspy_proc_whole(a) != nspy_proc_whole(b);
			}
		}
		if (shared && !nspy_findings_get(out, NSPY_FINDING_GPU_VISIBILITY)) {
			struct nspy_finding *finding =
				nspy_findings_add(out, NSPY_FINDING_GPU_VISIBILITY);
			struct nspy_str s = {0};

			nspy_add_procs(&s, same.items, same.count);
			nspy_str_addf(&s, " use the same GPU (%s)", uuid);
			finding->summary = nspy_str_take(&s);
			nspy_add_procs_short(&s, same.items, same.count);
			nspy_str_add(&s, " share one GPU");
			finding->cause = nspy_str_take(&s);
			finding->when_ns = c->attempt->start_ns;
			for (size_t k = 0; k < same.count; k++)
				nspy_finding_blame(finding, same.items[k]);
		}
		free(same.items);
	}
}

void nspy_detect_fleet(const struct nspy_case *c, struct nspy_findings *out)
{
	network_mixed(c, out);
	mixed_hardware(c, out);
	nics_differ(c, out);
	ports_differ(c, out);
	gpu_shared(c, out);
}
