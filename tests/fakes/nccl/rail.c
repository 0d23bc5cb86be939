/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Noticing that a peer on another host died. In NCCL every GPU has network connections to its
 * counterparts on the neighbouring hosts and sees them break, whatever it is waiting for. The trees
 * used here need fewer connections, so these are made for that purpose alone: each rank has a link
 * to the rank with its local index on the next host and on the one before. A communicator that is
 * destroyed in order says goodbye first.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"

#define GOODBYE 'q'

static int local_index(const struct ncclComm *comm, int rank)
{
	int index = 0;

	for (int i = 0; i < rank; i++)
		index += comm->peers[i].host == comm->peers[rank].host;
	return index;
}

/* First rank of the step-th host after (or, negative, before) the own one. */
static int neighbour_host(const struct ncclComm *comm, int step)
{
	int firsts[FAKE_FAULT_RANKS], count = 0, own = 0;

	for (int i = 0; i < comm->nranks && count < FAKE_FAULT_RANKS; i++) {
		if (local_index(comm, i) != 0)
			continue;
		if (comm->peers[i].host == comm->peers[comm->rank].host)
			own = count;
		firsts[count++] = i;
	}
	return firsts[(own + step + count) % count];
}

static int counterpart(const struct ncclComm *comm, int first)
{
	int wanted = local_index(comm, comm->rank), found = first;

	for (int i = first; i < comm->nranks; i++) {
		if (comm->peers[i].host == comm->peers[first].host &&
		    local_index(comm, i) <= wanted)
			found = i;
	}
	return found;
}

void fake_rail_connect(struct ncclComm *comm)
{
	for (int step = -1; step <= 1; step += 2) {
		int first = neighbour_host(comm, step);

		if (comm->peers[first].host != comm->peers[comm->rank].host)
			fake_link_out(comm, FAKE_KIND_RAIL, counterpart(comm, first));
	}
}

/* The comm's lock is held: an inbound link has come. */
void fake_rail_arrived(struct ncclComm *comm, int peer)
{
	if (comm->rail_count < FAKE_RAILS)
		comm->rails[comm->rail_count++] = peer;
}

int fake_rail_fds(struct ncclComm *comm, struct pollfd *fds)
{
	int count;

	pthread_mutex_lock(&comm->lock);
	count = comm->rail_count;
	for (int i = 0; i < count; i++)
		fds[i] = (struct pollfd){comm->in[FAKE_KIND_RAIL][comm->rails[i]]->fd, POLLIN, 0};
	pthread_mutex_unlock(&comm->lock);
	return count;
}

/* Called when one of them is readable: a goodbye, or the end. */
void fake_rail_look(struct ncclComm *comm)
{
	int i = 0;

	pthread_mutex_lock(&comm->lock);
	while (i < comm->rail_count) {
		int peer = comm->rails[i];
		char byte = 0;
		ssize_t n = recv(comm->in[FAKE_KIND_RAIL][peer]->fd, &byte, 1, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
			i++;
			continue;
		}
		comm->rails[i] = comm->rails[--comm->rail_count];
		if (n != 1 || byte != GOODBYE)
			fake_peer_lost(comm, peer);
	}
	pthread_mutex_unlock(&comm->lock);
}

void fake_rail_goodbye(struct ncclComm *comm)
{
	static const char byte = GOODBYE;

	for (int i = 0; i < comm->nranks && comm->out[FAKE_KIND_RAIL]; i++) {
		const struct fake_link *link = comm->out[FAKE_KIND_RAIL][i];

		if (link && send(link->fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			fake_info(FAKE_LOG_NET, "rank %d: no goodbye to rank %d: %s", comm->rank, i,
				  strerror(errno));
	}
}
