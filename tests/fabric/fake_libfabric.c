/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for libfabric that prints every argument it gets and leaves an errno of its own after
 * every call. NSPY_FAKE_FABRIC chooses the provider's name; with "const:" before it, its tables of
 * functions are constant, as those of some providers are.
 */
#include "fake_libfabric.h"

static const char *chosen(void)
{
	const char *text = getenv("NSPY_FAKE_FABRIC");

	return text ? text : "efa";
}

static char *provider(void)
{
	const char *name = chosen();

	return (char *)(strncmp(name, "const:", 6) == 0 ? name + 6 : name);
}

/* --- completions: a provider that goes through its own table once more --- */

static ssize_t c_readfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src)
{
	SAY("cq_readfrom", "%d %d %zu %d", cq != NULL, buf != NULL, count, src != NULL);
	return -FI_EAGAIN;
}

static ssize_t c_read(struct fid_cq *cq, void *buf, size_t count)
{
	SAY("cq_read", "%d %d %zu", cq != NULL, buf != NULL, count);
	return cq->ops->readfrom(cq, buf, count, NULL);
}

static ssize_t c_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
	SAY("cq_readerr", "%d %d %llu", cq != NULL, entry != NULL, N(flags));
	entry->err = FI_EIO;
	entry->prov_errno = 13;
	entry->op_context = P(0x700);
	return 1;
}

static ssize_t c_sread(struct fid_cq *cq, void *buf, size_t count, const void *cond, int timeout)
{
	SAY("cq_sread", "%d %d %zu %p %d", cq != NULL, buf != NULL, count, cond, timeout);
	((struct fi_cq_entry *)buf)->op_context = P(0x701);
	return 1;
}

static ssize_t c_sreadfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src,
			   const void *cond, int timeout)
{
	SAY("cq_sreadfrom", "%d %d %zu %d %p %d", cq != NULL, buf != NULL, count, src != NULL, cond,
	    timeout);
	return -FI_EAVAIL;
}

static const char *c_strerror(struct fid_cq *cq, int error, const void *data, char *buf, size_t len)
{
	(void)cq;
	(void)error;
	(void)data;
	(void)buf;
	(void)len;
	return "words of the stand-in";
}

/* --- objects --- */

/* As of a provider's cache: one registration for all of eight bytes, never freed. */
static struct fid_mr *cached;

static int no_close(struct fid *fid)
{
	SAY("close", "%zu", fid->fclass);
	if (fid != (struct fid *)cached)
		free(fid);
	return 0;
}

/* An endpoint refuses to be closed the first time. */
static int ep_close(struct fid *fid)
{
	SAY("ep close", "%d", fid->context != NULL);
	if (fid->context) {
		fid->context = NULL;
		return -FI_EBUSY;
	}
	free(fid);
	return 0;
}

static int no_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	SAY("bind", "%zu %zu %llu", fid->fclass, other->fclass, N(flags));
	return 0;
}

/* Enabling puts another table in place. */
static int ep_control(struct fid *fid, int command, void *arg)
{
	SAY("control", "%zu %d %p", fid->fclass, command, arg);
	if (command == FI_ENABLE)
		((struct fid_ep *)fid)->msg = &fake_msg_late;
	return 0;
}

static int cm_getname(fid_t fid, void *addr, size_t *bytes)
{
	SAY("getname", "%zu %d %zu", fid->fclass, addr != NULL, *bytes);
	memset(addr, 7, *bytes);
	return 0;
}

static int cm_connect(struct fid_ep *ep, const void *addr, const void *param, size_t bytes)
{
	SAY("connect", "%d %d %p %zu", ep != NULL, addr != NULL, param, bytes);
	return -FI_ENOSYS;
}

static int a_insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *numbers,
		    uint64_t flags, void *context)
{
	SAY("av_insert", "%d %d %zu %d %llu %p", av != NULL, addr != NULL, count, numbers != NULL,
	    N(flags), context);
	for (size_t i = 0; i < count; i++)
		numbers[i] = 40 + i;
	return (int)count;
}

static struct fi_ops_cm cm = {
	.size = sizeof(cm),
	.getname = cm_getname,
	.connect = cm_connect,
};
static struct fi_ops_cq cq_ops = {
	.size = sizeof(cq_ops),
	.read = c_read,
	.readfrom = c_readfrom,
	.readerr = c_readerr,
	.sread = c_sread,
	.sreadfrom = c_sreadfrom,
	.strerror = c_strerror,
};
static struct fi_ops_av av_ops = {.size = sizeof(av_ops), .insert = a_insert};
static struct fi_ops fid_ops = {
	.size = sizeof(fid_ops),
	.close = no_close,
	.bind = no_bind,
};
static struct fi_ops ep_fid_ops = {
	.size = sizeof(ep_fid_ops),
	.close = ep_close,
	.bind = no_bind,
	.control = ep_control,
};

