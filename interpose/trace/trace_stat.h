/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fstat and lstat for code that goes into the preload library: glibc 2.33 gave them new symbol
 * versions, which older systems lack. On x86-64 and aarch64 the kernel fills glibc's struct stat.
 */
#ifndef NSPY_TRACE_STAT_H
#define NSPY_TRACE_STAT_H

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As fstat(2): 0, or -1 and errno. */
static inline int nspy_fstat(int fd, struct stat *ret)
{
	return (int)syscall(SYS_fstat, fd, ret);
}

/* As lstat(2). */
static inline int nspy_lstat(const char *path, struct stat *ret)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, ret, AT_SYMLINK_NOFOLLOW);
}

/* As stat(2). */
static inline int nspy_stat(const char *path, struct stat *ret)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, ret, 0);
}

#endif
