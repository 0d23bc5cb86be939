/* SPDX-License-Identifier: Apache-2.0 */
/* ep->tagged: messages with tags. */
#include "compat.h"

#include "posts.h"

#define TAGGED(counter, to, bytes, context, entry, ...)                                            \
	NSPY_POST(tagged, nspy_fi_ops_tagged, counter, to, bytes, context, entry, __VA_ARGS__)

static ssize_t tagged_recv(struct nspy_fi_ep *ep, void *buf, size_t len, void *desc, uint64_t src,
			   uint64_t tag, uint64_t ignore, void *context)
{
	TAGGED(NSPY_NET_RECEIVES, UINT64_MAX, 0, NULL, recv, ep, buf, len, desc, src, tag, ignore,
	       context);
}

static ssize_t tagged_recvv(struct nspy_fi_ep *ep, const struct iovec *iov, void **desc,
			    size_t count, uint64_t src, uint64_t tag, uint64_t ignore,
			    void *context)
{
	TAGGED(NSPY_NET_RECEIVES, UINT64_MAX, 0, NULL, recvv, ep, iov, desc, count, src, tag,
	       ignore, context);
}

static ssize_t tagged_recvmsg(struct nspy_fi_ep *ep, const struct nspy_fi_msg_tagged *msg,
			      uint64_t flags)
{
	TAGGED(NSPY_NET_RECEIVES, UINT64_MAX, 0, NULL, recvmsg, ep, msg, flags);
}

static ssize_t tagged_send(struct nspy_fi_ep *ep, const void *buf, size_t len, void *desc,
			   uint64_t dest, uint64_t tag, void *context)
{
	TAGGED(NSPY_NET_SENDS, dest, len, context, send, ep, buf, len, desc, dest, tag, context);
}

static ssize_t tagged_sendv(struct nspy_fi_ep *ep, const struct iovec *iov, void **desc,
			    size_t count, uint64_t dest, uint64_t tag, void *context)
{
	TAGGED(NSPY_NET_SENDS, dest, nspy_iov_bytes(iov, count), context, sendv, ep, iov, desc,
	       count, dest, tag, context);
}

static ssize_t tagged_sendmsg(struct nspy_fi_ep *ep, const struct nspy_fi_msg_tagged *msg,
			      uint64_t flags)
{
	TAGGED(NSPY_NET_SENDS, msg->addr, nspy_iov_bytes(msg->msg_iov, msg->iov_count),
	       msg->context, sendmsg, ep, msg, flags);
}

static ssize_t tagged_inject(struct nspy_fi_ep *ep, const void *buf, size_t len, uint64_t dest,
			     uint64_t tag)
{
	TAGGED(NSPY_NET_SENDS, dest, len, NULL, inject, ep, buf, len, dest, tag);
}

static ssize_t tagged_senddata(struct nspy_fi_ep *ep, const void *buf, size_t len, void *desc,
			       uint64_t data, uint64_t dest, uint64_t tag, void *context)
{
	TAGGED(NSPY_NET_SENDS, dest, len, context, senddata, ep, buf, len, desc, data, dest, tag,
	       context);
}

static ssize_t tagged_injectdata(struct nspy_fi_ep *ep, const void *buf, size_t len, uint64_t data,
				 uint64_t dest, uint64_t tag)
{
	TAGGED(NSPY_NET_SENDS, dest, len, NULL, injectdata, ep, buf, len, data, dest, tag);
}

void nspy_watch_tagged(struct nspy_fab *fab, struct nspy_fi_ep *ep)
{
	struct nspy_fi_ops_tagged *ops = nspy_shadow_make(fab, &ep->tagged);

	if (!ops)
		return;
	NSPY_WRAP(ops, tagged, recv);
	NSPY_WRAP(ops, tagged, recvv);
	NSPY_WRAP(ops, tagged, recvmsg);
	NSPY_WRAP(ops, tagged, send);
	NSPY_WRAP(ops, tagged, sendv);
	NSPY_WRAP(ops, tagged, sendmsg);
	NSPY_WRAP(ops, tagged, inject);
	NSPY_WRAP(ops, tagged, senddata);
	NSPY_WRAP(ops, tagged, injectdata);
	nspy_shadow_install(ops);
}
