/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory, the cgroup's limit, hugepages, and the limits of this process. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot.h"

#define GIB (1ULL << 30)
/* Of the cgroup's limit, without page cache that can be dropped. */
#define PRESSURE_SHARE 0.9
#define MEMLOCK_MIN    GIB
#define CAP_IPC_LOCK   14

static void meminfo(struct snap *s)
{
	unsigned long long total, available, huge = 0, huge_free = 0;
	char text[8192];

	if (snap_read(s, text, sizeof(text), "/proc/meminfo") <= 0 ||
	    !snap_line_number(text, "MemTotal:", &total)) {
		snap_missing(s, "host memory: /proc/meminfo cannot be read");
		return;
	}
	snap_fact(s, SNAP_STABLE, "memory.total_gib", "%llu", total >> 20);
	if (snap_line_number(text, "MemAvailable:", &available))
		snap_fact(s, SNAP_MEASURED, "memory.available_gib", "%llu", available >> 20);
	snap_line_number(text, "HugePages_Total:", &huge);
	snap_line_number(text, "HugePages_Free:", &huge_free);
	snap_fact(s, SNAP_STABLE, "memory.hugepages", "%llu", huge);
	if (huge)
		snap_check(s, SNAP_INFO, NULL, "%llu hugepages reserved, %llu free", huge,
			   huge_free);
	else
		snap_check(s, SNAP_INFO, NULL,
			   "no hugepages reserved: libfabric uses ordinary "
			   "pages");
}

/* Folder of this process in the unified hierarchy; in containers mostly the root. */
static void cgroup_folder(const struct snap *s, char *folder, size_t bytes)
{
	char text[4096];
	const char *line;

	snprintf(folder, bytes, "/sys/fs/cgroup");
	if (snap_read(s, text, sizeof(text), "/proc/self/cgroup") <= 0)
		return;
	line = snap_starts(text, "0::/") ? text : strstr(text, "\n0::/");
	if (!line)
		return;
	line = strchr(line, '/');
	snprintf(folder, bytes, "/sys/fs/cgroup%.*s", (int)strcspn(line, "\n"), line);
	if (!snap_exists(s, "%s/memory.max", folder))
		snprintf(folder, bytes, "/sys/fs/cgroup");
}

static void judge_cgroup(struct snap *s, unsigned long long limit, unsigned long long used,
			 unsigned long long kills)
{
	double share = limit ? (double)used / (double)limit : 0;

	if (kills)
		snap_check(s, SNAP_CONCERN, "CGROUP_MEMORY_PRESSURE",
			   "the kernel killed %llu process%s of this cgroup for their memory",
			   kills, kills == 1 ? "" : "es");
	if (!limit)
		return;
	if (share >= PRESSURE_SHARE)
		snap_check(s, SNAP_CONCERN, "CGROUP_MEMORY_PRESSURE",
			   "%.0f %% of the cgroup's memory limit of %.1f GiB is in use, page cache "
			   "not counted",
			   share * 100, (double)limit / (double)GIB);
	else if (!kills)
		snap_check(s, SNAP_OK, NULL,
			   "%.0f %% of the cgroup's memory limit of %.1f GiB in use", share * 100,
			   (double)limit / (double)GIB);
}

static void cgroup(struct snap *s)
{
	unsigned long long limit = 0, used = 0, kills = 0, cache = 0;
	char folder[SNAP_PATH_MAX / 2], text[8192];

	cgroup_folder(s, folder, sizeof(folder));
	if (snap_read(s, text, sizeof(text), "%s/memory.max", folder) <= 0) {
		snap_missing(s, "memory limit of the cgroup: no memory.max (cgroup v1, or the root "
				"group, which has none)");
		return;
	}
	snap_fact(s, SNAP_STABLE, "cgroup.memory_max", "%s", text);
	limit = strcmp(text, "max") == 0 ? 0 : strtoull(text, NULL, 10);
	if (snap_read(s, text, sizeof(text), "%s/memory.current", folder) > 0)
		used = strtoull(text, NULL, 10);
	if (snap_read(s, text, sizeof(text), "%s/memory.stat", folder) > 0)
		snap_line_number(text, "inactive_file ", &cache);
	used -= cache < used ? cache : used;
	if (snap_read(s, text, sizeof(text), "%s/memory.events", folder) > 0)
		snap_line_number(text, "oom_kill ", &kills);
	snap_fact(s, SNAP_MEASURED, "cgroup.oom_kills", "%llu", kills);
	judge_cgroup(s, limit, used, kills);
}

/* Soft limit of a line of /proc/self/limits; ~0 = unlimited. */
static bool soft_limit(const char *text, const char *name, unsigned long long *ret)
{
	const char *at = strstr(text, name);

	if (!at)
		return false;
	at += strlen(name);
	at += strspn(at, " ");
	*ret = snap_starts(at, "unlimited") ? ~0ULL : strtoull(at, NULL, 10);
	return true;
}

static void show_limit(struct snap *s, const char *key, unsigned long long value)
{
	if (value == ~0ULL)
		snap_fact(s, SNAP_STABLE, key, "unlimited");
	else
		snap_fact(s, SNAP_STABLE, key, "%llu", value);
}

static bool may_lock(const struct snap *s)
{
	char text[8192];
	const char *at;

	if (snap_read(s, text, sizeof(text), "/proc/self/status") <= 0)
		return false;
	at = strstr(text, "CapEff:");
	return at && (strtoull(at + strlen("CapEff:"), NULL, 16) >> CAP_IPC_LOCK & 1);
}

static void limits(struct snap *s)
{
	unsigned long long lock, stack, files;
	struct snap_names rdma;
	bool has_rdma = snap_list(s, "/sys/class/infiniband", &rdma) == 0 && rdma.count > 0;
	char text[8192];

	snap_names_done(&rdma);
	if (snap_read(s, text, sizeof(text), "/proc/self/limits") <= 0 ||
	    !soft_limit(text, "Max locked memory", &lock)) {
		snap_missing(s, "limits: /proc/self/limits cannot be read");
		return;
	}
	show_limit(s, "limit.memlock", lock);
	if (soft_limit(text, "Max stack size", &stack))
		show_limit(s, "limit.stack", stack);
	if (soft_limit(text, "Max open files", &files))
		show_limit(s, "limit.nofile", files);
	if (!has_rdma)
		return;
	if (lock < MEMLOCK_MIN && !may_lock(s))
		snap_check(s, SNAP_CONCERN, "MEMLOCK_LOW",
			   "this process may lock %llu KiB of memory only (limits of a job may "
			   "differ: take the snapshot within it)",
			   lock >> 10);
	else
		snap_check(s, SNAP_OK, NULL, "enough memory may be locked for RDMA");
}

void snap_memory(struct snap *s)
{
	meminfo(s);
	cgroup(s);
	limits(s);
}
