/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rendezvous. ncclGetUniqueId starts a root: a listening socket, whose address is in the
 * id, and a thread. Every rank connects to it and says who it is; when all have, the root sends
 * everybody the table of all. A rank that never comes keeps the others waiting for ever.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "internal.h"

/* NCCL's own value: an id made from NCCL_COMM_ID is the same in every job. */
#define COMM_ID_MAGIC 0x0280028002800280ull

struct id_content {
	uint64_t magic;
	union fake_address address;
};
_Static_assert(sizeof(struct id_content) <= NCCL_UNIQUE_ID_BYTES, "fits the id");

struct join {
	uint64_t magic;
	int32_t nranks;
	struct fake_peer peer;
};

struct root {
	uint64_t magic;
	int fd;
};

uint64_t fake_hash(uint64_t seed, const void *data, size_t bytes)
{
	const unsigned char *at = data;
	uint64_t hash = seed ^ 0xcbf29ce484222325ull;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ at[i]) * 0x100000001b3ull;
	return hash ^ hash >> 29;
}

/* NCCL_HOSTID makes one machine look like several, with this library as with the real one. */
uint64_t fake_host_hash(void)
{
	const char *name = getenv("NCCL_HOSTID");
	struct utsname uts;
	char boot_id[64] = "";
	FILE *file;

	if (name && *name)
		return fake_hash(1, name, strlen(name));
	uname(&uts);
	file = fopen("/proc/sys/kernel/random/boot_id", "re");
	if (file) {
		if (!fgets(boot_id, sizeof(boot_id), file))
			boot_id[0] = '\0';
		fclose(file);
	}
	return fake_hash(fake_hash(1, uts.nodename, strlen(uts.nodename)), boot_id,
			 strlen(boot_id));
}

/* All bytes or -errno; -ECANCELED when stop_fd (-1 = none) becomes readable. */
static int move_all(int fd, void *data, size_t bytes, bool send_them, int stop_fd)
{
	char *at = data;

	while (bytes > 0) {
		struct pollfd fds[2] = {{fd, send_them ? POLLOUT : POLLIN, 0},
					{stop_fd, POLLIN, 0}};
		ssize_t n;

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return -errno;
		if (fds[1].revents)
			return -ECANCELED;
		if (!fds[0].revents)
			continue;
		n = send_them ? send(fd, at, bytes, MSG_NOSIGNAL) : recv(fd, at, bytes, 0);
		if (n == 0)
			return -ECONNRESET;
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (n > 0) {
			at += n;
			bytes -= (size_t)n;
		}
	}
	return 0;
}

/* Takes one rank's message. Returns false if the job cannot come together any more. */
static bool check_in(const struct root *root, int fd, struct fake_peer **peers, int **fds,
		     int *nranks)
{
	struct timeval patience = {.tv_sec = 30};
	struct join join;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (move_all(fd, &join, sizeof(join), false, -1) != 0 || join.magic != root->magic) {
		close(fd);
		return true;
	}
	if (*nranks == 0) {
		*nranks = join.nranks;
		*peers = calloc((size_t)join.nranks, sizeof(**peers));
		*fds = calloc((size_t)join.nranks, sizeof(**fds));
		if (!*peers || !*fds)
			abort();
	}
	if (join.nranks != *nranks) {
		WARN("bootstrap.cc",
		     "Bootstrap Root : mismatch in info from procs, nranks %d vs %d, nroots %d vs "
		     "%d, iroot %d vs %d",
		     *nranks, join.nranks, 1, 1, 0, 0);
		close(fd);
		return false;
	}
	if ((*fds)[join.peer.rank] != 0) {
		WARN("bootstrap.cc", "Bootstrap Root : rank %d of %d ranks has already checked in",
		     join.peer.rank, *nranks);
		close(fd);
		return false;
	}
	(*peers)[join.peer.rank] = join.peer;
	(*fds)[join.peer.rank] = fd;
	return true;
}

static uint64_t own_process(void)
{
	uint64_t process[2] = {(uint64_t)getpid(), fake_host_hash()};

	return fake_hash(2, process, sizeof(process));
}

/* To the ranks of this process last: once they have it, the process may end. */
static void send_table(struct fake_peer *peers, const int *fds, int nranks)
{
	uint64_t id, own = own_process();

	if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		id = fake_hash(fake_now_ns(), peers, sizeof(*peers));
	for (int i = 0; i < 2 * nranks; i++) {
		int rank = i % nranks;

		if ((peers[rank].process == own) != (i >= nranks))
			continue;
		if (move_all(fds[rank], &id, sizeof(id), true, -1) == 0)
			move_all(fds[rank], peers, (size_t)nranks * sizeof(*peers), true, -1);
	}
}

