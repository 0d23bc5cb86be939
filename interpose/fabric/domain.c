/* SPDX-License-Identifier: Apache-2.0 */
/* Fabrics and domains, and what is made from a domain. */
#include "compat.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "events.h"
#include "objects.h"
#include "patch.h"
#include "session.h"
#include "traffic.h"

#define FABRICS_MAX            64u
#define INDEX_OF(type, member) (offsetof(struct type, member) / sizeof(void *))

/* Fabrics of the application; a fid that is used again for a new one simply takes its place. */
static struct known_fabric {
	void *_Atomic fid;
	char provider[NSPY_NET_NAME];
	char name[NSPY_NET_NAME];
} fabrics[FABRICS_MAX];
static _Atomic uint32_t lowest_abi = 99; /* FABRIC_1.x of the oldest caller of fi_getinfo */

void nspy_fabric_caller_abi(unsigned int minor)
{
	uint32_t have = atomic_load(&lowest_abi);

	while (minor < have && !atomic_compare_exchange_weak(&lowest_abi, &have, minor))
		;
}

static const struct known_fabric *known_fabric(const void *fid)
{
	for (uint32_t i = 0; i < FABRICS_MAX; i++) {
		if (atomic_load_explicit(&fabrics[i].fid, memory_order_acquire) == fid)
			return &fabrics[i];
	}
	return NULL;
}

static void remember_fabric(void *fid, const char *provider, const char *name)
{
	struct known_fabric *place = (struct known_fabric *)known_fabric(fid);

	for (uint32_t i = 0; i < FABRICS_MAX && !place; i++) {
		if (!atomic_load(&fabrics[i].fid))
			place = &fabrics[i];
	}
	if (!place)
		return;
	(void)snprintf(place->provider, sizeof(place->provider), "%s", provider ? provider : "");
	(void)snprintf(place->name, sizeof(place->name), "%s", name ? name : "");
	atomic_store_explicit(&place->fid, fid, memory_order_release);
}

/* --- made from a domain --- */

static const struct nspy_fi_ops_domain *domain_real(const struct nspy_fi_domain *domain)
{
	return nspy_patch_find(domain->ops, INDEX_OF(nspy_fi_ops_domain, cntr_open));
}

/* NULL: not a domain we look into, or not the application's own call. */
static struct nspy_fab *domain_fab(const struct nspy_fi_domain *domain)
{
	return nspy_outermost() ? nspy_fab_find(NSPY_FAB_DOMAIN, domain) : NULL;
}

static int domain_av_open(struct nspy_fi_domain *domain, void *attr, void **av, void *context)
{
	const struct nspy_fi_ops_domain *real = domain_real(domain);
	struct nspy_fab *fab = domain_fab(domain);
	int rc;

	if (!real)
		return -NSPY_FI_ENOSYS;
	nspy_fabric_depth++;
	rc = real->av_open(domain, attr, av, context);
	nspy_fabric_depth--;
	if (fab && rc == 0)
		nspy_av_opened(fab, *av);
	return rc;
}

static int domain_cq_open(struct nspy_fi_domain *domain, struct nspy_fi_cq_attr *attr, void **cq,
			  void *context)
{
	const struct nspy_fi_ops_domain *real = domain_real(domain);
	struct nspy_fab *fab = domain_fab(domain);
	int rc;

	if (!real)
		return -NSPY_FI_ENOSYS;
	nspy_fabric_depth++;
	rc = real->cq_open(domain, attr, cq, context);
	nspy_fabric_depth--;
	if (fab && rc == 0)
		nspy_cq_opened(fab, *cq, attr ? attr->format : 0);
	else if (fab)
		nspy_open_failed("fi_cq_open", fab->rail, rc);
	return rc;
}

static void made_endpoint(struct nspy_fab *fab, int rc, void *ep, const struct nspy_fi_info *info)
{
	if (fab && rc == 0)
		nspy_ep_opened(fab, ep, info);
	else if (fab)
		nspy_open_failed("fi_endpoint", fab->rail, rc);
}

static int domain_endpoint(void *parent, struct nspy_fi_info *info, void **ep, void *context)
{
	const struct nspy_fi_ops_domain *real = domain_real(parent);
	struct nspy_fab *fab = domain_fab(parent);
	int rc;

	if (!real)
		return -NSPY_FI_ENOSYS;
	nspy_fabric_depth++;
	rc = real->endpoint(parent, info, ep, context);
	nspy_fabric_depth--;
	made_endpoint(fab, rc, rc == 0 ? *ep : NULL, info);
	return rc;
}

static int domain_endpoint2(void *parent, struct nspy_fi_info *info, void **ep, uint64_t flags,
			    void *context)
{
	const struct nspy_fi_ops_domain *real = domain_real(parent);
	struct nspy_fab *fab = domain_fab(parent);
	int rc;

	if (!real)
		return -NSPY_FI_ENOSYS;
	nspy_fabric_depth++;
	rc = real->endpoint2(parent, info, ep, flags, context);
	nspy_fabric_depth--;
	made_endpoint(fab, rc, rc == 0 ? *ep : NULL, info);
	return rc;
}

