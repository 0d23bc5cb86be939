/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: which tables are copied, connections and our own address. */
#include "compat.h"

#include <errno.h>

#include "objects.h"
#include "posts.h"
#include "session.h"
#include "traffic.h"

static int cm_getname(struct nspy_fi_fid *fid, void *addr, size_t *addrlen)
{
	struct nspy_fi_ep *ep = (struct nspy_fi_ep *)fid;
	const struct nspy_shadow *s = nspy_shadow_of(&ep->cm);
	const struct nspy_fi_ops_cm *real = s ? s->orig : NULL;
	int rc;

	if (!real)
		return -NSPY_FI_ENOSYS;
	rc = real->getname(fid, addr, addrlen);
	if (rc == 0 && nspy_outermost())
		nspy_rail_address(s->owner->rail, s->owner->addr_format, addr, *addrlen);
	return rc;
}

static int cm_connect(struct nspy_fi_ep *ep, const void *addr, const void *param, size_t paramlen)
{
	const struct nspy_shadow *s = nspy_shadow_of(&ep->cm);
	const struct nspy_fi_ops_cm *real = s ? s->orig : NULL;
	uint32_t format;
	char name[NSPY_NET_NAME];
	int rc;

	if (!real)
		return -NSPY_FI_ENOSYS;
	nspy_fabric_depth++;
	rc = real->connect(ep, addr, param, paramlen);
	nspy_fabric_depth--;
	/* The length is not told: only an address that says itself what it is can be read. */
	format = s->owner->addr_format;
	if (rc == 0 && s->owner->peer && addr && format >= NSPY_FI_SOCKADDR &&
	    format <= NSPY_FI_SOCKADDR_IN6) {
		nspy_address_text(format, addr, 28, name, sizeof(name));
		nspy_peer_rename(s->owner->peer, name);
	}
	return rc;
}

static void watch_cm(struct nspy_fab *fab, struct nspy_fi_ep *ep)
{
	struct nspy_fi_ops_cm *ops = nspy_shadow_make(fab, &ep->cm);

	if (!ops)
		return;
	if (nspy_fi_has(ops, getname))
		ops->getname = cm_getname;
	if (nspy_fi_has(ops, connect))
		ops->connect = cm_connect;
	nspy_shadow_install(ops);
}

void nspy_ep_opened(struct nspy_fab *domain, struct nspy_fi_ep *ep, const struct nspy_fi_info *info)
{
	struct nspy_fab *fab = nspy_fab_new(NSPY_FAB_EP, ep, domain->rail);
	char name[NSPY_NET_NAME] = "";

	if (!fab)
		return;
	fab->addr_format = info ? info->addr_format : domain->addr_format;
	if (info && info->ep_attr && info->ep_attr->type == NSPY_FI_EP_MSG) {
		nspy_address_text(fab->addr_format, info->dest_addr, info->dest_addrlen, name,
				  sizeof(name));
		/* No other endpoint has that key: user-space addresses are that low. */
		fab->peer = nspy_peer_add(domain->rail, (uintptr_t)ep | 1ULL << 63, name);
	}
	if (!nspy_fab_watch_close(fab, &ep->fid))
		return;
	watch_cm(fab, ep);
	nspy_watch_msg(fab, ep);
	nspy_watch_tagged(fab, ep);
	nspy_watch_rma(fab, ep);
}
