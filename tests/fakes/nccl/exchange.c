/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moving messages. Data goes in messages of at most CHUNK bytes, each with its length in front.
 * A receiver wants a certain length: of a longer message it drops the end, of a shorter one it
 * waits for the rest for ever, as NCCL's flagged protocols do. So ranks that disagree about a count
 * see wrong data or a hang, and nobody is told.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "internal.h"

#define CHUNK       (256u << 10)
#define LINK_BUFFER 16384u
#define HEADER      8
#define EXTRA_FDS   (2 + FAKE_RAILS)

/* what one step of a transfer came to */
enum { STALLED = 0, MOVED = 1, BROKEN = 2 };

struct exchange {
	const struct fake_team *team;
	struct fake_xfer *xfers;
	struct pollfd *fds;
	int count, open;
	int result;
	struct fake_arrival arrival;
	bool has_arrival;
	bool link_missing; /* of an open transfer, when it was last looked at */
};

int fake_team_rank(const struct fake_team *team, int member)
{
	return team->members ? team->members[member] : member;
}

int fake_rest(struct ncclComm *comm, uint64_t ns)
{
	struct pollfd stop = {comm->stop_fd, POLLIN, 0};
	struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	if (ns == 0)
		return atomic_load(&comm->stopped) ? -ECANCELED : 0;
	while (ppoll(&stop, 1, ns == UINT64_MAX ? NULL : &time, NULL) < 0 && errno == EINTR)
		;
	return stop.revents ? -ECANCELED : 0;
}

static uint64_t next_message(const struct fake_xfer *xfer)
{
	size_t rest = xfer->bytes - xfer->moved;

	return rest > CHUNK ? CHUNK : rest;
}

static int broken(void)
{
	return errno == EAGAIN || errno == EINTR ? STALLED : BROKEN;
}

