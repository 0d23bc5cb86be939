/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RDMA_REG_MR_FAILED
 *
 * Question: was memory refused to the network card, and was it the limit of locked memory?
 * Evidence: ENOMEM of ibv_reg_mr and its relatives or of libfabric's fi_mr_reg, with the limit
 *   (RLIMIT_MEMLOCK), VmLck and VmPin, CAP_IPC_LOCK, and what had been registered, all at that
 *   moment. Other errors are how providers probe (dmabuf first, then plain) and are no finding.
 * Threshold: none. It was the limit if it holds for the process and pinned or registered memory
 *   plus the request exceeds it. P2 if as much could be registered later.
 * Known false positives: a program that tries how much it can register.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "detect.h"
#include "text.h"
#include "who.h"

#define MIB         (1ULL << 20)
#define SMALL_LIMIT MIB /* defaults of distributions are 64 KiB and 8 MiB */

enum reason { REASON_LIMIT, REASON_OTHER, REASON_RECOVERED, REASONS };

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Memory that the kernel counts against the limit, as far as anybody told us. */
static uint64_t pinned_then(const struct nspy_net_event_view *event)
{
	uint64_t pinned =
		larger(event->value[NSPY_NET_REG_PINNED], event->value[NSPY_NET_REG_LOCKED]);

	return event->value[NSPY_NET_REG_LAYER] == NSPY_NET_VERBS
		       ? larger(pinned, event->value[NSPY_NET_REG_LIVE])
		       : pinned;
}

static bool by_limit(const struct nspy_net_event_view *event)
{
	uint64_t limit = event->value[NSPY_NET_REG_LIMIT];
	uint64_t bytes = event->value[NSPY_NET_REG_BYTES];

	if (limit == NSPY_NET_UNLIMITED || event->value[NSPY_NET_REG_MAY_LOCK])
		return false;
	/* The size of a queue is not told. */
	if (!bytes)
		return limit < SMALL_LIMIT || pinned_then(event) >= limit;
	return bytes > limit || pinned_then(event) > limit - bytes;
}

static const struct nspy_net_event_view *first_refusal(const struct nspy_proc *proc)
{
	for (size_t i = 0; i < proc->net.event_count; i++) {
		const struct nspy_net_event_view *event = &proc->net.events[i];

		if (event->what == NSPY_NET_REG_FAILED && event->error == ENOMEM)
			return event;
	}
	return NULL;
}

static enum reason reason_of(const struct nspy_proc *proc, const struct nspy_net_event_view *event)
{
	uint64_t layer = event->value[NSPY_NET_REG_LAYER];
	uint64_t bytes = event->value[NSPY_NET_REG_BYTES];

	if (layer < NSPY_NET_LAYER_COUNT && bytes && proc->net.memory[layer].largest_since >= bytes)
		return REASON_RECOVERED;
	return by_limit(event) ? REASON_LIMIT : REASON_OTHER;
}

static bool uses_efa(const struct nspy_net_view *net)
{
	for (size_t i = 0; i < net->rail_count; i++) {
		if (net->rails[i].known && nspy_net_is(net->rails[i].provider, "efa"))
			return true;
	}
	return nspy_net_has_device(net, "efa");
}

static const char *card(const struct nspy_proc *proc)
{
	return uses_efa(&proc->net) ? "EFA" : "InfiniBand/RoCE";
}

static void add_limit(struct nspy_finding *finding, const struct nspy_net_event_view *event)
{
	uint64_t limit = event->value[NSPY_NET_REG_LIMIT];
	struct nspy_str s = {0};

	nspy_str_add(&s, "limit of locked memory (RLIMIT_MEMLOCK): ");
	if (limit == NSPY_NET_UNLIMITED)
		nspy_str_add(&s, "unlimited");
	else
		nspy_add_bytes_binary(&s, limit);
	if (event->value[NSPY_NET_REG_MAY_LOCK])
		nspy_str_add(&s, ", not in force (CAP_IPC_LOCK)");
	nspy_str_add(&s, "; pinned then: ");
	nspy_add_bytes_binary(&s, pinned_then(event));
	nspy_texts_add(&finding->details, nspy_str_take(&s));
}

