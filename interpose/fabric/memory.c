/* SPDX-License-Identifier: Apache-2.0 */
/* domain->mr: memory registrations. */
#include "compat.h"

#include "events.h"
#include "export.h"
#include "objects.h"
#include "session.h"

static bool is_watched(const struct nspy_fi_mr *mr)
{
	uint8_t *area = atomic_load(&nspy_slot_area);

	return (uintptr_t)((uint8_t *)mr->fid.ops - area) < NSPY_SLOTS * NSPY_SLOT_BYTES;
}

/* So that its release is seen. */
static void watch(struct nspy_fab *domain, struct nspy_fi_mr *mr, uint64_t bytes)
{
	struct nspy_fab *fab;

	if (is_watched(mr)) { /* out of the provider's cache, once more */
		const struct nspy_shadow *s = nspy_shadow_of(&mr->fid.ops);

		atomic_fetch_add(&s->owner->refs, 1);
		return;
	}
	nspy_memory_registered(NSPY_NET_LIBFABRIC, bytes);
	fab = nspy_fab_new(NSPY_FAB_MR, mr, domain->rail);
	if (!fab)
		return;
	fab->bytes = bytes;
	(void)nspy_fab_watch_close(fab, &mr->fid);
}

static void registered(struct nspy_fab *domain, int rc, struct nspy_fi_mr **mr, uint64_t bytes,
		       const char *call)
{
	if (rc == 0)
		watch(domain, *mr, bytes);
	else if (rc < 0)
		nspy_memory_failed(NSPY_NET_LIBFABRIC, call, bytes, -rc);
}

#define REGISTER(bytes, call, entry, ...)                                                          \
	struct nspy_fi_domain *domain = (struct nspy_fi_domain *)fid;                              \
	const struct nspy_shadow *shadow = nspy_shadow_of(&domain->mr);                            \
	const struct nspy_fi_ops_mr *real = shadow ? shadow->orig : NULL;                          \
	int rc;                                                                                    \
                                                                                                   \
	if (nspy_unlikely(!real))                                                                  \
		return -NSPY_FI_ENOSYS;                                                            \
	if (!nspy_outermost())                                                                     \
		return real->entry(__VA_ARGS__);                                                   \
	nspy_fabric_depth++;                                                                       \
	rc = real->entry(__VA_ARGS__);                                                             \
	nspy_fabric_depth--;                                                                       \
	registered(shadow->owner, rc, mr, bytes, call);                                            \
	return rc

static uint64_t sum(const struct iovec *iov, size_t count)
{
	uint64_t bytes = 0;

	for (size_t i = 0; iov && i < count; i++)
		bytes += iov[i].iov_len;
	return bytes;
}

static int mr_reg(struct nspy_fi_fid *fid, const void *buf, size_t len, uint64_t access,
		  uint64_t offset, uint64_t key, uint64_t flags, struct nspy_fi_mr **mr,
		  void *context)
{
	REGISTER(len, "fi_mr_reg", reg, fid, buf, len, access, offset, key, flags, mr, context);
}

static int mr_regv(struct nspy_fi_fid *fid, const struct iovec *iov, size_t count, uint64_t access,
		   uint64_t offset, uint64_t key, uint64_t flags, struct nspy_fi_mr **mr,
		   void *context)
{
	REGISTER(sum(iov, count), "fi_mr_regv", regv, fid, iov, count, access, offset, key, flags,
		 mr, context);
}

/* With FI_MR_DMABUF the attribute points to a list of another kind: its size is not asked. */
#define FI_MR_DMABUF (1ULL << 40)

static int mr_regattr(struct nspy_fi_fid *fid, const struct nspy_fi_mr_attr *attr, uint64_t flags,
		      struct nspy_fi_mr **mr)
{
	uint64_t bytes = flags & FI_MR_DMABUF ? 0 : sum(attr->mr_iov, attr->iov_count);

	REGISTER(bytes, "fi_mr_regattr", regattr, fid, attr, flags, mr);
}

void nspy_mr_watch(struct nspy_fab *fab, struct nspy_fi_domain *domain)
{
	struct nspy_fi_ops_mr *ops = nspy_shadow_make(fab, &domain->mr);

	if (!ops)
		return;
	if (nspy_fi_has(ops, reg))
		ops->reg = mr_reg;
	if (nspy_fi_has(ops, regv))
		ops->regv = mr_regv;
	if (nspy_fi_has(ops, regattr))
		ops->regattr = mr_regattr;
	nspy_shadow_install(ops);
}
