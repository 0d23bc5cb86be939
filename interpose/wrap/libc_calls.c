/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of the C library that are passed on unchanged and looked at only when they have failed
 * (core/libc_failures.h). They are in no call table: nothing of them is recorded as a call.
 *
 * Every program of the job comes through here, so the way of a call that succeeds is one load and
 * one branch longer, and nothing else.
 */
/* Both fallocate and fallocate64 are wanted, each under its own name. */
#undef _FILE_OFFSET_BITS
#include "compat.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "export.h"
#include "libc_failures.h"
#include "resolve.h"
#include "symbols.h"

#define CALLER __builtin_return_address(0)

enum {
	CONNECT,
	BIND,
	GETSOCKOPT,
	GETADDRINFO,
	FALLOCATE,
	FALLOCATE64,
	POSIX_FALLOCATE,
	POSIX_FALLOCATE64,
	FTRUNCATE,
	FTRUNCATE64,
	FORK,
	COUNT
};

static const char *const names[COUNT] = {
	[CONNECT] = "connect",
	[BIND] = "bind",
	[GETSOCKOPT] = "getsockopt",
	[GETADDRINFO] = "getaddrinfo",
	[FALLOCATE] = "fallocate",
	[FALLOCATE64] = "fallocate64",
	[POSIX_FALLOCATE] = "posix_fallocate",
	[POSIX_FALLOCATE64] = "posix_fallocate64",
	[FTRUNCATE] = "ftruncate",
	[FTRUNCATE64] = "ftruncate64",
	[FORK] = "fork",
};
static nspy_any_fn *next[COUNT];

/* Two threads that look at once find the same. */
static nspy_any_fn *find(unsigned int which)
{
	nspy_any_fn *found = __atomic_load_n(&next[which], __ATOMIC_ACQUIRE);

	if (nspy_likely(found != NULL))
		return found;
	found = (nspy_any_fn *)nspy_elf_next(names[which]);
	__atomic_store_n(&next[which], found, __ATOMIC_RELEASE);
	return found;
}

/*
 * Before the program runs: later the first use may be in a signal handler, or in a forked child
 * whose parent had the loader locked. A constructor before this one finds for itself.
 */
static __attribute__((constructor)) void find_all(void)
{
	for (unsigned int i = 0; i < COUNT; i++)
		(void)find(i);
}

NSPY_EXPORT int connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
	__typeof__(&connect) real = (__typeof__(real))find(CONNECT);
	int ret = real(fd, address, bytes);

	if (nspy_unlikely(ret < 0))
		nspy_failed_connect(fd, address, bytes, CALLER);
	return ret;
}

NSPY_EXPORT int bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
	__typeof__(&bind) real = (__typeof__(real))find(BIND);
	int ret = real(fd, address, bytes);

	if (nspy_unlikely(ret < 0))
		nspy_failed_bind(address, bytes, CALLER);
	return ret;
}

/* A connection made in the background tells its end through SO_ERROR. */
NSPY_EXPORT int getsockopt(int fd, int level, int option, void *value, socklen_t *bytes)
{
	__typeof__(&getsockopt) real = (__typeof__(real))find(GETSOCKOPT);
	int ret = real(fd, level, option, value, bytes);

	if (nspy_unlikely(level == SOL_SOCKET && option == SO_ERROR && ret == 0 && value &&
			  *bytes >= sizeof(int) && *(const int *)value != 0))
		nspy_failed_background(fd, *(const int *)value, CALLER);
	return ret;
}

NSPY_EXPORT int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
			    struct addrinfo **ret_list)
{
	__typeof__(&getaddrinfo) real = (__typeof__(real))find(GETADDRINFO);
	int ret = real(name, service, hints, ret_list);

	if (nspy_unlikely(ret != 0))
		nspy_failed_lookup(name, ret, CALLER);
	else
		nspy_found_name(name);
	return ret;
}

NSPY_EXPORT int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	__typeof__(&fallocate) real = (__typeof__(real))find(FALLOCATE);
	int ret = real(fd, mode, offset, bytes);

	if (nspy_unlikely(ret < 0))
		nspy_failed_space(fd, (uint64_t)offset + (uint64_t)bytes, errno, names[FALLOCATE],
				  CALLER);
	return ret;
}

NSPY_EXPORT int fallocate64(int fd, int mode, off64_t offset, off64_t bytes)
{
	__typeof__(&fallocate64) real = (__typeof__(real))find(FALLOCATE64);
	int ret = real(fd, mode, offset, bytes);

	if (nspy_unlikely(ret < 0))
		nspy_failed_space(fd, (uint64_t)offset + (uint64_t)bytes, errno, names[FALLOCATE],
				  CALLER);
	return ret;
}

/* These return the error and leave errno alone. */
NSPY_EXPORT int posix_fallocate(int fd, off_t offset, off_t bytes)
{
	__typeof__(&posix_fallocate) real = (__typeof__(real))find(POSIX_FALLOCATE);
	int ret = real(fd, offset, bytes);

	if (nspy_unlikely(ret != 0))
		nspy_failed_space(fd, (uint64_t)offset + (uint64_t)bytes, ret,
				  names[POSIX_FALLOCATE], CALLER);
	return ret;
}

NSPY_EXPORT int posix_fallocate64(int fd, off64_t offset, off64_t bytes)
{
	__typeof__(&posix_fallocate64) real = (__typeof__(real))find(POSIX_FALLOCATE64);
	int ret = real(fd, offset, bytes);

	if (nspy_unlikely(ret != 0))
		nspy_failed_space(fd, (uint64_t)offset + (uint64_t)bytes, ret,
				  names[POSIX_FALLOCATE], CALLER);
	return ret;
}

NSPY_EXPORT int ftruncate(int fd, off_t bytes)
{
	__typeof__(&ftruncate) real = (__typeof__(real))find(FTRUNCATE);
	int ret = real(fd, bytes);

	if (nspy_unlikely(ret < 0))
		nspy_failed_space(fd, (uint64_t)bytes, errno, names[FTRUNCATE], CALLER);
	return ret;
}

NSPY_EXPORT int ftruncate64(int fd, off64_t bytes)
{
	__typeof__(&ftruncate64) real = (__typeof__(real))find(FTRUNCATE64);
	int ret = real(fd, bytes);

	if (nspy_unlikely(ret < 0))
		nspy_failed_space(fd, (uint64_t)bytes, errno, names[FTRUNCATE], CALLER);
	return ret;
}

NSPY_EXPORT pid_t fork(void)
{
	__typeof__(&fork) real = (__typeof__(real))find(FORK);
	pid_t ret = real();

	if (nspy_unlikely(ret < 0))
		nspy_failed_fork(CALLER);
	return ret;
}
