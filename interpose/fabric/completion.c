/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queues. An empty poll is by far the most frequent call of a job and costs one counter;
 * the clock is read only when something completed.
 */
#include "compat.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "events.h"
#include "export.h"
#include "objects.h"
#include "session.h"
#include "traffic.h"

/* Whom a completed operation went to, and since when; NULL if it cannot be told. */
static struct nspy_peer *land(const struct nspy_rail *rail, const void *context,
			      uint64_t *ret_ticks)
{
	struct nspy_flight *flight;
	struct nspy_peer *peer;
	uint64_t key = (uintptr_t)context;

	if (!context || !rail->flights)
		return NULL;
	flight = nspy_flight_at(rail, context);
	if (atomic_load_explicit(&flight->context, memory_order_acquire) != key)
		return NULL;
	peer = atomic_load_explicit(&flight->peer, memory_order_relaxed);
	*ret_ticks = atomic_load_explicit(&flight->ticks, memory_order_relaxed);
	/* Still that operation: another one may share its place. */
	return atomic_compare_exchange_strong_explicit(&flight->context, &key, 0,
						       memory_order_acq_rel, memory_order_relaxed)
		       ? peer
		       : NULL;
}

/* Apart, so that the way of an empty poll stays short. */
static __attribute__((noinline)) void completed(const struct nspy_fab *fab, const void *buf,
						ssize_t count)
{
	const uint8_t *entry = buf;
	uint64_t now = nspy_ticks();

	if (!fab->entry_bytes || !buf) {
		nspy_traffic_add(fab->rail->any, NSPY_NET_COMPLETIONS, (uint64_t)count);
		return;
	}
	for (ssize_t i = 0; i < count; i++, entry += fab->entry_bytes) {
		uint64_t since = 0;
		void *context;
		struct nspy_peer *peer;

		memcpy(&context, entry, sizeof(context));
		peer = land(fab->rail, context, &since);
		nspy_traffic_add(peer ? peer : fab->rail->any, NSPY_NET_COMPLETIONS, 1);
		if (!peer || now < since)
			continue;
		nspy_traffic_add(peer, NSPY_NET_TIMED, 1);
		nspy_traffic_add(peer, NSPY_NET_TIME_SUM, now - since);
		if (atomic_load_explicit(&peer->counter[NSPY_NET_TIME_MAX], memory_order_relaxed) <
		    now - since)
			atomic_store_explicit(&peer->counter[NSPY_NET_TIME_MAX], now - since,
					      memory_order_relaxed);
	}
}

/* Somebody has copied our table: cold, and only passed on. */
static __attribute__((noinline, cold)) const struct nspy_fi_ops_cq *search(struct nspy_fi_cq *cq)
{
	const struct nspy_shadow *shadow = nspy_shadow_search(&cq->ops);

	return shadow ? shadow->orig : NULL;
}

/*
 * A wrapper without a frame of its own: a provider's call from within another one, the commonest
 * of all after the outermost, goes straight through. counted and lost are the same call, with
 * counting and for a queue whose table is not ours.
 */
#define POLL(counted, lost, entry, ...)                                                            \
	const struct nspy_shadow *shadow = nspy_shadow_here(cq->ops);                              \
                                                                                                   \
	if (nspy_unlikely(!shadow))                                                                \
		return lost(__VA_ARGS__);                                                          \
	if (nspy_outermost())                                                                      \
		return counted(__VA_ARGS__, shadow);                                               \
	return ((const struct nspy_fi_ops_cq *)shadow->orig)->entry(__VA_ARGS__)

#define COUNTED(entry, ...)                                                                        \
	const struct nspy_fi_ops_cq *real = shadow->orig;                                          \
	ssize_t rc;                                                                                \
                                                                                                   \
	nspy_fabric_depth = 1;                                                                     \
	rc = real->entry(__VA_ARGS__);                                                             \
	nspy_fabric_depth = 0;                                                                     \
	if (nspy_likely(rc == -NSPY_FI_EAGAIN || rc == 0))                                         \
		count_empty(shadow->hot);                                                          \
	else if (rc > 0)                                                                           \
		completed(shadow->owner, buf, rc);                                                 \
	return rc

