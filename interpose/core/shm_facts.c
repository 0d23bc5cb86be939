/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's segments in /dev/shm: those that this process has mapped, and those that nobody has. NCCL
 * removes a segment's name once both ends are there, so that names that stay are of jobs that ended
 * hard, or of one that is just starting: only what is older than this process by a margin and
 * mapped by no process is stale. If another user's process cannot be looked into, nothing is said.
 */
#include "compat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "facts.h"
#include "host_facts.h"
#include "procfs.h"

#define SHM           "/dev/shm"
#define PREFIX        "/dev/shm/nccl-"
#define OLDER_BY_S    600
#define PROCESSES_MAX 1024
#define BUFFER_BYTES  (32u << 10)

/* Counts places in a maps file that name NCCL's segments; -1 if it cannot be read. */
static int count_mapped(const char *path)
{
	static char text[BUFFER_BYTES + 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC), count = 0;
	size_t kept = 0;
	ssize_t n;

	if (fd < 0)
		return -1;
	while ((n = read(fd, text + kept, BUFFER_BYTES - kept)) > 0) {
		const char *at = text;
		const char *last;

		text[kept + (size_t)n] = '\0';
		while ((at = strstr(at, PREFIX)) != NULL) {
			count++;
			at += strlen(PREFIX);
		}
		/* The last line may be cut: it is looked at again with what follows. */
		last = strrchr(text, '\n');
		kept = last ? strlen(last + 1) : 0;
		if (last) {
			if (strstr(last + 1, PREFIX))
				count--;
			memmove(text, last + 1, kept);
		}
	}
	close(fd);
	return n < 0 ? -1 : count;
}

struct stale {
	int64_t before; /* CLOCK_REALTIME seconds */
	unsigned int count;
	uint64_t bytes;
};

static bool look_at_segment(const char *name, void *context)
{
	struct stale *stale = context;
	struct statx st;
	char path[320];

	if (strncmp(name, "nccl-", 5) != 0)
		return true;
	(void)snprintf(path, sizeof(path), SHM "/%s", name);
	if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &st) < 0 ||
	    !S_ISREG(st.stx_mode) || st.stx_mtime.tv_sec > stale->before)
		return true;
	stale->count++;
	stale->bytes += st.stx_blocks * 512;
	return true;
}

struct holders {
	unsigned int looked;
	bool found; /* or not to be told */
};

static bool look_at_process(const char *name, void *context)
{
	struct holders *holders = context;
	char path[64];
	int count;

	if (name[0] < '0' || name[0] > '9')
		return true;
	(void)snprintf(path, sizeof(path), "/proc/%.16s/maps", name);
	count = count_mapped(path);
	/* A process may end meanwhile: that is no holder. */
	if (count > 0 || (count < 0 && (errno == EACCES || errno == EPERM)))
		holders->found = true;
	return !holders->found && ++holders->looked < PROCESSES_MAX;
}

void nspy_shm_segment_facts(void)
{
	struct stale stale = {.before = (int64_t)time(NULL) - OLDER_BY_S};
	struct holders holders = {0};
	int mapped = count_mapped("/proc/self/maps");

	if (mapped >= 0)
		nspy_facts_add_number("shm.nccl_mapped", (uint64_t)mapped);
	(void)nspy_proc_list(SHM, look_at_segment, &stale);
	if (!stale.count)
		return;
	(void)nspy_proc_list("/proc", look_at_process, &holders);
	if (holders.found || holders.looked >= PROCESSES_MAX)
		return;
	nspy_facts_add_number("shm.stale", stale.count);
	nspy_facts_add_number("shm.stale_bytes", stale.bytes);
}
