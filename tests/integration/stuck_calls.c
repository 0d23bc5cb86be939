/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded behind ncclspy: writes to files do not come back while the file $STUCK_WHILE exists, as
 * on a file system that does not answer. stderr is none of these files.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int stuck(int fd)
{
	const char *flag = getenv("STUCK_WHILE");

	return fd > 2 && flag && access(flag, F_OK) == 0;
}

ssize_t write(int fd, const void *data, size_t bytes)
{
	struct stat st;
	/* Not the job's own sockets, pipes and event counters. */
	int file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);

	while (file && stuck(fd))
		usleep(10000);
	return syscall(SYS_write, fd, data, bytes);
}
