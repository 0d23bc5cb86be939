/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links. Each process listens on one socket; whoever wants to send to a rank of it connects and
 * says which communicator, ranks and kind of traffic the link is for. A thread takes the links in.
 * A link can arrive before its communicator is known here (children of a split): it waits.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "internal.h"

#define LINK_BUFFER 16384

struct hello {
	uint64_t magic;
	uint64_t comm;
	int32_t from, to;
	int32_t kind;
};

struct orphan {
	struct orphan *next;
	struct hello hello;
	int fd;
};

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ncclComm *registry;
static struct orphan *orphans;
static union fake_address own_address;
static int listen_fd = -1;

static struct fake_link *new_link(int fd)
{
	struct fake_link *link = calloc(1, sizeof(*link));
	int one = 1;

	if (!link)
		abort();
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	link->fd = fd;
	return link;
}

static void free_link(struct fake_link *link)
{
	if (!link)
		return;
	close(link->fd);
	free(link->buffer);
	free(link);
}

static bool is_for(const struct ncclComm *comm, const struct hello *hello)
{
	return comm->id == hello->comm && comm->rank == hello->to;
}

/* The registry lock is held. */
static void hand_over(struct ncclComm *comm, const struct hello *hello, int fd)
{
	uint64_t one = 1;

	if (hello->from < 0 || hello->from >= comm->nranks || hello->kind < 0 ||
	    hello->kind >= FAKE_KINDS || comm->in[hello->kind][hello->from]) {
		close(fd);
		return;
	}
	pthread_mutex_lock(&comm->lock);
	comm->in[hello->kind][hello->from] = new_link(fd);
	comm->in[hello->kind][hello->from]->buffer = malloc(LINK_BUFFER);
	if (!comm->in[hello->kind][hello->from]->buffer)
		abort();
	if (hello->kind == FAKE_KIND_RAIL)
		fake_rail_arrived(comm, hello->from);
	for (struct fake_arrival *arrival = comm->arrivals; arrival; arrival = arrival->next) {
		if (write(arrival->fd, &one, sizeof(one)) < 0)
			abort();
	}
	pthread_mutex_unlock(&comm->lock);
}

static void take_in(int fd)
{
	struct timeval patience = {.tv_sec = 10};
	struct orphan *orphan;
	struct hello hello;
	struct ncclComm *comm;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (recv(fd, &hello, sizeof(hello), MSG_WAITALL) != sizeof(hello) ||
	    hello.magic != FAKE_HELLO_MAGIC) {
		close(fd);
		return;
	}
	pthread_mutex_lock(&registry_lock);
	for (comm = registry; comm && !is_for(comm, &hello); comm = comm->next)
		;
	if (comm) {
		hand_over(comm, &hello, fd);
	} else {
		orphan = calloc(1, sizeof(*orphan));
		if (!orphan)
			abort();
		*orphan = (struct orphan){orphans, hello, fd};
		orphans = orphan;
	}
	pthread_mutex_unlock(&registry_lock);
}

static void *accept_links(void *arg)
{
	(void)arg;
	for (;;) {
		int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0)
			take_in(fd);
		else if (errno != EINTR && errno != ECONNABORTED)
			fake_sleep_ns(1000000);
	}
	return NULL;
}

static ncclResult_t start(void)
{
	char text[256];
	pthread_attr_t attr;
	pthread_t thread;

	if (fake_interface(&own_address, text, sizeof(text)) != 0)
		return ncclInvalidUsage;
	listen_fd = fake_listen(&own_address);
	if (listen_fd < 0)
		return ncclSystemError;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 128 << 10);
	if (pthread_create(&thread, &attr, accept_links, NULL) != 0)
		abort();
	pthread_setname_np(thread, "NCCL Service");
	pthread_attr_destroy(&attr);
	return ncclSuccess;
}

ncclResult_t fake_links_start(union fake_address *ret_address)
{
	ncclResult_t result = ncclSuccess;

	pthread_mutex_lock(&registry_lock);
	if (listen_fd < 0)
		result = start();
	*ret_address = own_address;
	pthread_mutex_unlock(&registry_lock);
	return result;
}

void fake_links_register(struct ncclComm *comm)
{
	pthread_mutex_lock(&registry_lock);
	comm->next = registry;
	registry = comm;
	comm->registered = true;
	for (struct orphan **link = &orphans; *link;) {
		struct orphan *orphan = *link;

		if (is_for(comm, &orphan->hello)) {
			*link = orphan->next;
			hand_over(comm, &orphan->hello, orphan->fd);
			free(orphan);
		} else {
			link = &orphan->next;
		}
	}
	pthread_mutex_unlock(&registry_lock);
}

void fake_links_unregister(struct ncclComm *comm)
{
	pthread_mutex_lock(&registry_lock);
	for (struct ncclComm **link = &registry; *link; link = &(*link)->next) {
		if (*link == comm) {
			*link = comm->next;
			break;
		}
	}
	comm->registered = false;
	pthread_mutex_unlock(&registry_lock);
}

