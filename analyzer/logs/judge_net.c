/* SPDX-License-Identifier: Apache-2.0 */
/* Do all ranks use the network they should, and do NICs reach GPU memory? */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "log.h"
#include "text.h"

struct pick {
	struct nspy_log_source **sources;
	size_t count;
};

typedef bool picks(const struct nspy_log_source *source);

static struct pick pick(const struct nspy_log *log, picks *yes)
{
	struct pick p = {nspy_xcalloc(log->source_count + 1, sizeof(struct nspy_log_source *)), 0};

	for (size_t i = 0; i < log->source_count; i++) {
		if (yes(log->sources[i]))
			p.sources[p.count++] = log->sources[i];
	}
	return p;
}

static bool is_socket(const struct nspy_log_source *s)
{
	return s->network ? strcmp(s->network, "Socket") == 0 : s->socket_seen && !s->ib_seen;
}

static bool is_fast(const struct nspy_log_source *s)
{
	return s->network ? strcmp(s->network, "Socket") != 0 && !s->ofi_failed : s->ib_seen;
}

static bool over_tcp(const struct nspy_log_source *s)
{
	return s->provider &&
	       (strncmp(s->provider, "tcp", 3) == 0 || strncmp(s->provider, "socket", 6) == 0 ||
		strncmp(s->provider, "udp", 3) == 0 || strncmp(s->provider, "ofi_rxm", 7) == 0);
}

static bool ofi_failed(const struct nspy_log_source *s)
{
	return s->ofi_failed;
}

/* Quotes the lines about the network of those sources. */
static void quote_net(const struct nspy_log *log, struct nspy_finding *finding,
		      const struct pick *p)
{
	size_t told = 0;

	for (size_t i = 0; i < log->event_count && told < 4; i++) {
		const struct nspy_log_event *event = log->events[i];
		bool ours = false;

		if (event->rule < NSPY_LOG_OFI_NONE || event->rule > NSPY_LOG_GDR_PAIR)
			continue;
		for (size_t k = 0; k < p->count && !ours; k++)
			ours = p->sources[k] == event->source;
		if (ours) {
			nspy_log_quote(log, finding, event);
			told++;
		}
	}
}

static void conclude(const struct nspy_log *log, struct nspy_findings *out, enum nspy_finding_id id,
		     int priority, const struct pick *p, const char *what)
{
	struct nspy_finding *finding = nspy_log_finding(out, id, priority, NSPY_LOG_CAUSE,
							p->count ? p->sources[0]->first_line : 0);
	struct nspy_str s = {0}, who = {0};

	nspy_log_add_who(&who, p->sources, p->count);
	nspy_str_addf(&s, "%s%s%s", what, who.bytes ? ": " : "", who.bytes ? who.text : "");
	finding->cause = nspy_xstrdup(s.text);
	finding->summary = nspy_str_take(&s);
	for (size_t i = 0; i < p->count && i < 64; i++) {
		if (p->sources[i]->proc->rank >= 0 || nspy_proc_fact(p->sources[i]->proc, "host"))
			nspy_finding_blame(finding, p->sources[i]->proc);
	}
	quote_net(log, finding, p);
	nspy_str_done(&who);
}

static bool wants_rdma(const struct nspy_log *log)
{
	for (size_t i = 0; i < log->env_count; i++) {
		const char *name = log->envs[i]->name;

		if (strcmp(name, "NCCL_NET_PLUGIN") == 0 || strcmp(name, "NCCL_IB_HCA") == 0)
			return strcmp(log->envs[i]->value, "none") != 0;
	}
	return false;
}

static void judge_tcp(const struct nspy_log *log, struct nspy_findings *out)
{
	struct pick slow = pick(log, is_socket), fast = pick(log, is_fast);
	struct pick tcp = pick(log, over_tcp), failed = pick(log, ofi_failed);

	if (tcp.count) {
		conclude(log, out, NSPY_FINDING_TCP_FALLBACK, 1, &tcp,
			 "the plugin is in use, but its libfabric provider is TCP, not EFA");
	} else if (slow.count && fast.count) {
		/* The network differs: sooner or later they cannot connect, or hang. */
		conclude(log, out, NSPY_FINDING_NETWORK_MIXED, 0,
			 slow.count <= fast.count ? &slow : &fast,
			 slow.count <= fast.count ? "these ranks use TCP sockets, the others do not"
						  : "these ranks use RDMA, the others TCP sockets");
	} else if (failed.count && nspy_log_any(log, NSPY_LOG_ONLY_EFA)) {
		/* A plugin that serves EFA alone, on a machine without: as it must be. */
	} else if (failed.count && (slow.count || !fast.count)) {
		conclude(log, out,
			 slow.count ? NSPY_FINDING_TCP_FALLBACK
				    : NSPY_FINDING_EFA_PROVIDER_UNAVAILABLE,
			 1, &failed,
			 slow.count ? "the EFA plugin failed to start, so NCCL uses TCP sockets"
				    : "the EFA plugin found no provider it can use");
	} else if (slow.count && wants_rdma(log)) {
		conclude(log, out, NSPY_FINDING_TCP_FALLBACK, 1, &slow,
			 "NCCL uses TCP sockets although the settings ask for an RDMA network");
	}
	free(slow.sources);
	free(fast.sources);
	free(tcp.sources);
	free(failed.sources);
}

