/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EFA_PROVIDER_UNAVAILABLE, TCP_FALLBACK
 *
 * Question: is there RDMA hardware that is not used?
 * Evidence: the RDMA devices of the host with their drivers (/sys/class/infiniband), what
 *   fi_getinfo was asked for and answered, and the providers of the fabrics that were opened.
 * Threshold: none. EFA_PROVIDER_UNAVAILABLE: EFA was asked for, FI_ENODATA was the answer, the host
 *   has an EFA device, and EFA was never offered to or opened by that process. TCP_FALLBACK: a
 *   socket provider was opened and no RDMA provider, the host has RDMA devices, the job has several
 *   nodes. Certain if data went over it, else probable: the fabric may serve something else.
 * Known false positives: jobs that choose TCP on purpose (FI_PROVIDER=tcp) are named too; that is
 *   what was configured, and the detail says so. RDMA devices that carry storage only.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "detect.h"
#include "who.h"

/* Whether a list "efa,tcp;ofi_rxm" has that provider. */
static bool lists(const char *list, const char *provider)
{
	size_t bytes = strlen(provider);

	while (*list) {
		size_t here = strcspn(list, ",;");

		if (here == bytes && memcmp(list, provider, bytes) == 0)
			return true;
		list += here + (list[here] != '\0');
	}
	return false;
}

static bool opened(const struct nspy_net_view *net, bool (*is)(const char *provider))
{
	for (size_t i = 0; i < net->rail_count; i++) {
		if (net->rails[i].known && is(net->rails[i].provider))
			return true;
	}
	return false;
}

/* When EFA was refused to a process that has the hardware; 0 = it was not. */
static uint64_t efa_refused(const struct nspy_proc *proc)
{
	uint64_t when = 0;

	if (!nspy_net_has_device(&proc->net, "efa") || opened(&proc->net, nspy_net_is_rdma))
		return 0;
	for (size_t i = 0; i < proc->net.event_count; i++) {
		const struct nspy_net_event_view *event = &proc->net.events[i];

		if (event->what != NSPY_NET_GETINFO)
			continue;
		if (event->error == 0 && lists(event->more, "efa"))
			return 0;
		if (event->error == ENODATA && lists(event->text, "efa") && !when)
			when = event->when_ns;
	}
	return when;
}

static void add_devices(struct nspy_finding *finding, const struct nspy_proc *proc)
{
	struct nspy_str s = {0};

	nspy_add_proc_short(&s, proc);
	nspy_str_add(&s, ": RDMA devices of the host:");
	for (size_t i = 0; i < proc->net.device_count && i < 16; i++) {
		const struct nspy_net_device_view *device = &proc->net.devices[i];

		nspy_str_addf(&s, "%s %s (%s%s%s)", i ? "," : "", device->name,
			      device->driver[0] ? device->driver : "driver not known",
			      device->state[0] ? ", " : "", device->state);
	}
	nspy_texts_add(&finding->details, nspy_str_take(&s));
}

static void add_setting(struct nspy_finding *finding, const struct nspy_proc *proc)
{
	const char *value = nspy_proc_fact(proc, "env.FI_PROVIDER");

	if (value && *value)
		nspy_finding_detail(finding, "FI_PROVIDER=%s is set", value);
}

void nspy_detect_efa_unavailable(const struct nspy_case *c, struct nspy_findings *out)
{
	struct nspy_finding *finding;
	struct nspy_procs hit = {0};
	struct nspy_str s = {0};

	for (size_t i = 0; i < c->attempt->proc_count; i++) {
		if (efa_refused(c->attempt->procs[i]))
			nspy_procs_add(&hit, c->attempt->procs[i]);
	}
	if (!hit.count)
		return;
	finding = nspy_findings_add(out, NSPY_FINDING_EFA_PROVIDER_UNAVAILABLE);
	nspy_str_add(&s, "libfabric offers no EFA to ");
	nspy_add_procs(&s, hit.items, hit.count);
	nspy_str_add(&s, " although the host has EFA devices");
	finding->summary = nspy_str_take(&s);
	nspy_str_add(&s, "EFA hardware is there but libfabric cannot use it on ");
	nspy_add_procs_short(&s, hit.items, hit.count);
	finding->cause = nspy_str_take(&s);
	finding->when_ns = efa_refused(hit.items[0]);
	add_devices(finding, hit.items[0]);
	add_setting(finding, hit.items[0]);
	for (size_t i = 0; i < hit.count; i++)
		nspy_finding_blame(finding, hit.items[i]);
	free(hit.items);
}

/* --- TCP --- */

static bool several_nodes(const struct nspy_attempt *attempt)
{
	for (size_t i = 1; i < attempt->proc_count; i++) {
		if (strcmp(nspy_proc_host(attempt->procs[i]), nspy_proc_host(attempt->procs[0])) !=
		    0)
			return true;
	}
	return false;
}

static bool fell_back(const struct nspy_proc *proc)
{
	return nspy_net_has_device(&proc->net, NULL) && opened(&proc->net, nspy_net_is_socket) &&
	       !opened(&proc->net, nspy_net_is_rdma);
}

static const struct nspy_net_rail_view *socket_rail(const struct nspy_proc *proc)
{
	const struct nspy_net_rail_view *found = NULL;

	for (size_t i = 0; i < proc->net.rail_count; i++) {
		const struct nspy_net_rail_view *rail = &proc->net.rails[i];

		if (!rail->known || !nspy_net_is_socket(rail->provider))
			continue;
		if (!found ||
		    rail->counter[NSPY_NET_SEND_BYTES] + rail->counter[NSPY_NET_WRITE_BYTES])
			found = rail;
	}
	return found;
}

void nspy_detect_tcp_fallback(const struct nspy_case *c, struct nspy_findings *out)
{
	const struct nspy_net_rail_view *rail;
	struct nspy_finding *finding;
	struct nspy_procs hit = {0};
	struct nspy_str s = {0};

	for (size_t i = 0; several_nodes(c->attempt) && i < c->attempt->proc_count; i++) {
		if (fell_back(c->attempt->procs[i]))
			nspy_procs_add(&hit, c->attempt->procs[i]);
	}
	if (!hit.count)
		return;
	/* What was opened says more than what was mapped. */
	nspy_findings_drop(out, NSPY_FINDING_TCP_FALLBACK);
	rail = socket_rail(hit.items[0]);
	finding = nspy_findings_add(out, NSPY_FINDING_TCP_FALLBACK);
	nspy_add_procs(&s, hit.items, hit.count);
	nspy_str_addf(&s, " opened libfabric's provider %s although the host has RDMA devices",
		      rail->provider);
	finding->summary = nspy_str_take(&s);
	nspy_str_add(&s, "the network goes over TCP instead of RDMA on ");
	nspy_add_procs_short(&s, hit.items, hit.count);
	finding->cause = nspy_str_take(&s);
	if (rail->counter[NSPY_NET_SEND_BYTES] + rail->counter[NSPY_NET_WRITE_BYTES] == 0)
		finding->confidence = NSPY_PROBABLE;
	add_devices(finding, hit.items[0]);
	add_setting(finding, hit.items[0]);
	for (size_t i = 0; i < hit.count; i++)
		nspy_finding_blame(finding, hit.items[i]);
	free(hit.items);
}