static void add_history(struct nspy_finding *finding, const struct nspy_proc *proc,
			const struct nspy_net_event_view *event)
{
	uint64_t layer = event->value[NSPY_NET_REG_LAYER] % NSPY_NET_LAYER_COUNT;
	const struct nspy_net_memory *memory = &proc->net.memory[layer];
	struct nspy_str s = {0};

	nspy_add_proc_short(&s, proc);
	nspy_str_addf(&s, ": %" PRIu64 " registrations had succeeded, ",
		      event->value[NSPY_NET_REG_BEFORE]);
	nspy_add_bytes_binary(&s, event->value[NSPY_NET_REG_LIVE]);
	nspy_str_add(&s, " registered then");
	if (memory->no_memory > 1)
		nspy_str_addf(&s, "; %" PRIu64 " were refused for want of memory",
			      memory->no_memory);
	if (memory->failures > memory->no_memory)
		nspy_str_addf(&s, "; %" PRIu64 " failed with other errors (usual when probing)",
			      memory->failures - memory->no_memory);
	nspy_texts_add(&finding->details, nspy_str_take(&s));
}

static void advise(struct nspy_finding *finding, const struct nspy_proc *proc, enum reason reason)
{
	if (reason == REASON_LIMIT) {
		finding->action = "raise the limit of locked memory of the job's processes to "
				  "unlimited";
		return;
	}
	finding->action =
		uses_efa(&proc->net)
			? "check the EFA device and free memory of the node; the limit of "
			  "locked memory is not the reason"
			: "check how many registrations the card can hold and free memory "
			  "of the node; the limit of locked memory is not the reason";
	finding->restart = "helps-elsewhere";
	if (reason == REASON_RECOVERED) {
		finding->priority = 2;
		finding->action = "nothing now; watch for it in longer runs";
	}
}

static void report(struct nspy_findings *out, const struct nspy_procs *hit, enum reason reason)
{
	static const char *const words[REASONS] = {
		[REASON_LIMIT] = "limit of locked memory is too small",
		[REASON_OTHER] = "not for the limit of locked memory",
		[REASON_RECOVERED] = "as much was registered later",
	};
	struct nspy_finding *finding = nspy_findings_add(out, NSPY_FINDING_RDMA_REG_MR_FAILED);
	const struct nspy_proc *proc = hit->items[0];
	const struct nspy_net_event_view *event;
	struct nspy_str s = {0};

	for (size_t i = 1; i < hit->count; i++) {
		if (first_refusal(hit->items[i])->when_ns < first_refusal(proc)->when_ns)
			proc = hit->items[i];
	}
	event = first_refusal(proc);
	nspy_add_procs(&s, hit->items, hit->count);
	nspy_str_addf(&s, " could not register memory with %s: %s(", card(proc), event->text);
	if (event->value[NSPY_NET_REG_BYTES])
		nspy_add_bytes_binary(&s, event->value[NSPY_NET_REG_BYTES]);
	nspy_str_add(&s, ") at ");
	nspy_add_clock(&s, event->when_ns);
	nspy_str_addf(&s, ": cannot allocate memory; %s", words[reason]);
	finding->summary = nspy_str_take(&s);
	nspy_str_addf(&s, "%s refused memory on ", card(proc));
	nspy_add_procs_short(&s, hit->items, hit->count);
	nspy_str_addf(&s, ": %s", words[reason]);
	finding->cause = nspy_str_take(&s);
	finding->when_ns = event->when_ns;
	if (reason == REASON_LIMIT && !event->value[NSPY_NET_REG_BYTES])
		finding->confidence = NSPY_PROBABLE;
	advise(finding, proc, reason);
	add_limit(finding, event);
	add_history(finding, proc, event);
	for (size_t i = 0; i < hit->count; i++)
		nspy_finding_blame(finding, hit->items[i]);
}

void nspy_detect_registration(const struct nspy_case *c, struct nspy_findings *out)
{
	for (int reason = 0; reason < REASONS; reason++) {
		struct nspy_procs hit = {0};

		for (size_t i = 0; i < c->attempt->proc_count; i++) {
			const struct nspy_proc *proc = c->attempt->procs[i];
			const struct nspy_net_event_view *event = first_refusal(proc);

			if (event && (int)reason_of(proc, event) == reason)
				nspy_procs_add(&hit, proc);
		}
		if (hit.count)
			report(out, &hit, (enum reason)reason);
		free(hit.items);
	}
}