static int d_mr(struct fid_mr **mr, size_t bytes)
{
	if (bytes == 7)
		return -FI_ENOMEM;
	if (bytes != 8 || !cached)
		*mr = calloc(1, sizeof(**mr));
	else
		*mr = cached;
	if (bytes == 8)
		cached = *mr;
	if (!(*mr)->fid.ops) {
		(*mr)->fid.fclass = FI_CLASS_MR;
		(*mr)->fid.ops = &fid_ops;
	}
	return 0;
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		  uint64_t key, uint64_t flags, struct fid_mr **mr, void *context)
{
	SAY("mr_reg", "%zu %p %zu %llu %llu %llu %llu %p", fid->fclass, buf, len, N(access),
	    N(offset), N(key), N(flags), context);
	return d_mr(mr, len);
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
		   uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr, void *context)
{
	SAY("mr_regv", "%zu %d %zu %llu %llu %llu %llu %p", fid->fclass, iov != NULL, count,
	    N(access), N(offset), N(key), N(flags), context);
	return d_mr(mr, iov->iov_len);
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
		      struct fid_mr **mr)
{
	SAY("mr_regattr", "%zu %zu %llu", fid->fclass, attr->iov_count, N(flags));
	return d_mr(mr, attr->mr_iov->iov_len);
}

static struct fi_ops_mr mr_ops = {sizeof(mr_ops), mr_reg, mr_regv, mr_regattr};

static int d_av(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *c)
{
	SAY("av_open", "%d %d %p", domain != NULL, attr != NULL, c);
	*av = calloc(1, sizeof(**av));
	(*av)->fid = (struct fid){FI_CLASS_AV, c, &fid_ops};
	(*av)->ops = &av_ops;
	return 0;
}

static int d_cq(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *c)
{
	SAY("cq_open", "%d %d %p", domain != NULL, attr != NULL, c);
	*cq = calloc(1, sizeof(**cq));
	(*cq)->fid = (struct fid){FI_CLASS_CQ, c, &fid_ops};
	(*cq)->ops = &cq_ops;
	return 0;
}

static int make_ep(struct fid_ep **ep)
{
	*ep = calloc(1, sizeof(**ep));
	(*ep)->fid = (struct fid){FI_CLASS_EP, P(1), &ep_fid_ops};
	(*ep)->cm = &cm;
	(*ep)->msg = &fake_msg_early;
	(*ep)->tagged = &fake_tagged;
	(*ep)->rma = &fake_rma;
	return 0;
}

static int d_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *c)
{
	SAY("endpoint", "%d %d %p", domain != NULL, info != NULL, c);
	return make_ep(ep);
}

static int d_ep2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
		 uint64_t flags, void *c)
{
	SAY("endpoint2", "%d %d %llu %p", domain != NULL, info != NULL, N(flags), c);
	return make_ep(ep);
}

static int d_cntr(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
		  void *c)
{
	(void)domain;
	(void)attr;
	(void)cntr;
	(void)c;
	return -FI_ENOSYS;
}

#define DOMAIN_OPS                                                                                 \
	{                                                                                          \
		.size = sizeof(struct fi_ops_domain), .av_open = d_av, .cq_open = d_cq,            \
		.endpoint = d_ep, .cntr_open = d_cntr, .endpoint2 = d_ep2,                         \
	}
static struct fi_ops_domain domain_ops = DOMAIN_OPS;
static const struct fi_ops_domain domain_ops_const = DOMAIN_OPS;

static bool is_const(void)
{
	return strncmp(chosen(), "const:", 6) == 0;
}

static int make_domain(struct fid_domain **domain, void *c)
{
	*domain = calloc(1, sizeof(**domain));
	(*domain)->fid = (struct fid){FI_CLASS_DOMAIN, c, &fid_ops};
	(*domain)->ops = is_const() ? (struct fi_ops_domain *)&domain_ops_const : &domain_ops;
	(*domain)->mr = &mr_ops;
	return 0;
}

static int b_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		    void *c)
{
	SAY("domain", "%d %d %p", fabric != NULL, info != NULL, c);
	return make_domain(domain, c);
}

static int b_domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		     uint64_t flags, void *c)
{
	SAY("domain2", "%d %d %llu %p", fabric != NULL, info != NULL, N(flags), c);
	return make_domain(domain, c);
}

static int b_eq(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *c)
{
	(void)fabric;
	(void)attr;
	(void)eq;
	(void)c;
	return -FI_ENOSYS;
}

