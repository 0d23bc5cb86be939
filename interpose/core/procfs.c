/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "procfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "trace_salvage.h"

static ssize_t read_all(const char *path, char *ret, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	ret[0] = '\0';
	if (fd < 0)
		return -1;
	n = read(fd, ret, bytes - 1);
	close(fd);
	if (n < 0)
		return -1;
	ret[n] = '\0';
	return n;
}

ssize_t nspy_proc_read(const char *path, char *ret, size_t bytes)
{
	if (read_all(path, ret, bytes) < 0)
		return -1;
	ret[strcspn(ret, "\n")] = '\0';
	return (ssize_t)strlen(ret);
}

void nspy_proc_boot_id(char *ret, size_t bytes)
{
	if (nspy_proc_read("/proc/sys/kernel/random/boot_id", ret, bytes) <= 0)
		(void)snprintf(ret, bytes, "0");
}

bool nspy_proc_exe(char *ret, size_t bytes)
{
	ssize_t n = readlink("/proc/self/exe", ret, bytes - 1);

	ret[n > 0 ? n : 0] = '\0';
	return n > 0;
}

void nspy_proc_cmdline(char *ret, size_t bytes)
{
	ssize_t n = read_all("/proc/self/cmdline", ret, bytes);

	for (ssize_t i = 0; i + 1 < n; i++)
		if (!ret[i])
			ret[i] = ' ';
}

uint64_t nspy_proc_pid_namespace(void)
{
	uint64_t inode;

	return nspy_pid_namespace(&inode) == 0 ? inode : 0;
}

uint64_t nspy_proc_starttime(void)
{
	uint64_t starttime;

	return nspy_process_starttime((uint64_t)getpid(), &starttime) == 0 ? starttime : 0;
}
