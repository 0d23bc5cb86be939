/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded behind ncclspy: writes to files do not come back while the file $STUCK_WHILE exists, as
 * on a file system that does not answer. stderr is none of these files.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int stuck(int fd)
{
	const char *flag = getenv("STUCK_WHILE");

	return fd > 2 && flag && access(flag, F_OK) == 0;
}

ssize_t write(int fd, const void *data, size_t bytes)
{
	/* The job's own sockets and pipes know no position. */
	int file = fd > 2 && lseek(fd, 0, SEEK_CUR) >= 0;

	while (file && stuck(fd))
		usleep(10000);
	return syscall(SYS_write, fd, data, bytes);
}
