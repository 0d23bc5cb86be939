/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls everything of libfabric that ncclspy wraps, in every version of the symbol, on the stand-in
 * (fake_libfabric.c), which prints the arguments it gets; results and errno are printed here. The
 * output must be the same with and without the library. NCCL is called first: it wakes the
 * recorder.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

int ncclGetVersion(int *version);

#define CALL(what, ...)                                                                            \
	do {                                                                                       \
		long rc_;                                                                          \
                                                                                                   \
		errno = 0;                                                                         \
		rc_ = (long)(__VA_ARGS__);                                                         \
		printf("%s = %ld, errno %d\n", what, rc_, errno);                                  \
	} while (0)
#define P(x) ((void *)(x))

#define VERSION(n)                                                                                 \
	int getinfo_##n(uint32_t version, const char *node, const char *service, uint64_t flags,   \
			const struct fi_info *hints, struct fi_info **info);                       \
	void freeinfo_##n(struct fi_info *info);                                                   \
	struct fi_info *dupinfo_##n(const struct fi_info *info);                                   \
	__asm__(".symver getinfo_" #n ",fi_getinfo@FABRIC_1." #n);                                 \
	__asm__(".symver freeinfo_" #n ",fi_freeinfo@FABRIC_1." #n);                               \
	__asm__(".symver dupinfo_" #n ",fi_dupinfo@FABRIC_1." #n)
VERSION(0);
VERSION(1);
VERSION(2);
VERSION(3);
VERSION(7);
VERSION(8);
VERSION(9);
VERSION(10);
int fabric_0(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int fabric_1(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int fabric2_8(struct fi_info *info, struct fid_fabric **fabric, uint64_t flags, void *context);
__asm__(".symver fabric_0,fi_fabric@FABRIC_1.0");
__asm__(".symver fabric_1,fi_fabric@FABRIC_1.1");
__asm__(".symver fabric2_8,fi_fabric2@FABRIC_1.8");

#define EACH(n)                                                                                    \
	do {                                                                                       \
		CALL("getinfo", getinfo_##n(n, "node", "service", 0, info, &info));                \
		CALL("getinfo", getinfo_##n(n, NULL, NULL, 5, NULL, &none));                       \
		CALL("dupinfo", dupinfo_##n(info) != NULL);                                        \
		errno = 0;                                                                         \
		freeinfo_##n(info);                                                                \
		printf("freeinfo, errno %d\n", errno);                                             \
	} while (0)

static struct fi_info *info, *none;
static struct iovec iov = {P(0x100), 24};
static void *desc = P(0x200);

static void messages(struct fid_ep *ep)
{
	CALL("recv", fi_recv(ep, P(1), 2, P(3), 4, P(5)));
	CALL("recvv", ep->msg->recvv(ep, NULL, NULL, 2, 4, P(5)));
	CALL("send", fi_send(ep, P(1), 2, P(3), 40, P(0x700)));
	CALL("sendv", ep->msg->sendv(ep, NULL, NULL, 0, 41, P(5)));
	CALL("inject", fi_inject(ep, P(1), 2, 41));
	CALL("senddata", fi_senddata(ep, P(1), 2, P(3), 9, 40, P(0x701)));
	CALL("injectdata", fi_injectdata(ep, P(1), 2, 9, 41));
}

static void tagged(struct fid_ep *ep)
{
	CALL("trecv", fi_trecv(ep, P(1), 2, P(3), 4, 5, 6, P(7)));
	CALL("trecvv", fi_trecvv(ep, NULL, NULL, 3, 4, 5, 6, P(7)));
	CALL("tsend", fi_tsend(ep, P(1), 2, P(3), 40, 5, P(7)));
	CALL("tsendv", fi_tsendv(ep, NULL, NULL, 0, 40, 5, P(7)));
	CALL("tinject", fi_tinject(ep, P(1), 2, 40, 5));
	CALL("tsenddata", fi_tsenddata(ep, P(1), 2, P(3), 9, 40, 5, P(7)));
	CALL("tinjectdata", fi_tinjectdata(ep, P(1), 2, 9, 40, 5));
}

static void remote(struct fid_ep *ep)
{
	CALL("read", fi_read(ep, P(1), 2, P(3), 40, 5, 6, P(7)));
	CALL("readv", fi_readv(ep, NULL, NULL, 0, 40, 5, 6, P(7)));
	CALL("write", fi_write(ep, P(1), 2, P(3), 40, 5, 6, P(7)));
	CALL("writev", fi_writev(ep, NULL, NULL, 0, 40, 5, 6, P(7)));
	CALL("inject_write", fi_inject_write(ep, P(1), 2, 40, 5, 6));
	CALL("writedata", fi_writedata(ep, P(1), 2, P(3), 9, 40, 5, 6, P(7)));
	CALL("inject_writedata", fi_inject_writedata(ep, P(1), 2, 9, 40, 5, 6));
}

/* At a place of their own, so that their addresses print alike. */
static struct fi_msg *const msg = (void *)0x10000000;
static struct fi_msg_tagged *const msg_tagged = (void *)0x10001000;
static struct fi_msg_rma *const msg_rma = (void *)0x10002000;

static void structures(struct fid_ep *ep)
{
	*msg = (struct fi_msg){&iov, &desc, 1, 40, P(5), 6};
	*msg_tagged = (struct fi_msg_tagged){&iov, &desc, 1, 40, 5, 6, P(7), 8};
	*msg_rma = (struct fi_msg_rma){&iov, &desc, 1, 40, NULL, 0, P(7), 8};
	CALL("recvmsg", fi_recvmsg(ep, msg, 1));
	CALL("sendmsg", fi_sendmsg(ep, msg, 2));
	CALL("trecvmsg", fi_trecvmsg(ep, msg_tagged, 3));
	CALL("tsendmsg", fi_tsendmsg(ep, msg_tagged, 4));
	CALL("readmsg", fi_readmsg(ep, msg_rma, 5));
	CALL("writemsg", fi_writemsg(ep, msg_rma, 6));
}

static void queues(struct fid_cq *cq)
{
	struct fi_cq_err_entry error = {0};
	struct fi_cq_entry entry;
	fi_addr_t from;

	CALL("cq_read", fi_cq_read(cq, &entry, 1));
	CALL("cq_readfrom", fi_cq_readfrom(cq, &entry, 1, &from));
	CALL("cq_sread", fi_cq_sread(cq, &entry, 1, P(2), 3));
	CALL("cq_sreadfrom", fi_cq_sreadfrom(cq, &entry, 1, &from, P(2), 3));
	CALL("cq_readerr", fi_cq_readerr(cq, &error, 4));
	printf("error %d %d %p\n", error.err, error.prov_errno, error.op_context);
}

static void registrations(struct fid_domain *domain)
{
	struct iovec seven = {P(0x100), 7};
	struct fi_mr_attr attr = {.mr_iov = &iov, .iov_count = 1};
	struct fid_mr *one, *two, *three, *cached, *again = NULL;

	CALL("mr_reg", fi_mr_reg(domain, P(1), 4096, 3, 4, 5, 6, &one, P(7)));
	CALL("mr_regv", fi_mr_regv(domain, &iov, 1, 3, 4, 5, 6, &two, P(7)));
	CALL("mr_regattr", fi_mr_regattr(domain, &attr, 6, &three));
	CALL("mr_reg", fi_mr_reg(domain, P(1), 7, 3, 4, 5, 6, &again, P(7)));
	attr.mr_iov = &seven;
	CALL("mr_regattr", fi_mr_regattr(domain, &attr, 6, &again));
	CALL("mr_reg", fi_mr_reg(domain, P(1), 8, 3, 4, 5, 6, &cached, P(7)));
	CALL("mr_reg", fi_mr_reg(domain, P(1), 8, 3, 4, 5, 6, &again, P(7)));
	printf("cached: %d\n", cached == again);
	CALL("close", fi_close(&one->fid));
	CALL("close", fi_close(&two->fid));
	CALL("close", fi_close(&three->fid));
	CALL("close", fi_close(&cached->fid));
}

static void use(struct fid_domain *domain, uint64_t flags)
{
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
	char address[64] = "";
	size_t bytes = 32;
	fi_addr_t numbers[2];
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;

	CALL("av_open", fi_av_open(domain, &av_attr, &av, P(1)));
	CALL("cq_open", fi_cq_open(domain, &cq_attr, &cq, P(2)));
	if (flags)
		CALL("endpoint2", domain->ops->endpoint2(domain, info, &ep, flags, P(3)));
	else
		CALL("endpoint", fi_endpoint(domain, info, &ep, P(3)));
	CALL("bind", fi_ep_bind(ep, &cq->fid, FI_SEND));
	CALL("enable", fi_enable(ep));
	CALL("getname", fi_getname(&ep->fid, address, &bytes));
	CALL("connect", fi_connect(ep, address, NULL, 5));
	CALL("av_insert", fi_av_insert(av, address, 2, numbers, 3, P(4)));
	messages(ep);
	tagged(ep);
	remote(ep);
	structures(ep);
	queues(cq);
	registrations(domain);
	CALL("close", fi_close(&ep->fid));
	CALL("send", fi_send(ep, P(1), 2, P(3), 40, P(0x702)));
	CALL("close", fi_close(&ep->fid));
	CALL("close", fi_close(&cq->fid));
	CALL("close", fi_close(&av->fid));
	CALL("close", fi_close(&domain->fid));
}

int main(void)
{
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	int version;

	if (mmap(msg, 0x3000, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != msg)
		return 77;
	(void)ncclGetVersion(&version);
	EACH(10);
	EACH(9);
	EACH(8);
	EACH(7);
	EACH(3);
	CALL("fabric", fabric_0(info->fabric_attr, &fabric, P(1)));
	CALL("close", fi_close(&fabric->fid));
	CALL("fabric2", fabric2_8(info, &fabric, 6, P(2)));
	CALL("domain2", fabric->ops->domain2(fabric, info, &domain, 7, P(3)));
	use(domain, 8);
	CALL("close", fi_close(&fabric->fid));
	CALL("fabric", fabric_1(info->fabric_attr, &fabric, P(4)));
	CALL("domain", fi_domain(fabric, info, &domain, P(5)));
	use(domain, 0);
	CALL("close", fi_close(&fabric->fid));
	EACH(2);
	EACH(1);
	EACH(0);
	fflush(stdout);
	return 0;
}