/* --- number of NICs --- */

static uint32_t most_nics(const struct nspy_log *log)
{
	uint32_t most = 0;

	for (size_t i = 0; i < log->source_count; i++)
		most = log->sources[i]->nics > most ? log->sources[i]->nics : most;
	return most;
}

static void judge_nics(const struct nspy_log *log, struct nspy_findings *out)
{
	struct pick few = {nspy_xcalloc(log->source_count + 1, sizeof(struct nspy_log_source *)),
			   0};
	uint32_t most = most_nics(log);
	size_t known = 0;
	char *what;

	for (size_t i = 0; i < log->source_count; i++) {
		known += log->sources[i]->nics > 0;
		if (log->sources[i]->nics && log->sources[i]->nics < most)
			few.sources[few.count++] = log->sources[i];
	}
	/* Most of them: then they are of different kinds, and nobody is short. */
	if (few.count && few.count * 2 <= known) {
		what = nspy_xasprintf("%u NICs where others have %u", few.sources[0]->nics, most);
		conclude(log, out, NSPY_FINDING_NIC_COUNT_LOW, 1, &few, what);
		free(what);
	}
	free(few.sources);
}

/* --- GPUDirect --- */

static bool gdr_off(const struct nspy_log_source *s)
{
	return s->gdr_hca_off > 0 && s->gdr_hca_on == 0;
}

static bool gdr_on(const struct nspy_log_source *s)
{
	return s->gdr_hca_on > 0 && s->gdr_hca_off == 0;
}

static bool gdr_far(const struct nspy_log_source *s)
{
	return s->gdr_pair_off > 0 && s->gdr_pair_on == 0 && s->channels_gdr == 0 &&
	       !s->gdr_hca_off;
}

static void judge_uneven(const struct nspy_log *log, struct nspy_findings *out)
{
	struct nspy_finding *finding;
	const struct nspy_log_event *first = NULL;

	for (size_t i = 0; i < log->event_count && !first; i++) {
		if (log->events[i]->rule == NSPY_LOG_CHANNEL)
			first = log->events[i];
	}
	finding = nspy_log_finding(out, NSPY_FINDING_NO_GPUDIRECT_RDMA, 1, NSPY_LOG_CAUSE,
				   first ? first->order : 0);
	if (first && first->rank >= 0)
		nspy_finding_blame(finding, nspy_log_proc(log, first->rank));
	finding->summary =
		first ? nspy_xasprintf("GPUDirect RDMA is used at one end of a channel and not "
				       "at the other: the node of rank %" PRId64 " lacks it",
				       first->rank)
		      : nspy_xstrdup("GPUDirect RDMA is used at one end of channels only");
	finding->cause = nspy_xstrdup(finding->summary);
	if (first) {
		const struct nspy_log_source *source =
			nspy_map_get(&log->by_rank, (uint64_t)first->rank + 1);

		if (source)
			nspy_finding_blame(finding, source->proc);
		nspy_log_quote(log, finding, first);
	}
	nspy_finding_detail(finding, "%.300s", log->gdr_text);
}

static void judge_gdr(const struct nspy_log *log, struct nspy_findings *out)
{
	struct pick off = pick(log, gdr_off), on = pick(log, gdr_on), far = pick(log, gdr_far);

	if (log->gdr_uneven)
		judge_uneven(log, out);
	else if (off.count)
		conclude(
			log, out, NSPY_FINDING_NO_GPUDIRECT_RDMA, 1, &off,
			on.count
				? "NICs of these ranks cannot reach GPU memory, those of others can"
				: "NICs cannot reach GPU memory directly: neither peermem nor "
				  "dmabuf "
				  "is there (the module may be loaded under another name)");
	else if (far.count)
		conclude(log, out, NSPY_FINDING_NO_GPUDIRECT_RDMA, 1, &far,
			 "GPUs and NICs are too far apart for GPUDirect (in virtual machines the "
			 "topology may be hidden)");
	free(off.sources);
	free(on.sources);
	free(far.sources);
}

void nspy_log_judge_net(const struct nspy_log *log, struct nspy_findings *out)
{
	judge_tcp(log, out);
	judge_nics(log, out);
	judge_gdr(log, out);
}
