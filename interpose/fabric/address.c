/* SPDX-License-Identifier: Apache-2.0 */
/* Address vectors: what a peer's number means in words. */
#include "compat.h"

#include <errno.h>
#include <netinet/in.h>

#include "objects.h"
#include "session.h"
#include "traffic.h"

/* Bytes of an address in an array of them; 0 if we do not know. */
static size_t address_bytes(uint32_t format, const void *addr)
{
	switch (format) {
	case NSPY_FI_SOCKADDR:
		return *(const uint16_t *)addr == AF_INET6 ? sizeof(struct sockaddr_in6)
							   : sizeof(struct sockaddr_in);
	case NSPY_FI_SOCKADDR_IN:
		return sizeof(struct sockaddr_in);
	case NSPY_FI_SOCKADDR_IN6:
		return sizeof(struct sockaddr_in6);
	case NSPY_FI_ADDR_EFA:
		return 32;
	default:
		return 0;
	}
}

static void name_peers(const struct nspy_fab *fab, const void *addr, size_t count,
		       const uint64_t *numbers)
{
	size_t bytes = address_bytes(fab->addr_format, addr);

	for (size_t i = 0; i < count && i < NSPY_NET_PEERS_MAX; i++) {
		const char *at = (const char *)addr + i * bytes;
		char name[NSPY_NET_NAME] = "";

		if (numbers[i] == UINT64_MAX)
			continue;
		if (bytes)
			nspy_address_text(fab->addr_format, at, bytes, name, sizeof(name));
		else if (fab->addr_format == NSPY_FI_ADDR_STR && count == 1)
			nspy_address_text(fab->addr_format, addr, 256, name, sizeof(name));
		(void)nspy_peer_add(fab->rail, numbers[i], name);
	}
}

static int av_insert(struct nspy_fi_av *av, const void *addr, size_t count, uint64_t *fi_addr,
		     uint64_t flags, void *context)
{
	const struct nspy_shadow *s = nspy_shadow_of(&av->ops);
	const struct nspy_fi_ops_av *real = s ? s->orig : NULL;
	int rc, saved;

	if (!real)
		return -NSPY_FI_ENOSYS;
	if (!nspy_outermost())
		return real->insert(av, addr, count, fi_addr, flags, context);
	nspy_fabric_depth++;
	rc = real->insert(av, addr, count, fi_addr, flags, context);
	nspy_fabric_depth--;
	saved = errno;
	/* Less than all: which of them is told by the numbers only in some providers. */
	if (rc > 0 && (size_t)rc == count && fi_addr)
		name_peers(s->owner, addr, count, fi_addr);
	errno = saved;
	return rc;
}

void nspy_av_opened(struct nspy_fab *domain, struct nspy_fi_av *av)
{
	struct nspy_fab *fab = nspy_fab_new(NSPY_FAB_AV, av, domain->rail);
	struct nspy_fi_ops_av *ops;

	if (!fab)
		return;
	fab->addr_format = domain->addr_format;
	if (!nspy_fab_watch_close(fab, &av->fid))
		return;
	ops = nspy_shadow_make(fab, &av->ops);
	if (!ops)
		return;
	if (nspy_fi_has(ops, insert))
		ops->insert = av_insert;
	nspy_shadow_install(ops);
}