/* Nobody uses the links any more. */
void fake_links_close(struct ncclComm *comm)
{
	for (int kind = 0; kind < FAKE_KINDS; kind++) {
		for (int i = 0; i < comm->nranks && comm->in[kind]; i++)
			free_link(comm->in[kind][i]);
		for (int i = 0; i < comm->nranks && comm->out[kind]; i++)
			free_link(comm->out[kind][i]);
		free(comm->in[kind]);
		free(comm->out[kind]);
		comm->in[kind] = comm->out[kind] = NULL;
	}
}

bool fake_peer_remote(const struct ncclComm *comm, int peer)
{
	const char *p2p = getenv("NCCL_P2P_DISABLE"), *shm = getenv("NCCL_SHM_DISABLE");

	if (comm->peers[peer].host != comm->peers[comm->rank].host)
		return true;
	return p2p && *p2p == '1' && shm && *shm == '1';
}

static long setting(const char *name, long otherwise)
{
	const char *value = getenv(name);

	return value && *value ? atol(value) : otherwise;
}

/* One attempt. fd or -errno. */
static int connect_once(const union fake_address *address, int stop_fd)
{
	int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd fds[2] = {{fd, POLLOUT, 0}, {stop_fd, POLLIN, 0}};
	socklen_t bytes = sizeof(int);
	int error = 0;

	if (fd < 0)
		return -errno;
	if (connect(fd, &address->any, fake_address_bytes(address)) != 0) {
		error = errno;
		if (error == EINPROGRESS) {
			while (poll(fds, 2, -1) < 0 && errno == EINTR)
				;
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
			if (fds[1].revents)
				error = ECANCELED;
		}
	}
	if (error == 0)
		return fd;
	close(fd);
	return -error;
}

/* NCCL's patience: growing pauses, NCCL_SOCKET_RETRY_CNT attempts. */
int fake_connect(const union fake_address *address, int stop_fd)
{
	long attempts = setting("NCCL_SOCKET_RETRY_CNT", 34);
	long pause_ms = setting("NCCL_SOCKET_RETRY_SLEEP_MSEC", 100);
	struct pollfd stop = {stop_fd, POLLIN, 0};
	int fd = -ETIMEDOUT;

	for (long attempt = 1; attempt <= attempts + 1; attempt++) {
		fd = connect_once(address, stop_fd);
		if (fd != -ECONNREFUSED && fd != -ETIMEDOUT)
			return fd;
		if (attempt <= attempts && poll(&stop, 1, (int)(pause_ms * attempt)) > 0)
			return -ECANCELED;
	}
	return fd;
}

static const char *transport(const struct ncclComm *comm, int peer, char *buffer, size_t bytes)
{
	const char *p2p = getenv("NCCL_P2P_DISABLE"), *net = fake_network_name();

	if (fake_peer_remote(comm, peer)) {
		snprintf(buffer, bytes, "NET/%s/0%s", net,
			 strcmp(net, "Socket") == 0 ? "" : "/GDRDMA");
		return buffer;
	}
	return p2p && *p2p == '1' ? "SHM/direct/direct" : "P2P/IPC";
}

static void log_channel(const struct ncclComm *comm, int peer)
{
	const struct fake_peer *from = &comm->peers[comm->rank], *to = &comm->peers[peer];
	char buffer[64];

	fake_info(FAKE_LOG_INIT | FAKE_LOG_NET | FAKE_LOG_P2P,
		  "Channel %02d/%d : %d[%d] -> %d[%d] %svia %s", 0, 0, from->rank, from->device,
		  to->rank, to->device, fake_peer_remote(comm, peer) ? "[send] " : "",
		  transport(comm, peer, buffer, sizeof(buffer)));
}

/* A peer's process listens for as long as it lives, so one refusal is final here. */
struct fake_link *fake_link_out(struct ncclComm *comm, enum fake_kind kind, int peer)
{
	struct hello hello = {FAKE_HELLO_MAGIC, comm->id, comm->rank, peer, kind};
	int fd;

	if (comm->out[kind][peer])
		return comm->out[kind][peer];
	fd = connect_once(&comm->peers[peer].address, comm->stop_fd);
	if (fd < 0)
		return NULL;
	if (send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) {
		close(fd);
		return NULL;
	}
	if (kind == FAKE_KIND_COLL || kind == FAKE_KIND_P2P)
		log_channel(comm, peer);
	comm->out[kind][peer] = new_link(fd);
	return comm->out[kind][peer];
}

struct fake_link *fake_link_in(struct ncclComm *comm, enum fake_kind kind, int peer)
{
	struct fake_link *link;

	pthread_mutex_lock(&comm->lock);
	link = comm->in[kind][peer];
	pthread_mutex_unlock(&comm->lock);
	return link;
}

void fake_arrival_add(struct ncclComm *comm, struct fake_arrival *arrival)
{
	arrival->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (arrival->fd < 0)
		abort();
	pthread_mutex_lock(&comm->lock);
	arrival->next = comm->arrivals;
	comm->arrivals = arrival;
	pthread_mutex_unlock(&comm->lock);
}

void fake_arrival_remove(struct ncclComm *comm, struct fake_arrival *arrival)
{
	pthread_mutex_lock(&comm->lock);
	for (struct fake_arrival **link = &comm->arrivals; *link; link = &(*link)->next) {
		if (*link == arrival) {
			*link = arrival->next;
			break;
		}
	}
	pthread_mutex_unlock(&comm->lock);
	close(arrival->fd);
}