static void change_domain(void *copy)
{
	struct nspy_fi_ops_domain *ops = copy;

	if (nspy_fi_has(ops, av_open))
		ops->av_open = domain_av_open;
	if (nspy_fi_has(ops, cq_open))
		ops->cq_open = domain_cq_open;
	if (nspy_fi_has(ops, endpoint))
		ops->endpoint = domain_endpoint;
	if (nspy_fi_has(ops, endpoint2))
		ops->endpoint2 = domain_endpoint2;
}

/* --- domains --- */

static struct nspy_rail *rail_of(const struct known_fabric *fabric, const struct nspy_fi_info *info)
{
	struct nspy_rail_names names = {.provider = fabric->provider, .fabric = fabric->name};
	const struct nspy_fi_nic *nic = NULL;

	if (info && info->domain_attr)
		names.domain = info->domain_attr->name;
	/* A caller built for an older release has a shorter structure. */
	if (info && atomic_load(&lowest_abi) >= NSPY_FI_FABRIC_NIC && lowest_abi != 99)
		nic = info->nic;
	if (nic && nic->device_attr)
		names.nic = nic->device_attr->name;
	if (nic && nic->link_attr)
		names.speed = nic->link_attr->speed;
	return nspy_rail_get(&names, NSPY_NET_SEEN);
}

static void domain_opened(const struct known_fabric *fabric, struct nspy_fi_domain *domain,
			  const struct nspy_fi_info *info)
{
	struct nspy_rail *rail = rail_of(fabric, info);
	enum nspy_net_sight sight;
	struct nspy_fab *fab;

	if (!rail)
		return;
	fab = nspy_fab_new(NSPY_FAB_DOMAIN, domain, rail);
	if (!fab || !nspy_fab_watch_close(fab, &domain->fid))
		return;
	fab->addr_format = info ? info->addr_format : 0;
	atomic_fetch_add(&rail->domains, 1);
	sight = nspy_patch_table(domain->ops, change_domain);
	if (sight != NSPY_NET_SEEN)
		atomic_store(&rail->sight, (uint32_t)sight);
	nspy_mr_watch(fab, domain);
}

static const struct nspy_fi_ops_fabric *fabric_real(const struct nspy_fi_fabric *fabric)
{
	return nspy_patch_find(fabric->ops, INDEX_OF(nspy_fi_ops_fabric, eq_open));
}

static int fabric_domain(void *parent, struct nspy_fi_info *info, void **domain, void *context)
{
	const struct nspy_fi_ops_fabric *real = fabric_real(parent);
	const struct known_fabric *known = nspy_outermost() ? known_fabric(parent) : NULL;
	int rc;

	if (!real)
		return -NSPY_FI_ENOSYS;
	nspy_fabric_depth++;
	rc = real->domain(parent, info, domain, context);
	nspy_fabric_depth--;
	if (known && rc == 0)
		domain_opened(known, *domain, info);
	else if (known)
		nspy_open_failed("fi_domain", NULL, rc);
	return rc;
}

static int fabric_domain2(void *parent, struct nspy_fi_info *info, void **domain, uint64_t flags,
			  void *context)
{
	const struct nspy_fi_ops_fabric *real = fabric_real(parent);
	const struct known_fabric *known = nspy_outermost() ? known_fabric(parent) : NULL;
	int rc;

	if (!real)
		return -NSPY_FI_ENOSYS;
	nspy_fabric_depth++;
	rc = real->domain2(parent, info, domain, flags, context);
	nspy_fabric_depth--;
	if (known && rc == 0)
		domain_opened(known, *domain, info);
	else if (known)
		nspy_open_failed("fi_domain", NULL, rc);
	return rc;
}

static void change_fabric(void *copy)
{
	struct nspy_fi_ops_fabric *ops = copy;

	if (nspy_fi_has(ops, domain))
		ops->domain = fabric_domain;
	if (nspy_fi_has(ops, domain2))
		ops->domain2 = fabric_domain2;
}

void nspy_fabric_opened(struct nspy_fi_fabric *fabric, const char *provider, const char *name)
{
	const struct nspy_rail_names names = {.provider = provider, .fabric = name};
	enum nspy_net_sight sight = NSPY_NET_NOT_ASKED;

	if (nspy_session_wants(provider ? provider : "")) {
		sight = nspy_patch_table(fabric->ops, change_fabric);
		if (sight == NSPY_NET_SEEN) {
			remember_fabric(fabric, provider, name);
			return;
		}
	}
	/* That it was chosen is all that will be known of it. */
	(void)nspy_rail_get(&names, sight);
}
