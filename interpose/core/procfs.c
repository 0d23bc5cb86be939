/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "procfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
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

ssize_t nspy_proc_read_all(const char *path, char *ret, size_t bytes)
{
	return read_all(path, ret, bytes);
}

/* What getdents64 returns; readdir would allocate. */
struct directory_entry {
	uint64_t inode;
	int64_t offset;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

int nspy_proc_list(const char *path, nspy_proc_entry_fn *fn, void *context)
{
	_Alignas(struct directory_entry) char entries[4096];
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool go_on = true;
	int calls = 0;
	long got;

	if (dir < 0)
		return -1;
	while (go_on && (got = syscall(SYS_getdents64, dir, entries, sizeof(entries))) > 0) {
		for (long at = 0; at < got && go_on;) {
			const struct directory_entry *entry = (const void *)(entries + at);

			at += entry->bytes;
			if (entry->name[0] == '.')
				continue;
			calls++;
			go_on = fn(entry->name, context);
		}
	}
	close(dir);
	return calls;
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
