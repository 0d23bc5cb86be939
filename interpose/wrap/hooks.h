/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a wrapper notes about its call. The call tables (interpose/api) name these hooks after
 * "put=" (runs before the real function, on the open-call entry) and "got=" (runs after it, with
 * its result, before the entry is closed). The generator prefixes the name with nspy_put_ or
 * nspy_got_ and passes the open entry first; got hooks receive the result (as int) second.
 *
 * context: the application's thread, inside its call. put/got hooks of collectives, p2p, groups,
 * memory and synchronisation take no lock, allocate nothing and make no system call. Hooks of
 * calls that create or destroy communicators are cold and may take the registry lock, never
 * across the real call. No hook changes errno, the arguments or the current device.
 */
#ifndef NSPY_HOOKS_H
#define NSPY_HOOKS_H

#include <stddef.h>
#include <stdint.h>

#include "hooks_ops.h"
#include "trace_record.h"

/*
 * In hooks_ops.h:
 * nspy_put_coll(rec, comm, count, datatype, op, root, stream): collective. root NSPY_PEER_NONE if
 *it has none, op NSPY_REDOP_NONE if none. nspy_put_send, nspy_put_recv(rec, comm, count, datatype,
 *peer, stream): point to point.
 */

/* One-sided call on a communicator. peer: NSPY_PEER_NONE if it has none. */
void nspy_put_rma(struct nspy_rec *rec, const void *comm, size_t count, int datatype, int peer,
		  const void *stream);
/* Any other call about one communicator. */
void nspy_put_comm(struct nspy_rec *rec, const void *comm);
/* As put_comm, with a size in bytes (registration). */
void nspy_put_comm_bytes(struct nspy_rec *rec, const void *comm, size_t bytes);

void nspy_put_group_start(struct nspy_rec *rec);
void nspy_put_group_end(struct nspy_rec *rec);
/* Counts the group only if the library accepted it. */
void nspy_got_group_start(struct nspy_rec *rec, int result);
void nspy_got_group_end(struct nspy_rec *rec, int result);

/*
 * Creation. ids: count unique ids of 128 bytes each. config: ncclConfig_t or NULL, read with its
 * own size only. newcomm is read after success, or later when the state turns to success.
 */
void nspy_put_init_rank(struct nspy_rec *rec, const void *ids, int count, int nranks, int rank,
			const void *config);
void nspy_got_init_rank(struct nspy_rec *rec, int result, void *const *newcomm);
void nspy_put_init_all(struct nspy_rec *rec, int ndev);
void nspy_got_init_all(struct nspy_rec *rec, int result, void *const *comms, int ndev);
void nspy_put_split(struct nspy_rec *rec, const void *parent, int color, int key,
		    const void *config);
void nspy_got_split(struct nspy_rec *rec, int result, void *const *newcomm);
void nspy_put_shrink(struct nspy_rec *rec, const void *parent, const int *exclude,
		     int exclude_count, const void *config, int flags);
void nspy_got_shrink(struct nspy_rec *rec, int result, void *const *newcomm);
void nspy_put_grow(struct nspy_rec *rec, const void *parent, int nranks, const void *id, int rank,
		   const void *config);
void nspy_got_grow(struct nspy_rec *rec, int result, void *const *newcomm);
/* Destroy, abort: the handle may be reused by the library from here on. */
void nspy_put_destroy(struct nspy_rec *rec, const void *comm);
void nspy_got_destroy(struct nspy_rec *rec, int result);
/* ncclCommGetAsyncError: completes deferred creations; *state is read only when result is 0. */
/* --- what the application finds done (hooks_seen.c) --- */

/* A collective that is on its stream now, or will be at the end of the group. */
void nspy_got_queued(struct nspy_rec *rec, int result);
/* It is decided what becomes of what was called in a group, or for a nonblocking communicator. */
void nspy_seen_settled(uint32_t comm, int result);
void nspy_put_stream_asked(struct nspy_rec *rec, const void *stream);
void nspy_got_stream_done(struct nspy_rec *rec, int result);
void nspy_got_stream_answer(struct nspy_rec *rec, int result);
void nspy_got_stream_made(struct nspy_rec *rec, int result, void *const *stream);
void nspy_put_stream_gone(struct nspy_rec *rec, const void *stream);
void nspy_put_event_record(struct nspy_rec *rec, const void *event, const void *stream);
void nspy_got_event_record(struct nspy_rec *rec, int result);
void nspy_put_event_asked(struct nspy_rec *rec, const void *event);
void nspy_got_event_done(struct nspy_rec *rec, int result);
void nspy_got_event_answer(struct nspy_rec *rec, int result);
void nspy_put_event_waited(struct nspy_rec *rec, const void *stream, const void *event);
void nspy_got_event_waited(struct nspy_rec *rec, int result);
void nspy_put_event_gone(struct nspy_rec *rec, const void *event);
/* Recorded where we cannot see it: by a graph, by another process. */
void nspy_put_event_unfit(struct nspy_rec *rec, const void *event);
void nspy_got_event_made(struct nspy_rec *rec, int result, void *const *event, unsigned int flags);
void nspy_put_event_pair(struct nspy_rec *rec, const void *from, const void *to);
void nspy_got_elapsed(struct nspy_rec *rec, int result, const float *ms);
/* The call itself is worth no record unless it fails. */
void nspy_got_not_kept(struct nspy_rec *rec, int result);

void nspy_got_async_error(struct nspy_rec *rec, int result, const int *state);

/* Memory: bytes asked for; after success the address obtained. */
void nspy_put_bytes(struct nspy_rec *rec, size_t bytes);
void nspy_got_address(struct nspy_rec *rec, int result, void *const *address);
void nspy_put_arg(struct nspy_rec *rec, const void *arg);
/* Counts the replay: the watcher compares ranks by it, and may miss records. */
void nspy_put_graph_launch(struct nspy_rec *rec);
void nspy_got_mem_info(struct nspy_rec *rec, int result, const size_t *free_bytes,
		       const size_t *total_bytes);

/* Stream capture: from the first begin on, streams are asked whether they are being captured. */
void nspy_got_capture_begin(struct nspy_rec *rec, int result, const void *stream);

#endif
