/* SPDX-License-Identifier: Apache-2.0 */
#include "compat.h"

#include "host_facts.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#include "facts.h"
#include "procfs.h"

#define CAP_IPC_LOCK_BIT 14
#define TMPFS_MAGIC      0x01021994
#define CGROUP_ROOT      "/sys/fs/cgroup"
#define CGROUP_DEPTH_MAX 16

static void limit(const char *key, int which)
{
	struct rlimit rl;

	if (getrlimit((__rlimit_resource_t)which, &rl) < 0)
		return;
	if (rl.rlim_cur == RLIM_INFINITY)
		nspy_facts_add(key, "unlimited");
	else
		nspy_facts_add_number(key, rl.rlim_cur);
}

/* The text behind "Name:" in a file like /proc/self/status, or NULL. */
static const char *field(const char *text, const char *name)
{
	size_t bytes = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, bytes) == 0)
			return line + bytes;
	}
	return NULL;
}

static void status_facts(void)
{
	static char text[4096];
	const char *caps, *locked;

	if (nspy_proc_read_all("/proc/self/status", text, sizeof(text)) <= 0)
		return;
	caps = field(text, "CapEff:");
	locked = field(text, "VmLck:");
	if (caps)
		nspy_facts_add("cap.ipc_lock",
			       strtoull(caps, NULL, 16) >> CAP_IPC_LOCK_BIT & 1 ? "1" : "0");
	if (locked)
		nspy_facts_add_number("mem.locked_kib", strtoull(locked, NULL, 10));
}

static void shm_facts(void)
{
	struct statfs fs;
	char type[24];

	if (statfs("/dev/shm", &fs) < 0)
		return;
	(void)snprintf(type, sizeof(type), "0x%lx", (unsigned long)fs.f_type);
	nspy_facts_add("shm.type", fs.f_type == TMPFS_MAGIC ? "tmpfs" : type);
	nspy_facts_add_number("shm.bytes", (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize);
	nspy_facts_add_number("shm.free", (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize);
}

/* --- memory limit of the control group, version 2, then version 1 --- */

struct cgroup {
	uint64_t max, used, killed;
};

static uint64_t read_number(const char *dir, const char *name)
{
	char path[640], text[64];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (nspy_proc_read(path, text, sizeof(text)) <= 0 || text[0] == 'm' /* "max" */)
		return UINT64_MAX;
	return strtoull(text, NULL, 10);
}

static uint64_t read_field(const char *dir, const char *name, const char *what)
{
	static char text[4096];
	char path[640];
	const char *found;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (nspy_proc_read_all(path, text, sizeof(text)) <= 0)
		return 0;
	found = field(text, what);
	return found ? strtoull(found, NULL, 10) : 0;
}

/* Pages of files that nobody uses can be had back: they are no pressure. */
static void read_group(const char *dir, bool v2, struct cgroup *ret)
{
	uint64_t used = read_number(dir, v2 ? "memory.current" : "memory.usage_in_bytes");
	uint64_t cache =
		read_field(dir, "memory.stat", v2 ? "inactive_file " : "total_inactive_file ");

	ret->max = read_number(dir, v2 ? "memory.max" : "memory.limit_in_bytes");
	ret->used = used == UINT64_MAX ? 0 : used > cache ? used - cache : 0;
	ret->killed = read_field(dir, v2 ? "memory.events" : "memory.oom_control", "oom_kill ");
}

static bool own_group(const char *text, bool v2, char *ret, size_t bytes)
{
	const char *line = v2 ? field(text, "0::") : strstr(text, ":memory:");
	int n;

	if (!line)
		return false;
	line += v2 ? 0 : strlen(":memory:");
	n = (int)strcspn(line, "\n");
	(void)snprintf(ret, bytes, CGROUP_ROOT "%s%.*s", v2 ? "" : "/memory", n < 400 ? n : 400,
		       line);
	return true;
}

/*
 * The limit may be set further up: the group whose limit is nearest counts. In a container the path
 * is that of the host and does not exist; its parents end at what the container sees of itself.
 */
static bool tightest(char *dir, size_t root_bytes, bool v2, struct cgroup *ret)
{
	bool found = false;

	for (int i = 0; i < CGROUP_DEPTH_MAX && strlen(dir) >= root_bytes; i++) {
		struct cgroup g;
		char *slash = strrchr(dir, '/');

		read_group(dir, v2, &g);
		if (g.max && g.max < (uint64_t)1 << 60 &&
		    (!found || g.used * ret->max > ret->used * g.max || g.killed > ret->killed)) {
			*ret = g;
			found = true;
		}
		if (!slash || slash == dir)
			break;
		*slash = '\0';
	}
	return found;
}

void nspy_cgroup_facts(void)
{
	static uint64_t percent_told, killed_before;
	static bool first = true;
	char text[2048], dir[512];
	struct cgroup g;
	bool v2;
	uint64_t percent;

	if (nspy_proc_read_all("/proc/self/cgroup", text, sizeof(text)) <= 0)
		return;
	v2 = !strstr(text, ":memory:");
	if (!own_group(text, v2, dir, sizeof(dir)) ||
	    !tightest(dir, strlen(CGROUP_ROOT) + (v2 ? 0 : strlen("/memory")), v2, &g))
		return;
	percent = (uint64_t)((double)g.used * 100.0 / (double)g.max);
	if (first)
		killed_before = g.killed; /* of earlier jobs */
	nspy_facts_add_number("cgroup.max", g.max);
	/* A fact for each step of five per cent, so that a trace does not fill up with them. */
	if (first || percent >= percent_told + 5) {
		nspy_facts_add_number("cgroup.used_percent", percent);
		percent_told = percent;
	}
	first = false;
	if (g.killed > killed_before)
		nspy_facts_add_number("cgroup.oom_kills", g.killed - killed_before);
}

void nspy_host_facts(void)
{
	limit("limit.memlock", RLIMIT_MEMLOCK);
	limit("limit.stack", RLIMIT_STACK);
	limit("limit.nofile", RLIMIT_NOFILE);
	status_facts();
	shm_facts();
	nspy_cgroup_facts();
}