static inline void count_empty(_Atomic uint64_t *polls)
{
	atomic_store_explicit(polls, atomic_load_explicit(polls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

static __attribute__((noinline)) ssize_t counted_read(struct nspy_fi_cq *cq, void *buf,
						      size_t count,
						      const struct nspy_shadow *shadow)
{
	COUNTED(read, cq, buf, count);
}

static __attribute__((noinline)) ssize_t counted_readfrom(struct nspy_fi_cq *cq, void *buf,
							  size_t count, uint64_t *src,
							  const struct nspy_shadow *shadow)
{
	COUNTED(readfrom, cq, buf, count, src);
}

static __attribute__((noinline)) ssize_t counted_sread(struct nspy_fi_cq *cq, void *buf,
						       size_t count, const void *cond, int timeout,
						       const struct nspy_shadow *shadow)
{
	COUNTED(sread, cq, buf, count, cond, timeout);
}

static __attribute__((noinline)) ssize_t counted_sreadfrom(struct nspy_fi_cq *cq, void *buf,
							   size_t count, uint64_t *src,
							   const void *cond, int timeout,
							   const struct nspy_shadow *shadow)
{
	COUNTED(sreadfrom, cq, buf, count, src, cond, timeout);
}

#define LOST(entry, ...)                                                                           \
	const struct nspy_fi_ops_cq *real = search(cq);                                            \
                                                                                                   \
	return real ? real->entry(__VA_ARGS__) : -NSPY_FI_ENOSYS

static __attribute__((noinline, cold)) ssize_t lost_read(struct nspy_fi_cq *cq, void *buf,
							 size_t count)
{
	LOST(read, cq, buf, count);
}

static __attribute__((noinline, cold)) ssize_t lost_readfrom(struct nspy_fi_cq *cq, void *buf,
							     size_t count, uint64_t *src)
{
	LOST(readfrom, cq, buf, count, src);
}

static __attribute__((noinline, cold)) ssize_t lost_sread(struct nspy_fi_cq *cq, void *buf,
							  size_t count, const void *cond,
							  int timeout)
{
	LOST(sread, cq, buf, count, cond, timeout);
}

static __attribute__((noinline, cold)) ssize_t lost_sreadfrom(struct nspy_fi_cq *cq, void *buf,
							      size_t count, uint64_t *src,
							      const void *cond, int timeout)
{
	LOST(sreadfrom, cq, buf, count, src, cond, timeout);
}

static ssize_t cq_read(struct nspy_fi_cq *cq, void *buf, size_t count)
{
	POLL(counted_read, lost_read, read, cq, buf, count);
}

static ssize_t cq_readfrom(struct nspy_fi_cq *cq, void *buf, size_t count, uint64_t *src)
{
	POLL(counted_readfrom, lost_readfrom, readfrom, cq, buf, count, src);
}

static ssize_t cq_sread(struct nspy_fi_cq *cq, void *buf, size_t count, const void *cond,
			int timeout)
{
	POLL(counted_sread, lost_sread, sread, cq, buf, count, cond, timeout);
}

static ssize_t cq_sreadfrom(struct nspy_fi_cq *cq, void *buf, size_t count, uint64_t *src,
			    const void *cond, int timeout)
{
	POLL(counted_sreadfrom, lost_sreadfrom, sreadfrom, cq, buf, count, src, cond, timeout);
}

/* The provider's own words for its error number. */
static void add_words(struct nspy_fabric_event *event, struct nspy_fi_cq *cq,
		      const struct nspy_fi_ops_cq *real, const struct nspy_fi_cq_err_entry *entry)
{
	char words[NSPY_EVENT_TEXT] = "";
	const char *text;

	if (!nspy_fi_has(real, strerror) || !entry->prov_errno)
		return;
	nspy_fabric_depth++;
	text = real->strerror(cq, entry->prov_errno, entry->err_data, words, sizeof(words) - 1);
	nspy_fabric_depth--;
	(void)snprintf(event->more, sizeof(event->more), "%s", text ? text : words);
}

static void note_error(struct nspy_fi_cq *cq, const struct nspy_shadow *shadow,
		       const struct nspy_fi_cq_err_entry *entry)
{
	const struct nspy_fab *fab = shadow->owner;
	uint64_t since;
	struct nspy_peer *peer = land(fab->rail, entry->op_context, &since);
	struct nspy_fabric_event *event;
	int saved = errno;

	/* Receives that are taken back when an endpoint is closed. */
	if (entry->err == ECANCELED)
		return;
	nspy_traffic_add(peer ? peer : fab->rail->any, NSPY_NET_ERRORS, 1);
	event = nspy_fabric_event_new(NSPY_NET_CQ_ERROR);
	if (event) {
		event->error = entry->err;
		event->provider = entry->prov_errno;
		event->rail = fab->rail->id;
		event->peer = peer ? peer->id : NSPY_NET_NONE;
		event->values[NSPY_NET_CQ_FLAGS] = entry->flags;
		event->values[NSPY_NET_CQ_BYTES] = entry->len;
		event->value_count = 2;
		(void)snprintf(event->text, sizeof(event->text), "fi_cq_readerr");
		add_words(event, cq, shadow->orig, entry);
		nspy_fabric_event_ready(event);
	}
	errno = saved;
}

static ssize_t cq_readerr(struct nspy_fi_cq *cq, struct nspy_fi_cq_err_entry *buf, uint64_t flags)
{
	const struct nspy_shadow *shadow = nspy_shadow_of(&cq->ops);
	const struct nspy_fi_ops_cq *real = shadow ? shadow->orig : NULL;
	ssize_t rc;

	if (!real)
		return -NSPY_FI_ENOSYS;
	if (!nspy_outermost())
		return real->readerr(cq, buf, flags);
	nspy_fabric_depth++;
	rc = real->readerr(cq, buf, flags);
	nspy_fabric_depth--;
	if (rc > 0)
		note_error(cq, shadow, buf);
	return rc;
}

void nspy_cq_opened(struct nspy_fab *domain, struct nspy_fi_cq *cq, int format)
{
	static const uint8_t entry_bytes[] = {
		[NSPY_FI_CQ_CONTEXT] = 8,
		[NSPY_FI_CQ_MSG] = 24,
		[NSPY_FI_CQ_DATA] = 40,
		[NSPY_FI_CQ_TAGGED] = 48,
	};
	struct nspy_fab *fab = nspy_fab_new(NSPY_FAB_CQ, cq, domain->rail);
	struct nspy_fi_ops_cq *ops;

	if (!fab)
		return;
	fab->polls = nspy_poll_cell_get(domain->rail);
	fab->entry_bytes = format >= NSPY_FI_CQ_CONTEXT && format <= NSPY_FI_CQ_TAGGED
				   ? entry_bytes[format]
				   : 0;
	if (!nspy_fab_watch_close(fab, &cq->fid))
		return;
	ops = nspy_shadow_make(fab, &cq->ops);
	if (!ops)
		return;
	if (nspy_fi_has(ops, read))
		ops->read = cq_read;
	if (nspy_fi_has(ops, readfrom))
		ops->readfrom = cq_readfrom;
	if (nspy_fi_has(ops, readerr))
		ops->readerr = cq_readerr;
	if (nspy_fi_has(ops, sread))
		ops->sread = cq_sread;
	if (nspy_fi_has(ops, sreadfrom))
		ops->sreadfrom = cq_sreadfrom;
	nspy_shadow_here(ops)->hot = &fab->polls->polls;
	nspy_shadow_install(ops);
}
