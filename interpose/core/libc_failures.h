/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the C library that failed and say why NCCL did not come up: connect, bind, getaddrinfo,
 * fallocate and its like on shared memory, fork. Only failures are noted, in static memory, by any
 * program; they are told only where a recording runs, i.e. where NCCL is in the process.
 *
 * The nspy_failed_ functions are called after the real call has failed. context: any thread; no
 * lock, no allocation, no system call but for the clock and (shared memory) fstatfs; errno is kept.
 */
#ifndef NSPY_LIBC_FAILURES_H
#define NSPY_LIBC_FAILURES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

void nspy_failed_connect(int fd, const struct sockaddr *address, socklen_t bytes,
			 const void *caller);
void nspy_failed_bind(const struct sockaddr *address, socklen_t bytes, const void *caller);
/* SO_ERROR told of a connection that was being made in the background. */
void nspy_failed_background(int fd, int error, const void *caller);
void nspy_failed_lookup(const char *name, int code, const void *caller);
/* The name was found: earlier failures are forgiven. */
void nspy_found_name(const char *name);
void nspy_failed_space(int fd, uint64_t bytes, int error, const char *call, const void *caller);
void nspy_failed_fork(const void *caller);

/*
 * Turns what was noted into facts: "fail.*" for what kept a communicator from being made,
 * "tried.*" for what went well in the end. creations: how creations of communicators ended so far.
 * Returns whether there is something new. context: writer thread.
 */
struct nspy_creations {
	uint32_t good, failed;
	uint64_t waiting_ns;                   /* since recording began, if none has ended */
	bool last;                             /* the process ends */
	const char *master_addr, *master_port; /* "" if not set */
};
bool nspy_libc_failures_tell(const struct nspy_creations *creations);

#endif
