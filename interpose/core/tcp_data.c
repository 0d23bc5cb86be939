/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "tcp_data.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core.h"
#include "facts.h"

#define NOTED_MAX 64u
#define MIB       ((uint64_t)1 << 20)
/*
 * The connections of a communicator's set-up carry some KiB for each rank, in rounds of exchanges;
 * gradients exceed this at once.
 */
#define SETUP_BYTES          (16 * MIB)
#define SETUP_BYTES_PER_RANK ((uint64_t)8 << 10)

static struct noted {
	_Atomic int fd; /* plus one, so that 0 is free */
	struct sockaddr_storage address;
} noted[NOTED_MAX];
static bool seen;

void nspy_tcp_start(void)
{
	for (uint32_t i = 0; i < NOTED_MAX; i++)
		atomic_store(&noted[i].fd, 0);
	seen = false;
}

void nspy_tcp_note(int fd, const struct sockaddr_storage *address)
{
	struct noted *n = &noted[(unsigned int)fd % NOTED_MAX];

	/* A reader in between finds no descriptor, or an address that is not the peer's. */
	atomic_store_explicit(&n->fd, 0, memory_order_relaxed);
	n->address = *address;
	atomic_store_explicit(&n->fd, fd + 1, memory_order_release);
}

static bool same_peer(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return a4->sin_port == b4->sin_port && a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	return a6->sin6_port == b6->sin6_port &&
	       memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0;
}

/* Bytes in both directions; 0 also if it is none of ours any more. Past our own getsockopt. */
static uint64_t carried(const struct noted *n, int fd)
{
	struct sockaddr_storage peer = {0};
	socklen_t bytes = sizeof(peer);
	struct tcp_info info = {0};

	if (syscall(SYS_getpeername, fd, &peer, &bytes) < 0 || !same_peer(&peer, &n->address))
		return 0;
	bytes = sizeof(info);
	if (syscall(SYS_getsockopt, fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) < 0 ||
	    bytes < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof(uint64_t))
		return 0; /* kernels before 4.1 do not count */
	return info.tcpi_bytes_acked + info.tcpi_bytes_received;
}

bool nspy_tcp_look(void)
{
	int32_t ranks = nspy_core.id.world_size;
	uint64_t limit = SETUP_BYTES + (ranks > 0 ? (uint64_t)ranks * SETUP_BYTES_PER_RANK : 0);

	for (uint32_t i = 0; i < NOTED_MAX && !seen; i++) {
		int fd = atomic_load_explicit(&noted[i].fd, memory_order_acquire) - 1;
		uint64_t bytes = fd < 0 ? 0 : carried(&noted[i], fd);

		if (bytes <= limit)
			continue;
		seen = true;
		nspy_facts_add_number("nccl.tcp_mib", bytes / MIB);
		return true;
	}
	return false;
}
