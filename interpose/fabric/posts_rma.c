/* SPDX-License-Identifier: Apache-2.0 */
/* ep->rma: remote reads and writes. */
#include "compat.h"

#include "posts.h"

#define RMA(counter, to, bytes, context, entry, ...)                                               \
	NSPY_POST(rma, nspy_fi_ops_rma, counter, to, bytes, context, entry, __VA_ARGS__)

static ssize_t rma_read(struct nspy_fi_ep *ep, void *buf, size_t len, void *desc, uint64_t src,
			uint64_t addr, uint64_t key, void *context)
{
	RMA(NSPY_NET_READS, src, len, context, read, ep, buf, len, desc, src, addr, key, context);
}

static ssize_t rma_readv(struct nspy_fi_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 uint64_t src, uint64_t addr, uint64_t key, void *context)
{
	RMA(NSPY_NET_READS, src, nspy_iov_bytes(iov, count), context, readv, ep, iov, desc, count,
	    src, addr, key, context);
}

static ssize_t rma_readmsg(struct nspy_fi_ep *ep, const struct nspy_fi_msg_rma *msg, uint64_t flags)
{
	RMA(NSPY_NET_READS, msg->addr, nspy_iov_bytes(msg->msg_iov, msg->iov_count), msg->context,
	    readmsg, ep, msg, flags);
}

static ssize_t rma_write(struct nspy_fi_ep *ep, const void *buf, size_t len, void *desc,
			 uint64_t dest, uint64_t addr, uint64_t key, void *context)
{
	RMA(NSPY_NET_WRITES, dest, len, context, write, ep, buf, len, desc, dest, addr, key,
	    context);
}

static ssize_t rma_writev(struct nspy_fi_ep *ep, const struct iovec *iov, void **desc, size_t count,
			  uint64_t dest, uint64_t addr, uint64_t key, void *context)
{
	RMA(NSPY_NET_WRITES, dest, nspy_iov_bytes(iov, count), context, writev, ep, iov, desc,
	    count, dest, addr, key, context);
}

static ssize_t rma_writemsg(struct nspy_fi_ep *ep, const struct nspy_fi_msg_rma *msg,
			    uint64_t flags)
{
	RMA(NSPY_NET_WRITES, msg->addr, nspy_iov_bytes(msg->msg_iov, msg->iov_count), msg->context,
	    writemsg, ep, msg, flags);
}

static ssize_t rma_inject(struct nspy_fi_ep *ep, const void *buf, size_t len, uint64_t dest,
			  uint64_t addr, uint64_t key)
{
	RMA(NSPY_NET_WRITES, dest, len, NULL, inject, ep, buf, len, dest, addr, key);
}

static ssize_t rma_writedata(struct nspy_fi_ep *ep, const void *buf, size_t len, void *desc,
			     uint64_t data, uint64_t dest, uint64_t addr, uint64_t key,
			     void *context)
{
	RMA(NSPY_NET_WRITES, dest, len, context, writedata, ep, buf, len, desc, data, dest, addr,
	    key, context);
}

static ssize_t rma_injectdata(struct nspy_fi_ep *ep, const void *buf, size_t len, uint64_t data,
			      uint64_t dest, uint64_t addr, uint64_t key)
{
	RMA(NSPY_NET_WRITES, dest, len, NULL, injectdata, ep, buf, len, data, dest, addr, key);
}

void nspy_watch_rma(struct nspy_fab *fab, struct nspy_fi_ep *ep)
{
	struct nspy_fi_ops_rma *ops = nspy_shadow_make(fab, &ep->rma);

	if (!ops)
		return;
	NSPY_WRAP(ops, rma, read);
	NSPY_WRAP(ops, rma, readv);
	NSPY_WRAP(ops, rma, readmsg);
	NSPY_WRAP(ops, rma, write);
	NSPY_WRAP(ops, rma, writev);
	NSPY_WRAP(ops, rma, writemsg);
	NSPY_WRAP(ops, rma, inject);
	NSPY_WRAP(ops, rma, writedata);
	NSPY_WRAP(ops, rma, injectdata);
	nspy_shadow_install(ops);
}