#define FABRIC_OPS                                                                                 \
	{                                                                                          \
		.size = sizeof(struct fi_ops_fabric), .domain = b_domain, .eq_open = b_eq,         \
		.domain2 = b_domain2,                                                              \
	}
static struct fi_ops_fabric fabric_ops = FABRIC_OPS;
static const struct fi_ops_fabric fabric_ops_const = FABRIC_OPS;

/* --- exported, by version --- */

static struct fi_fabric_attr fabric_attr = {.name = (char *)"fabric of the stand-in"};
static struct fi_domain_attr domain_attr = {.name = (char *)"rdmap0s6-rdm"};
static struct fi_ep_attr ep_attr = {.type = FI_EP_RDM};
static struct fi_device_attr device_attr = {.name = (char *)"rdmap0s6"};
static struct fi_link_attr link_attr = {.speed = 100000000000u};
static struct fid_nic nic = {.device_attr = &device_attr, .link_attr = &link_attr};
static struct fi_info info = {
	.addr_format = FI_ADDR_EFA,
	.ep_attr = &ep_attr,
	.domain_attr = &domain_attr,
	.fabric_attr = &fabric_attr,
	.nic = &nic,
};

static int make_fabric(struct fid_fabric **fabric, void *c)
{
	*fabric = calloc(1, sizeof(**fabric));
	(*fabric)->fid = (struct fid){FI_CLASS_FABRIC, c, &fid_ops};
	(*fabric)->ops = is_const() ? (struct fi_ops_fabric *)&fabric_ops_const : &fabric_ops;
	return 0;
}

#define VERSIONED(function, name, version) __asm__(".symver " #function "," #name version)
#define GETINFO(n, at)                                                                             \
	int getinfo_##n(uint32_t version, const char *node, const char *service, uint64_t flags,   \
			const struct fi_info *hints, struct fi_info **ret);                        \
	int getinfo_##n(uint32_t version, const char *node, const char *service, uint64_t flags,   \
			const struct fi_info *hints, struct fi_info **ret)                         \
	{                                                                                          \
		SAY("getinfo@1." #n, "%u %s %s %llu %d", version, node ? node : "-",               \
		    service ? service : "-", N(flags), hints != NULL);                             \
		fabric_attr.prov_name = provider();                                                \
		*ret = flags ? NULL : &info;                                                       \
		return flags ? -FI_ENODATA : 0;                                                    \
	}                                                                                          \
	VERSIONED(getinfo_##n, fi_getinfo, at);                                                    \
	void freeinfo_##n(struct fi_info *old);                                                    \
	void freeinfo_##n(struct fi_info *old)                                                     \
	{                                                                                          \
		SAY("freeinfo@1." #n, "%d", old == &info);                                         \
	}                                                                                          \
	VERSIONED(freeinfo_##n, fi_freeinfo, at);                                                  \
	struct fi_info *dupinfo_##n(const struct fi_info *old);                                    \
	struct fi_info *dupinfo_##n(const struct fi_info *old)                                     \
	{                                                                                          \
		SAY("dupinfo@1." #n, "%d", old == &info);                                          \
		return &info;                                                                      \
	}                                                                                          \
	VERSIONED(dupinfo_##n, fi_dupinfo, at)

GETINFO(0, "@FABRIC_1.0");
GETINFO(1, "@FABRIC_1.1");
GETINFO(2, "@FABRIC_1.2");
GETINFO(3, "@FABRIC_1.3");
GETINFO(7, "@FABRIC_1.7");
GETINFO(8, "@FABRIC_1.8");
GETINFO(9, "@FABRIC_1.9");
GETINFO(10, "@@FABRIC_1.10");

int fabric_0(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int fabric_1(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int fabric2_8(struct fi_info *wanted, struct fid_fabric **fabric, uint64_t flags, void *context);

int fabric_0(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	SAY("fabric@1.0", "%d %p", attr == &fabric_attr, context);
	return make_fabric(fabric, context);
}
VERSIONED(fabric_0, fi_fabric, "@FABRIC_1.0");

int fabric_1(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	SAY("fabric@1.1", "%d %p", attr == &fabric_attr, context);
	return make_fabric(fabric, context);
}
VERSIONED(fabric_1, fi_fabric, "@@FABRIC_1.1");

int fabric2_8(struct fi_info *wanted, struct fid_fabric **fabric, uint64_t flags, void *context)
{
	SAY("fabric2@1.8", "%d %llu %p", wanted == &info, N(flags), context);
	return make_fabric(fabric, context);
}
VERSIONED(fabric2_8, fi_fabric2, "@@FABRIC_1.8");
