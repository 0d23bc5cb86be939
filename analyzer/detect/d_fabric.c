/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FABRIC_PEER_UNREACHABLE, FABRIC_CQ_ERROR
 *
 * Question: did operations on the network end in errors, on which card, towards whom?
 * Evidence: entries of fi_cq_readerr with libfabric's and the provider's error number, and
 *   operations that the provider refused for good. The peer is known from the operation's context
 *   and address vector; an address that another rank told as its own names the rank.
 * Threshold: none. Unreachable is what the kernel's EHOSTUNREACH and ENETUNREACH say, and EFA's
 *   status 15. Flushes (EFA 1, verbs 5) follow from an earlier error and do not count; errors after
 *   the death of another rank follow from that and do not count either.
 * Names: if two ranks or more have errors towards one peer only, that peer; else those with errors.
 * Known false positives: a peer that left in order while something was still under way to it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "detect.h"
#include "text.h"
#include "who.h"

#define EFA_FLUSHED     1
#define EFA_UNREACHABLE 15
#define VERBS_FLUSHED   5

/* A rank's first error of a kind. */
struct hit {
	const struct nspy_proc *proc;
	const struct nspy_net_event_view *event;
	const struct nspy_proc *peer; /* NULL = not known */
	size_t count;
	bool several; /* towards more than one peer */
};

struct hits {
	struct hit *items;
	size_t count, capacity;
};

static const char *provider_of(const struct nspy_proc *proc,
			       const struct nspy_net_event_view *event)
{
	const struct nspy_net_rail_view *rail = nspy_net_rail(&proc->net, event->rail);

	return rail ? rail->provider : "";
}

static bool is_error(const struct nspy_proc *proc, const struct nspy_net_event_view *event)
{
	const char *provider = provider_of(proc, event);

	if (event->what == NSPY_NET_POST_FAILED)
		return true;
	return event->what == NSPY_NET_CQ_ERROR &&
	       !(nspy_net_is(provider, "efa") && event->provider == EFA_FLUSHED) &&
	       !(nspy_net_is(provider, "verbs") && event->provider == VERBS_FLUSHED);
}

static bool is_unreachable(const struct nspy_proc *proc, const struct nspy_net_event_view *event)
{
	return event->error == EHOSTUNREACH || event->error == ENETUNREACH ||
	       (nspy_net_is(provider_of(proc, event), "efa") && event->provider == EFA_UNREACHABLE);
}

static const char *peer_address(const struct nspy_proc *proc,
				const struct nspy_net_event_view *event)
{
	const struct nspy_net_peer_view *peer = nspy_net_peer(&proc->net, event->peer);

	return peer && peer->role == NSPY_NET_PEER_KNOWN ? peer->address : "";
}

/* The process that told this address as its own. */
static const struct nspy_proc *who_has(const struct nspy_attempt *attempt, const char *address)
{
	for (size_t i = 0; *address && i < attempt->proc_count; i++) {
		const struct nspy_net_view *net = &attempt->procs[i]->net;

		for (size_t r = 0; r < net->rail_count; r++) {
			if (net->rails[r].known && strcmp(net->rails[r].address, address) == 0)
				return attempt->procs[i];
		}
	}
	return NULL;
}

static bool follows_death(const struct nspy_case *c, const struct nspy_proc *proc,
			  const struct nspy_net_event_view *event)
{
	const struct nspy_death *first;

	if (c->deaths.first.count == 0 || nspy_procs_has(&c->deaths.first, proc))
		return false;
	first = nspy_death_of(&c->deaths, c->deaths.first.items[0]);
	return event->when_ns > first->when_ns;
}

static void look_at(const struct nspy_case *c, const struct nspy_proc *proc, bool unreachable,
		    struct hits *hits)
{
	struct hit hit = {.proc = proc};

	for (size_t i = 0; i < proc->net.event_count; i++) {
		const struct nspy_net_event_view *event = &proc->net.events[i];

		if (!is_error(proc, event) || is_unreachable(proc, event) != unreachable ||
		    follows_death(c, proc, event))
			continue;
		if (!hit.event)
			hit.event = event;
		hit.several |=
			strcmp(peer_address(proc, event), peer_address(proc, hit.event)) != 0;
		hit.count++;
	}
	if (!hit.event)
		return;
	hit.peer = who_has(c->attempt, peer_address(proc, hit.event));
	hits->items = nspy_grow(hits->items, hits->count, &hits->capacity, sizeof(*hits->items));
	hits->items[hits->count++] = hit;
}

