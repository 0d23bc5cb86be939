/* SPDX-License-Identifier: Apache-2.0 */
/* ep->msg: messages. */
#include "compat.h"

#include "posts.h"

#include <errno.h>
#include <stdio.h>

#include "events.h"

void nspy_post_failed(const struct nspy_fab *fab, const struct nspy_peer *peer, const char *call,
		      ssize_t error)
{
	struct nspy_fabric_event *event;
	int saved = errno;

	nspy_traffic_add((struct nspy_peer *)peer, NSPY_NET_ERRORS, 1);
	event = nspy_fabric_event_new(NSPY_NET_POST_FAILED);
	if (event) {
		event->error = (int32_t)-error;
		event->rail = fab->rail->id;
		event->peer = peer->id;
		(void)snprintf(event->text, sizeof(event->text), "%s", call);
		nspy_fabric_event_ready(event);
	}
	errno = saved;
}

#define MSG(counter, to, bytes, context, entry, ...)                                               \
	NSPY_POST(msg, nspy_fi_ops_msg, counter, to, bytes, context, entry, __VA_ARGS__)

static ssize_t msg_recv(struct nspy_fi_ep *ep, void *buf, size_t len, void *desc, uint64_t src,
			void *context)
{
	MSG(NSPY_NET_RECEIVES, UINT64_MAX, 0, NULL, recv, ep, buf, len, desc, src, context);
}

static ssize_t msg_recvv(struct nspy_fi_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 uint64_t src, void *context)
{
	MSG(NSPY_NET_RECEIVES, UINT64_MAX, 0, NULL, recvv, ep, iov, desc, count, src, context);
}

static ssize_t msg_recvmsg(struct nspy_fi_ep *ep, const struct nspy_fi_msg *msg, uint64_t flags)
{
	MSG(NSPY_NET_RECEIVES, UINT64_MAX, 0, NULL, recvmsg, ep, msg, flags);
}

static ssize_t msg_send(struct nspy_fi_ep *ep, const void *buf, size_t len, void *desc,
			uint64_t dest, void *context)
{
	MSG(NSPY_NET_SENDS, dest, len, context, send, ep, buf, len, desc, dest, context);
}

static ssize_t msg_sendv(struct nspy_fi_ep *ep, const struct iovec *iov, void **desc, size_t count,
			 uint64_t dest, void *context)
{
	MSG(NSPY_NET_SENDS, dest, nspy_iov_bytes(iov, count), context, sendv, ep, iov, desc, count,
	    dest, context);
}

static ssize_t msg_sendmsg(struct nspy_fi_ep *ep, const struct nspy_fi_msg *msg, uint64_t flags)
{
	MSG(NSPY_NET_SENDS, msg->addr, nspy_iov_bytes(msg->msg_iov, msg->iov_count), msg->context,
	    sendmsg, ep, msg, flags);
}

static ssize_t msg_inject(struct nspy_fi_ep *ep, const void *buf, size_t len, uint64_t dest)
{
	MSG(NSPY_NET_SENDS, dest, len, NULL, inject, ep, buf, len, dest);
}

static ssize_t msg_senddata(struct nspy_fi_ep *ep, const void *buf, size_t len, void *desc,
			    uint64_t data, uint64_t dest, void *context)
{
	MSG(NSPY_NET_SENDS, dest, len, context, senddata, ep, buf, len, desc, data, dest, context);
}

static ssize_t msg_injectdata(struct nspy_fi_ep *ep, const void *buf, size_t len, uint64_t data,
			      uint64_t dest)
{
	MSG(NSPY_NET_SENDS, dest, len, NULL, injectdata, ep, buf, len, data, dest);
}

void nspy_watch_msg(struct nspy_fab *fab, struct nspy_fi_ep *ep)
{
	struct nspy_fi_ops_msg *ops = nspy_shadow_make(fab, &ep->msg);

	if (!ops)
		return;
	NSPY_WRAP(ops, msg, recv);
	NSPY_WRAP(ops, msg, recvv);
	NSPY_WRAP(ops, msg, recvmsg);
	NSPY_WRAP(ops, msg, send);
	NSPY_WRAP(ops, msg, sendv);
	NSPY_WRAP(ops, msg, sendmsg);
	NSPY_WRAP(ops, msg, inject);
	NSPY_WRAP(ops, msg, senddata);
	NSPY_WRAP(ops, msg, injectdata);
	nspy_shadow_install(ops);
}
