/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of endpoints. Every wrapper has the shape of NSPY_POST: note what is posted, let the
 * provider do it, count what it said. context: the hot path; no lock, no system call, errno
 * untouched.
 */
#ifndef NSPY_POSTS_H
#define NSPY_POSTS_H

#include "clock.h"
#include "export.h"
#include "objects.h"
#include "session.h"
#include "traffic.h"

void nspy_watch_msg(struct nspy_fab *fab, struct nspy_fi_ep *ep);
void nspy_watch_tagged(struct nspy_fab *fab, struct nspy_fi_ep *ep);
void nspy_watch_rma(struct nspy_fab *fab, struct nspy_fi_ep *ep);

struct nspy_post {
	struct nspy_peer *peer;
	struct nspy_flight *flight; /* NULL: its completion cannot be told from others */
};

/* The provider refused an operation, and not for lack of room. Cold. */
void nspy_post_failed(const struct nspy_fab *fab, const struct nspy_peer *peer, const char *call,
		      ssize_t error);

static inline struct nspy_peer *nspy_post_peer(const struct nspy_fab *fab, uint64_t to)
{
	if (fab->peer)
		return fab->peer;
	return to == UINT64_MAX ? fab->rail->any : nspy_peer_get(fab->rail, to);
}

static inline void nspy_post_begin(struct nspy_post *post, const struct nspy_fab *fab, uint64_t to,
				   const void *context, bool timed)
{
	post->peer = nspy_post_peer(fab, to);
	post->flight = NULL;
	if (!timed || !context || !fab->rail->flights)
		return;
	post->flight = nspy_flight_at(fab->rail, context);
	/* The completion may be seen by another thread before the call returns. */
	atomic_store_explicit(&post->flight->context, 0, memory_order_relaxed);
	atomic_store_explicit(&post->flight->ticks, nspy_ticks(), memory_order_relaxed);
	atomic_store_explicit(&post->flight->peer, post->peer, memory_order_relaxed);
	atomic_store_explicit(&post->flight->context, (uintptr_t)context, memory_order_release);
}

static inline void nspy_post_end(const struct nspy_post *post, const struct nspy_fab *fab,
				 enum nspy_net_counter counter, size_t bytes, const char *call,
				 ssize_t rc)
{
	if (nspy_likely(rc == 0)) {
		nspy_traffic_add(post->peer, counter, 1);
		if (counter != NSPY_NET_RECEIVES)
			nspy_traffic_add(post->peer, counter + 1, bytes);
		return;
	}
	if (post->flight)
		atomic_store_explicit(&post->flight->context, 0, memory_order_relaxed);
	if (rc == -NSPY_FI_EAGAIN)
		nspy_traffic_add(post->peer, NSPY_NET_AGAIN, 1);
	else
		nspy_post_failed(fab, post->peer, call, rc);
}

static inline size_t nspy_iov_bytes(const struct iovec *iov, size_t count)
{
	size_t bytes = 0;

	for (size_t i = 0; iov && i < count; i++)
		bytes += iov[i].iov_len;
	return bytes;
}

/*
 * The body of a wrapper. field: the endpoint's pointer to the table; call: the entry with its
 * arguments. Receives are not timed: they wait for somebody else.
 */
#define NSPY_POST(field, type, counter, to, bytes, context, entry, ...)                            \
	const struct nspy_shadow *shadow = nspy_shadow_of(&ep->field);                             \
	const struct type *real = shadow ? shadow->orig : NULL;                                    \
	struct nspy_post post;                                                                     \
	ssize_t rc;                                                                                \
                                                                                                   \
	if (nspy_unlikely(!real))                                                                  \
		return -NSPY_FI_ENOSYS;                                                            \
	if (!nspy_outermost())                                                                     \
		return real->entry(__VA_ARGS__);                                                   \
	nspy_post_begin(&post, shadow->owner, to, context, (counter) != NSPY_NET_RECEIVES);        \
	nspy_fabric_depth++;                                                                       \
	rc = real->entry(__VA_ARGS__);                                                             \
	nspy_fabric_depth--;                                                                       \
	nspy_post_end(&post, shadow->owner, counter, bytes, #field "." #entry, rc);                \
	return rc

/* Puts a wrapper where the provider has an entry. */
#define NSPY_WRAP(ops, prefix, entry)                                                              \
	do {                                                                                       \
		if (nspy_fi_has(ops, entry))                                                       \
			(ops)->entry = prefix##_##entry;                                           \
	} while (0)

#endif