static void *run_root(void *arg)
{
	struct root *root = arg;
	struct fake_peer *peers = NULL;
	int *fds = NULL, nranks = 0, present = 0;
	bool good = true;

	while (good && (nranks == 0 || present < nranks)) {
		int fd = accept4(root->fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			continue;
		good = check_in(root, fd, &peers, &fds, &nranks);
		present = 0;
		for (int i = 0; i < nranks; i++)
			present += fds[i] != 0;
	}
	if (good)
		send_table(peers, fds, nranks);
	for (int i = 0; i < nranks; i++) {
		if (fds[i] != 0)
			close(fds[i]);
	}
	close(root->fd);
	free(peers);
	free(fds);
	free(root);
	return NULL;
}

/* As NCCL does: a rank may need a socket for every other one. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static ncclResult_t start_root(struct id_content *content)
{
	struct root *root = calloc(1, sizeof(*root));
	pthread_t thread;

	if (!root)
		return ncclSystemError;
	root->magic = content->magic;
	root->fd = fake_listen(&content->address);
	if (root->fd < 0) {
		WARN("misc/socket.cc", "Call to bind failed: %s", strerror(-root->fd));
		free(root);
		return ncclSystemError;
	}
	raise_file_limit();
	if (pthread_create(&thread, NULL, run_root, root) != 0) {
		close(root->fd);
		free(root);
		return ncclSystemError;
	}
	pthread_setname_np(thread, "NCCL BootstrapR");
	pthread_detach(thread);
	return ncclSuccess;
}

/* The interface is chosen once; that there is none is remembered, as in NCCL. */
static int bootstrap_interface(union fake_address *ret_address)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static union fake_address chosen;
	static int state = 1;
	char text[256];

	pthread_mutex_lock(&lock);
	if (state == 1) {
		state = fake_interface(&chosen, text, sizeof(text));
		if (state == 0)
			fake_info(FAKE_LOG_BOOTSTRAP, "Bootstrap: Using %s", text);
		else
			WARN("bootstrap.cc", "Bootstrap : no socket interface found");
	}
	*ret_address = chosen;
	pthread_mutex_unlock(&lock);
	return state;
}

ncclResult_t fake_bootstrap_create(ncclUniqueId *ret_id)
{
	const char *given = getenv("NCCL_COMM_ID");
	struct id_content content = {.magic = COMM_ID_MAGIC};
	ncclResult_t result;

	if (bootstrap_interface(&content.address) != 0)
		return ncclInvalidUsage;
	if (given && *given) {
		fake_info(FAKE_LOG_ENV, "NCCL_COMM_ID set by environment to %s", given);
		if (fake_address_parse(given, &content.address) != 0) {
			WARN("bootstrap.cc",
			     "Invalid NCCL_COMM_ID, please use format: <ipv4>:<port> or "
			     "[<ipv6>]:<port> or <hostname>:<port>");
			return ncclInvalidArgument;
		}
	} else {
		if (getrandom(&content.magic, sizeof(content.magic), 0) != sizeof(content.magic))
			return ncclSystemError;
		result = start_root(&content);
		if (result != ncclSuccess)
			return result;
	}
	memset(ret_id, 0, sizeof(*ret_id));
	memcpy(ret_id, &content, sizeof(content));
	return ncclSuccess;
}

static void fill_peer(struct ncclComm *comm, struct fake_peer *peer)
{
	peer->host = fake_host_hash();
	peer->process = own_process();
	peer->bus_id = (uint64_t)(0x10 + comm->device) << 12;
	peer->rank = comm->rank;
	peer->world_rank = comm->world_rank;
	peer->device = comm->device;
	peer->version = fake_fault_version(comm->world_rank, NCCL_VERSION_CODE);
}

static ncclResult_t meet(struct ncclComm *comm, const struct id_content *content)
{
	struct join join = {.magic = content->magic, .nranks = comm->nranks};
	char text[128];
	ncclResult_t result;
	int fd, error;

	fill_peer(comm, &join.peer);
	result = fake_links_start(&join.peer.address);
	if (result != ncclSuccess)
		return result;
	fd = fake_connect(&content->address, comm->stop_fd);
	if (fd < 0) {
		WARN("misc/socket.cc", "socketPollConnect to %s failed with error %s",
		     fake_address_text(&content->address, text, sizeof(text)), strerror(-fd));
		return fd == -ECANCELED ? ncclInternalError : ncclRemoteError;
	}
	error = move_all(fd, &join, sizeof(join), true, comm->stop_fd);
	if (error == 0)
		error = move_all(fd, &comm->id, sizeof(comm->id), false, comm->stop_fd);
	if (error == 0)
		error = move_all(fd, comm->peers, (size_t)comm->nranks * sizeof(*comm->peers),
				 false, comm->stop_fd);
	close(fd);
	if (error == 0)
		return ncclSuccess;
	if (error == -ECANCELED)
		return ncclInternalError;
	WARN("misc/socket.cc", "socketProgress: Connection closed by remote peer %s",
	     fake_address_text(&content->address, text, sizeof(text)));
	return ncclRemoteError;
}

ncclResult_t fake_bootstrap_ready(void)
{
	union fake_address unused;

	return bootstrap_interface(&unused) == 0 ? ncclSuccess : ncclInvalidUsage;
}

ncclResult_t fake_bootstrap_join(struct ncclComm *comm, const ncclUniqueId *id)
{
	struct id_content content;
	ncclResult_t result;

	memcpy(&content, id, sizeof(content));
	/* with NCCL_COMM_ID nobody has started a root yet */
	if (content.magic == COMM_ID_MAGIC && comm->rank == 0) {
		result = start_root(&content);
		if (result != ncclSuccess)
			return result;
	}
	return meet(comm, &content);
}
