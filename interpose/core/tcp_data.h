/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether NCCL's own connections carry data: what is only probable from what is mapped
 * (TCP_FALLBACK) is then seen. NCCL makes its connections in the background, so they pass where
 * failed calls do (libc_failures.c), and nothing is added to the way of others. The kernel counts
 * the bytes of each (TCP_INFO); a descriptor that has become another connection is left alone.
 */
#ifndef NSPY_TCP_DATA_H
#define NSPY_TCP_DATA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/*
 * NCCL connects this descriptor to that address (IPv4 or IPv6). context: any thread; no lock, no
 * system call.
 */
void nspy_tcp_note(int fd, const struct sockaddr_storage *address);

/* Forgets connections: a new recording begins. */
void nspy_tcp_start(void);

/*
 * Looks at those noted; once one has carried more than setting up ever needs, the fact
 * nccl.tcp_mib says how much, and true is returned, once. context: writer thread.
 */
bool nspy_tcp_look(void);

#endif