static int step_send(struct exchange *exchange, struct fake_xfer *xfer, struct fake_link *link)
{
	struct iovec parts[2];
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	ssize_t n;
	size_t header;

	if (!xfer->started) {
		xfer->started = true;
		xfer->message = xfer->message_left = next_message(xfer);
		xfer->header_left = HEADER;
		if (exchange->team->slow_ns)
			fake_rest(exchange->team->comm, exchange->team->slow_ns);
	}
	header = (size_t)xfer->header_left;
	parts[0].iov_base = (char *)&xfer->message + (HEADER - header);
	parts[0].iov_len = header;
	parts[1].iov_base = xfer->data + xfer->moved;
	parts[1].iov_len = xfer->message_left;
	n = sendmsg(link->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return broken();
	if ((size_t)n < header) {
		xfer->header_left -= (int)n;
		return MOVED;
	}
	xfer->header_left = 0;
	xfer->moved += (size_t)n - header;
	xfer->message_left -= (size_t)n - header;
	if (xfer->message_left == 0) {
		xfer->started = false;
		xfer->done = xfer->moved == xfer->bytes;
	}
	return MOVED;
}

static void take(struct fake_link *link, void *to, size_t bytes)
{
	if (to)
		memcpy(to, link->buffer + link->at, bytes);
	link->at += bytes;
	if (link->at == link->have)
		link->at = link->have = 0;
}

/* Reads into the link's buffer, or straight to its place if much is missing. */
static int read_more(struct fake_link *link, char *to, size_t wanted, size_t *ret_placed)
{
	ssize_t n;

	*ret_placed = 0;
	if (wanted >= LINK_BUFFER && link->have == 0) {
		n = recv(link->fd, to, wanted, MSG_DONTWAIT);
		if (n > 0)
			*ret_placed = (size_t)n;
	} else {
		if (link->at > 0)
			memmove(link->buffer, link->buffer + link->at, link->have - link->at);
		link->have -= link->at;
		link->at = 0;
		n = recv(link->fd, link->buffer + link->have, LINK_BUFFER - link->have,
			 MSG_DONTWAIT);
		if (n > 0)
			link->have += (size_t)n;
	}
	if (n == 0)
		return BROKEN;
	return n > 0 ? MOVED : broken();
}

/* The header of a message has come in: how much of it is wanted, how much is not. */
static void begin_message(struct fake_xfer *xfer, struct fake_link *link)
{
	uint64_t wanted = next_message(xfer), length;

	take(link, &length, HEADER);
	xfer->cut = length < wanted;
	xfer->message_left = xfer->cut ? length : wanted;
	xfer->discard = length - xfer->message_left;
	xfer->started = true;
}

static void end_message(struct fake_xfer *xfer)
{
	xfer->started = false;
	if (xfer->cut)
		xfer->starved = true;
	else
		xfer->done = xfer->moved == xfer->bytes;
}

/* Moves what the buffer holds to its place. */
static bool use_buffer(struct fake_xfer *xfer, struct fake_link *link)
{
	size_t held = link->have - link->at, n;

	n = held < xfer->message_left ? held : (size_t)xfer->message_left;
	if (n > 0) {
		take(link, xfer->data + xfer->moved, n);
		xfer->moved += n;
		xfer->message_left -= n;
		held -= n;
	}
	n = xfer->message_left > 0 ? 0 : held < xfer->discard ? held : (size_t)xfer->discard;
	if (n > 0) {
		take(link, NULL, n);
		xfer->discard -= n;
	}
	if (xfer->message_left > 0 || xfer->discard > 0)
		return false;
	end_message(xfer);
	return true;
}

static int step_recv(struct fake_xfer *xfer, struct fake_link *link)
{
	size_t placed;
	int result;

	if (!xfer->started && link->have - link->at >= HEADER)
		begin_message(xfer, link);
	if (xfer->started && use_buffer(xfer, link))
		return MOVED;
	result = read_more(link, xfer->started ? xfer->data + xfer->moved : NULL,
			   xfer->started ? (size_t)xfer->message_left : 0, &placed);
	xfer->moved += placed;
	xfer->message_left -= placed;
	return result;
}

void fake_peer_lost(struct ncclComm *comm, int peer)
{
	char text[128];
	int expected = ncclSuccess;

	if (atomic_load(&comm->stopped))
		return;
	WARN("misc/socket.cc", "socketProgress: Connection closed by remote peer %s",
	     fake_address_text(&comm->peers[peer].address, text, sizeof(text)));
	atomic_compare_exchange_strong(&comm->async, &expected, ncclRemoteError);
}

/* The peer is gone. Over a network that is noticed; within a host the wait just never ends. */
static void lose(struct exchange *exchange, struct fake_xfer *xfer)
{
	struct ncclComm *comm = exchange->team->comm;

	xfer->starved = true;
	if (exchange->team->kind == FAKE_KIND_BOOT)
		exchange->result = -ECONNRESET;
	if (exchange->team->kind == FAKE_KIND_BOOT || fake_peer_remote(comm, xfer->peer))
		fake_peer_lost(comm, xfer->peer);
}

static struct fake_link *find_link(struct exchange *exchange, struct fake_xfer *xfer)
{
	const struct fake_team *team = exchange->team;
	struct fake_link *link;

	if (!xfer->send)
		return fake_link_in(team->comm, team->kind, xfer->peer);
	link = fake_link_out(team->comm, team->kind, xfer->peer);
	if (!link)
		lose(exchange, xfer);
	return link;
}

static bool waits_for_earlier(const struct exchange *exchange, const struct fake_xfer *xfer)
{
	return xfer->after >= 0 && !exchange->xfers[xfer->after].done;
}

/* As far as one transfer gets now; fills its place in the poll set. */
static bool progress(struct exchange *exchange, int index)
{
	struct fake_xfer *xfer = &exchange->xfers[index];
	struct pollfd *fd = &exchange->fds[index];
	struct fake_link *link;
	int result = MOVED;

	*fd = (struct pollfd){.fd = -1};
	if (xfer->done || xfer->starved || waits_for_earlier(exchange, xfer))
		return false;
	link = find_link(exchange, xfer);
	if (!link) {
		exchange->link_missing |= !xfer->starved;
		return xfer->starved;
	}
	while (result == MOVED && !xfer->done && !xfer->starved)
		result = xfer->send ? step_send(exchange, xfer, link) : step_recv(xfer, link);
	if (result == BROKEN && !xfer->done)
		lose(exchange, xfer);
	if (xfer->done)
		exchange->open--;
	fd->fd = xfer->done || xfer->starved ? -1 : link->fd;
	fd->events = xfer->send ? POLLOUT : POLLIN;
	return xfer->done || xfer->starved;
}

static int wait_for_more(struct exchange *exchange)
{
	struct ncclComm *comm = exchange->team->comm;
	struct pollfd *extra = &exchange->fds[exchange->count];
	int rails = exchange->team->kind == FAKE_KIND_BOOT ? 0 : fake_rail_fds(comm, extra + 2);
	uint64_t drop;

	extra[0] = (struct pollfd){comm->stop_fd, POLLIN, 0};
	extra[1] = (struct pollfd){exchange->has_arrival ? exchange->arrival.fd : -1, POLLIN, 0};
	if (poll(exchange->fds, (nfds_t)(exchange->count + 2 + rails), -1) < 0)
		return errno == EINTR ? 0 : -errno;
	if (extra[1].revents && read(extra[1].fd, &drop, sizeof(drop)) < 0 && errno != EAGAIN)
		return -errno;
	for (int i = 0; i < rails; i++) {
		if (extra[2 + i].revents) {
			fake_rail_look(comm);
			break;
		}
	}
	return extra[0].revents ? -ECANCELED : 0;
}

static int run(struct exchange *exchange)
{
	while (exchange->result == 0 && exchange->open > 0) {
		bool moved = false;

		exchange->link_missing = false;
		for (int i = 0; i < exchange->count; i++)
			moved |= progress(exchange, i);
		if (exchange->open == 0 || moved || exchange->result)
			continue;
		if (!exchange->has_arrival && exchange->link_missing) {
			/* once more, or a link that has just come would be overlooked */
			fake_arrival_add(exchange->team->comm, &exchange->arrival);
			exchange->has_arrival = true;
			continue;
		}
		exchange->result = wait_for_more(exchange);
	}
	return exchange->result;
}

/* Transfers to or from the same peer keep their order. */
static void chain(struct fake_xfer *xfers, int count)
{
	for (int i = 0; i < count; i++) {
		xfers[i].after = -1;
		for (int j = i - 1; j >= 0 && xfers[i].after < 0; j--) {
			if (xfers[j].peer == xfers[i].peer && xfers[j].send == xfers[i].send)
				xfers[i].after = j;
		}
	}
}

int fake_exchange(const struct fake_team *team, struct fake_xfer *xfers, int count)
{
	struct exchange exchange = {.team = team, .xfers = xfers, .count = count, .open = count};
	struct pollfd small[8 + EXTRA_FDS];
	int result;

	if (atomic_load(&team->comm->stopped))
		return -ECANCELED;
	exchange.fds = small;
	if (count > 8) {
		exchange.fds = calloc((size_t)count + EXTRA_FDS, sizeof(*exchange.fds));
		if (!exchange.fds)
			abort();
	}
	chain(xfers, count);
	result = run(&exchange);
	if (exchange.has_arrival)
		fake_arrival_remove(team->comm, &exchange.arrival);
	if (exchange.fds != small)
		free(exchange.fds);
	return result;
}

int fake_send_to(const struct fake_team *team, int member, const void *data, size_t bytes)
{
	struct fake_xfer xfer = {.peer = fake_team_rank(team, member),
				 .send = true,
				 .data = (char *)(uintptr_t)data,
				 .bytes = bytes};

	return fake_exchange(team, &xfer, 1);
}

int fake_recv_from(const struct fake_team *team, int member, void *data, size_t bytes)
{
	struct fake_xfer xfer = {
		.peer = fake_team_rank(team, member), .data = data, .bytes = bytes};

	return fake_exchange(team, &xfer, 1);
}