/* The one peer that all ranks with errors have them with; NULL if there is none. */
static const struct nspy_proc *common_peer(const struct hits *hits)
{
	const struct nspy_proc *peer = hits->items[0].peer;
	bool two = false;

	if (!peer)
		return NULL;
	for (size_t i = 0; i < hits->count; i++) {
		if (hits->items[i].several || hits->items[i].peer != peer ||
		    hits->items[i].proc == peer)
			return NULL;
		/* Ranks of one process share their network. */
		two |= nspy_proc_whole(hits->items[i].proc) != nspy_proc_whole(hits->items[0].proc);
	}
	return two ? peer : NULL;
}

static void add_error(struct nspy_str *s, const struct hit *hit)
{
	const struct nspy_net_event_view *event = hit->event;
	const char *provider = provider_of(hit->proc, event);
	const char *status = nspy_net_status_name(provider, event->provider);

	nspy_str_add(s, nspy_net_error_name(event->error));
	if (status)
		nspy_str_addf(s, " (%s status %" PRId32 ": %s)", provider, event->provider, status);
	else if (event->more[0])
		nspy_str_addf(s, " (%s: %s)", provider, event->more);
}

static void add_place(struct nspy_str *s, const struct hit *hit)
{
	const struct nspy_net_rail_view *rail = nspy_net_rail(&hit->proc->net, hit->event->rail);
	const char *address = peer_address(hit->proc, hit->event);

	if (rail)
		nspy_str_addf(s, " on %s", nspy_net_rail_name(rail));
	if (hit->peer) {
		nspy_str_add(s, " towards ");
		nspy_add_proc_short(s, hit->peer);
		nspy_str_addf(s, " (%s)", nspy_proc_host(hit->peer));
	} else if (*address) {
		nspy_str_addf(s, " towards %s", address);
	}
}

static void add_details(struct nspy_finding *finding, const struct hits *hits)
{
	for (size_t i = 0; i < hits->count && i < 8; i++) {
		struct nspy_str s = {0};

		nspy_add_proc_short(&s, hits->items[i].proc);
		nspy_str_addf(&s, ": %zu error%s", hits->items[i].count,
			      hits->items[i].count == 1 ? "" : "s");
		add_place(&s, &hits->items[i]);
		nspy_str_add(&s, ", first at ");
		nspy_add_clock(&s, hits->items[i].event->when_ns);
		nspy_str_add(&s, ": ");
		add_error(&s, &hits->items[i]);
		nspy_texts_add(&finding->details, nspy_str_take(&s));
	}
}

static void report(struct nspy_findings *out, const struct hits *hits, bool unreachable)
{
	struct nspy_finding *finding =
		nspy_findings_add(out, unreachable ? NSPY_FINDING_FABRIC_PEER_UNREACHABLE
						   : NSPY_FINDING_FABRIC_CQ_ERROR);
	const struct nspy_proc *common = common_peer(hits);
	const struct hit *first = &hits->items[0];
	struct nspy_procs procs = {0};
	struct nspy_str s = {0};

	for (size_t i = 0; i < hits->count; i++) {
		nspy_procs_add(&procs, hits->items[i].proc);
		if (hits->items[i].event->when_ns < first->event->when_ns)
			first = &hits->items[i];
	}
	nspy_add_procs(&s, procs.items, procs.count);
	nspy_str_add(&s, unreachable ? " cannot reach a peer" : " got errors from the network");
	nspy_str_add(&s, hits->count > 1 ? ", first " : "");
	if (hits->count > 1)
		nspy_add_proc_short(&s, first->proc);
	add_place(&s, first);
	nspy_str_add(&s, " at ");
	nspy_add_clock(&s, first->event->when_ns);
	nspy_str_add(&s, ": ");
	add_error(&s, first);
	finding->summary = nspy_str_take(&s);
	nspy_str_add(&s, unreachable ? "the network does not reach from " : "network errors on ");
	nspy_add_procs_short(&s, procs.items, procs.count);
	if (common) {
		nspy_str_add(&s, ", all towards ");
		nspy_add_proc(&s, common);
	}
	finding->cause = nspy_str_take(&s);
	finding->when_ns = first->event->when_ns;
	add_details(finding, hits);
	if (common)
		nspy_finding_blame(finding, common);
	for (size_t i = 0; i < procs.count && !common; i++)
		nspy_finding_blame(finding, procs.items[i]);
	free(procs.items);
}

void nspy_detect_fabric(const struct nspy_case *c, struct nspy_findings *out)
{
	for (int unreachable = 1; unreachable >= 0; unreachable--) {
		struct hits hits = {0};

		for (size_t i = 0; i < c->attempt->proc_count; i++)
			look_at(c, c->attempt->procs[i], unreachable, &hits);
		if (hits.count)
			report(out, &hits, unreachable);
		free(hits.items);
	}
}
